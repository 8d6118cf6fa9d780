package world

// Packets on their way: out of a host's port, through a switch that sends on as soon as it knows
// where to, into another's. What is changed about a packet happens at the switch.

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// Action is what happens to a packet.
type Action string

// The actions. What is done to which packet of a scenario is in script.go.
const (
	Drop      Action = "drop"      // it is lost
	Delay     Action = "delay"     // it comes later, behind others
	Duplicate Action = "duplicate" // it comes twice
	Mark      Action = "mark"      // the switch marks it "congestion experienced" (ECN)
	Corrupt   Action = "corrupt"   // a bit of it flips
	Deliver   Action = "deliver"   // nothing: undoes what the scenario does to it
)

// Change is something that is done to a packet: the Packet-th that is sent, from 1 on.
type Change struct {
	Packet int     `json:"packet"`
	Action Action  `json:"action"`
	For    qp.Time `json:"for,omitempty"` // Delay: how long, in nanoseconds; 0: 50 us
}

// Check says what is wrong with a change that a student asks for.
func (c Change) Check() error {
	switch {
	case !slices.Contains([]Action{Drop, Delay, Duplicate, Mark, Corrupt, Deliver}, c.Action):
		return fmt.Errorf("world: action %q: want drop, delay, duplicate, mark, corrupt or deliver", c.Action)
	case c.Packet < 1:
		return fmt.Errorf("world: packet %d: they count from 1", c.Packet)
	case c.For < 0 || c.For > Second:
		return fmt.Errorf("world: a delay of %d ns: want 0 to %d", c.For, Second)
	}
	return nil
}

// Sent is how many packets were sent.
func (w *World) Sent() int { return len(w.flights) }

// flight is a packet that was sent.
type flight struct {
	from, to *Host // to: nil for an address that nobody has
	bytes    []byte
	copies   int // that the switch has sent on
	what     what
	info     Packet
}

// overhead is what Ethernet adds to an IP packet on the wire: preamble, header, FCS and gap.
const overhead = 38

// leave puts a copy of a frame on the wire, or for a group one for each member, and returns when
// the port is free again.
func (w *World) leave(from *Host, f *wire.Frame) qp.Time {
	bytes := append(slices.Clone(f.Head), f.Body...)
	took := w.took(len(bytes))
	dst, reached := f.Dst(), 0
	for _, h := range w.hosts {
		if slices.Contains(h.gids, dst) || h != from && slices.Contains(h.groups, dst) {
			w.send(from, h, slices.Clone(bytes))
			reached++
		}
	}
	if reached == 0 {
		w.send(from, nil, bytes)
	}
	return w.now + took
}

func (w *World) took(n int) qp.Time { return qp.Time(int64(n+overhead) * 8 * int64(Second) / w.Rate) }

// Inject has a host send bytes, from the IP header on, that its device has not made.
func (h *Host) Inject(bytes []byte) {
	f, drop := wire.SplitFrame(bytes)
	if drop == wire.DropNone {
		h.w.leave(h, &f)
	}
}

// send has a packet arrive at the switch.
func (w *World) send(from, to *Host, bytes []byte) {
	f := &flight{from: from, to: to, bytes: bytes}
	f.info = Packet{
		N:     len(w.flights) + 1,
		From:  from.index,
		To:    -1,
		Sent:  int64(w.Now()),
		Fate:  UnderWay,
		Bytes: slices.Clone(bytes),
	}
	f.what = w.identify(f)
	w.flights = append(w.flights, f)
	if to == nil {
		f.info.Fate = Lost
		return
	}
	f.info.To = to.index
	w.After(w.Delay/2, func() { w.forward(f) })
}

// forward does at the switch what is to be done to the packet, and sends it on.
func (w *World) forward(f *flight) {
	c := w.befalls(f)
	f.info.Change = c.Action
	f.info.Fate = Delivered
	switch c.Action {
	case Drop:
		f.info.Fate = Lost
		return
	case Mark:
		f.mark()
	case Corrupt:
		f.bytes[len(f.bytes)-5] ^= 0x10 // the last byte before the ICRC
		f.info.Fate = Corrupted
	case Duplicate:
		f.info.Fate = Duplicated
		w.queue(f, 0)
	}
	w.queue(f, c.late())
}

// queue lets the packet wait for the port of the switch, and arrive.
func (w *World) queue(f *flight, late qp.Time) {
	to := f.to
	begin := max(w.now, to.inbound)
	waiting := int(int64(begin-w.now) * w.Rate / (8 * int64(Second)))
	if w.Queue > 0 && waiting+len(f.bytes) > w.Queue {
		if f.info.Fate = Lost; f.copies > 0 {
			f.info.Fate = Delivered // the first copy of a duplicate
		}
		return
	}
	f.copies++
	if w.MarkAt > 0 && waiting >= w.MarkAt {
		f.mark()
	}
	to.inbound = begin + w.took(len(f.bytes))
	w.After(to.inbound-w.now+w.Delay/2+late, func() { w.arrive(f) })
}

// mark sets "congestion experienced" if the packet says that its transport understands it.
func (f *flight) mark() {
	if fr, drop := wire.SplitFrame(f.bytes); drop == wire.DropNone && fr.ECN() != 0 {
		fr.MarkCongestion()
		if f.info.Fate == Delivered { // what else has befallen it matters more
			f.info.Fate = Marked
		}
	}
}

// arrive hands the packet to the device.
func (w *World) arrive(f *flight) {
	if f.info.Arrived == 0 {
		f.info.Arrived = int64(w.Now())
	} else {
		f.info.Again = int64(w.Now())
	}
	frame, drop := wire.SplitFrame(slices.Clone(f.bytes))
	if drop != wire.DropNone {
		return
	}
	f.to.turn(f.info.N, func() { f.to.engine.HandleFrames(w.now, []wire.Frame{frame}) })
}
