package ether

import (
	"net"
	"net/netip"
	"testing"

	"go.uber.org/goleak"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The table does not grow without bound, and what is in use stays. What was forgotten although
// somebody holds it comes back with the next frame.
func TestNeighbourTableIsBounded(t *testing.T) {
	var peers *Neighbours
	var err error
	netns.NewWire(t, 1500).Left.Do(func() {
		var wire *net.Interface
		if wire, err = net.InterfaceByName("wire"); err == nil {
			peers, err = openNeighbours(wire.Index, netip.MustParseAddr("10.77.0.1"))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	peers.start()
	defer peers.close()
	used := peers.Hop(wire.GID{10: 0xff, 11: 0xff, 12: 10, 13: 77, 15: 2})
	idle := peers.Hop(wire.GID{10: 0xff, 11: 0xff, 12: 10, 13: 77, 15: 3})
	// The goroutine that looks at all neighbours, and ends their being in use, waits for this.
	peers.link.Lock()
	used.wanted.Store(true)
	most := 0
	for i := range 2 * maxNextHops {
		peers.Hop(wire.GID{10: 0xff, 11: 0xff, 12: 10, 13: 78, 14: byte(i >> 8), 15: byte(i)})
		peers.mu.Lock()
		most = max(most, len(peers.hops))
		peers.mu.Unlock()
	}
	peers.link.Unlock()
	if most != maxNextHops {
		t.Errorf("%d entries, want at most %d, and all of them used", most, maxNextHops)
	}
	if peers.Hop(used.dst) != used {
		t.Error("an entry in use was forgotten")
	}
	peers.want(idle)
	if peers.Hop(idle.dst) != idle {
		t.Error("an entry that was forgotten and is in use again is not in the table")
	}
	peers.setSelf(wire.GID{0: 0xff, 15: 1}, true)
}
