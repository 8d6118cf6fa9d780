package qptest

// What the peers of an engine share, and that each address has its share of it, whatever another
// one does with however many queue pairs (section 14).

import (
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// crowd is a node with queue pairs of peers that are raw: of the first one queue pair, of each
// other one as many as the test asks for.
type crowd struct {
	*Script
	host  *Node
	mem   *Region
	peers [][]*Raw
}

func newCrowd(t *testing.T, host NodeConfig, cfg QPConfig, pairs ...int) *crowd {
	s := NewScript(t)
	s.Unchecked = true
	c := &crowd{Script: s, host: s.AddNode(host)}
	c.mem = c.host.NewRegion("memory", 1<<20, 1<<32, mr.LocalWrite|mr.RemoteAny)
	for _, n := range pairs {
		peer := s.AddNode(NodeConfig{Raw: true})
		path, err := wire.NewPath(peer.GID, c.host.GID, 0xc123, 0, 64, 0)
		if err != nil {
			t.Fatal(err)
		}
		var of []*Raw
		for i := range n {
			q := c.host.CreateQP(cfg)
			q.ConnectRaw(peer, uint32(100+i), 0)
			of = append(of, &Raw{Node: peer, QPN: uint32(100 + i), to: q, path: path})
		}
		c.peers = append(c.peers, of)
	}
	return c
}

// TestTurnsOfSources: of the packets that leave, a peer that wants something has its share, however
// many queue pairs another one has, and however few packets the port takes at a time.
func TestTurnsOfSources(t *testing.T) {
	const packets = 64 // of the first; of the others so many that none comes to its end
	for _, batch := range []int{1, 5, 64} {
		c := newCrowd(t, NodeConfig{Batch: batch, Budget: 1, Pace: Microsecond}, QPConfig{MTU: wire.MTU256}, 1, 16)
		read := func(n uint32) Craft {
			return Craft{Op: wire.RCReadRequest, VA: c.mem.Addr(0), RKey: c.mem.RKey(), Len: 256 * n}
		}
		for _, r := range c.peers[1] {
			r.Inject(read(20 * packets))
		}
		before := len(c.held)
		c.peers[0][0].Inject(read(packets))
		for served := 0; served < packets; {
			c.Advance(Microsecond)
			served = 0
			for _, f := range c.held {
				if f.to == c.peers[0][0].Node {
					served++
				}
			}
			if sent := len(c.held) - before; sent > 4*served+2*40 {
				t.Fatalf("batches of %d: of %d packets %d are for the first of two peers", batch, sent, served)
			}
		}
	}
}
