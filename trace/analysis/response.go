package analysis

// What is said about requests: the other flow's responses. An ACK completes all up to its PSN, but
// what has an answer of its own (section 4.4). NAKs that fail a request end the connection (section
// 6.3).

import (
	"fmt"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// Responses is what a flow says of the other way's requests.
type Responses struct {
	ACKs       uint64
	Sequence   uint64 // NAKs, PSN sequence error
	RNR        uint64 // RNR NAKs
	RNRWait    int64  // nanoseconds that they asked the requester to wait, in all
	Fatal      uint64 // NAKs that fail a request
	Ghosts     uint64 // responses to nothing that is outstanding
	Unexpected uint64 // responses to requests that the capture does not have
	Credits    uint64 // acknowledgements that say how many receives the responder has
	FewCredits uint32 // the fewest of them
	Gaps       uint64 // of Sequence: those that name a gap (selective repeat)

	msn   wire.PSN // that it has said last
	begun bool     // it has
}

func (a *Analysis) response(g *Flow, p *trace.Packet) {
	if g.Peer == nil {
		if a.meet(g, p); g.Peer == nil {
			g.Responses.Unexpected++
			return
		}
	}
	f, psn := g.Peer, p.Wire.BTH.PSN()
	q := &f.req
	if !q.begun {
		g.Responses.Unexpected++
		return
	}
	if q.loose && psn.Sub(q.next) >= 0 && p.Wire.Op.Flags&wire.OpRead != 0 {
		q.next = psn.Next() // the READ has at least as many packets
		if m := q.flight.newest(); m != nil {
			m.last = psn
		}
	}
	switch {
	case psn.Sub(q.next) >= 0:
		g.find(p, Noted, fmt.Sprintf("it answers PSN %v, and the newest request in the capture has %v",
			psn, q.next.Prev()), "section 4.4", q.newest.as("the newest request"), see(p).as("the response"))
		return
	case psn.Sub(q.una) < -1:
		g.Responses.Ghosts++
	}
	q.heard, q.voice = p.Time, see(p)
	if h := p.Wire.AETH(); h != nil {
		g.credits(h.Syndrome())
		if kind := h.Syndrome().Kind(); kind == wire.KindRNR || kind == wire.KindNAK {
			f.refused(g, p, psn, h.Syndrome())
			return
		}
		f.reported(g, p, psn, h.MSN())
	}
	f.answered(g, p, psn)
}

// credits notes what an ACK says about receives.
func (g *Flow) credits(s wire.Syndrome) {
	if s.Kind() != wire.KindACK {
		return
	}
	if n, limited := wire.Credits(s.Code()); limited {
		if g.Responses.Credits == 0 || n < g.Responses.FewCredits {
			g.Responses.FewCredits = n
		}
		g.Responses.Credits++
	}
}

// refused takes a NAK: it acknowledges what comes before its PSN.
func (f *Flow) refused(g *Flow, p *trace.Packet, psn wire.PSN, s wire.Syndrome) {
	f.acknowledge(p, psn.Prev(), false)
	q := &f.req
	q.toldAt, q.saying = psn, see(p)
	f.drawn.mark(markOf(s), p.Time, psn, 1, p.Number)
	switch {
	case s.Kind() == wire.KindRNR:
		g.Responses.RNR++
		g.Responses.RNRWait += wire.RNRTimeout(s.Code())
		q.told = AfterRNR
		q.refuse(psn, AfterRNR, p.Time+2*wire.RNRTimeout(s.Code()))
		g.find(p, Again, fmt.Sprintf("no receive was posted for PSN %v: the sender is to wait %s",
			psn, duration(wire.RNRTimeout(s.Code()))), "section 4.7", f.asked(psn),
			see(p).as("an RNR NAK, timer code %d", s.Code()))
	case s == wire.SynNAKSeq:
		g.Responses.Sequence++
		q.told = AfterNAK
		x, ok := g.gap(p, psn, q.next)
		if ok {
			q.told = AfterSilence // it asks for the gap, and not for the PSN
			x.by = see(p)
			q.remember(x)
			g.Responses.Gaps++
			g.find(p, Lost, fmt.Sprintf("PSN %v to %v are missing, and what follows has arrived: selective repeat, "+
				"by what looks like its NAK%s", x.next, x.to.Prev(), Guess), "section 4.5",
				q.newest.as("the newest packet that was sent"),
				see(p).as("the NAK has 0x%06x where an MSN is expected", uint32(p.Wire.AETH().MSN())))
			return
		}
		q.refuse(psn, AfterNAK, 0)
		g.find(p, Lost, fmt.Sprintf("a later packet arrived where PSN %v was expected: that one was lost, or overtaken",
			psn), "section 4.5", f.asked(psn), q.newest.as("the newest packet that was sent"),
			see(p).as("a NAK, PSN sequence error"))
	default:
		g.Responses.Fatal++
		what, asked := "the request with PSN "+psn.String(), f.asked(psn)
		if m := q.flight.find(psn); m != nil {
			what = fmt.Sprintf("the %v that packet %d began", m.kind, m.number)
			f.Requests.Refused++
			f.Requests.Flushed += uint64(q.flight.len() - 1)
			q.flight.clear()
		}
		g.find(p, Failed, fmt.Sprintf("%s is refused: %v; it ends with %s, and both queue pairs with the state ERR",
			what, s, statusOf[s]), "section 6.3", asked, see(p).as("the NAK, syndrome 0x%02x", uint8(s)))
	}
}

// asked is the message that a PSN belongs to.
func (f *Flow) asked(psn wire.PSN) Sight {
	if m := f.req.flight.find(psn); m != nil {
		return m.seen().as("the %v began", m.kind)
	}
	return Sight{}
}

// gapBits of a NAK's MSN field are the length of a gap, the others how far behind the NAK's PSN it
// begins (qp, selective repeat): this stack's own way, if both ends have agreed to it.
const gapBits = 12

// gap reads a NAK as one of selective repeat. Others have the responder's MSN in that field, as its
// ACKs have, so one that says something else names a gap; of packets that were sent, that is. Of a
// responder whose MSN is not known yet nobody can tell; most do not have selective repeat.
func (g *Flow) gap(p *trace.Packet, psn, next wire.PSN) (x gap, ok bool) {
	said := p.Wire.AETH().MSN()
	if d := said.Sub(g.Responses.msn); !g.Responses.begun || d >= 0 && d < 1<<10 {
		return x, false
	}
	x.next = psn.Add(uint32(said) >> gapBits)
	x.to = x.next.Add(uint32(said) & (1<<gapBits - 1))
	return x, x.to.Sub(x.next) > 0 && x.to.Sub(next) < 0
}

// refuse keeps a NAK in mind until its packet is sent again.
func (q *requester) refuse(psn wire.PSN, c Cause, until int64) {
	if len(q.refusals) == maxRefusals {
		q.refusals = append(q.refusals[:0], q.refusals[1:]...)
	}
	q.refusals = append(q.refusals, refusal{psn, c, until})
}

// reported takes what an ACK has in its MSN field. With selective repeat that can be the PSN of a
// packet that has arrived after the next one, which has not.
func (f *Flow) reported(g *Flow, p *trace.Packet, psn, said wire.PSN) {
	if p.Wire.Op.Flags&(wire.OpAck|wire.OpAtomic) == wire.OpAck && said.Sub(psn) > 1 && said.Sub(f.req.next) < 0 {
		f.req.remember(gap{psn.Next(), psn.Add(2), false, see(p)})
		return
	}
	g.Responses.msn, g.Responses.begun = said, true
}

// statusOf is the completion status that a NAK leads to.
var statusOf = map[wire.Syndrome]string{wire.SynNAKInvReq: "IBV_WC_REM_INV_REQ_ERR (9)",
	wire.SynNAKAccess: "IBV_WC_REM_ACCESS_ERR (10)", wire.SynNAKOp: "IBV_WC_REM_OP_ERR (11)",
	wire.SynNAKInvRD: "IBV_WC_REM_INV_RD_REQ_ERR (15)"}

// answered takes an ACK or an answer.
func (f *Flow) answered(g *Flow, p *trace.Packet, psn wire.PSN) {
	op := p.Wire.Op
	if op.Flags&wire.OpAck != 0 && op.Flags&wire.OpAtomic == 0 {
		g.Responses.ACKs++
		f.acknowledge(p, psn, false)
		return
	}
	// An answer implies that all before it was executed. It completes its own request with its last
	// packet.
	f.acknowledge(p, psn, op.Flags&wire.OpEnd != 0)
}

// acknowledge completes the requests up to a PSN; answer: the one with this PSN too if it has an
// answer.
func (f *Flow) acknowledge(p *trace.Packet, psn wire.PSN, answer bool) {
	q := &f.req
	if m := q.flight.find(psn); m != nil && p.Time > m.at && (q.trip == 0 || p.Time-m.at < q.trip) {
		q.trip = p.Time - m.at
	}
	for q.flight.len() > 0 {
		m := q.flight.at(0)
		if !m.whole || psn.Sub(m.last) < 0 || m.kind.answered() && !(answer && m.last == psn ||
			psn.Sub(m.last) > 0 && answer) {
			break
		}
		f.Requests.done(m.kind, m.bytes, p.Time-m.at)
		f.drawn.message(m.at, p.Time-m.at, m.number)
		q.flight.pop()
	}
	if q.flight.len() > 0 {
		if m := q.flight.at(0); m.whole && m.kind.answered() && psn.Sub(m.last) >= 0 && !answer ||
			m.whole && psn.Sub(m.last) > 0 {
			q.remember(gap{m.first, m.last.Next(), true, see(p)}) // its answer is lost
		}
	}
	if psn.Sub(q.una) >= 0 {
		q.una = psn.Next()
		f.drawn.acked(p.Time, psn)
		q.progress, q.times, q.acked = p.Time, 0, see(p)
		q.told = AfterSilence
	}
}
