package world

// What a scenario itself does to its packets. It names them by their numbers; but when a student
// has changed something the numbers are others. So a packet that a scenario means is known by what
// it is in the play that nobody has changed, and never stands for one that is sent again in its
// place.

import (
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// what tells a packet from others, whatever its number: whose it is, what it says, and how many of
// the same were sent before it.
type what struct {
	from, to int // hosts; to: -1 for nobody
	qpn      uint32
	psn      wire.PSN
	op       wire.Opcode
	before   int
}

// script is what a scenario does to its packets, in the order in which it says so.
type script struct {
	scenario Scenario
	orders   []order
	cut      []*Host // all of whose packets are lost
	original *World  // the same without a student's changes; nil: not played, or this is it
	seen     map[what]int
}

// order is something that is done to a packet: the one that is number packet without changes.
type order struct {
	packet int
	action Action
	done   bool
}

// Change has something done to a packet that was not sent yet, unless the student has decided. The
// packet is the n-th that is sent while a student changes nothing; else the same packet as then.
func (w *World) Change(packet int, a Action) {
	if len(w.changes) > 0 && w.script.original == nil {
		w.script.original = play(w.script.scenario, nil)
	}
	w.script.orders = append(w.script.orders, order{packet: packet, action: a})
}

// Cut has everything lost that a host sends from now on, unless the student has decided.
func (w *World) Cut(h *Host) { w.script.cut = append(w.script.cut, h) }

// identify says what a packet is that leaves now.
func (w *World) identify(f *flight) what {
	x := what{from: f.from.index, to: -1}
	if f.to != nil {
		x.to = f.to.index
	}
	var p wire.Packet
	if fr, drop := wire.SplitFrame(f.bytes); drop == wire.DropNone && wire.Parse(&fr, &p) == wire.DropNone {
		x.qpn, x.psn, x.op = p.BTH.DestQP(), p.BTH.PSN(), p.Opcode
	}
	n := w.script.seen[x]
	w.script.seen[x] = n + 1
	x.before = n
	return x
}

// means says whether the i-th order of the scenario is about a packet.
func (s *script) means(i int, f *flight) bool {
	n := s.orders[i].packet
	if s.original == nil || i >= len(s.original.script.orders) {
		return n == f.info.N
	}
	n = s.original.script.orders[i].packet // it may count what was sent before
	return n <= len(s.original.flights) && s.original.flights[n-1].what == f.what
}

// befalls is what is done to a packet: what the student wants, else what the scenario does.
func (w *World) befalls(f *flight) Change {
	c, decided := w.changes[f.info.N]
	for i := range w.script.orders {
		o := &w.script.orders[i]
		if o.done || !w.script.means(i, f) {
			continue
		}
		o.done = true
		if !decided {
			c, decided = Change{Packet: f.info.N, Action: o.action}, true
		}
	}
	for _, h := range w.script.cut {
		if h == f.from && !decided {
			c, decided = Change{Packet: f.info.N, Action: Drop}, true
		}
	}
	return c
}

// late is for how long a delayed packet is held up.
func (c Change) late() qp.Time {
	switch {
	case c.Action != Delay:
		return 0
	case c.For == 0:
		return 50 * Microsecond
	}
	return c.For
}
