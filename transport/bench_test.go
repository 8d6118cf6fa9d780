package transport

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/wire"
)

// One turn of a sender and one of a receiver on one thread: 60 packets sealed, sent, received and not verified. ns/op is
// per packet for both ends together.
func BenchmarkBothEnds(b *testing.B) {
	for _, k := range kindsUnderTest() {
		for _, size := range []int{64, 1024, 4096} {
			for _, maxRun := range []int{0, 1} {
				name := fmt.Sprintf("%s/%d/%s", k.name, size, map[int]string{0: "runs", 1: "single"}[maxRun])
				b.Run(name, func(b *testing.B) {
					from, to := k.open(b, 0, Options{MaxRun: maxRun}), k.open(b, 1, Options{MaxRun: maxRun})
					if maxRun == 0 && from.Info().MaxRun == 1 {
						b.Skip("no runs here")
					}
					batch := wire.NewBatch(60, 4200)
					batch.MaxRun(from.Info().MaxRun)
					frames := make([]wire.Frame, 64)
					path := pathBetween(b, from, to, 0, 64)
					n := wire.BodyLen(wire.UCSendOnly, size)
					b.SetBytes(int64(size))
					b.ResetTimer()
					for done := 0; done < b.N; done += 60 {
						for range 60 {
							batch.Reserve(path, n)
						}
						sendAll(b, from, batch)
						for got := 0; got < 60; {
							got += len(recvSome(b, to, frames))
						}
					}
				})
			}
		}
	}
}

// A packet there and back, each end a goroutine that spins on Recv.
func BenchmarkRoundTripSpinning(b *testing.B) {
	for _, k := range kindsUnderTest() {
		b.Run(k.name, func(b *testing.B) {
			here, there := k.open(b, 0, Options{}), k.open(b, 1, Options{})
			var stop atomic.Bool
			var echo sync.WaitGroup
			send := func(p Port, batch *wire.Batch, path *wire.Path) {
				batch.Reset()
				batch.Reserve(path, wire.BodyLen(wire.UCSendOnly, 64))
				if n, err := p.Send(batch); n != 1 || err != nil {
					b.Error(n, err)
				}
			}
			back := pathBetween(b, there, here, 0, 64)
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
			path := pathBetween(b, here, there, 0, 64)
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
	for _, k := range kindsUnderTest() {
		b.Run(k.name, func(b *testing.B) {
			here, there := k.open(b, 0, Options{}), k.open(b, 1, Options{})
			batch, frames := wire.NewBatch(1, 200), make([]wire.Frame, 64)
			path, back := pathBetween(b, here, there, 0, 64), pathBetween(b, there, here, 0, 64)
			for b.Loop() {
				batch.Reserve(path, wire.BodyLen(wire.UCSendOnly, 64))
				sendAll(b, here, batch)
				recvSome(b, there, frames)
				batch.Reserve(back, wire.BodyLen(wire.UCSendOnly, 64))
				sendAll(b, there, batch)
				recvSome(b, here, frames)
			}
		})
	}
}

// An empty Recv: what a spinning application pays for each look.
func BenchmarkRecvNothing(b *testing.B) {
	for _, k := range kindsUnderTest() {
		b.Run(k.name, func(b *testing.B) {
			p, frames := k.open(b, 0, Options{}), make([]wire.Frame, 64)
			for b.Loop() {
				p.Recv(frames)
			}
		})
	}
}
