package porttest

// What every port keeps.

import (
	"errors"
	"testing"
	"time"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// rules is a test for each.
var rules = []struct {
	name string
	test func(t *testing.T, k Kind)
	of   func(k Kind) bool // the kinds that it is for
}{
	{"RoundTrip", testRoundTrip, every},
	{"BigBatches", testBigBatches, every},
	{"TrafficClassAndHopLimit", testTrafficClassAndHopLimit, native},
	{"Multicast", testMulticast, native4},
	{"Info", testInfo, every},
	{"Closed", testClosed, every},
	{"Wait", testWait, every},
	{"WakeIsNeverLost", testWakeIsNeverLost, every},
	{"NoAllocations", testNoAllocations, native},
	{"Share", testShare, every},
	{"ShareBehind", testShareBehind, every},
}

func every(Kind) bool     { return true }
func native(k Kind) bool  { return !k.Portable }
func native4(k Kind) bool { return !k.Portable && !k.IPv6 } // the groups of the test are IPv4

// Test holds kinds of port to the rules.
func Test(t *testing.T, kinds ...Kind) {
	for _, k := range kinds {
		t.Run(k.Name, func(t *testing.T) {
			for _, r := range rules {
				if !r.of(k) {
					continue
				}
				t.Run(r.name, func(t *testing.T) { r.test(t, k) })
			}
		})
	}
}

func testRoundTrip(t *testing.T, k Kind) {
	a, b := k.Open(t, 0, transport.Options{}), k.Open(t, 1, transport.Options{})
	batch := wire.NewBatch(64, 4200)
	frames := make([]wire.Frame, 64)
	to, back := PathBetween(t, a, b, 0, 64), PathBetween(t, b, a, 0, 64)
	for i, n := range []int{0, 1, 2, 3, 4, 63, 256, 1024, 4095, 4096} {
		Put(t, batch, to, i, n)
		SendAll(t, a, batch)
		got := RecvSome(t, b, frames)
		if len(got) != 1 || Number(t, &got[0]) != i {
			t.Fatalf("%d bytes: %d frames", n, len(got))
		}
		f := &got[0]
		if f.Src() != a.Info().GIDs[0] || f.Dst() != b.Info().GIDs[0] || f.SrcPort() != to.SrcPort {
			t.Fatalf("from %v:%d to %v", f.Src(), f.SrcPort(), f.Dst())
		}
		if _, drop := wire.SplitFrame(wire.AppendFrame(nil, f)); drop != wire.DropNone {
			t.Fatalf("the head is wrong: %v", drop)
		}
		Put(t, batch, back, i, n)
		SendAll(t, b, batch)
		if got := RecvSome(t, a, frames); len(got) != 1 || Number(t, &got[0]) != i {
			t.Fatalf("%d bytes back: %d frames", n, len(got))
		}
	}
	if s := a.Stats(); s.SendFrames != 10 || s.RecvFrames != 10 || s.SendBatches != 10 || s.LastSendError != "" {
		t.Errorf("%+v", s)
	}
}

// Many packets of changing sizes, in large batches with runs, to two receivers: each gets all of
// its own in order.
func testBigBatches(t *testing.T, k Kind) {
	const rounds, each = 40, transport.MaxRun + 22 // the longest run, and a rest
	a := k.Open(t, 0, transport.Options{})
	to := []transport.Port{k.Open(t, 1, transport.Options{}), k.Open(t, 2, transport.Options{})}
	batch := wire.NewBatch(2*each+transport.MaxRun, 4200) // with room for one whole run more
	batch.MaxRun(a.Info().MaxRun)
	frames := make([]wire.Frame, 48) // not a divisor of anything
	var paths [2]*wire.Path
	for i, p := range to {
		paths[i] = PathBetween(t, a, p, 0, 64)
	}
	for round := range rounds {
		for i := range each {
			size := []int{64, 64, 64, 1024, 1024, 4096, 0}[(i/7+round)%7]
			Put(t, batch, paths[0], round*each+i, size)
		}
		for i := range each {
			Put(t, batch, paths[1], round*each+i, 32+round)
		}
		for batch.Len() > 0 {
			n, err := a.Send(batch)
			if err != nil {
				t.Fatal(err)
			}
			batch.Drop(n)
		}
		for i, p := range to {
			for next := round * each; next < (round+1)*each; {
				got := RecvSome(t, p, frames)
				for j := range got {
					if n := Number(t, &got[j]); n != next {
						t.Fatalf("receiver %d: packet %d instead of %d", i, n, next)
					}
					next++
				}
			}
		}
	}
	s := a.Stats()
	if s.SendFrames != 2*rounds*each {
		t.Errorf("%+v", s)
	}
	if a.Info().MaxRun > 1 && (s.SendRuns < 2*rounds || to[1].Stats().RecvRuns < rounds) {
		t.Errorf("%d runs sent, %d received as runs", s.SendRuns, to[1].Stats().RecvRuns)
	}
}

func testInfo(t *testing.T, k Kind) {
	p := k.Open(t, 0, transport.Options{})
	i := p.Info()
	if len(i.GIDs) != 1 || i.NetMTU < 1400 || i.MaxRun < 1 || !i.Up || i.Name == "" {
		t.Errorf("%+v", i)
	}
}

func testClosed(t *testing.T, k Kind) {
	p := k.Open(t, 0, transport.Options{})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	_, recvErr := p.Recv(make([]wire.Frame, 1))
	_, sendErr := p.Send(wire.NewBatch(1, 64))
	p.Wake()
	p.Stats()
	for _, err := range []error{recvErr, sendErr, p.Wait(0), p.Close()} {
		if !errors.Is(err, transport.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	k.Open(t, 0, transport.Options{}) // the address is free again
}

// Wait ends by itself, by a wake-up before and during it, and by a packet.
func testWait(t *testing.T, k Kind) {
	a, b := k.Open(t, 0, transport.Options{}), k.Open(t, 1, transport.Options{})
	for _, d := range []time.Duration{0, time.Nanosecond, 50 * time.Microsecond, time.Millisecond} {
		if err := a.Wait(d); err != nil {
			t.Fatal(err)
		}
	}
	a.Wake()
	a.Wake()
	if err := a.Wait(-1); err != nil { // hangs if the wake-up was lost
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		batch := wire.NewBatch(1, 64)
		Put(t, batch, PathBetween(t, b, a, 0, 64), 1, 8)
		SendAll(t, b, batch)
	}()
	if got := RecvSome(t, a, make([]wire.Frame, 4)); Number(t, &got[0]) != 1 {
		t.Fatal(got)
	}
	<-done
}

// Wakers and a sleeper that answers each wake-up: one that is lost stops the test for good.
func testWakeIsNeverLost(t *testing.T, k Kind) {
	const rounds = 5000
	p := k.Open(t, 0, transport.Options{})
	work, answer := make(chan int, 1), make(chan int)
	go func() {
		defer close(answer)
		for n := 0; n < rounds; {
			select {
			case n = <-work:
				answer <- n
			default:
				if err := p.Wait(-1); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for n := 1; n <= rounds; n++ {
		work <- n
		p.Wake()
		if got := <-answer; got != n {
			t.Fatalf("%d, want %d", got, n)
		}
	}
	<-answer
}

// TOS and TTL reach the receiver, whether they are the socket's defaults or not.
func testTrafficClassAndHopLimit(t *testing.T, k Kind) {
	o := transport.Options{TrafficClass: 0x62, HopLimit: 200}
	a, b := k.Open(t, 0, o), k.Open(t, 1, transport.Options{})
	batch := wire.NewBatch(64, 200)
	batch.MaxRun(a.Info().MaxRun)
	frames := make([]wire.Frame, 64)
	for i, c := range []struct{ tos, ttl uint8 }{{0, 64}, {0x62, 200}, {2, 1}, {0xff, 255}, {0x62, 64}, {1, 200}} {
		for range 3 {
			Put(t, batch, PathBetween(t, a, b, c.tos, c.ttl), i, 100)
		}
		SendAll(t, a, batch)
		for n := 0; n < 3; {
			got := RecvSome(t, b, frames)
			for j := range got {
				f := &got[j]
				if Number(t, f) != i || f.TOS() != c.tos || f.TTL() != c.ttl || f.ECN() != c.tos&3 {
					t.Fatalf("packet %d: TOS %#x, TTL %d, want %#x, %d", Number(t, f), f.TOS(), f.TTL(), c.tos, c.ttl)
				}
			}
			n += len(got)
		}
	}
}

// LeastAllocs is how many allocations f makes, in the best of some series: a goroutine that looks
// at neighbours makes some now and then, above all in the beginning, and more of them fall into a
// series the slower the machine is.
func LeastAllocs(runs int, f func()) (least float64) {
	for i := range 10 {
		if n := testing.AllocsPerRun(runs, f); i == 0 || n < least {
			least = n
		}
		if least == 0 {
			break
		}
	}
	return least
}

func testNoAllocations(t *testing.T, k Kind) {
	a, b := k.Open(t, 0, transport.Options{}), k.Open(t, 1, transport.Options{})
	batch := wire.NewBatch(64, 1100)
	batch.MaxRun(a.Info().MaxRun)
	frames := make([]wire.Frame, 64)
	path := PathBetween(t, a, b, 2, 63)
	turn := func() {
		for i := range 60 {
			Put(t, batch, path, i, 64+i/20*64)
		}
		SendAll(t, a, batch)
		for n := 0; n < 60; {
			n += len(RecvSome(t, b, frames))
		}
	}
	for range 100 { // pipes grow their slots once
		turn()
	}
	if n := LeastAllocs(100, turn); n != 0 {
		t.Fatalf("%v allocations per turn", n)
	}
}
