// Multicast: joins are counted, and each member gets one copy.

package porttest

import (
	"errors"
	"slices"
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

func testMulticast(t *testing.T, k Kind) {
	ports := []transport.Port{k.Open(t, 0, transport.Options{}), k.Open(t, 1, transport.Options{}), k.Open(t, 2, transport.Options{})}
	group, _ := wire.ParseGID("239.77.1.2")
	other, _ := wire.ParseGID("239.77.1.3")
	join := func(p transport.Port, g wire.GID) {
		t.Helper()
		if err := p.(transport.Multicaster).JoinGroup(g); err != nil {
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
		Put(t, batch, PathTo(t, ports[0], g, 0, 7), n, 40)
		SendAll(t, ports[0], batch)
	}
	// Afterwards each port gets a packet of its own, so that what it did not get is known without waiting. What it must
	// get is waited for: the packet of its own may overtake it.
	received := func(p transport.Port, count int) (list []int) {
		t.Helper()
		Put(t, batch, PathBetween(t, ports[0], p, 0, 64), 1000, 0)
		SendAll(t, ports[0], batch)
		for last := false; !last || len(list) < count; {
			got := RecvSome(t, p, frames)
			for i := range got {
				f := &got[i]
				if n := Number(t, f); n == 1000 {
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
			list = append(list, Number(t, &frames[i]))
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

	leave := func(p transport.Port, g wire.GID) error { return p.(transport.Multicaster).LeaveGroup(g) }
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
	if err := leave(ports[1], group); !errors.Is(err, transport.ErrNotJoined) {
		t.Errorf("one too many: %v", err)
	}
	if err := ports[0].(transport.Multicaster).JoinGroup(ports[0].Info().GIDs[0]); !errors.Is(err, transport.ErrNotMulticast) {
		t.Errorf("unicast group: %v", err)
	}
}
