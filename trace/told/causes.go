package told

// What acted: timers, NAKs, marks, each with its rule. Stages: what a device did that it does not
// do without the change → the row of its kind → a sentence. Of several of one row the first is
// told.

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
)

// teller makes a sentence of what a device did; false: there is nothing to say.
type teller func(c *comparison, e *world.Entry) (Sentence, bool)

// acts are what makes a device send again, stop, or be slower.
var acts = map[qp.RecordKind]teller{
	qp.RecordProbe:      asks,
	qp.RecordRetry:      goesBack,
	qp.RecordGap:        repeatsGap,
	qp.RecordWait:       waits,
	qp.RecordGiveUp:     givesUp,
	qp.RecordSlowed:     slows,
	qp.RecordCompletion: isRefused,
}

// causes are the sentences about what acted, in the order of time.
func (c *comparison) causes() []Sentence { return c.tell(acts) }

func (c *comparison) tell(table map[qp.RecordKind]teller) (all []Sentence) {
	for _, e := range c.news {
		say := table[e.Record.Kind]
		if say == nil {
			continue
		}
		if s, ok := say(c, e); ok && !slices.ContainsFunc(all, func(x Sentence) bool {
			return x.Rule == s.Rule && (s.Kind == Saw || x.PSN == s.PSN) || x.Rule == "gap" && s.Rule == "gap, asked "+
				"for"
		}) {
			all = append(all, s)
		}
	}
	return all
}

// timerOf is the deadline that an entry has come of; nil, if it came of a packet.
func (c *comparison) timerOf(e *world.Entry) (timer *world.Entry) {
	for i := range c.after.Entries {
		x := &c.after.Entries[i]
		if x.Time > e.Time {
			break
		}
		if k := qp.TimerKind(x.Record.Op); x.Record.Kind == qp.RecordTimer && x.Host == e.Host && x.QPN == e.QPN &&
			(k == qp.TimerAck || k == qp.TimerProbe) {
			timer = x
		}
	}
	return timer
}

// silence is since when a queue pair has heard nothing although a packet is not acknowledged.
func (c *comparison) silence(host int, qpn, psn uint32, now int64) (since int64) {
	peer := c.pair(host, qpn).Peer
	first := true
	for i := range c.after.Packets {
		p := &c.after.Packets[i]
		if p.From == host && p.QPN == peer && p.PSN == psn && p.Kind == "request" && p.Sent < now && first {
			since, first = max(since, p.Sent), false
		}
		for _, t := range []int64{p.Arrived, p.Again} {
			if p.To == host && p.QPN == qpn && t > 0 && t < now && p.Fate != world.Corrupted {
				since = max(since, t)
			}
		}
	}
	return since
}

// asks is about the oldest packet, which is sent again because nothing is heard.
func asks(c *comparison, e *world.Entry) (s Sentence, ok bool) {
	asked := c.asked(c.after, e)
	e = asked[0]
	timer := c.timerOf(e)
	p := c.outgoing(e.Host, e.QPN, e.Time, func(p *world.Packet) bool { return p.PSN == uint32(e.Record.PSN) })
	if timer == nil || p == nil {
		return s, false
	}
	s = Sentence{Kind: Cause, Host: e.Host, Packets: []int{p.N}, PSN: p.PSN, At: e.Time, Section: "4.7",
		Count: len(asked), Without: len(c.asked(c.before, e))}
	who, what := c.name(e.Host), "by sending again the oldest packet that is not acknowledged, PSN"
	if labelled(p, "RDMA_READ") {
		what = "for the rest of the READ once more, from the first answer that is missing on, PSN"
	}
	if qp.TimerKind(timer.Record.Op) == qp.TimerAck {
		s.Rule, s.For = "ack timeout", int64(timer.Record.Value)
		code := ""
		if n := s.For / 4096; n > 0 && s.For%4096 == 0 && n&(n-1) == 0 {
			s.Code = bits.Len64(uint64(n)) - 1
			code = fmt.Sprintf(", which is 4.096 us * 2^%d", s.Code)
		}
		s.Text = fmt.Sprintf("%s waits for an acknowledgement of PSN %d; its device cannot know what was lost, the "+
			"packet or the "+
			"answer. After its ack timeout of %s%s, it sends the packet again, at %s: %s.", who, p.PSN, span(s.For),
			code,
			at(s.At), list(s.Packets))
	} else {
		s.Rule, s.Trip = "probe", int64(timer.Record.Value)
		s.For = e.Time - c.silence(e.Host, e.QPN, p.PSN, e.Time)
		s.Text = fmt.Sprintf("%s has heard nothing for %s, and a round trip takes %s. A NIC would wait for its ack "+
			"timeout; this stack asks, at %s, %s %d: %s.", who, span(s.For), span(s.Trip), at(s.At), what, p.PSN,
			list(s.Packets))
	}
	switch s.Done = c.executedAt(p); {
	case s.Count > 1 && s.Without > 0:
		s.Text += fmt.Sprintf(" It does so %s, and %s without the change.", times(s.Count), times(s.Without))
	case s.Count > 1:
		s.Text += fmt.Sprintf(" It does so %s in all.", times(s.Count))
	}
	if s.Done > 0 {
		s.Text += fmt.Sprintf(" %s has not had it before, and executes it at %s.", c.name(p.To), at(s.Done))
	} else if nak := c.refusalOf(p); nak != nil {
		s.Packets = append(s.Packets, nak.N)
		s.Text += fmt.Sprintf(" %s answers it by packet %d (%s).", c.name(p.To), nak.N, nak.Label)
	}
	return s, true
}

// refusalOf is the NAK that answers a packet at once; nil, if there is none.
func (c *comparison) refusalOf(p *world.Packet) *world.Packet {
	for i := range c.after.Packets[p.N:] {
		x := &c.after.Packets[p.N+i]
		if x.From == p.To && x.To == p.From && x.Kind == "nak" && x.PSN == p.PSN && x.Sent == p.Arrived &&
			p.Arrived > 0 {
			return x
		}
	}
	return nil
}

// asked are the times at which a queue pair sends a PSN again to hear of it, from the change on.
func (c *comparison) asked(p *world.Play, e *world.Entry) (all []*world.Entry) {
	for i := range p.Entries {
		x := &p.Entries[i]
		if x.Record.Kind == qp.RecordProbe && x.Host == e.Host && x.QPN == e.QPN && x.Record.PSN == e.Record.PSN &&
			x.Time >= c.changed[0].Sent {
			all = append(all, x)
		}
	}
	return all
}

// executedAt is when a packet was executed; 0: it was not.
func (c *comparison) executedAt(p *world.Packet) int64 {
	for i := range c.after.Entries {
		if x := &c.after.Entries[i]; x.Packet == p.N && x.Host == p.To && x.Record.Kind == qp.RecordExecuted &&
			uint32(x.Record.PSN) == p.PSN {
			return x.Time
		}
	}
	return 0
}

// again are the packets that come of a decision, and how they are said.
func (c *comparison) again(e *world.Entry, s *Sentence) string {
	all := c.repeated(e.Host, e.QPN, e.Time, c.until(e))
	s.Count = len(all)
	if len(all) == 0 {
		return "nothing, as it goes on where it was"
	}
	s.Packets = append(s.Packets, numbers(all)...)
	return list(numbers(all))
}

// goesBack is about a requester that sends again from a PSN on.
func goesBack(c *comparison, e *world.Entry) (s Sentence, ok bool) {
	s = Sentence{Kind: Cause, Host: e.Host, PSN: uint32(e.Record.PSN), At: e.Time, Section: "4.4"}
	who := c.name(e.Host)
	if e.Packet > 0 {
		p := &c.after.Packets[e.Packet-1]
		s.Packets = []int{p.N}
		s.Rule = "sequence NAK"
		if p.Kind != "nak" {
			s.Rule, s.Section = "probe answered", "4.7"
			s.Text = fmt.Sprintf("%s answers at %s what %s has asked: %s has nothing from PSN %d on, so %s sends "+
				"again from there: ",
				begin(list(s.Packets)), at(s.At), who, c.name(p.From), s.PSN, who)
			s.Text += c.again(e, &s) + "."
			return s, true
		}
		s.Text = fmt.Sprintf("%s, the NAK, tells %s at %s that PSN %d is missing. A NAK has everything sent again "+
			"from that PSN on "+
			"(go-back-N): ", begin(list(s.Packets)), who, at(s.At), s.PSN)
		s.Text += c.again(e, &s) + "."
		return s, true
	}
	timer := c.timerOf(e)
	if timer == nil {
		return s, false
	}
	s.Rule, s.Section = "no more answers", "4.7"
	s.For = e.Time - c.silence(e.Host, e.QPN, s.PSN, e.Time)
	s.Text = fmt.Sprintf("%s has an answer to what it asked, and then hears nothing for %s: what it sent behind PSN "+
		"%d is lost. At %s "+
		"it sends again from there: ", who, span(s.For), s.PSN, at(s.At))
	s.Text += c.again(e, &s) + "."
	return s, true
}

// repeatsGap is about packets that alone are sent again.
func repeatsGap(c *comparison, e *world.Entry) (s Sentence, ok bool) {
	if e.Packet == 0 {
		return s, false
	}
	p := &c.after.Packets[e.Packet-1]
	s = Sentence{Kind: Cause, Host: e.Host, PSN: uint32(e.Record.PSN), At: e.Time, Section: "4.4", Packets: []int{p.N},
		Without: int(e.Record.Length)}
	who := c.name(e.Host)
	if p.Kind == "nak" {
		s.Rule = "gap report"
		s.Text = fmt.Sprintf("%s, a NAK, tells %s at %s that %s from PSN %d on %s missing, and that what came behind "+
			"is kept (selective "+
			"repeat). So only this is sent again: ", begin(list(s.Packets)), who, at(s.At), count(s.Without,
			"packet"), s.PSN,
			isAre(s.Without))
	} else {
		s.Rule, s.Want = "missing answer", p.PSN
		s.Text = fmt.Sprintf("%s (%s, PSN %d) is at %s at %s. It answers what was asked for later than PSN %d, and "+
			"answers come in order: "+
			"so the device takes the answer to that for lost, and asks for it again: ", begin(list(s.Packets)), p.Label,
			p.PSN, who, at(s.At), s.PSN)
	}
	s.Text += c.again(e, &s) + "."
	return s, true
}

// waits is about a peer that has no receive.
func waits(c *comparison, e *world.Entry) (s Sentence, ok bool) {
	if e.Packet == 0 {
		return s, false
	}
	p := &c.after.Packets[e.Packet-1]
	next := c.outgoing(e.Host, e.QPN, e.Time, func(p *world.Packet) bool { return p.PSN == uint32(e.Record.PSN) })
	s = Sentence{Kind: Cause, Rule: "RNR NAK", Host: e.Host, PSN: uint32(e.Record.PSN), At: e.Time, Section: "4.7",
		Packets: []int{p.N}}
	s.Text = fmt.Sprintf("%s has no receive for PSN %d, and says so by %s (%s): ", c.name(p.From), s.PSN,
		list(s.Packets), p.Label)
	if next == nil {
		s.Text += fmt.Sprintf("%s is to wait, from %s on.", c.name(e.Host), at(s.At))
		return s, true
	}
	s.For = next.Sent - e.Time
	s.Packets = append(s.Packets, next.N)
	s.Text += fmt.Sprintf("%s waits as long, from %s on, and then sends it again: %s.", c.name(e.Host), at(s.At),
		list([]int{next.N}))
	return s, true
}

// givesUp is about the end of all retries.
func givesUp(c *comparison, e *world.Entry) (s Sentence, ok bool) {
	s = Sentence{Kind: Cause, Rule: "gives up", Host: e.Host, PSN: uint32(e.Record.PSN), At: e.Time, Section: "4.7"}
	peer := c.pair(e.Host, e.QPN).Peer
	limit, what := "retry_cnt", "ack timeout"
	for i := range c.after.Packets {
		p := &c.after.Packets[i]
		if p.From == e.Host && p.QPN == peer && p.PSN == s.PSN && p.Kind == "request" && p.Sent <= e.Time {
			s.Count++
		}
	}
	if e.Packet > 0 && labelled(&c.after.Packets[e.Packet-1], "RNR") {
		limit, what = "rnr_retry", "RNR NAK"
	}
	s.Text = fmt.Sprintf("%s has sent PSN %d %s in vain. Each %s uses up a retry (%s), and none is left: at %s it "+
		"gives up, its request "+
		"ends with an error, and its queue pair is in ERR.", c.name(e.Host), s.PSN, times(s.Count), what, limit,
		at(s.At))
	return s, true
}

// slows is about a sender that is told of congestion.
func slows(c *comparison, e *world.Entry) (s Sentence, ok bool) {
	if e.Packet == 0 {
		return s, false
	}
	s = Sentence{Kind: Cause, Rule: "CNP", Host: e.Host, At: e.Time, Section: "10.3", Packets: []int{e.Packet},
		Bytes: int(e.Record.Value)}
	s.Text = fmt.Sprintf("%s, the CNP, is at %s at %s. The device that gets one cuts its rate: %s sends at %.3g "+
		"Gbit/s from now on, and "+
		"faster again, step by step, while no more come.", begin(list(s.Packets)), c.name(e.Host), at(s.At),
		c.name(e.Host),
		8*float64(e.Record.Value)/1e9)
	return s, true
}

// isRefused is about a NAK that nothing can be sent again after.
func isRefused(c *comparison, e *world.Entry) (s Sentence, ok bool) {
	if e.Packet == 0 || e.Record.Length == uint32(qp.WCSuccess) || e.Record.Length == uint32(qp.WCWRFlushErr) {
		return s, false
	}
	p := &c.after.Packets[e.Packet-1]
	if p.Kind != "nak" || p.To != e.Host || labelled(p, "RNR") {
		return s, false
	}
	s = Sentence{Kind: Cause, Rule: "refusal", Host: e.Host, PSN: p.PSN, At: e.Time, Section: "6.3",
		Packets: []int{p.N}}
	s.Text = fmt.Sprintf("%s (%s) is at %s at %s: PSN %d was refused, and would be again. So it is not repeated; the "+
		"request ends with an "+
		"error, and the queue pair is in ERR.", begin(list(s.Packets)), p.Label, c.name(e.Host), at(s.At), p.PSN)
	return s, true
}
