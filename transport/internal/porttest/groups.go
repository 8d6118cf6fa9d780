package porttest

// Multicast: joins are counted, and each member gets one copy.

import (
	"errors"
	"slices"
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// groupTest is three ports, of which the first sends to groups.
type groupTest struct {
	t      *testing.T
	ports  []transport.Port
	batch  *wire.Batch
	frames []wire.Frame
}

func testMulticast(t *testing.T, k Kind) {
	g := groupTest{t: t, batch: wire.NewBatch(4, 200), frames: make([]wire.Frame, 8)}
	for i := range 3 {
		g.ports = append(g.ports, k.Open(t, i, transport.Options{}))
	}
	group, _ := wire.ParseGID("239.77.1.2")
	other, _ := wire.ParseGID("239.77.1.3")
	g.join(0, group)
	g.join(1, group)
	g.join(1, group) // counted, and one copy all the same
	g.join(1, other)
	g.join(2, other)
	g.send(group, 1)
	g.send(other, 2)
	g.want([][]int{{1}, {1, 2}, {2}})

	leave := func(i int, group wire.GID) error { return transport.LeaveGroup(g.ports[i], group) }
	if err := errors.Join(leave(1, group), leave(2, other)); err != nil {
		t.Fatal(err)
	}
	g.send(group, 3)
	g.send(other, 4)
	g.want([][]int{{3}, {3, 4}, nil})
	if err := leave(1, group); err != nil {
		t.Fatal(err)
	}
	if err := leave(1, group); !errors.Is(err, transport.ErrNotJoined) {
		t.Errorf("one too many: %v", err)
	}
	self := g.ports[0].Info().GIDs[0]
	if err := transport.JoinGroup(g.ports[0], self); !errors.Is(err, transport.ErrNotMulticast) {
		t.Errorf("unicast group: %v", err)
	}
}

func (g *groupTest) join(i int, group wire.GID) {
	g.t.Helper()
	if err := transport.JoinGroup(g.ports[i], group); err != nil {
		g.t.Fatal(err)
	}
}

// send sends a packet with a number to a group.
func (g *groupTest) send(group wire.GID, number int) {
	g.t.Helper()
	Put(g.t, g.batch, PathTo(g.t, g.ports[0], group, 0, 7), number, 40)
	SendAll(g.t, g.ports[0], g.batch)
}

// want holds what the ports have received against lists of numbers.
func (g *groupTest) want(lists [][]int) {
	g.t.Helper()
	for i, want := range lists {
		if got := g.received(g.ports[i], len(want)); !slices.Equal(got, want) {
			g.t.Errorf("port %d received %v, want %v", i, got, want)
		}
	}
}

// received lists what a port has received since the last call: count packets that it must get, and
// what else there is. Each port gets a packet of its own afterwards, so that what it did not get is
// known without waiting. What it must get is waited for: the packet of its own may overtake it.
func (g *groupTest) received(p transport.Port, count int) (list []int) {
	const own = 1000
	g.t.Helper()
	Put(g.t, g.batch, PathBetween(g.t, g.ports[0], p, 0, 64), own, 0)
	SendAll(g.t, g.ports[0], g.batch)
	for last := false; !last || len(list) < count; {
		for _, f := range RecvSome(g.t, p, g.frames) {
			if n := Number(g.t, &f); n == own {
				last = true
			} else {
				list = append(list, n)
				if !f.Dst().IsMulticast() || f.TTL() != 7 || f.Src() != g.ports[0].Info().GIDs[0] {
					g.t.Errorf("packet from %v to %v, TTL %d", f.Src(), f.Dst(), f.TTL())
				}
			}
		}
	}
	n, err := p.Recv(g.frames) // one more look for what must not come
	if err != nil {
		g.t.Fatal(err)
	}
	for i := range n {
		list = append(list, Number(g.t, &g.frames[i]))
	}
	slices.Sort(list)
	return list
}
