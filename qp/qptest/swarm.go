package qptest

// A swarm: worlds that have a few things only, drawn from the seed, and much of them. Where
// everything happens now and then, what it takes many of the same for happens never: a queue of
// nothing but atomics behind a lost packet, ten messages without a receive, READs through a window
// of one packet.
//
// Stages: what operations are drawn from (mix) → the table of features → NewSwarm draws which
// features a world has → those that the connections follow from → plain connections → the others →
// few places for packets behind gaps, and many who want them (NewCrowd).

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// mix is what connections are drawn from: each value as often as it is listed.
type mix struct {
	types []qp.QPType
	kinds map[qp.QPType][]qp.WROpcode
	sizes []sizeClass
	conns int  // at most
	most  int  // an end has fewer operations
	limit int  // bytes of a message
	plain bool // an end has only what features give it
}

// sizeClass is a range of message lengths.
type sizeClass uint8

// Ranges.
const (
	sizeZero    sizeClass = iota
	sizeSmall             // below 64 bytes
	sizeEdge              // around a multiple of the MTU
	sizeMessage           // up to eight packets
	sizeAny
)

// Operations by queue pair type.
var kinds = map[qp.QPType][]qp.WROpcode{
	qp.RC: {qp.WRSend, qp.WRSendWithImm, qp.WRWrite, qp.WRWrite, qp.WRWriteWithImm, qp.WRRead, qp.WRRead,
		qp.WRAtomicCmpAndSwp, qp.WRAtomicFetchAndAdd, qp.WRAtomicWrite, qp.WRFlush},
	qp.UC: {qp.WRSend, qp.WRSendWithImm, qp.WRWrite, qp.WRWriteWithImm},

	qp.XRCSend: {qp.WRSend, qp.WRSend, qp.WRSendWithImm, qp.WRWrite, qp.WRWriteWithImm, qp.WRRead, qp.WRAtomicCmpAndSwp,
		qp.WRAtomicFetchAndAdd},
	qp.UD: {qp.WRSend, qp.WRSendWithImm},
}

// wholeMix has everything: messages are mostly small, and often end at a boundary of the MTU.
var wholeMix = mix{types: []qp.QPType{qp.RC, qp.RC, qp.RC, qp.RC, qp.UC, qp.UD}, kinds: kinds, conns: 4, most: 40,
	limit: 8 << 10, sizes: []sizeClass{sizeZero, sizeSmall, sizeSmall, sizeEdge, sizeEdge, sizeMessage,
		sizeMessage, sizeAny}}

// size returns a message length.
func (d Dice) size(m *mix, mtu, limit int) int {
	n := 0
	switch Pick(d, m.sizes...) {
	case sizeZero:
	case sizeSmall:
		n = d.IntN(64)
	case sizeEdge:
		n = mtu*d.IntN(5) + d.between(-1, 1)
	case sizeMessage:
		n = d.IntN(8 * mtu)
	default:
		n = d.IntN(limit + 1)
	}
	return max(0, min(n, limit))
}

// some returns values of a list, one at least, in its order.
func some[T comparable](d Dice, from []T) []T {
	keep := d.Float64()
	out := slices.DeleteFunc(slices.Clone(from), func(T) bool { return !d.Chance(keep) })
	if len(out) == 0 {
		out = []T{Pick(d, from...)}
	}
	return out
}

// feature is something that a world may have.
type feature struct {
	name string
	// before changes nodes, links and what connections are drawn from; after changes connections,
	// or adds what knows of them. A feature has one of the two.
	before func(p *Plan, d Dice, m *mix)
	after  func(p *Plan, d Dice)
}

// node makes a feature of what changes a node. All nodes have it, or some.
func node(change func(d Dice, n *NodeConfig)) func(*Plan, Dice, *mix) {
	return func(p *Plan, d Dice, _ *mix) {
		all := d.Chance(0.5)
		for i := range p.Nodes {
			if all || d.Chance(0.5) {
				change(d, &p.Nodes[i])
			}
		}
	}
}

// link makes a feature of what changes the links.
func link(change func(d Dice, f *Faults)) func(*Plan, Dice, *mix) {
	return func(p *Plan, d Dice, _ *mix) { change(d, &p.Faults) }
}

// end makes a feature of what changes an end of a connection, for each end.
func end(change func(d Dice, e *EndPlan)) func(*Plan, Dice) {
	return func(p *Plan, d Dice) {
		for i := range p.Conns {
			change(d, &p.Conns[i].Ends[0])
			change(d, &p.Conns[i].Ends[1])
		}
	}
}

// operation makes a feature of what changes an operation, for each.
func operation(change func(d Dice, o *OpPlan)) func(*Plan, Dice) {
	return end(func(d Dice, e *EndPlan) {
		for i := range e.Ops {
			change(d, &e.Ops[i])
		}
	})
}

// features is the table. Rows are applied in its order.
var features = []feature{
	{name: "loss", before: link(func(d Dice, f *Faults) { f.Loss = 0.01 + d.Float64()*0.1 })},
	{name: "bursts of losses", before: link(func(d Dice, f *Faults) {
		f.Burst = Burst{Enter: 0.02, Leave: 0.3, Loss: 0.9}
	})},
	{name: "duplicates", before: link(func(d Dice, f *Faults) { f.Duplicate = d.Float64() * 0.5 })},
	{name: "reordering", before: link(func(d Dice, f *Faults) {
		f.Reorder, f.ReorderBy = d.Float64()*0.5, qp.Time(d.between(1, 50))*Microsecond
	})},
	{name: "corruption", before: link(func(d Dice, f *Faults) { f.Corrupt = d.Float64() * 0.05 })},
	{name: "jitter", before: link(func(d Dice, f *Faults) { f.Jitter = qp.Time(d.between(1, 20)) * Microsecond })},
	{name: "no delay", before: link(func(d Dice, f *Faults) { f.Delay = 0 })},
	{name: "narrow links", before: link(func(d Dice, f *Faults) {
		f.Rate, f.Queue, f.MarkAt = Pick[int64](d, 1e9, 10e9), Pick(d, 0, 20<<10, 64<<10), Pick(d, 0, 5<<10)
	})},

	{name: "one window", before: node(func(d Dice, n *NodeConfig) { n.Engine.Window = d.between(1, 8) })},
	{name: "slow port", before: node(func(d Dice, n *NodeConfig) { n.Budget, n.Pace = d.between(1, 4), Microsecond })},
	{name: "small batches", before: node(func(d Dice, n *NodeConfig) { n.Batch = d.between(1, 3) })},
	{name: "runs", before: node(func(d Dice, n *NodeConfig) { n.MaxRun, n.Engine.EvenPackets = 16, true })},
	{name: "sockets", before: node(func(d Dice, n *NodeConfig) { n.SynthHead = true })},
	{name: "ECN", before: node(func(d Dice, n *NodeConfig) { n.Engine.ECN = true })},
	{name: "end of the MSNs", before: func(p *Plan, d Dice, _ *mix) {
		first := wire.PSN(0).Add(uint32(1<<24 - d.IntN(40)))
		for i := range p.Nodes { // both ends of a connection must count from it
			p.Nodes[i].Engine.FirstMSN = first
		}
	}},

	{name: "few operations", before: func(_ *Plan, d Dice, m *mix) {
		for _, t := range []qp.QPType{qp.RC, qp.UC, qp.UD, qp.XRCSend} {
			m.kinds[t] = some(d, kinds[t])
		}
	}},
	{name: "few types", before: func(_ *Plan, d Dice, m *mix) { m.types = some(d, m.types) }},
	{name: "few sizes", before: func(_ *Plan, d Dice, m *mix) { m.sizes = some(d, m.sizes) }},
	{name: "long messages", before: func(_ *Plan, d Dice, m *mix) { m.limit = 300 << 10 }},
	{name: "one connection", before: func(_ *Plan, d Dice, m *mix) { m.conns, m.most = 1, 120 }},

	{name: "XRC", before: func(p *Plan, d Dice, m *mix) { p.drawXRC(d, m, min(m.limit, wholeMix.limit)) }},

	{name: "addresses", after: (*Plan).drawRows},
	{name: "all at once", after: operation(func(d Dice, o *OpPlan) { o.At = 0 })},
	{name: "inline", after: operation(func(d Dice, o *OpPlan) {
		if fits := o.Len <= 128 && !o.bare(); fits && o.Kind != qp.WRRead && o.Kind != qp.WRAtomicCmpAndSwp &&
			o.Kind != qp.WRAtomicFetchAndAdd {
			o.Flags, o.Pieces = o.Flags|qp.SendInline, nil
		}
	})},
	{name: "pieces", after: end(func(d Dice, e *EndPlan) {
		for i := range e.Recvs {
			e.Recvs[i].Pieces = d.pieces(e.Recvs[i].Len, int(e.Cfg.Cap.MaxRecvSGE))
		}
		for i := range e.Ops {
			if o := &e.Ops[i]; o.Pieces != nil {
				o.Pieces = d.pieces(o.Len, int(e.Cfg.Cap.MaxSendSGE))
			}
		}
	})},
	{name: "unsignaled", after: end(func(d Dice, e *EndPlan) {
		for i := range e.Ops[:max(len(e.Ops)-1, 0)] {
			if d.Chance(0.9) {
				e.Ops[i].Flags &^= qp.SendSignaled
			}
		}
	})},
	{name: "fences", after: operation(func(d Dice, o *OpPlan) {
		if d.Chance(0.5) {
			o.Flags |= qp.SendFence
		}
	})},
	{name: "solicited", after: operation(func(d Dice, o *OpPlan) {
		if d.Chance(0.5) {
			o.Flags |= qp.SendSolicited
		}
	})},
	{name: "selective repeat", after: func(p *Plan, d Dice) {
		for i := range p.Conns {
			for j := range p.Conns[i].Ends {
				p.Conns[i].Ends[j].Cfg.Selective = p.Conns[i].Ends[j].Cfg.Type == qp.RC
			}
		}
	}},
	{name: "NICs", after: (*Plan).drawNICs},
	{name: "credits", after: func(p *Plan, d Dice) {
		for i := range p.Nodes {
			p.Nodes[i].Hardware.Credits = Pick(d, CreditsHonest, CreditsHonest, CreditsZero, CreditsRandom)
		}
		end(func(d Dice, e *EndPlan) { e.Cfg.FlowControl, e.Cfg.Selective = e.Cfg.Type == qp.RC, false })(p, d)
	}},
	{name: "rate limits", after: func(p *Plan, d Dice) {
		end(func(d Dice, e *EndPlan) {
			e.Cfg.RateLimit = Pick[uint32](d, 10_000, 200_000, 1_000_000, 10_000_000)
		})(p, d)
		end(func(d Dice, e *EndPlan) { e.Cfg.Timeout = p.timeout(200_000_000) })(p, d)
	}},
	{name: "deep", after: func(p *Plan, d Dice) { p.depth(d, 64, qp.MaxRdAtomic) }},
	{name: "shallow", after: func(p *Plan, d Dice) { p.depth(d, 1, 1) }},
	{name: "end of the PSNs", after: end(func(d Dice, e *EndPlan) {
		e.Cfg.PSN = wire.PSN(0).Add(uint32(1<<24 - d.IntN(40)))
	})},
	{name: "small queues", after: end(func(d Dice, e *EndPlan) {
		e.Cfg.Cap.MaxSendWR, e.Cfg.Cap.MaxRecvWR = uint32(d.between(1, 3)), uint32(d.between(1, 3))
	})},
	{name: "slow receivers", after: end(func(d Dice, e *EndPlan) {
		e.RecvFirst, e.RecvEvery = 0, qp.Time(d.between(10, 60))*Microsecond
	})},
	{name: "impatient", after: end(func(d Dice, e *EndPlan) { e.Cfg.RNRRetry = uint8(d.between(1, 3)) })},
	{name: "few retries", after: end(func(d Dice, e *EndPlan) { e.Cfg.RetryCnt = uint8(d.between(1, 3)) })},
	{name: "shared completion queues", after: end(func(d Dice, e *EndPlan) { e.Cfg.SharedCQ = true })},
	{name: "whole messages", after: end(func(d Dice, e *EndPlan) { e.Cfg.WholeMessages = true })},
	{name: "traffic class", after: end(func(d Dice, e *EndPlan) { e.Cfg.TrafficClass = Pick[uint8](d, 2, 0x69) })},
	{name: "shared receive queues", after: (*Plan).drawShared},
	{name: "partitions", after: (*Plan).drawPartitions},
	{name: "mistakes", after: func(p *Plan, d Dice) {
		for range d.between(1, 3) {
			p.drawFault(d)
		}
	}},
	{name: "interventions", after: func(p *Plan, d Dice) {
		for range d.between(1, 4) {
			p.Acts = append(p.Acts, Act{
				At:   qp.Time(d.IntN(int(500 * Microsecond))),
				Conn: d.IntN(len(p.Conns)),
				Side: d.IntN(2),
				Kind: ActKind(d.IntN(4)),
			})
		}
	}},
}

// NewSwarm draws a world of a swarm.
func NewSwarm(seed uint64) *Plan {
	d := Dice{rand.New(rand.NewPCG(seed, 0x737761726d))}
	p := &Plan{Seed: seed, Faults: Faults{Delay: qp.Time(d.between(1, 10)) * Microsecond}}
	for i := range d.between(1, 3) {
		p.Nodes = append(p.Nodes, NodeConfig{Addr: fmt.Sprintf("10.1.0.%d", i+1)})
	}
	m := wholeMix
	m.kinds, m.plain = maps.Clone(kinds), true
	var has []feature
	for share := d.Float64() * 0.6; len(has) == 0; {
		for _, f := range features {
			if d.Chance(max(share, 0.02)) {
				has, p.Features = append(has, f), append(p.Features, f.name)
			}
		}
	}
	for _, f := range has {
		if f.before != nil {
			f.before(p, d, &m)
		}
	}
	for range d.between(1, m.conns) {
		p.drawConn(d, &m, m.limit)
	}
	for _, f := range has {
		if f.after != nil {
			f.after(p, d)
		}
	}
	p.drawNeighbour(neighbourDice(seed), 0.12)
	return p
}

// NewCrowd draws a world of a swarm in which places for packets behind gaps are few, and sources
// that want them many. What it adds has dice of its own.
func NewCrowd(seed uint64) *Plan {
	p := NewSwarm(seed)
	d := Dice{rand.New(rand.NewPCG(seed, 0x63726f7764))}
	p.Crowded = true
	for i := range p.Nodes {
		p.Nodes[i].Engine.Kept = Pick(d, 9, d.between(storePlaces-23, storePlaces+28),
			d.between(storePlaces, 3*storePlaces))
		p.Nodes[i].Hardware = Hardware{}
	}
	p.Faults.Loss = max(p.Faults.Loss, 0.01+d.Float64()*0.1)
	for i := range p.Conns {
		for j := range p.Conns[i].Ends {
			cfg := &p.Conns[i].Ends[j].Cfg
			cfg.Selective = cfg.Type == qp.RC
		}
	}
	for range d.between(0, 5) {
		p.drawNeighbour(d, 1)
	}
	return p
}

// plain takes from an end what only features are to give it.
func (e *EndPlan) plain() {
	c := &e.Cfg
	c.RateLimit, c.RNRRetry, c.TrafficClass, c.SQSigAll, c.SharedCQ, c.WholeMessages, c.Selective = 0, 0, 0, false,
		false, false, false
	c.Cap.MaxSendWR, c.Cap.MaxRecvWR = 64, 64
	e.RecvFirst, e.RecvEvery = 64, Microsecond
	for i := range e.Ops {
		o := &e.Ops[i]
		o.Flags, o.Pieces = o.Flags&qp.SendFence|qp.SendSignaled, []int{o.Len}
	}
	for i := range e.Recvs {
		e.Recvs[i].Pieces = []int{e.Recvs[i].Len}
	}
}

// depth sets how many READs and atomics may be outstanding on each connection.
func (p *Plan) depth(d Dice, lo, hi int) {
	for i := range p.Conns {
		a, b := &p.Conns[i].Ends[0].Cfg, &p.Conns[i].Ends[1].Cfg
		a.RdAtomic, b.RdAtomic = d.between(lo, hi), d.between(lo, hi)
		a.DestRdAtomic, b.DestRdAtomic = b.RdAtomic, a.RdAtomic
	}
}

// drawNICs gives nodes the habits of NICs, which know no selective repeat.
func (p *Plan) drawNICs(d Dice) {
	for i := range p.Nodes {
		if d.Chance(0.7) {
			p.Nodes[i].Hardware = NewHardware(d)
		}
	}
	end(func(_ Dice, e *EndPlan) { e.Cfg.Selective = false })(p, d)
}

// drawPartitions cuts all links for a while, both ways: for less than the retries of a connection
// last, for about as long, or for longer. What may fail follows from the time without answers.
func (p *Plan) drawPartitions(d Dice) {
	at := worldStart
	for range d.between(1, 3) {
		c := Pick(d, p.Conns...).Ends[0].Cfg
		budget := qp.Time(wire.AckTimeout(c.Timeout)) * 8
		at += qp.Time(d.IntN(int(200 * Microsecond)))
		to := at + budget*qp.Time(Pick(d, 1, 5, 12, 90, 95, 100, 105, 200))/100
		p.Faults.Partition = append(p.Faults.Partition, Interval{at, to})
		at = to
	}
}
