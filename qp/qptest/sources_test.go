package qptest

// What the peers of an engine share, and that each address has its share of it, whatever another
// one does with however many queue pairs (section 14).

import (
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
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

// maxKept is how many packets behind gaps an engine keeps.
const maxKept = 1 << 14

// word is a WRITE of 8 bytes to a place of its own for each PSN.
func (c *crowd) word(psn wire.PSN, ask bool) Craft {
	return Craft{Op: wire.RCWriteOnly, PSN: psn, AckReq: ask, VA: c.mem.Addr(8 * int(psn)), RKey: c.mem.RKey(), Len: 8,
		Payload: []byte{byte(psn), byte(psn >> 8), 1, 2, 3, 4, 5, 6}}
}

// gap has a queue pair keep packets 1 to n, and returns how many it has kept.
func (c *crowd) gap(r *Raw, n wire.PSN) uint64 {
	before := c.host.Engine.Stats().Kept
	for psn := wire.PSN(1); psn <= n; psn++ {
		r.Inject(c.word(psn, false))
	}
	return c.host.Engine.Stats().Kept - before
}

// answers counts what waits for some queue pairs and matches.
func (c *crowd) answers(m Match, to ...*Raw) (n int) {
	for _, f := range c.held {
		for _, r := range to {
			if _, p, ok := f.packet(); ok && p.BTH.DestQP() == r.QPN && f.to == r.Node && m(&p) == "" {
				n++
			}
		}
	}
	return n
}

// TestKeptOfSources: a peer that never fills its gaps holds no place for ever. One that comes later
// has its share of the places, and the packets that gave way are asked for again.
func TestKeptOfSources(t *testing.T) {
	const full = qp.MaxWindow - 1
	cfg := QPConfig{MTU: wire.MTU256, Selective: true}
	c := newCrowd(t, NodeConfig{}, cfg, 10, 17)
	taken := uint64(0)
	for _, r := range c.peers[1] {
		taken += c.gap(r, full)
	}
	if taken < maxKept*9/10 {
		t.Fatalf("alone a peer has had %d packets kept", taken)
	}
	honest := c.peers[0][0]
	if n := c.gap(honest, 100); n != 100 {
		t.Fatalf("of 100 packets of another peer %d are kept", n)
	}
	c.Clear()
	honest.Inject(c.word(0, false))
	if c.answers(ackAnd(100, 100), honest) != 1 {
		t.Error("what fills the gap does not have all acknowledged that came after it")
	}
	mine := uint64(0)
	for _, r := range c.peers[0][1:] {
		mine += c.gap(r, full)
	}
	if mine < maxKept/4 || mine > maxKept/2 {
		t.Errorf("one of two peers has %d packets kept, its share of %d is half", mine, maxKept)
	}
	if st := c.host.Engine.Stats(); st.GivenUp < mine-maxKept/10 {
		t.Errorf("%d packets of the one are kept, and %d of the other dropped for them", mine, st.GivenUp)
	}
	all := Nak(wire.SynNAKSeq, 0, MSN(0)) // from the expected packet on
	if n := c.answers(all, c.peers[1]...); n < 4 {
		t.Errorf("%d queue pairs are asked for all that they had kept", n)
	}
	c.Clear()
	for _, r := range c.peers[1] {
		r.Inject(c.word(0, false))
	}
	rest := func(p *wire.Packet) string {
		if a := p.AETH(); a.Syndrome() != wire.SynNAKSeq || a.MSN() != 0 || p.BTH.PSN() <= 1 {
			return "no NAK for what came after something kept"
		}
		return ""
	}
	if n := c.answers(rest, c.peers[1]...); n != 1 {
		t.Errorf("%d queue pairs are asked for the rest, one has kept some", n)
	}
	for _, r := range c.peers[1] { // whose senders go back to there, or to the beginning
		for psn := wire.PSN(0); psn <= full; psn++ {
			r.Inject(c.word(psn, psn == full))
		}
		if c.answers(Ack(full), r) == 0 {
			t.Fatalf("queue pair 0x%x: its last packet is not acknowledged", r.QPN)
		}
	}
}
