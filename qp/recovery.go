package qp

// Recovery: what a requester does about losses, and its deadlines.
//
// Stages: how a loss shows itself, from the fastest to the slowest
//
//	NAK, implied NAK   the peer saw a gap                      → retry, at once
//	probe              nothing came back for a few round trips → one packet again; the answer says where the peer is
//	ack timeout        nothing came back for 4.096 us * 2^n    → the same, until retry_cnt is used up
//	RNR NAK            the peer has no receive request         → wait as long as it says
//
// Retries count against retry_cnt (section 4.7) and reload with progress; probes are free and change nothing about when the ack
// timeout ends the connection. They exist because the common timeout code 14 is 67 ms, an eternity for a path of 50 us. One packet is
// enough to ask: a peer that is merely slow would only choke on the whole window.

import "github.com/goroce/goroce/wire"

// recovery is a requester's knowledge of losses and of time on its path.
type recovery struct {
	retries    uint8 // left
	rnrRetries uint8 // left

	lost   wire.PSN // where the last retry began, without progress since; noPSN: none
	lostAt Time     // when
	seen   wire.PSN // newest response that overtook it

	ackAt   Time // ack timeout; Never: nothing is unacknowledged, or code 0
	probeAt Time // probe; Never: none
	readyAt Time // end of the RNR wait; Never: none

	backoff uint8 // probes without an answer
	probe   probeState

	srtt, rttvar Time     // smoothed round trip and its deviation (RFC 6298); srtt 0: not measured yet
	timed        wire.PSN // packet whose ACK will measure it; noPSN: none
	timedAt      Time
}

type probeState uint8

const (
	noProbe   probeState = iota
	probeDue             // to be sent
	probeSent            // its ACK is awaited
)

// noPSN is no sequence number.
const noPSN wire.PSN = 1 << 24

func (r *recovery) init() {
	*r = recovery{lost: noPSN, timed: noPSN, ackAt: Never, probeAt: Never, readyAt: Never}
}

func (r *recovery) reload(a *QPAttr) { r.retries, r.rnrRetries = a.RetryCnt, a.RNRRetry }

// waiting says that an RNR NAK's time has to pass first.
func (r *recovery) waiting() bool { return r.readyAt != Never }

// setDeadline tells the timers the earliest deadline.
func (e *Engine) setDeadline(q *QP) {
	r := &q.rec
	if t := min(r.ackAt, r.probeAt, r.readyAt, q.pausedUntil()); t != Never {
		e.timers.arm(q, t)
	} else {
		e.timers.disarm(q)
	}
}

// pausedUntil is when a packet held back by the rate may leave.
func (q *QP) pausedUntil() Time {
	if !q.paused {
		return Never
	}
	return q.rate.sendAt
}

// sentRequest is called after request packet psn, fresh if it was the first time: from now on something is unacknowledged.
func (e *Engine) sentRequest(now Time, q *QP, psn wire.PSN, fresh bool) {
	r := &q.rec
	if r.timed == noPSN && fresh && q.req.unasked == 0 { // and it asked for an ACK
		r.timed, r.timedAt = psn, now
	}
	if r.ackAt == Never && r.probeAt == Never {
		e.restartTimers(now, q)
	}
}

// restartTimers starts ack timeout and probe if something is unacknowledged, else stops them (section 4.7).
func (e *Engine) restartTimers(now Time, q *QP) {
	r := &q.rec
	r.ackAt, r.probeAt = Never, Never
	if q.req.top != q.comp.una && !r.waiting() {
		if t := wire.AckTimeout(q.attr.Timeout); t != 0 {
			r.ackAt = now + Time(t)
		}
		e.armProbe(now, q)
	}
	e.setDeadline(q)
}

// armProbe sets the next probe, if it comes before the ack timeout.
func (e *Engine) armProbe(now Time, q *QP) {
	r := &q.rec
	r.probeAt = Never
	if r.srtt == 0 || r.backoff > maxProbes {
		return
	}
	wait := max(r.srtt+4*r.rttvar, minProbe) << r.backoff
	if t := now + wait; t < r.ackAt {
		r.probeAt = t
	}
}

// recovered notes progress: limits are reloaded, the round trip is measured, the timers start anew. If the progress is the
// answer to a probe and something is still missing, the peer does not have it.
func (e *Engine) recovered(now Time, q *QP) {
	r := &q.rec
	r.reload(&q.attr)
	r.lost, r.readyAt, r.backoff = noPSN, Never, 0
	if r.timed != noPSN && q.comp.una.Sub(r.timed) > 0 {
		r.measure(now - r.timedAt)
		r.timed = noPSN
	}
	probed := r.probe == probeSent
	r.probe = noProbe
	e.restartTimers(now, q)
	if probed && q.comp.una != q.req.top {
		e.rewind(now, q)
	}
}

// measure smooths a round trip (RFC 6298).
func (r *recovery) measure(rtt Time) {
	if r.srtt == 0 {
		r.srtt, r.rttvar = max(rtt, 1), rtt/2
		return
	}
	d := r.srtt - rtt
	if d < 0 {
		d = -d
	}
	r.rttvar += (d - r.rttvar) / 4
	r.srtt = max(r.srtt+(rtt-r.srtt)/8, 1)
}

// retry answers a report that the oldest unacknowledged packet is lost. Reports that left the peer before the last retry got
// there are absorbed, else a burst of them would become a storm of retries: nothing can be new within a round trip.
func (e *Engine) retry(now Time, q *QP) {
	r := &q.rec
	if r.waiting() || r.lost == q.comp.una && (r.srtt == 0 || now-r.lostAt < r.srtt) {
		return
	}
	e.resend(now, q)
}

// impliedNAK is a retry because response psn overtook what is missing. What was on its way before the last retry goes on
// reporting the same loss for as long as it lasts, ever newer but for some reordering; when the reports are suddenly back near
// what is missing, the peer has started over and it was lost once more.
func (e *Engine) impliedNAK(now Time, q *QP, psn wire.PSN) {
	r, una := &q.rec, q.comp.una
	e.stats.ImpliedNAK++
	if r.lost == una && psn.Sub(una) > r.seen.Sub(una)/2 {
		if psn.Sub(r.seen) > 0 {
			r.seen = psn
		}
		return
	}
	r.seen = psn
	e.retry(now, q)
}

// resend goes back to the oldest unacknowledged packet, if a retry is left.
func (e *Engine) resend(now Time, q *QP) {
	if e.useRetry(q) {
		q.rec.probe = noProbe
		e.rewind(now, q)
		e.restartTimers(now, q)
	}
}

// useRetry counts a retry; false: there was none left and the queue pair has failed.
func (e *Engine) useRetry(q *QP) bool {
	if q.rec.retries == 0 {
		e.stats.RetryExceeded++
		e.failHead(q, WCRetryExcErr)
		return false
	}
	q.rec.retries--
	return true
}

// rewind moves the position back to the oldest unacknowledged packet.
func (e *Engine) rewind(now Time, q *QP) {
	r := &q.rec
	r.lost, r.lostAt, r.timed = q.comp.una, now, noPSN // an ACK of a packet sent twice measures nothing
	q.seek(q.comp.una)
	e.schedule(q, dueRequest)
}

// rnrNAK waits as long as the peer asks before psn is sent again.
func (e *Engine) rnrNAK(now Time, q *QP, psn wire.PSN, syn wire.Syndrome) {
	e.stats.RcvdRNR++
	r := &q.rec
	if !e.ackBefore(now, q, psn) || r.waiting() {
		return
	}
	if r.rnrRetries == 0 {
		e.stats.RNRRetryExceeded++
		e.failHead(q, WCRNRRetryExcErr)
		return
	}
	if r.rnrRetries != rnrForever {
		r.rnrRetries--
	}
	q.seek(q.comp.una)
	r.timed, r.probe = noPSN, noProbe
	r.ackAt, r.probeAt, r.readyAt = Never, Never, now+Time(wire.RNRTimeout(syn.Code()))
	e.setDeadline(q)
}

// timeout handles the deadlines that have come.
func (e *Engine) timeout(now Time, q *QP) {
	r := &q.rec
	if q.paused && q.rate.sendAt <= now {
		q.paused = false
		e.schedule(q, dueRequest|dueReply)
	}
	switch {
	case q.State() != StateRTS && q.State() != StateSQD:
	case r.readyAt <= now:
		r.readyAt = Never
		e.restartTimers(now, q)
		e.schedule(q, dueRequest)
	case r.ackAt <= now:
		e.stats.AckTimeouts++
		if e.useRetry(q) {
			e.askAgain(q)
			e.restartTimers(now, q)
		}
	case r.probeAt <= now:
		r.backoff++
		e.askAgain(q)
		e.armProbe(now, q)
		e.setDeadline(q)
	default:
		e.setDeadline(q)
	}
}

// askAgain makes a probe due, unless the position is behind and packets are about to leave anyway.
func (e *Engine) askAgain(q *QP) {
	if q.req.psn == q.req.top {
		q.rec.probe = probeDue
	}
	e.schedule(q, dueRequest)
}

// sendProbe sends the oldest unacknowledged packet once more, with AckReq, and returns to where the position was.
func (e *Engine) sendProbe(now Time, q *QP, b *wire.Batch) verdict {
	r := &q.rec
	q.seek(q.comp.una)
	q.req.unasked = q.ackEvery
	v := e.emit(now, q, b)
	if q.State() == StateErr { // its memory is gone
		return v
	}
	if v == sent {
		e.stats.Probes++
		r.probe, r.timed = probeSent, noPSN
	}
	q.seek(q.req.top)
	return v
}
