package qp

// Credits: what ACKs say of the receive requests that the peer has (sections 1.6, 4.8). They are
// always counted; a queue pair with QPAttr.FlowControl obeys them. rxe and this stack say nothing
// of credits, hardware does.
//
// Stages: a message starts and gets a number (number) → an ACK says how many messages the peer has
// executed, and for how many more it has receives: that is the limit (credited) → a message that
// takes a receive waits beyond the limit (outOfCredit), but for one, which asks: the peer says
// nothing of new receives of itself. The ACK of what reaches the limit is awaited (creditEnds).

import "github.com/goroce/goroce/wire"

// credits is what a requester knows of its peer's receives. Messages are counted with 24 bits, as
// the peer counts them in its MSN.
type credits struct {
	ssn     wire.PSN // send sequence number: of the newest message that was started
	lsn     wire.PSN // limit sequence number: of the newest for which there is a receive
	stage   creditStage
	waiting bool // a message has found the limit, and credits are to wake the requester
}

// creditStage says whether lsn means anything.
type creditStage uint8

const (
	creditsUnheard   creditStage = iota // no ACK has spoken of credits yet
	creditsLimited                      // lsn counts
	creditsUnlimited                    // an ACK has said that the peer does not count: for good
)

// number counts a request that starts, and returns the number of its last message. Each message on
// the wire is one: of a WRITE that is sent in even packets each packet, of such a READ each piece.
func (q *QP) number(s *sendSlot, packets uint32, w *wqe) wire.PSN {
	n := uint32(1)
	switch {
	case s.opcode == WRWrite && q.even:
		n = packets
	case s.opcode == WRRead && s.length > 0:
		n = (s.length-1)/q.pieceLen(w) + 1
	}
	c := &q.req.credits
	c.ssn, c.waiting = c.ssn.Add(n), false
	return c.ssn
}

// credited takes note of the credits in a positive acknowledgement. The limit only grows: an ACK
// that comes late takes nothing back. One that counts messages which were never sent is not
// believed. With selective repeat the MSN is no count, so there is no limit.
func (e *Engine) credited(q *QP, a *wire.AETH) {
	n, counted := wire.Credits(a.Syndrome().Code())
	if counted {
		e.stats.RcvdCredits++
	}
	c := &q.req.credits
	if !q.attr.FlowControl || q.attr.SelectiveRepeat || a.MSN().Sub(c.ssn) > 0 {
		return
	}
	switch lsn := a.MSN().Add(n); {
	case !counted:
		c.stage = creditsUnlimited
	case c.stage == creditsUnheard, c.stage == creditsLimited && lsn.Sub(c.lsn) > 0:
		c.stage, c.lsn = creditsLimited, lsn
	default:
		return
	}
	if c.waiting {
		c.waiting = false
		e.schedule(q, dueRequest)
	}
}

// outOfCredit says whether the next packet must wait for credits: it begins a message that takes a
// receive, for the first time or again, and that message is beyond the limit, and not the first
// there. The oldest packet that is unacknowledged waits for none: without it, no ACK would come
// that could change anything.
func (q *QP) outOfCredit() bool { return q.req.credits.stage == creditsLimited && q.beyondCredit() }

func (q *QP) beyondCredit() bool {
	r := &q.req
	c := &r.credits
	if r.off != 0 || q.rec.psn == q.rec.una || r.at(r.next).ssn.Sub(c.lsn) <= 1 ||
		wrTable[q.sq.at(r.next).opcode].opcodes.only.Info().Flags&wire.OpConsumesRecv == 0 {
		return false
	}
	if !c.waiting {
		c.waiting = true
		q.rec.stats.CreditWaits++
	}
	return true
}

// creditEnds says whether the next packet's message has reached the limit, so that its ACK is
// awaited.
func (q *QP) creditEnds() bool {
	c := &q.req.credits
	return c.stage == creditsLimited && q.req.at(q.req.next).ssn.Sub(c.lsn) >= 0
}
