package told

// Why nothing acted: a row for each reason, the first that holds is told.

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

// reasons are why a change led to nothing that a device decides.
var reasons = []func(c *comparison, p *world.Packet) (Sentence, bool){
	unmarked, seen, alike, asLost, covered, showsGap, droppedAnyway, gains, noAnswers, spared, held, unused, completes,
}

// reason is the first that holds.
func (c *comparison) reason() (s Sentence, ok bool) {
	p := c.changed[0]
	for _, r := range reasons {
		if s, ok := r(c, p); ok {
			return s, true
		}
	}
	return moved(c, p), false
}

// unmarked is about a mark that nobody acts on.
func unmarked(c *comparison, p *world.Packet) (s Sentence, ok bool) {
	s = Sentence{Kind: Cause, Host: max(p.To, 0), At: p.Arrived, Section: "10.1", Packets: []int{p.N}}
	switch {
	case p.Change != world.Mark:
		return s, false
	case !congested(p):
		s.Rule = "not capable"
		s.Text = fmt.Sprintf("A switch marks only what says that it may be marked (ECT in the IP header), and %s "+
			"does not: so nobody is told "+
			"to be slower.", list(s.Packets))
	case p.Kind == "cnp":
		s.Rule, s.Section = "no CNP for CNP", "10.2"
		s.Text = fmt.Sprintf("%s's device sends a CNP for a marked packet, but not for a CNP.", c.name(p.To))
	case service(p) != "RC" && service(p) != "UC":
		s.Rule, s.Section = "no connection", "10.2"
		s.Text = fmt.Sprintf("%s's device looks at marks only where it knows a sender to slow down: at connected "+
			"queue pairs, and this is %s.",
			c.name(p.To), service(p))
	default:
		return s, false
	}
	return s, true
}

// seen is about a mark among others, which leads to no more than these.
func seen(c *comparison, p *world.Packet) (s Sentence, ok bool) {
	for i := range c.after.Entries {
		if e := &c.after.Entries[i]; p.Change == world.Mark && e.Packet == p.N && e.Record.Kind == qp.RecordMarked {
			return seesMark(c, e)
		}
	}
	return s, false
}

// asLost is about a packet that its lesson loses, and that gets no further now either.
func asLost(c *comparison, p *world.Packet) (s Sentence, ok bool) {
	x := c.twin(p)
	lost := func(p *world.Packet) bool { return p.Fate == world.Lost || p.Fate == world.Corrupted }
	if x == nil || p.To < 0 || !lost(p) || !lost(x) {
		return s, false
	}
	s = Sentence{Kind: Cause, Rule: "lost anyway", Host: p.To, At: p.Sent, Section: "4.5", Packets: []int{p.N}}
	s.Text = fmt.Sprintf("Without the change %s does not get through either (it is %s): to %s it is one that never "+
		"came, in both cases.",
		list(s.Packets), x.Fate, c.name(p.To))
	return s, true
}

// showsGap is about a packet that shows its receiver that one before it is missing, where another
// does now.
func showsGap(c *comparison, p *world.Packet) (s Sentence, ok bool) {
	was := shown(c.before, p.To, func(shows *world.Packet, _ *world.Packet) bool { return shows.N == p.N })
	if c.twin(p) == nil || was.nak == nil {
		return s, false
	}
	is := shown(c.after, p.To, func(_ *world.Packet, nak *world.Packet) bool {
		return nak.QPN == was.nak.QPN && nak.PSN == was.nak.PSN
	})
	if is.nak == nil || is.by.N == p.N && is.nak.Sent == was.nak.Sent {
		return s, false
	}
	s = Sentence{Kind: Cause, Rule: "shows the gap", Host: p.To, PSN: p.PSN, Want: was.nak.PSN, At: is.nak.Sent,
		Before: was.nak.Sent, For: is.nak.Sent - was.nak.Sent, Section: "4.5", Packets: []int{p.N, is.by.N, is.nak.N}}
	than := "later"
	if s.For < 0 {
		than = "sooner"
	}
	s.Text = fmt.Sprintf("Without the change packet %d shows %s's device at %s that PSN %d is missing. Now packet %d "+
		"does, at %s, %s %s, and so the NAK, packet %d, leaves then.", p.N, c.name(p.To), at(s.Before), s.Want, is.by.N,
		at(s.At), span(max(s.For, -s.For)), than, is.nak.N)
	return s, true
}

// gapShown is a packet that shows a receiver a gap, and the NAK that it sends at once.
type gapShown struct{ by, nak *world.Packet }

// shown is the first gap that a host is shown of which want says yes; without a NAK: there is none.
func shown(p *world.Play, host int, want func(by, nak *world.Packet) bool) gapShown {
	for i := range p.Packets {
		nak := &p.Packets[i]
		if nak.From != host || !labelled(nak, "NAK PSN") {
			continue
		}
		for j := range p.Entries {
			e := &p.Entries[j]
			if e.Time != nak.Sent || e.Host != host || e.Packet == 0 ||
				e.Record.Kind != qp.RecordDropped && e.Record.Kind != qp.RecordKept {
				continue
			}
			if by := &p.Packets[e.Packet-1]; by.From == nak.To && want(by, nak) {
				return gapShown{by, nak}
			}
		}
	}
	return gapShown{}
}

// droppedAnyway is about a packet that its receiver throws away in either case.
func droppedAnyway(c *comparison, p *world.Packet) (s Sentence, ok bool) {
	if c.twin(p) == nil || p.To < 0 {
		return s, false
	}
	for i := range c.before.Entries {
		e := &c.before.Entries[i]
		if e.Packet != p.N || e.Host != p.To || e.Record.Kind != qp.RecordDropped {
			continue
		}
		if p.Arrived > 0 && p.Fate != world.Corrupted && !c.drops(p) {
			return s, false // and now it is not
		}
		s = Sentence{Kind: Cause, Rule: "dropped anyway", Host: p.To, At: e.Time, Section: "1.13", Packets: []int{p.N}}
		r := wire.DropReason(e.Record.Value)
		if sec := sections[r]; sec != "" {
			s.Section = sec
		}
		switch r {
		case wire.DropGhost:
			s.Section = "4.4"
		case wire.DropOutOfSequence, wire.DropDuplicate:
			if s.Section = "4.5"; service(p) == "UC" {
				s.Section = "6.4"
			}
		case wire.DropMalformed:
			return s, false
		}
		s.Text = fmt.Sprintf("Nothing hangs on %s: without the change %s's device drops it, at %s: %s.",
			list(s.Packets), c.name(p.To),
			at(s.At), r.Explain())
		if r == wire.DropOutOfSequence {
			s.Text = strings.TrimSuffix(s.Text, ".") + ", as one before it is missing."
		}
		return s, true
	}
	return s, false
}

// drops says whether a packet is dropped by its receiver.
func (c *comparison) drops(p *world.Packet) bool {
	for i := range c.after.Entries {
		e := &c.after.Entries[i]
		if e.Packet == p.N && e.Host == p.To && e.Record.Kind == qp.RecordDropped {
			return true
		}
	}
	return false
}

// covered is about an ACK in whose place another speaks.
func covered(c *comparison, p *world.Packet) (s Sentence, ok bool) {
	if p.Kind != "ack" || p.To < 0 || p.Change == world.Duplicate {
		return s, false
	}
	for i := range c.after.Packets {
		x := &c.after.Packets[i]
		if x.N == p.N || x.From != p.From || x.QPN != p.QPN || x.Sent < p.Sent || x.Arrived == 0 ||
			x.Fate == world.Corrupted ||
			!atOrBehind(x.PSN, p.PSN) || x.Kind != "ack" && x.Kind != "response" {
			continue
		}
		if p.Arrived > 0 && p.Fate != world.Corrupted && p.Arrived < x.Arrived {
			return s, false // it was there first
		}
		s = Sentence{Kind: Cause, Rule: "one ACK for all", Host: p.To, PSN: x.PSN, At: x.Arrived, Section: "4.3",
			Packets: []int{x.N},
			Want:    p.PSN}
		s.Text = fmt.Sprintf("Packet %d (%s, PSN %d) is at %s at %s. It speaks for all up to its PSN, so for PSN %d "+
			"too: nothing has to be sent "+
			"again.", x.N, x.Label, x.PSN, c.name(p.To), at(s.At), p.PSN)
		if x.PSN == p.PSN {
			s.Text = fmt.Sprintf("Packet %d (%s, PSN %d) is at %s at %s, and says the same: nothing has to be sent "+
				"again.", x.N,
				x.Label, x.PSN, c.name(p.To), at(s.At))
			if n := c.answers(x); n > 0 {
				s.Packets = append(s.Packets, n)
				s.Text += fmt.Sprintf(" %s has sent it because packet %d brought what it knew.", c.name(x.From), n)
			}
		}
		return s, true
	}
	return s, false
}

// answers is the repeated request that a packet answers at once; 0: none.
func (c *comparison) answers(p *world.Packet) int {
	for i := range c.after.Entries {
		if e := &c.after.Entries[i]; e.Record.Kind == qp.RecordDuplicate && e.Host == p.From && e.Time == p.Sent {
			return e.Packet
		}
	}
	return 0
}

// gains is about what is executed now, and never was.
func gains(c *comparison, p *world.Packet) (s Sentence, ok bool) {
	for _, e := range c.news {
		if e.Record.Kind != qp.RecordExecuted {
			continue
		}
		s = Sentence{Kind: Cause, Rule: "executed now", Host: e.Host, PSN: uint32(e.Record.PSN), At: e.Time,
			Section: "4.5",
			Packets: []int{p.N}}
		if service(p) == "UC" {
			s.Section = "6.4"
		}
		s.Text = fmt.Sprintf("So no PSN is missing at %s when PSN %d comes: %s executes it at %s, which it never "+
			"does without the change.",
			c.name(e.Host), s.PSN, c.name(e.Host), at(s.At))
		return s, true
	}
	return s, false
}

// noAnswers is about services that ask for none.
func noAnswers(c *comparison, p *world.Packet) (s Sentence, ok bool) {
	t := service(p)
	if t != "UC" && t != "UD" {
		return s, false
	}
	s = Sentence{Kind: Cause, Rule: "no acknowledgements", Host: p.From, At: p.Sent, Section: "6.1",
		Packets: []int{p.N}}
	s.Text = fmt.Sprintf("%s has no acknowledgements: to %s's device %s was done when it had left, at %s. Nobody "+
		"asks what became of it, "+
		"and nobody sends it again.", t, c.name(p.From), list(s.Packets), at(s.At))
	return s, true
}

// lacks says what a device does not do now.
var lacks = map[qp.RecordKind]string{
	qp.RecordRetry:     "%s does not go back to PSN %d, as it does",
	qp.RecordGap:       "%s does not hear that PSN %d is missing, as it does",
	qp.RecordProbe:     "%s does not send PSN %d again to ask, as it does",
	qp.RecordWait:      "%s does not have to wait with PSN %d for a receive, as it has to",
	qp.RecordGiveUp:    "%s does not give up PSN %d, as it does",
	qp.RecordExecuted:  "%s does not execute PSN %d, as it does",
	qp.RecordDuplicate: "%s does not get PSN %d a second time, as it does",
}

// spared is about what would have come, and does not.
func spared(c *comparison, p *world.Packet) (s Sentence, ok bool) {
	for _, e := range c.gone {
		say := lacks[e.Record.Kind]
		if say == "" {
			continue
		}
		s = Sentence{Kind: Cause, Rule: "spared", Host: e.Host, PSN: uint32(e.Record.PSN), Before: e.Time,
			Section: "4.4",
			Packets: []int{p.N}, At: max(p.Sent, p.Arrived)}
		switch e.Record.Kind {
		case qp.RecordProbe, qp.RecordWait, qp.RecordGiveUp:
			s.Section = "4.7"
		case qp.RecordExecuted, qp.RecordDuplicate:
			s.Section = "4.5"
		}
		s.Text = fmt.Sprintf("So "+say+" at %s without the change.", c.name(e.Host), s.PSN, at(e.Time))
		return s, true
	}
	return s, false
}

// relieved is spared of what costs most: waiting, going back, giving up.
func (c *comparison) relieved() (s Sentence, ok bool) {
	for _, e := range c.gone {
		switch e.Record.Kind {
		case qp.RecordRetry, qp.RecordWait, qp.RecordGiveUp:
			return spared(&comparison{before: c.before, after: c.after, gone: []*world.Entry{e}}, c.changed[0])
		}
	}
	return s, false
}

// held is about a packet that is late, and what waits for it.
func held(c *comparison, p *world.Packet) (s Sentence, ok bool) {
	x := c.twin(p)
	if p.Change != world.Delay || p.Arrived == 0 || x == nil || x.Arrived == 0 {
		return s, false
	}
	s = Sentence{Kind: Cause, Rule: "waits for it", Host: p.To, PSN: p.PSN, At: p.Arrived, Before: x.Arrived,
		Section: "6.1", Packets: []int{p.N}}
	s.For = p.Arrived - x.Arrived
	switch t := service(p); {
	case t == "UC" || t == "UD":
		s.Rule = "no acknowledgements"
		s.Text = fmt.Sprintf("%s is at %s at %s instead of %s. %s has no acknowledgements, so %s does not wait for "+
			"any.", begin(list(s.Packets)),
			c.name(p.To), at(s.At), at(s.Before), t, c.name(p.From))
	case p.Kind == "request":
		s.Text = fmt.Sprintf("%s can answer PSN %d only when it is there, at %s instead of %s, and %s's request ends "+
			"only with the answer. No "+
			"timer of %s's runs out before.", c.name(p.To), p.PSN, at(s.At), at(s.Before), c.name(p.From),
			c.name(p.From))
	case p.Kind == "nak":
		s.Text = fmt.Sprintf("%s can act on the NAK only when it is there, at %s instead of %s. No timer of %s's "+
			"runs out before.", c.name(p.To),
			at(s.At), at(s.Before), c.name(p.To))
	default:
		s.Text = fmt.Sprintf("A request ends only when its answer is there: %s has this one at %s instead of %s. No "+
			"timer of %s's runs out before.",
			c.name(p.To), at(s.At), at(s.Before), c.name(p.To))
	}
	return s, true
}

// unused is about a copy or a packet that changes nothing where it goes.
func unused(c *comparison, p *world.Packet) (s Sentence, ok bool) {
	if p.Again == 0 {
		return s, false
	}
	s = Sentence{Kind: Cause, Rule: "copy unused", Host: p.To, PSN: p.PSN, At: p.Again, Section: "4.4",
		Packets: []int{p.N}}
	what := "it tells the device nothing that it does not know, and it does nothing"
	if p.Kind == "cnp" {
		s.Section, what = "10.3", "the rate is cut once in a while at most, however many CNPs come"
	}
	s.Text = fmt.Sprintf("The copy of %s is at %s at %s: %s.", list(s.Packets), c.name(p.To), at(s.At), what)
	return s, true
}

// completes is about an answer that ends a request.
func completes(c *comparison, p *world.Packet) (s Sentence, ok bool) {
	for i := range c.after.Completions {
		x := &c.after.Completions[i]
		if p.Kind == "request" || x.Host != p.To || x.Time != p.Arrived {
			continue
		}
		s = Sentence{Kind: Cause, Rule: "completes", Host: p.To, PSN: p.PSN, At: x.Time, Section: "6.1",
			Packets: []int{p.N},
			WR:      x.WRID}
		s.Text = fmt.Sprintf("A request ends with its answer: %s is that of %s's wr %d, which completes with it, at "+
			"%s.", list(s.Packets),
			c.name(p.To), x.WRID, at(s.At))
		return s, true
	}
	return s, false
}

// alike is about a play that is the same.
func alike(c *comparison, p *world.Packet) (s Sentence, ok bool) {
	if c.differs() {
		return s, false
	}
	s = Sentence{Kind: Cause, Rule: "the same", Host: p.From, At: p.Sent, Packets: []int{p.N}}
	s.Text = fmt.Sprintf("That is what happens to %s in the lesson as it is: nothing is different.", list(s.Packets))
	return s, true
}

// differs says whether anything is not as without the change.
func (c *comparison) differs() bool {
	if len(c.news)+len(c.gone) > 0 || len(c.before.Packets) != len(c.after.Packets) {
		return true
	}
	for i := range c.after.Packets {
		a, b := &c.before.Packets[i], &c.after.Packets[i]
		if c.twin(b) != a || a.Sent != b.Sent || a.Arrived != b.Arrived || a.Again != b.Again || a.Fate != b.Fate {
			return true
		}
	}
	return false
}

// moved is what is left: something is earlier or later than it was.
func moved(c *comparison, p *world.Packet) Sentence {
	s := Sentence{Kind: Cause, Rule: "order", Host: max(p.To, 0), At: max(p.Sent, p.Arrived), Section: "6.1",
		Packets: []int{p.N}}
	s.Text = fmt.Sprintf("No timer, NAK or mark comes of it: devices do next what %s, or its absence, lets them do.",
		list(s.Packets))
	return s
}
