package qptest

// What the peers of an engine share, and that each address has its share of it, whatever another
// one does with however many queue pairs (section 14).

import (
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// crowd is a node with queue pairs of peers that are raw.
type crowd struct {
	*Script
	host  *Node
	mem   *Region
	peers [][]*Raw
}

func newCrowd(t *testing.T, host NodeConfig) *crowd {
	s := NewScript(t)
	s.Unchecked = true
	c := &crowd{Script: s, host: s.AddNode(host)}
	c.mem = c.host.NewRegion("memory", 1<<20, 1<<32, mr.LocalWrite|mr.RemoteAny)
	return c
}

// join adds a peer with so many queue pairs.
func (c *crowd) join(pairs int, cfg QPConfig) {
	peer := c.AddNode(NodeConfig{Raw: true})
	path, err := wire.NewPath(peer.GID, c.host.GID, 0xc123, 0, 64, 0)
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	var of []*Raw
	for i := range pairs {
		q := c.host.CreateQP(cfg)
		q.ConnectRaw(peer, uint32(100+i), 0)
		of = append(of, &Raw{Node: peer, QPN: uint32(100 + i), to: q, path: path})
	}
	c.peers = append(c.peers, of)
}

// TestTurnsOfSources: of the packets that leave, a peer that wants something has its share, however
// many queue pairs another one has, and however few packets the port takes at a time.
func TestTurnsOfSources(t *testing.T) {
	const packets = 64 // of the first; of the others so many that none comes to its end
	for _, batch := range []int{1, 5, 64} {
		c := newCrowd(t, NodeConfig{Batch: batch, Budget: 1, Pace: Microsecond})
		c.join(1, QPConfig{MTU: wire.MTU256})
		c.join(16, QPConfig{MTU: wire.MTU256})
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
	const full = maxKept/16 - 1
	cfg := QPConfig{MTU: wire.MTU256, Selective: true}
	c := newCrowd(t, NodeConfig{})
	c.join(10, cfg)
	c.join(17, cfg)
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

// TestReceivesOfSources: messages that never end hold no more requests of a shared queue than
// leaves each other peer its share, and one that is still to come its own. What is turned away
// comes again, or is dropped.
func TestReceivesOfSources(t *testing.T) {
	const size = 16
	for typ, op := range map[qp.QPType]wire.Opcode{qp.RC: wire.RCSendFirst, qp.UC: wire.UCSendFirst} {
		for _, row := range []struct{ peers, share, most int }{{1, 4, 12}, {2, 2, 12}, {3, 2, 10}, {4, 1, 12}, {9, 0, 16}} {
			c := newCrowd(t, NodeConfig{})
			srq := c.host.CreateSRQ(qp.SRQInit{MaxWR: size, MaxSGE: 1})
			for range size {
				if _, err := srq.PostRecv(c.mem.SGE(0, 1<<16)); err != nil {
					t.Fatal(err)
				}
			}
			cfg := QPConfig{Type: typ, MTU: wire.MTU256, SRQ: srq}
			c.join(size, cfg)
			for range row.peers - 1 {
				c.join(max(row.share, 1), cfg)
			}
			begin := func(peer int) (refused, over int) {
				before := c.host.Engine.Stats()
				for _, r := range c.peers[peer] {
					r.Inject(Craft{Op: op, Payload: make([]byte, 256)})
				}
				st := c.host.Engine.Stats()
				return int(st.Drops[wire.DropNoRecv] - before.Drops[wire.DropNoRecv]), int(st.OverShare - before.OverShare)
			}
			refused, over := begin(0)
			if refused != over || size-refused != row.most {
				t.Errorf("%v: one of %d peers holds %d requests, want %d of %d; %d are over its share",
					typ, row.peers, size-refused, row.most, size, over)
			}
			for peer := 1; peer < row.peers && row.share > 0; peer++ {
				if refused, _ := begin(peer); refused > 0 {
					t.Errorf("%v: of %d messages of one of %d peers, %d find no request", typ, row.share, row.peers, refused)
				}
			}
		}
	}
}

// TestReceivesOfLatecomer: who connects when another already holds what it may of a shared queue
// finds a share for itself.
func TestReceivesOfLatecomer(t *testing.T) {
	const size = 16
	c := newCrowd(t, NodeConfig{})
	srq := c.host.CreateSRQ(qp.SRQInit{MaxWR: size, MaxSGE: 1})
	for range size {
		if _, err := srq.PostRecv(c.mem.SGE(0, 1<<16)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := QPConfig{MTU: wire.MTU256, SRQ: srq}
	c.join(size, cfg)
	for _, r := range c.peers[0] {
		r.Inject(Craft{Op: wire.RCSendFirst, Payload: make([]byte, 256)})
	}
	c.join(2, cfg)
	before := c.host.Engine.Stats()
	for _, r := range c.peers[1] {
		r.Inject(Craft{Op: wire.RCSendFirst, Payload: make([]byte, 256)})
	}
	if after := c.host.Engine.Stats(); after.SentRNR != before.SentRNR || after.OverShare != before.OverShare {
		t.Errorf("the second peer is told to wait %d times, for its share %d times",
			after.SentRNR-before.SentRNR, after.OverShare-before.OverShare)
	}
}

// TestReceivesOfReset: what a message holds is its peer's until the queue pair is reset or closed,
// and what a peer has held counts no more then.
func TestReceivesOfReset(t *testing.T) {
	const size = 8
	for name, end := range map[string]func(q *QP) error{
		"ERR":     func(q *QP) error { return q.Modify(qp.QPAttr{State: qp.StateErr}, qp.AttrState) },
		"RESET":   func(q *QP) error { return q.Modify(qp.QPAttr{State: qp.StateReset}, qp.AttrState) },
		"destroy": (*QP).Destroy,
	} {
		c := newCrowd(t, NodeConfig{})
		srq := c.host.CreateSRQ(qp.SRQInit{MaxWR: size, MaxSGE: 1})
		cfg := QPConfig{MTU: wire.MTU256, SRQ: srq}
		c.join(size, cfg)
		c.join(1, cfg)
		first := Craft{Op: wire.RCSendFirst, Payload: make([]byte, 256)}
		for round := range 3 {
			for srq.outstanding < size {
				if _, err := srq.PostRecv(c.mem.SGE(0, 1<<16)); err != nil {
					t.Fatal(err)
				}
			}
			before := c.host.Engine.Stats().OverShare
			for _, r := range c.peers[0] {
				r.Inject(first)
			}
			if n := c.host.Engine.Stats().OverShare - before; n != size/4 {
				t.Fatalf("%s, round %d: %d messages are over the share, want %d", name, round, n, size/4)
			}
			for i, r := range c.peers[0] {
				if err := end(r.to); err != nil {
					t.Fatal(err)
				}
				q := c.host.CreateQP(cfg)
				q.ConnectRaw(r.Node, r.QPN, 0)
				c.peers[0][i].to = q
			}
		}
	}
}
