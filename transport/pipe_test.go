package transport

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goroce/goroce/wire"
)

func TestPipeAddresses(t *testing.T) {
	a, b := mustOpen(t, "pipe:TestPipeAddresses", Options{}), mustOpen(t, "pipe:TestPipeAddresses/10.0.0.2", Options{})
	c := mustOpen(t, "pipe:TestPipeAddresses", Options{})
	v6 := mustOpen(t, "pipe:TestPipeAddresses/fd00::1", Options{})
	var got []string
	for _, p := range []Port{a, b, c, v6} {
		got = append(got, p.Info().GIDs[0].Addr().String())
	}
	if !slices.Equal(got, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1"}) {
		t.Errorf("addresses %v", got)
	}
	elsewhere := mustOpen(t, "pipe:TestPipeAddresses2", Options{})
	if elsewhere.Info().GIDs[0] != a.Info().GIDs[0] {
		t.Error("segments share addresses")
	}
}

func TestPipeUnknownAddress(t *testing.T) {
	a := mustOpen(t, "pipe:TestPipeUnknownAddress", Options{})
	nobody, _ := wire.ParseGID("10.0.0.99")
	batch := wire.NewBatch(4, 200)
	put(t, batch, pathTo(t, a, nobody, 0, 64), 1, 8)
	put(t, batch, pathTo(t, a, a.Info().GIDs[0], 0, 64), 2, 8)
	sendAll(t, a, batch)
	got := recvSome(t, a, make([]wire.Frame, 4))
	if len(got) != 1 || number(t, &got[0]) != 2 {
		t.Fatalf("%d frames", len(got))
	}
	if s := a.Stats(); s.SendFrames != 1 || s.SendUnreachable != 1 || s.LastSendError == "" {
		t.Errorf("%+v", s)
	}
}

// A full queue stops the sender, and the receiver's next Recv lets it go on: all arrives, in order, through a queue much
// smaller than the traffic.
func TestPipeBackPressure(t *testing.T) {
	const packets, queue = 2000, 7
	a := mustOpen(t, "pipe:TestPipeBackPressure", Options{})
	b := mustOpen(t, "pipe:TestPipeBackPressure", Options{QueueLen: queue})
	path := pathBetween(t, a, b, 0, 64)
	var sender sync.WaitGroup
	sender.Go(func() {
		batch := wire.NewBatch(50, 200)
		for i := 0; i < packets; i += 50 {
			for j := range 50 {
				put(t, batch, path, i+j, 64)
			}
			sendAll(t, a, batch)
		}
	})
	for blocked := &a.(*pipePort).sendBlocked; blocked.Load() == 0; { // also with a receiver that is not fast
		runtime.Gosched()
	}
	frames := make([]wire.Frame, queue)
	for next := 0; next < packets; {
		got := recvSome(t, b, frames)
		for i := range got {
			if n := number(t, &got[i]); n != next {
				t.Fatalf("%d, want %d", n, next)
			}
			next++
		}
	}
	sender.Wait()
	if a.Stats().SendBlocked == 0 {
		t.Error("the queue was never full")
	}
}

// A receiver that goes away does not keep its senders waiting.
func TestPipeCloseReleasesSenders(t *testing.T) {
	a := mustOpen(t, "pipe:TestPipeCloseReleasesSenders", Options{})
	b := mustOpen(t, "pipe:TestPipeCloseReleasesSenders", Options{QueueLen: 1})
	batch := wire.NewBatch(2, 200)
	path := pathBetween(t, a, b, 0, 64)
	put(t, batch, path, 1, 8)
	put(t, batch, path, 2, 8)
	if n, err := a.Send(batch); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	batch.Drop(1)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	sendAll(t, a, batch)
	if s := a.Stats(); s.SendUnreachable != 1 {
		t.Errorf("%+v", s)
	}
}

func TestMulticast(t *testing.T) {
	for _, k := range kindsUnderTest() {
		if k.name == "udp4-portable" || strings.Contains(k.name, "6") {
			continue // the one has none; the groups of this test are IPv4
		}
		t.Run(k.name, func(t *testing.T) {
			ports := []Port{k.open(t, 0, Options{}), k.open(t, 1, Options{}), k.open(t, 2, Options{})}
			group, _ := wire.ParseGID("239.77.1.2")
			other, _ := wire.ParseGID("239.77.1.3")
			join := func(p Port, g wire.GID) {
				t.Helper()
				if err := p.(Multicaster).JoinGroup(g); err != nil {
					t.Fatal(err)
				}
			}
			join(ports[0], group)
			join(ports[1], group)
			join(ports[1], group) // counted, and one copy all the same
			join(ports[1], other)
			join(ports[2], other)

			batch := wire.NewBatch(4, 200)
			frames := make([]wire.Frame, 8)
			send := func(g wire.GID, n int) {
				t.Helper()
				put(t, batch, pathTo(t, ports[0], g, 0, 7), n, 40)
				sendAll(t, ports[0], batch)
			}
			// Afterwards each port gets a packet of its own, so that what it did not get is known without waiting. What it must
			// get is waited for: the packet of its own may overtake it.
			received := func(p Port, count int) (list []int) {
				t.Helper()
				put(t, batch, pathBetween(t, ports[0], p, 0, 64), 1000, 0)
				sendAll(t, ports[0], batch)
				for last := false; !last || len(list) < count; {
					got := recvSome(t, p, frames)
					for i := range got {
						f := &got[i]
						if n := number(t, f); n == 1000 {
							last = true
						} else {
							list = append(list, n)
							if !f.Dst().IsMulticast() || f.TTL() != 7 || f.Src() != ports[0].Info().GIDs[0] {
								t.Errorf("packet from %v to %v, TTL %d", f.Src(), f.Dst(), f.TTL())
							}
						}
					}
				}
				// And one more look for what must not come.
				n, err := p.Recv(frames)
				if err != nil {
					t.Fatal(err)
				}
				for i := range n {
					list = append(list, number(t, &frames[i]))
				}
				slices.Sort(list)
				return list
			}
			send(group, 1)
			send(other, 2)
			for i, want := range [][]int{{1}, {1, 2}, {2}} {
				if got := received(ports[i], len(want)); !slices.Equal(got, want) {
					t.Errorf("port %d received %v, want %v", i, got, want)
				}
			}

			leave := func(p Port, g wire.GID) error { return p.(Multicaster).LeaveGroup(g) }
			if err := errors.Join(leave(ports[1], group), leave(ports[2], other)); err != nil {
				t.Fatal(err)
			}
			send(group, 3)
			send(other, 4)
			for i, want := range [][]int{{3}, {3, 4}, nil} {
				if got := received(ports[i], len(want)); !slices.Equal(got, want) {
					t.Errorf("after leaving, port %d received %v, want %v", i, got, want)
				}
			}
			if err := leave(ports[1], group); err != nil {
				t.Fatal(err)
			}
			if err := leave(ports[1], group); !errors.Is(err, ErrNotJoined) {
				t.Errorf("one too many: %v", err)
			}
			if err := ports[0].(Multicaster).JoinGroup(ports[0].Info().GIDs[0]); !errors.Is(err, ErrNotMulticast) {
				t.Errorf("unicast group: %v", err)
			}
		})
	}
}
