package told

// What an end sees of a change before anything is done about it: marks, packets that come where
// others are expected, packets that are dropped or kept, a queue that is full.

import (
	"fmt"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

// visible are the rows by what a device records.
var visible = map[qp.RecordKind]teller{
	qp.RecordDropped: drops,
	qp.RecordKept:    keeps,
	qp.RecordMarked:  seesMark,
}

// sights are the sentences about what was seen.
func (c *comparison) sights() []Sentence { return c.tell(visible) }

// seesMark is about a packet that comes with a mark.
func seesMark(c *comparison, e *world.Entry) (s Sentence, ok bool) {
	if e.Packet == 0 || c.after.Packets[e.Packet-1].Change != world.Mark {
		return s, false
	}
	s = Sentence{Kind: Saw, Rule: "mark", Host: e.Host, At: e.Time, Section: "10.2", Packets: []int{e.Packet}}
	s.Text = fmt.Sprintf("%s's device sees the mark of packet %d at %s", c.name(e.Host), e.Packet, at(s.At))
	cnp := c.outgoing(e.Host, e.QPN, e.Time, func(p *world.Packet) bool { return p.Kind == "cnp" })
	if cnp != nil {
		s.Packets = append(s.Packets, cnp.N)
		s.Text += fmt.Sprintf(", and tells %s by a packet of its own, outside of the PSNs: packet %d, a CNP.",
			c.name(cnp.To), cnp.N)
	} else {
		s.Text += ". It has told the sender just before, and sends no second CNP so soon."
	}
	return s, true
}

// dropped are the packets that a queue pair drops for a reason, from an entry on, up to the one
// that brings what is missing: want, if it is known.
func (c *comparison) dropped(e *world.Entry, want uint32, known bool) (all []int) {
	for i := range c.after.Entries {
		x := &c.after.Entries[i]
		switch {
		case x.Host != e.Host || x.QPN != e.QPN || x.Time < e.Time:
		case known && x.Record.Kind == qp.RecordExecuted && uint32(x.Record.PSN) == want:
			return all
		case x.Record.Kind == qp.RecordDropped && x.Record.Value == e.Record.Value && x.Packet > 0:
			all = append(all, x.Packet)
		}
	}
	return all
}

// drops is about packets that a device throws away.
func drops(c *comparison, e *world.Entry) (s Sentence, ok bool) {
	if e.Packet == 0 {
		return s, false
	}
	p := &c.after.Packets[e.Packet-1]
	reason := wire.DropReason(e.Record.Value)
	s = Sentence{Kind: Saw, Host: e.Host, PSN: p.PSN, At: e.Time, Packets: []int{p.N}, Count: 1}
	who := c.name(e.Host)
	switch reason {
	case wire.DropICRC, wire.DropGhost, wire.DropDuplicate, wire.DropMalformed:
		return s, false // told elsewhere
	case wire.DropOutOfSequence:
		return c.gap(e, p, s)
	}
	s.Rule, s.Section = "dropped", "1.13"
	if sec := sections[reason]; sec != "" {
		s.Section = sec
	}
	s.Packets = nil
	for _, x := range c.news {
		if x.Record.Kind == qp.RecordDropped && x.Record.Value == e.Record.Value && x.Host == e.Host &&
			x.QPN == e.QPN && x.Packet > 0 {
			s.Packets = append(s.Packets, x.Packet)
		}
	}
	s.Count = len(s.Packets)
	why := reason.Explain()
	if x := c.failed(e); x != nil && reason == wire.DropQPState {
		s.Before = x.Time
		why = fmt.Sprintf("its queue pair is in ERR, since %s", at(x.Time))
		if x.Packet > 0 {
			s.Packets, why = append(s.Packets, x.Packet), why+fmt.Sprintf(", when packet %d came", x.Packet)
		}
	}
	switch {
	case s.Count > 1:
		s.Text = fmt.Sprintf("%s's device drops %s, the first at %s: %s.", who, list(s.Packets[:s.Count]), at(s.At),
			why)
	case p.Again == e.Time:
		s.Text = fmt.Sprintf("%s's device drops the copy of %s at %s: %s.", who, list(s.Packets[:1]), at(s.At), why)
	default:
		s.Text = fmt.Sprintf("%s's device drops %s at %s: %s.", who, list(s.Packets[:1]), at(s.At), why)
	}
	return s, true
}

// failed is when a queue pair has gone to ERR before something happens; nil: it has not.
func (c *comparison) failed(e *world.Entry) *world.Entry {
	for i := range c.after.Entries {
		x := &c.after.Entries[i]
		if x.Time <= e.Time && x.Record.Kind == qp.RecordState && x.Host == e.Host && x.QPN == e.QPN &&
			qp.QPState(x.Record.Op) == qp.StateErr {
			return x
		}
	}
	return nil
}

// full is about packets that find no room at the switch, and had it, or the other way round.
func (c *comparison) full() (s Sentence, ok bool) {
	lost := func(p *world.Play) (all []*world.Packet) {
		for i := range p.Packets {
			if x := &p.Packets[i]; x.Fate == world.Lost && x.Change != world.Drop && x.To >= 0 {
				all = append(all, x)
			}
		}
		return all
	}
	was, is := lost(c.before), lost(c.after)
	i := 0
	for i < min(len(was), len(is)) && was[i].PSN == is[i].PSN && was[i].From == is[i].From &&
		was[i].Sent == is[i].Sent {
		i++
	}
	if i == len(was) && i == len(is) {
		return s, false
	}
	s = Sentence{Kind: Saw, Rule: "full queue", Section: "10.1", Count: len(is), Without: len(was),
		Packets: numbers(is)}
	if i < len(is) {
		s.At = is[i].Sent
	} else {
		s.At = was[i].Sent
	}
	s.Text = fmt.Sprintf("The queue at the switch has other packets in it now, so others find it full: %s are lost "+
		"there", count(s.Count, "packet"))
	if s.Count == 1 {
		s.Text = fmt.Sprintf("The queue at the switch has other packets in it now, so others find it full: %s is "+
			"lost there", list(s.Packets))
	}
	if s.Count == s.Without {
		s.Text += ", as many as without the change, but others."
	} else {
		s.Text += fmt.Sprintf(", and %d without the change.", s.Without)
	}
	return s, true
}

// sections say where the rules of drops are, if not with the receive filter.
var sections = map[wire.DropReason]string{
	wire.DropNoRecv:     "6.4",
	wire.DropTooLong:    "6.3",
	wire.DropQPState:    "5.2",
	wire.DropNoResource: "4.6",
}

// gap is about packets that come where another is expected.
func (c *comparison) gap(e *world.Entry, p *world.Packet, s Sentence) (Sentence, bool) {
	who := c.name(e.Host)
	if p.Kind != "request" {
		return s, false
	}
	if service(p) == "UC" {
		s.Rule, s.Section = "cut off", "6.4"
		s.Packets = c.dropped(e, 0, false)
		s.Count = len(s.Packets)
		s.Text = fmt.Sprintf("At %s %s's device finds a PSN missing. Over UC it cannot ask: it drops the rest of the "+
			"message, %s, and goes on "+
			"with the next.", at(s.At), who, list(s.Packets))
		return s, true
	}
	nak := c.outgoing(e.Host, e.QPN, e.Time, func(p *world.Packet) bool { return labelled(p, "NAK PSN") })
	s.Rule, s.Section = "gap", "4.5"
	if nak == nil || nak.Sent > c.untilRun(e) {
		s.Packets = c.dropped(e, 0, false)[:1]
		s.Text = fmt.Sprintf("%s's device drops %s (PSN %d) at %s: one before it is missing, and has been asked for "+
			"already.", who,
			list(s.Packets), p.PSN, at(s.At))
		s.Rule = "gap, asked for"
		return s, true
	}
	all := c.dropped(e, nak.PSN, true)
	s.Packets, s.Count, s.Want = append(all, nak.N), len(all), nak.PSN
	s.Text = fmt.Sprintf("%s's device waits for PSN %d when packet %d brings PSN %d, at %s. It drops %s and asks "+
		"once for what is missing: "+
		"packet %d, a NAK.", who, nak.PSN, p.N, p.PSN, at(s.At), dropsWords(all), nak.N)
	return s, true
}

// dropsWords are the packets behind a gap.
func dropsWords(all []int) string {
	if len(all) == 1 {
		return "it"
	}
	return "what is behind the gap (" + list(all) + ")"
}

// untilRun is when the next packet of the same queue pair is executed.
func (c *comparison) untilRun(e *world.Entry) int64 {
	for i := range c.after.Entries {
		x := &c.after.Entries[i]
		if x.Host == e.Host && x.QPN == e.QPN && x.Time > e.Time && x.Record.Kind == qp.RecordExecuted {
			return x.Time
		}
	}
	return never
}

// keeps is about selective repeat at the receiver.
func keeps(c *comparison, e *world.Entry) (s Sentence, ok bool) {
	if e.Packet == 0 {
		return s, false
	}
	p := &c.after.Packets[e.Packet-1]
	s = Sentence{Kind: Saw, Rule: "kept", Host: e.Host, PSN: p.PSN, At: e.Time, Section: "4.4", Packets: []int{p.N}}
	s.Text = fmt.Sprintf("%s's device misses something when packet %d brings PSN %d, at %s. Both ends have agreed on "+
		"selective repeat: it keeps "+
		"the packet until the gap before it is filled", c.name(e.Host), p.N, p.PSN, at(s.At))
	nak := c.outgoing(e.Host, e.QPN, e.Time, func(p *world.Packet) bool { return labelled(p, "NAK PSN") })
	if nak != nil && nak.Sent <= c.untilRun(e) {
		s.Packets = append(s.Packets, nak.N)
		s.Text += fmt.Sprintf(", and names the gap in packet %d, a NAK", nak.N)
	}
	s.Text += "."
	return s, true
}
