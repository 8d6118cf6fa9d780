package qptest

// A neighbour of a random world: a host that floods the nodes of it with packets made by hand,
// and hears no answer.
//
// Stages: drawing one (drawNeighbour) → its node, and the queue pairs that nodes have for it (join)
// → packet after packet, of sorts that it has (flood) → the applications have enough, and end those
// queue pairs (leave).
//
// What it sends to those belongs to streams of the oracle, so it is known what each packet does,
// and to the receives of a queue that honest peers share. What else it sends must do nothing: the
// oracle does not hear of it (junk).

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// NeighbourPlan is a host that floods.
type NeighbourPlan struct {
	Packets int
	Every   qp.Time // from one to the next, at most
	Junk    float64 // how many of them are for no queue pair of its own
	Pairs   []PairPlan
}

// PairPlan is a queue pair that a node has for the neighbour.
type PairPlan struct {
	Node  int
	Cfg   QPConfig
	SRQ   int // 1 + index of the shared queue that it takes receives from; 0: it has none
	Habit habit
	Ends  ActKind
}

// habit is what the neighbour does on a queue pair.
type habit uint8

const (
	good   habit = iota // it sends what is expected, or something old or new
	half                // it never ends its message
	gapped              // it never sends the first packet
)

// drawNeighbour gives few worlds one. It has dice of its own, so that the others are what they
// were.
func (p *Plan) drawNeighbour(d Dice, share float64) {
	if !d.Chance(share) {
		return
	}
	n := &NeighbourPlan{Packets: d.between(50, 400), Every: qp.Time(d.between(1, 2000)), Junk: d.Float64()}
	node, habits := d.IntN(len(p.Nodes)), some(d, []habit{good, half, gapped})
	for range d.between(1, 16) {
		pair := PairPlan{Node: node, Habit: Pick(d, habits...), Ends: Pick(d, ActError, ActReset, ActDestroy)}
		pair.Cfg = QPConfig{
			Type: Pick(d, qp.RC, qp.RC, qp.RC, qp.UC),
			MTU:  wire.MTU256,
			PSN:  wire.PSN(d.Uint32()) & wire.PSNMask,
		}
		pair.Cfg.Selective = pair.Cfg.Type == qp.RC && (pair.Habit == gapped || d.Chance(0.5))
		for i := range p.SRQs {
			if s := &p.SRQs[i]; s.Node == node && s.Init.XRCD == 0 && d.Chance(0.9) {
				pair.SRQ = i + 1
			}
		}
		n.Pairs = append(n.Pairs, pair)
	}
	p.Neighbours = append(p.Neighbours, n)
}

// neighbour is one while its world runs.
type neighbour struct {
	w     *World
	d     Dice
	plan  *NeighbourPlan
	node  *Node
	pairs []*QP // of the nodes, in the order of the plan
	left  int   // packets to be sent
}

// join adds the neighbour, which is the i-th, and connects it.
func (p *NeighbourPlan) join(w *World, i int, sharers []*sharer) {
	n := &neighbour{w: w, d: Dice{w.rand("neighbour", i, 0)}, plan: p, left: p.Packets}
	n.node = w.AddNode(NodeConfig{Addr: neighbourOf(w.Nodes[0].cfg.Addr, i), Mute: true})
	source := n.node.NewRegion("source", 1<<13, 1<<32, 0)
	for i := range p.Pairs {
		at, cfg := w.Nodes[p.Pairs[i].Node], p.Pairs[i].Cfg
		if s := p.Pairs[i].SRQ; s > 0 {
			cfg.SRQ = sharers[s-1].srq
		}
		q := at.CreateQP(cfg)
		cfg.SRQ = nil
		from := n.node.CreateQP(cfg)
		target := at.NewRegion("target", 1<<13, uint64(len(at.regions)+1)<<32, mr.LocalWrite|mr.RemoteAny)
		w.Connect(from, q)
		n.post(from, source, target, p.Pairs[i].Habit)
		n.pairs = append(n.pairs, q)
	}
	w.After(0, n.flood)
}

// neighbourOf is an address beside those of a world, for each neighbour another one.
func neighbourOf(addr string, i int) string {
	if strings.Contains(addr, ":") {
		return fmt.Sprintf("fd00::%d", 99-i)
	}
	return fmt.Sprintf("10.1.0.%d", 99-i)
}

// post tells the oracle what the neighbour sends on a queue pair; its engine never hears of it.
func (n *neighbour) post(q *QP, source, target *Region, h habit) {
	ops, reads := 12, 0
	if h == half {
		ops = 1
	}
	for range ops {
		length := n.d.size(&wholeMix, 256, 1<<12)
		wr := qp.SendWR{Opcode: Pick(n.d, qp.WRSend, qp.WRSendWithImm, qp.WRWrite, qp.WRWriteWithImm),
			Imm: n.d.Uint32(), RKey: target.RKey(), RemoteAddr: target.Addr(0)}
		switch {
		case h == half:
			wr.Opcode, length = qp.WRSend, n.d.between(257, 1<<10)
		case q.Type() == qp.RC && reads < 8 && n.d.Chance(0.3): // as many as are remembered
			wr.Opcode, wr.RemoteAddr = qp.WRRead, target.Addr(1<<12)
			reads++
		}
		n.w.wrid++
		wr.WRID, wr.SGL = n.w.wrid, []qp.SGE{source.SGE(n.d.IntN(1<<12), length)}
		q.posted(wr)
		if wr.Opcode == qp.WRRead { // the oracle need not know where it would arrive
			o := q.sends[len(q.sends)-1]
			o.good, o.wr.SGL = true, nil
		}
	}
}

// flood sends a packet, and comes back for the next.
func (n *neighbour) flood() {
	if n.left--; n.left < 0 {
		n.leave()
		return
	}
	if i := n.d.IntN(len(n.pairs)); n.d.Chance(n.plan.Junk) {
		n.w.Junk(n.d, n.node, n.w.Nodes[n.d.IntN(len(n.w.Nodes)-1)], 0)
	} else if s := n.pairs[i].in; s != nil {
		c := s.craft(n.d.next(s, n.plan.Pairs[i].Habit))
		n.w.throw(n.node, n.pairs[i].Node, n.pairs[i].QPN(), &c, false)
	}
	n.w.After(qp.Time(n.d.IntN(int(n.plan.Every)+1)), n.flood)
}

// next is the packet that comes next on a stream.
func (d Dice) next(s *stream, h habit) uint64 {
	switch {
	case h == half && d.Chance(0.7): // all but the end
		return min(s.epsn, s.end-2)
	case h == half:
		return uint64(d.IntN(int(s.end - 1)))
	case h == gapped:
		return 1 + uint64(d.IntN(int(s.end-1)))
	case s.epsn < s.end && d.Chance(0.7):
		return s.epsn
	}
	return uint64(d.IntN(int(s.end)))
}

// craft makes packet n of a stream; of a READ there is one packet.
func (s *stream) craft(n uint64) Craft {
	o, k := s.locate(n)
	if o.read() {
		k = 0
	}
	last := k == o.packets-1 || o.read()
	c := Craft{Op: requestOpcode(s.from.Type(), o, k == 0, last), PSN: s.psn(o.first + k),
		AckReq: last && s.from.reliable(), VA: o.wr.RemoteAddr, RKey: o.wr.RKey, Len: uint32(o.length), Imm: o.wr.Imm}
	if !o.read() {
		c.Payload = o.part(k, s.mtu)
	}
	return c
}

// leave is the applications that have enough of the neighbour.
func (n *neighbour) leave() {
	for i, q := range n.pairs {
		q.end(n.plan.Pairs[i].Ends)
	}
}

// Junk has a node throw a packet at another that must have no effect there. It is for queue pair
// qpn or, if that is 0, for any of the node's, or one that there is not.
func (w *World) Junk(d Dice, from, to *Node, qpn uint32) {
	if list := to.list; qpn == 0 && len(list) > 0 {
		qpn = Pick(d, list...).QPN()
	}
	c := Craft{PSN: wire.PSN(d.Uint32()) & wire.PSNMask, QKey: d.Uint32() | 1, SrcQP: d.Uint32() & wire.QPNMask,
		Payload: make([]byte, d.IntN(64)), VA: d.Uint64(), RKey: d.Uint32(), Len: d.Uint32(), AckReq: d.Chance(0.5),
		Op: Pick(d, wire.RCSendOnly, wire.RCSendFirst, wire.RCWriteOnly, wire.RCReadRequest, wire.RCAcknowledge,
			wire.RCFlush, wire.UCSendOnly, wire.UDSendOnly, wire.CNP)}
	switch c.Op {
	case wire.RCSendFirst:
		c.Payload = make([]byte, 256)
	case wire.RCReadRequest, wire.RCAcknowledge, wire.RCFlush, wire.CNP:
		c.Payload = nil
	case wire.RCWriteOnly:
		c.Len = uint32(len(c.Payload))
	}
	kind := d.IntN(3)
	if kind == 0 {
		qpn ^= 1 << d.IntN(24)
	}
	if q := to.qps[qpn]; kind == 1 || qpn == wire.MulticastQPN || q != nil && q.dest.gid == from.GID {
		c.Break = func(f *wire.Frame) { f.Body[len(f.Body)-1]++ }
		from = w.Nodes[d.IntN(len(w.Nodes))] // whom the node may be connected to
	}
	w.throw(from, to, qpn, &c, true)
}

// throw puts a packet that was made by hand on a link; the oracle does not hear of junk.
func (w *World) throw(from, to *Node, qpn uint32, c *Craft, junk bool) {
	path, err := wire.NewPath(from.GID, to.GID, 0xc123, 0, 64, 0)
	if err != nil { // of the other IP version
		return
	}
	frame := c.Frame(&path, qpn)
	if w.Capture != nil {
		w.Capture.add(w.Now, from, &frame)
	}
	f := w.flight(from, to, &frame)
	f.broken = junk
	w.Link(from, to).send(f)
}

// neighbourDice are those of the neighbour of a world.
func neighbourDice(seed uint64) Dice { return Dice{rand.New(rand.NewPCG(seed, 0x6e656967))} }
