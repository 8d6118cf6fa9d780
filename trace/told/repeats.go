package told

// What came twice: requests that a responder knows, answers that a requester knows, and what UC and
// UD take for news, as they do not know.

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

// repeats are the sentences about what came twice, in the order of time.
func (c *comparison) repeats() (all []Sentence) {
	if s, ok := c.executedTwice(); ok {
		all = append(all, s)
	}
	for _, table := range []func(e *world.Entry) (Sentence, bool){c.duplicate, c.knownAnswer} {
		for _, e := range c.news {
			if s, ok := table(e); ok {
				all = append(all, s)
				break
			}
		}
	}
	return all
}

// instead is what a responder does with a request that it knows, by what the request is.
type instead struct {
	rule, section string
	does          string // what it does not do, or does again
	answer        string // how the answer's label begins
	means         string
}

func insteadOf(op wire.Opcode) instead {
	info := op.Info()
	switch {
	case info == nil:
	case info.Flags&wire.OpRead != 0:
		return instead{"read again", "4.5", "It reads the bytes once more, as that does no harm",
			"RDMA_READ_RESPONSE", "sends them again"}
	case info.Flags&wire.OpAtomic != 0:
		return instead{"kept answer", "4.6", "It does not change the value again", "ATOMIC_ACKNOWLEDGE",
			"answers with what it has kept for this, the value from before"}
	case info.Flags&wire.OpSend != 0 && info.Flags&wire.OpConsumesRecv != 0 && info.Flags&wire.OpEnd != 0:
		return instead{"ACK again", "4.5", "It takes no second receive, so the program has the message once", "ACK",
			"only sends an ACK"}
	case info.Flags&wire.OpSend != 0:
		return instead{"ACK again", "4.5", "It does not store it again", "ACK", "only sends an ACK"}
	case info.Flags&wire.OpWrite != 0:
		return instead{"ACK again", "4.5", "It does not write again", "ACK", "only sends an ACK"}
	}
	return instead{"ACK again", "4.5", "It does not execute it again", "", "answers again"}
}

// duplicate is about a request that a responder has executed before.
func (c *comparison) duplicate(e *world.Entry) (s Sentence, ok bool) {
	if e.Record.Kind != qp.RecordDuplicate || e.Packet == 0 {
		return s, false
	}
	row := insteadOf(wire.Opcode(e.Record.Op))
	s = Sentence{Kind: Twice, Rule: row.rule, Section: row.section, Host: e.Host, PSN: uint32(e.Record.PSN), At: e.Time,
		Packets: []int{e.Packet}}
	who, first := c.name(e.Host), ""
	if n := c.executedBy(e); n > 0 && n != e.Packet {
		s.Packets = append(s.Packets, n)
		first = fmt.Sprintf(" from packet %d", n)
	} else if n == e.Packet {
		first = " from the first copy"
	}
	s.Text = fmt.Sprintf("%s's device has PSN %d%s already when packet %d brings it again, at %s. %s", who, s.PSN,
		first, e.Packet,
		at(s.At), row.does)
	answer := c.outgoing(e.Host, e.QPN, e.Time, func(p *world.Packet) bool {
		return labelled(p, row.answer) && (row.answer == "ACK" || p.PSN == s.PSN)
	})
	switch {
	case c.ignored(e):
		s.Rule, s.Section = "ignored", "4.5"
		s.Text += ", and says nothing: what it would answer it does not know any more."
	case answer == nil:
		s.Text += "."
	default:
		s.Packets = append(s.Packets, answer.N)
		s.Text += fmt.Sprintf(", and %s: packet %d.", row.means, answer.N)
	}
	s.Count = c.duplicates(e)
	if s.Count > 1 {
		s.Text += fmt.Sprintf(" %s in all come that it knows.", begin(count(s.Count, "packet")))
	}
	return s, true
}

// duplicates counts the requests that come again to a queue pair, the packets of which are new
// ones.
func (c *comparison) duplicates(e *world.Entry) (n int) {
	for _, x := range c.news {
		if x.Record.Kind == qp.RecordDuplicate && x.Host == e.Host && x.QPN == e.QPN {
			n++
		}
	}
	return n
}

// executedBy is the packet by which what an entry is about was executed first; 0: it is not known.
func (c *comparison) executedBy(e *world.Entry) int {
	for i := range c.after.Entries {
		x := &c.after.Entries[i]
		if x.Record.Kind == qp.RecordExecuted && x.Host == e.Host && x.QPN == e.QPN && x.Record.PSN == e.Record.PSN &&
			x.Packet > 0 && x.Time <= e.Time && c.after.Packets[x.Packet-1].PSN == uint32(e.Record.PSN) {
			return x.Packet
		}
	}
	return 0
}

// ignored says whether a repeated request was dropped without an answer.
func (c *comparison) ignored(e *world.Entry) bool {
	for i := range c.after.Entries {
		x := &c.after.Entries[i]
		if x.Record.Kind == qp.RecordDropped && x.Host == e.Host && x.Packet == e.Packet && x.Time == e.Time {
			return true
		}
	}
	return false
}

// knownAnswer is about an answer that a requester does not wait for any more.
func (c *comparison) knownAnswer(e *world.Entry) (s Sentence, ok bool) {
	r := wire.DropReason(e.Record.Value)
	if e.Record.Kind != qp.RecordDropped || e.Packet == 0 || r != wire.DropGhost && r != wire.DropDuplicate {
		return s, false
	}
	p := &c.after.Packets[e.Packet-1]
	if p.Kind == "request" {
		return s, false
	}
	s = Sentence{Kind: Twice, Rule: "known answer", Section: "4.4", Host: e.Host, PSN: p.PSN, At: e.Time,
		Packets: []int{p.N}}
	for _, x := range c.news {
		if x.Record.Kind == qp.RecordDropped && x.Record.Value == e.Record.Value && x.Host == e.Host &&
			x.QPN == e.QPN &&
			x.Packet > 0 && c.after.Packets[x.Packet-1].Kind != "request" {
			s.Count++
		}
	}
	s.Text = fmt.Sprintf("Packet %d (%s, PSN %d) is at %s at %s, and tells nothing new: what it answers is complete, "+
		"so the device drops it.",
		p.N, p.Label, p.PSN, c.name(e.Host), at(s.At))
	if s.Count > 1 {
		s.Text += fmt.Sprintf(" So it does with %s in all.", count(s.Count, "packet"))
	}
	return s, true
}

// executedTwice is about a copy that UC or UD take for something new.
func (c *comparison) executedTwice() (s Sentence, ok bool) {
	i := slices.IndexFunc(c.changed, func(p *world.Packet) bool {
		return p.Again > 0 && (service(p) == "UC" || service(p) == "UD")
	})
	if i < 0 {
		return s, false
	}
	p := c.changed[i]
	s = Sentence{Kind: Twice, Section: "6.4", Host: p.To, PSN: p.PSN, At: p.Again, Packets: []int{p.N}}
	who := c.name(p.To)
	for i := range c.after.Entries {
		x := &c.after.Entries[i]
		if x.Packet != p.N || x.Host != p.To || x.Time != p.Again {
			continue
		}
		switch x.Record.Kind {
		case qp.RecordDropped:
			s.Rule = "copy dropped"
			s.Text = fmt.Sprintf("To %s's device the copy of packet %d is a packet as any other: %s does not know "+
				"what is a repetition. Here it "+
				"drops it, at %s: %s.", who, p.N, service(p), at(s.At), wire.DropReason(x.Record.Value).Explain())
			return s, true
		case qp.RecordExecuted, qp.RecordCompletion:
			s.Rule = "copy executed"
			s.Text = fmt.Sprintf("To %s's device the copy of packet %d is a packet as any other: %s does not know "+
				"what is a repetition. It "+
				"executes it again, at %s.", who, p.N, service(p), at(s.At))
			return s, true
		}
	}
	return s, false
}
