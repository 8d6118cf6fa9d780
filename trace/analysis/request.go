package analysis

// A flow's requests, packet by packet. The next PSN is expected; one that is later says that
// packets are missing here, one that is earlier that something is sent again (section 4.1). Why the
// sender went back follows from what it was told last (section 4.4).

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// Cause is why a sender went back.
type Cause uint8

// The causes.
const (
	AfterNAK     Cause = iota // a NAK, PSN sequence error
	AfterRNR                  // an RNR NAK
	AfterSilence              // nothing: a timer, or a probe
	AfterGap                  // the answer of a READ or an atomic, or a part of it, was missing
	AfterReport               // selective repeat: the responder has said which packets it misses
	AfterLoss                 // it was acknowledged or answered: that was lost, or came too late
	numCauses
)

var causeNames = [numCauses]string{"after a NAK (PSN sequence error)", "after an RNR NAK", "after silence",
	"for an answer that was missing", "after a report of what is missing (selective repeat)",
	"though it was acknowledged, or answered: that was lost, or came too late"}

// String is the cause in words.
func (c Cause) String() string { return causeNames[c] }

// requester is where a flow's requests stand.
type requester struct {
	begun   bool
	loose   bool     // next is not known: a READ before it had an unknown number of packets
	una     wire.PSN // the oldest that is not acknowledged
	next    wire.PSN // of the next new packet
	follows wire.PSN // what comes next if the sender goes on from its last packet
	back    bool     // that packet was sent before
	alone   wire.PSN // what comes behind the packet that the sender went back to last
	sent    int64    // when the last of those left
	flight  flight

	told     Cause // what the responder has said last: AfterSilence if it was no NAK
	toldAt   wire.PSN
	saying   seen // the packet that said so
	newest   seen // the newest of those that were not sent before
	acked    seen // the response that has acknowledged something last
	voice    seen // the last response of any kind
	gone     seen // the packet by which the sender went back last
	refusals []refusal
	trip     int64 // the shortest time in which a response came, nanoseconds; 0: not known
	gaps     []gap // the newest that NAKs have named
	progress int64 // when something was acknowledged last, or sent first
	heard    int64 // when the responder said anything last
	again    wire.PSN
	latest   wire.PSN // sent again last
	times    int      // again was sent that often, without progress
}

// outstanding says whether a response with this PSN can be to these requests.
func (q *requester) outstanding(psn wire.PSN) bool {
	return q.begun && psn.Sub(q.una) >= -1 && psn.Sub(q.next) < 0
}

func (a *Analysis) request(f *Flow, p *trace.Packet) {
	q := &f.req
	psn := p.Wire.BTH.PSN()
	if !q.begun {
		q.begun, q.una, q.next, q.progress, q.told = true, psn, psn, p.Time, AfterSilence
	}
	if q.loose && psn.Sub(q.next) >= 0 {
		q.next = psn
		if m := q.flight.newest(); m != nil {
			m.last = psn.Prev()
		}
	}
	switch d := psn.Sub(q.next); {
	case d < 0 && q.sounds(p, psn):
		f.find(p, Noted, fmt.Sprintf("it asks only whether short packets arrive, where PSN %v or its answer has not",
			psn.Next()), "section 4.7", q.gone.as("the sender has gone back to it"),
			see(p).as("a SEND without a byte, with the PSN before, wants an ACK"))
		return
	case d < 0:
		f.repeat(p, psn)
		return
	case d > 0:
		f.Requests.Missing += uint64(d)
		f.skipped(p, uint64(d))
	}
	q.loose, q.back = false, false
	f.advance(p, psn)
}

// skipped notes packets that are not here.
func (f *Flow) skipped(p *trace.Packet, n uint64) {
	q := &f.req
	f.drawn.mark(MarkMissing, p.Time, q.next, uint32(n), p.Number)
	if m := q.flight.newest(); m != nil && !m.whole {
		q.flight.dropNewest()
		f.Requests.Broken++
	}
	if f.Service == wire.ServiceUC {
		f.find(p, Lost, fmt.Sprintf("%d packets before this one are missing: if they were lost, so is their message, "+
			"and nobody says so", n), "section 6.4", q.newest.as("the packet before it"), q.skips(p))
		return
	}
	f.find(p, Noted, fmt.Sprintf("%d packets before this one are not in the capture", n), "section 4.1",
		q.newest.as("the packet before it"), q.skips(p))
}

// skips says what a packet leaves out.
func (q *requester) skips(p *trace.Packet) Sight {
	return see(p).as("PSN %v was to come next", q.next)
}

// advance takes a packet that is new.
func (f *Flow) advance(p *trace.Packet, psn wire.PSN) {
	q, op := &f.req, p.Wire.Op
	n := uint32(1)
	m := q.flight.newest()
	if op.Flags&wire.OpStart != 0 {
		if m != nil && !m.whole {
			begun := m.seen()
			q.flight.dropNewest()
			f.Requests.Broken++
			f.find(p, Wrong, fmt.Sprintf("%s begins a message while another is unfinished: the responder answers NAK "+
				"invalid request", op.Name), "section 2.7", begun.as("a message begins"),
				q.newest.as("it has not ended here"))
		}
		if q.flight.push(message{kind: kindOf(op), first: psn, last: psn, number: p.Number, at: p.Time}) {
			f.Requests.Forgotten++
		}
		m = q.flight.newest()
	} else if m == nil || m.whole {
		m = nil // of a message that began before the capture
	}
	if m != nil {
		m.last = psn
		m.bytes += uint64(len(p.Wire.Payload))
		m.whole = op.Flags&wire.OpEnd != 0
		if m.kind == Read {
			m.bytes = uint64(p.Wire.RETH().DMALen())
			n, q.loose = f.readPackets(m.bytes)
			m.last = psn.Add(n - 1)
		}
	} else if op.Flags&wire.OpEnd != 0 {
		f.Requests.Broken++
	}
	q.next = psn.Add(n)
	q.newest = see(p)
	f.drawn.sent(p.Time, psn, p.Number)
	if f.Service == wire.ServiceUC && m != nil && m.whole { // nobody will acknowledge it
		f.Requests.done(m.kind, m.bytes, -1)
		q.flight.dropNewest()
		q.una = q.next
	}
}

// span is how many PSNs a request has: as many as there are packets in the answer to a READ.
func (f *Flow) span(p *trace.Packet) uint32 {
	if p.Wire.Op.Flags&wire.OpRead == 0 {
		return 1
	}
	n, _ := f.readPackets(uint64(p.Wire.RETH().DMALen()))
	return n
}

// settle counts the packets of a READ that was asked for before the path MTU was known, if it is.
func (f *Flow) settle() {
	q := &f.req
	if !q.loose || f.PathMTU == 0 {
		return
	}
	q.loose = false
	if m := q.flight.newest(); m != nil && m.kind == Read {
		n, _ := f.readPackets(m.bytes)
		m.last = m.first.Add(n - 1)
		q.next = m.last.Next()
	}
}

// readPackets is how many packets the answer to a READ has; loose: that is not known.
func (f *Flow) readPackets(bytes uint64) (n uint32, loose bool) {
	if f.PathMTU == 0 {
		return 1, bytes > 256
	}
	mtu := uint64(f.PathMTU)
	return uint32(max(1, (bytes+mtu-1)/mtu)), false
}

// repeat takes a packet that was sent before. The first of them says that the sender went back.
func (f *Flow) repeat(p *trace.Packet, psn wire.PSN) {
	q := &f.req
	f.Requests.Repeated++
	f.drawn.mark(MarkAgain, p.Time, psn, 1, p.Number)
	q.latest = psn
	on := q.back && psn == q.follows
	late := on && q.waited(p.Time)
	q.back, q.follows, q.sent = true, psn.Add(f.span(p)), p.Time
	if on && !late {
		return
	}
	cause, guess, by := f.cause(psn)
	guess = guess || late || f.doubtful(p, psn, cause, by)
	q.refusals = slices.DeleteFunc(q.refusals, func(r refusal) bool { return r.psn == psn })
	if psn == q.again {
		q.times++
	} else {
		q.again, q.times = psn, 1
	}
	q.alone = q.follows
	f.Requests.Retries[cause]++
	text := fmt.Sprintf("PSN %v is sent again %v", psn, cause)
	if quiet := p.Time - q.progress; cause == AfterSilence && quiet > 0 {
		text += fmt.Sprintf(": nothing was acknowledged for %s", duration(quiet))
	}
	if guess {
		text += Guess
		f.Requests.Guessed++
	}
	if q.times > 1 {
		text += fmt.Sprintf("; for the %s time", ordinal(q.times))
	}
	f.find(p, Again, text, causeRules[cause], append(f.whyBack(psn, cause, by), see(p).as("it is sent again"))...)
	q.told, q.gone = AfterSilence, see(p)
}

// maxRefusals is how many NAKs of a flow are kept in mind until their packets are sent again.
const maxRefusals = 8

// refusal is a NAK, and what the sender does because of it.
type refusal struct {
	psn   wire.PSN
	cause Cause
	until int64 // when the sender has surely waited long enough for it; 0: it does not wait
}

// doubtful says whether a cause is one of several that are possible: two kinds of NAKs have named
// the packet, or one that came when it had just been sent again; a NAK is older than who acts on it
// at once would let it be; or the silence is not much longer than a response takes.
func (f *Flow) doubtful(p *trace.Packet, psn wire.PSN, c Cause, by seen) bool {
	q := &f.req
	others := slices.ContainsFunc(q.refusals, func(r refusal) bool {
		return r.cause != c && (r.psn == psn || r.until >= p.Time) // a wait puts off all else
	})
	switch c {
	case AfterNAK:
		return others || psn == q.again && q.times > 0 && q.saying.at > q.gone.at ||
			p.Time-q.saying.at > 2*q.trip
	case AfterRNR:
		i := slices.IndexFunc(q.refusals, func(r refusal) bool { return r.psn == psn && r.cause == c })
		return others || i < 0 || p.Time > q.refusals[i].until+2*q.trip
	case AfterReport:
		return others || p.Time-by.at > 2*q.trip
	case AfterLoss:
		return f.since >= 0 && f.since < doubtfulTwin // or is it a mirror's copy?
	case AfterSilence:
		return others || f.since >= 0 && f.since < doubtfulTwin || p.Time-q.progress <= 4*q.trip || p.Time == q.progress
	}
	return false
}

// whyBack is what was seen before a sender went back: when the packet was sent before, what was
// said about it, and what was heard last.
func (f *Flow) whyBack(psn wire.PSN, c Cause, by seen) (reason []Sight) {
	q := &f.req
	if m := q.flight.find(psn); m != nil && m.first == psn {
		reason = append(reason, m.seen().as("it was sent first"))
	} else if m != nil {
		reason = append(reason, m.seen().as("its message began"))
	}
	if q.again == psn && q.times > 1 {
		reason = append(reason, q.gone.as("it was sent again before"))
	}
	switch c {
	case AfterNAK, AfterRNR:
		return append(reason, q.saying.as("the NAK, for PSN %v", q.toldAt))
	case AfterReport:
		return append(reason, by.as("a NAK or an ACK says that PSN %v is missing", psn))
	case AfterGap:
		if by.packet == 0 {
			return append(reason, q.voice.as("the last response, which is not the end of its answer"))
		}
		return append(reason, by.as("a later request was acknowledged, and its answer was not seen"))
	case AfterLoss:
		return append(reason, q.acked.as("all up to it was acknowledged or answered"))
	}
	if reason = append(reason, q.acked.as("the last response that has acknowledged anything")); q.voice != q.acked {
		reason = append(reason, q.voice.as("the last response of any kind"))
	}
	return reason
}

// sounds says whether a packet that seems to be sent again is an empty one by which our requesters
// find out about a black hole: it has the PSN before the one that has just been sent again.
func (q *requester) sounds(p *trace.Packet, psn wire.PSN) bool {
	return p.Wire.Opcode == wire.RCSendOnly && len(p.Wire.Payload) == 0 && p.Wire.BTH.AckReq() &&
		q.back && psn.Next() == q.latest
}

// waited says whether a sender that goes on has gone back once more. An ACK in between does not
// mean that: its window may have waited for it. But who sends one packet alone may have asked by
// it where the responder is. The answer came, nothing followed at once, and then what comes
// next: that may be the second thing that it does about the silence.
func (q *requester) waited(now int64) bool {
	return q.follows == q.alone && q.heard > q.sent && now-q.heard > q.heard-q.sent
}

// Guess stands in findings whose cause the packets do not tell for sure.
const Guess = " (a guess)"

// maxGaps is how many gaps of a flow are kept in mind.
const maxGaps = 64

// gap is packets that are missing at the other end, from next to to-1: those that were not sent
// again since that was said. answers: what is missing is their answers.
type gap struct {
	next, to wire.PSN
	answers  bool
	by       seen // the packet that has named it
}

// named says whether the packet is in a gap, and takes it out.
func (q *requester) named(psn wire.PSN) (g gap, ok bool) {
	for i, g := range q.gaps {
		if psn.Sub(g.next) >= 0 && psn.Sub(g.to) < 0 {
			q.gaps[i].next = psn.Next()
			return g, true
		}
	}
	return g, false
}

// remember keeps a gap in mind.
func (q *requester) remember(x gap) {
	if len(q.gaps) == maxGaps {
		q.gaps = append(q.gaps[:0], q.gaps[1:]...)
	}
	q.gaps = append(q.gaps, x)
}

// cause says why the sender went back to a packet, and whether that is a guess: a packet that a NAK
// has named is sent again because of it; one about which nothing at all was heard, because of the
// silence; of others, as when a NAK was for another packet, several reasons are possible. by is the
// packet that named a gap.
func (f *Flow) cause(psn wire.PSN) (c Cause, guess bool, by seen) {
	q := &f.req
	m := q.flight.find(psn)
	g, named := q.named(psn)
	switch {
	case psn.Sub(q.una) < 0:
		return AfterLoss, false, by
	case q.told != AfterSilence && psn == q.toldAt:
		return q.told, false, by
	case named && g.answers:
		return AfterGap, false, g.by
	case named:
		return AfterReport, false, g.by
	case m != nil && m.kind == Read && psn != m.first:
		return AfterGap, true, by
	case f.Peer == nil:
		return AfterSilence, true, by // what was said about it cannot be told
	}
	return AfterSilence, q.heard > q.progress || psn == q.toldAt, by
}

var causeRules = [numCauses]string{"section 4.4", "section 4.7", "section 4.7", "section 4.4", "section 4.5",
	"section 4.5"}

// find returns the message that a PSN belongs to.
func (q *flight) find(psn wire.PSN) *message {
	lo, hi := 0, q.len()
	for lo < hi { // they are in the order of their PSNs
		mid := (lo + hi) / 2
		if q.at(mid).last.Sub(psn) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < q.len() && psn.Sub(q.at(lo).first) >= 0 {
		return q.at(lo)
	}
	return nil
}
