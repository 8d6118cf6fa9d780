package ports

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

// benchKinds are those that need no privilege; on Linux there are more.
func benchKinds() []porttest.Kind {
	onHost := func(format string) func(testing.TB, int, transport.Options) transport.Port {
		return func(t testing.TB, i int, o transport.Options) transport.Port {
			t.Helper()
			o.UDPPort = porttest.UDPPort
			return open(t, fmt.Sprintf(format, i+1), o)
		}
	}
	return append([]porttest.Kind{{Name: "pipe", Open: onHost("pipe:bench/10.1.0.%d")}, {Name: "udp4", Open: onHost("udp:127.77.0.%d")}},
		moreBenchKinds()...)
}

// One turn of a sender and one of a receiver on one thread: 60 packets sealed, sent, received and
// not verified. ns/op is per packet for both ends together.
func BenchmarkBothEnds(b *testing.B) {
	for _, k := range benchKinds() {
		for _, size := range []int{64, 1024, 4096} {
			for _, maxRun := range []int{0, 1} {
				name := fmt.Sprintf("%s/%d/%s", k.Name, size, map[int]string{0: "runs", 1: "single"}[maxRun])
				b.Run(name, func(b *testing.B) {
					from, to := k.Open(b, 0, transport.Options{MaxRun: maxRun}), k.Open(b, 1, transport.Options{MaxRun: maxRun})
					if maxRun == 0 && from.Info().MaxRun == 1 {
						b.Skip("no runs here")
					}
					batch := wire.NewBatch(60, 4200)
					batch.MaxRun(from.Info().MaxRun)
					frames := make([]wire.Frame, 64)
					path := porttest.PathBetween(b, from, to, 0, 64)
					n := wire.BodyLen(wire.UCSendOnly, size)
					b.SetBytes(int64(size))
					b.ResetTimer()
					for done := 0; done < b.N; done += 60 {
						for range 60 {
							batch.Reserve(path, n)
						}
						porttest.SendAll(b, from, batch)
						for got := 0; got < 60; {
							got += len(porttest.RecvSome(b, to, frames))
						}
					}
				})
			}
		}
	}
}

// A packet there and back, each end a goroutine that spins on Recv.
func BenchmarkRoundTripSpinning(b *testing.B) {
	for _, k := range benchKinds() {
		b.Run(k.Name, func(b *testing.B) {
			here, there := k.Open(b, 0, transport.Options{}), k.Open(b, 1, transport.Options{})
			var stop atomic.Bool
			var echo sync.WaitGroup
			send := func(p transport.Port, batch *wire.Batch, path *wire.Path) {
				batch.Reset()
				batch.Reserve(path, wire.BodyLen(wire.UCSendOnly, 64))
				if n, err := p.Send(batch); n != 1 || err != nil {
					b.Error(n, err)
				}
			}
			back := porttest.PathBetween(b, there, here, 0, 64)
			echo.Go(func() {
				runtime.LockOSThread()
				batch, frames := wire.NewBatch(1, 200), make([]wire.Frame, 64)
				for !stop.Load() {
					if n, _ := there.Recv(frames); n > 0 {
						send(there, batch, back)
					}
				}
			})
			batch, frames := wire.NewBatch(1, 200), make([]wire.Frame, 64)
			path := porttest.PathBetween(b, here, there, 0, 64)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for b.Loop() {
				send(here, batch, path)
				for {
					if n, _ := here.Recv(frames); n > 0 {
						break
					}
				}
			}
			stop.Store(true)
			echo.Wait()
		})
	}
}

// The same on one thread: what the kernel's path costs without any hand-over between processors.
func BenchmarkRoundTripOneThread(b *testing.B) {
	for _, k := range benchKinds() {
		b.Run(k.Name, func(b *testing.B) {
			here, there := k.Open(b, 0, transport.Options{}), k.Open(b, 1, transport.Options{})
			batch, frames := wire.NewBatch(1, 200), make([]wire.Frame, 64)
			path, back := porttest.PathBetween(b, here, there, 0, 64), porttest.PathBetween(b, there, here, 0, 64)
			for b.Loop() {
				batch.Reserve(path, wire.BodyLen(wire.UCSendOnly, 64))
				porttest.SendAll(b, here, batch)
				porttest.RecvSome(b, there, frames)
				batch.Reserve(back, wire.BodyLen(wire.UCSendOnly, 64))
				porttest.SendAll(b, there, batch)
				porttest.RecvSome(b, here, frames)
			}
		})
	}
}

// An empty Recv: what a spinning application pays for each look.
func BenchmarkRecvNothing(b *testing.B) {
	for _, k := range benchKinds() {
		b.Run(k.Name, func(b *testing.B) {
			p, frames := k.Open(b, 0, transport.Options{}), make([]wire.Frame, 64)
			for b.Loop() {
				p.Recv(frames)
			}
		})
	}
}
