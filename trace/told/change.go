package told

// What was done to the packet: a row for each thing that may have come of it.

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

// change is the sentence about the packet that was changed, the first of them. If there are more it
// counts them.
func (c *comparison) change() Sentence {
	p := c.changed[0]
	s := Sentence{Kind: Change, Host: p.From, Packets: []int{p.N}, PSN: p.PSN, At: p.Sent}
	switch {
	case p.Fate == world.UnderWay:
		s.Rule, s.Text = "under way", "is still under way when the play ends."
	case p.Change == world.Drop:
		s.Rule, s.Text = "lost", "is lost on the way."
	case p.Fate == world.Lost:
		s.Rule, s.Text = "no room", "is lost all the same: the queue in front of the port is full."
		if p.To < 0 {
			s.Rule, s.Text = "nobody", "goes to an address that nobody has: there is nothing to change about it."
		}
	case p.Change == world.Delay:
		c.late(p, &s)
	case p.Change == world.Duplicate:
		s.Rule, s.At, s.Before = "twice", p.Arrived, p.Again
		s.Text = fmt.Sprintf("comes twice: %s has it at %s and once more at %s.", c.name(p.To), at(p.Arrived),
			at(p.Again))
		if p.Again == 0 {
			s.Rule, s.Text = "no room", "cannot be doubled: the queue in front of the port has no room for a copy."
		}
	case p.Change == world.Mark:
		s.Rule, s.Section, s.Text = "marked", "10.1", `is marked by the switch as having met congestion (ECN).`
		if !congested(p) {
			s.Rule, s.Text = "no mark", "cannot be marked: it does not say that its sender understands ECN, so it "+
				"passes as it is."
		}
	case p.Change == world.Corrupt:
		c.corrupt(p, &s)
	default:
		s.Rule, s.At, s.Text = "delivered", p.Arrived, fmt.Sprintf("arrives as it was sent, at %s.", at(p.Arrived))
		if p.To >= 0 && c.drops(p) {
			s.Text = fmt.Sprintf("arrives as it was sent, at %s, and %s's device drops it.", at(p.Arrived),
				c.name(p.To))
		}
		if x := c.twin(p); x != nil && x.Fate == world.Lost {
			s.Rule = "saved"
			s.Text = fmt.Sprintf("arrives, at %s: the lesson loses it.", at(p.Arrived))
		}
	}
	s.Text = begin(c.whole(p)) + " " + s.Text
	if n := len(c.changed) - 1; n > 0 {
		s.Spared = n
		s.Text += fmt.Sprintf(" %s more %s changed, too.", begin(count(n, "packet")), isAre(n))
	}
	s.Text += c.script(&s)
	return s
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// congested says whether a packet arrives with a mark.
func congested(p *world.Packet) bool {
	f, drop := wire.SplitFrame(p.Bytes)
	return drop == wire.DropNone && f.ECN() == wire.ECNCongestion
}

// late is about a packet that is held up.
func (c *comparison) late(p *world.Packet, s *Sentence) {
	s.Rule, s.At, s.For = "late", p.Arrived, 50_000
	for _, x := range c.changes {
		if x.Packet == p.N && x.For > 0 {
			s.For = int64(x.For)
		}
	}
	s.Text = fmt.Sprintf("is held up for %s, and is at %s at %s", span(s.For), c.name(p.To), at(p.Arrived))
	for i := range c.after.Packets {
		x := &c.after.Packets[i]
		if x.From == p.From && x.To == p.To && x.QPN == p.QPN && x.Sent > p.Sent && x.Arrived > 0 &&
			x.Arrived < p.Arrived {
			s.Count++
		}
	}
	if s.Count > 0 {
		s.Text += fmt.Sprintf(": %s that left later overtake%s it", count(s.Count, "packet"), plural(s.Count))
	}
	s.Text += "."
}

// plural is the ending of what so many do.
func plural(n int) string {
	if n == 1 {
		return "s"
	}
	return ""
}

// corrupt is about a packet of which a bit flips.
func (c *comparison) corrupt(p *world.Packet, s *Sentence) {
	s.Rule, s.Section, s.At = "corrupt", "3.1", p.Arrived
	s.Text = "has a bit flipped on the way."
	for i := range c.after.Entries {
		e := &c.after.Entries[i]
		if e.Packet != p.N || e.Record.Kind != qp.RecordDropped || e.Host != p.To {
			continue
		}
		s.Rule = "corrupt, dropped"
		why := "the checksum over it, the ICRC, is not that of its bytes"
		if r := wire.DropReason(e.Record.Value); r != wire.DropICRC {
			s.Section, why = "1.13", r.Explain()
		}
		s.Text = fmt.Sprintf("has a bit flipped on the way: %s's device drops it at %s, as %s. Nobody is told.",
			c.name(p.To), at(e.Time), why)
		s.At = e.Time
		return
	}
}

// script says where what the lesson itself does to a packet has gone to, if its number is another.
func (c *comparison) script(s *Sentence) string {
	was, is := c.scripted(c.before), c.scripted(c.after)
	if len(was) != 1 || len(is) != 1 || was[0].N == is[0].N || was[0].Change != is[0].Change {
		return ""
	}
	s.Packets = append(s.Packets, is[0].N)
	s.Without = was[0].N
	return fmt.Sprintf(" What the lesson does to packet %d (%s) it does to packet %d here.", was[0].N,
		strings.ToLower(string(was[0].Change)), is[0].N)
}

// scripted are the packets that the scenario itself does something to.
func (c *comparison) scripted(p *world.Play) (all []*world.Packet) {
	for i := range p.Packets {
		x := &p.Packets[i]
		if x.Change != "" && !c.decided(p, x.N) {
			all = append(all, x)
		}
	}
	return all
}

// decided says whether the student has said what happens to a packet.
func (c *comparison) decided(p *world.Play, n int) bool {
	for _, x := range c.changes {
		if x.Packet == n && p == c.after {
			return true
		}
	}
	return false
}
