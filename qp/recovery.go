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
// A retry goes back: the lost packet is sent again and all behind it. With selective repeat NAKs are for repeat.go.
//
// Retries count against retry_cnt (section 4.7) and reload with progress; probes are free and change nothing about when the ack
// timeout ends the connection. They exist because the common timeout code 14 is 67 ms, an eternity for a path of 50 us. One packet is
// enough to ask: a peer that is merely slow would only choke on the whole window. Even its answer proves no loss while more answers
// come: the peer may just have woken up. What was sent before the probe and is not there when answers stop is lost.

import "github.com/goroce/goroce/wire"

// recovery is a requester's knowledge of losses and of time on its path.
type recovery struct {
	retries    uint8 // left
	rnrRetries uint8 // left

	lost      wire.PSN // where the last retry began, without progress since; noPSN: none
	lostAt    Time     // when
	chargedAt Time     // when a retry was last counted
	overtook  wire.PSN // the response that reported it by coming too early
	alone     bool     // lost twice: the packet goes without others behind it until it is there

	ackAt   Time // ack timeout; Never: nothing is unacknowledged, or code 0
	probeAt Time // probe; Never: none
	askBy   Time // from when on the next message asks for an ACK; Never: that can wait
	readyAt Time // end of the RNR wait; Never: none

	sentAt   Time     // of the newest packet
	asked    wire.PSN // the newest packet that asked for an ACK; noPSN: none
	backoff  uint8    // probes without an answer
	probe    probeState
	probePSN wire.PSN // of the probe
	probeTop wire.PSN // one past what had been sent before the probe, in this run

	srtt, rttvar Time     // smoothed round trip and its deviation (RFC 6298); srtt 0: not measured yet
	base         Time     // the least round trip ever measured
	timed        wire.PSN // packet whose ACK will measure it; noPSN: none
	timedAt      Time
	timedUna     wire.PSN // the oldest unacknowledged packet at that time
}

type probeState uint8

const (
	noProbe    probeState = iota
	probeDue              // to be sent
	probeSent             // its ACK is awaited
	probeHeard            // the peer answers, but not all of what was sent before the probe
)

// noPSN is no sequence number.
const noPSN wire.PSN = 1 << 24

func (r *recovery) init() {
	*r = recovery{lost: noPSN, timed: noPSN, asked: noPSN, ackAt: Never, probeAt: Never, askBy: Never, readyAt: Never}
}

func (r *recovery) reload(a *QPAttr) { r.retries, r.rnrRetries = a.RetryCnt, a.RNRRetry }

// waiting says that an RNR NAK's time has to pass first.
func (r *recovery) waiting() bool { return r.readyAt != Never }

// unmeasured says that no round trip is known nor will be.
func (r *recovery) unmeasured() bool { return r.srtt == 0 && r.timed == noPSN }

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

// heldByRate says whether a request packet would leave now, were it not for the rate.
func (q *QP) heldByRate() bool { return q.paused && q.req.next != q.sq.tail.Load() && q.windowOpen() }

// sentRequest is called after request packet psn, fresh if it was the first time: from now on something is unacknowledged.
func (e *Engine) sentRequest(q *QP, psn wire.PSN, fresh bool) {
	r := &q.rec
	r.sentAt = e.now
	if q.req.unasked == 0 {
		r.asked = q.req.psn.Prev() // of a READ, its last response
		if r.timed == noPSN && fresh && len(q.repeats.gaps) == 0 {
			r.timed, r.timedAt, r.timedUna = psn, e.now, q.comp.una
		}
	}
	if r.ackAt == Never && r.probeAt == Never {
		e.restartTimers(q)
	}
}

// restartTimers starts ack timeout and probe if something is unacknowledged, else stops them (section 4.7).
func (e *Engine) restartTimers(q *QP) {
	r := &q.rec
	r.ackAt, r.probeAt, r.askBy = Never, Never, Never
	if q.req.top != q.comp.una && !r.waiting() {
		if t := Time(wire.AckTimeout(q.attr.Timeout)); t != 0 {
			r.ackAt, r.askBy = e.now+t, e.now+t/4
		}
		e.armProbe(q)
	}
	e.setDeadline(q)
}

// armProbe sets the next probe, or the end of waiting for more answers to one, if it comes before the ack timeout.
func (e *Engine) armProbe(q *QP) {
	r := &q.rec
	r.probeAt = Never
	if r.srtt == 0 || r.backoff > maxProbes {
		return
	}
	wait := r.patience() << r.backoff
	if r.probe == probeHeard { // a peer that is awake is prompt
		wait = r.late()
	}
	if t := e.now + wait; t < r.ackAt {
		r.probeAt = t
	}
}

// awaitsACK says whether an unacknowledged packet has asked for an ACK. If none has, silence means nothing as long as packets leave:
// the peer of an exchange of messages has no reason to say more than its own.
func (q *QP) awaitsACK() bool { return q.rec.asked != noPSN && q.rec.asked.Sub(q.comp.una) >= 0 }

// late is how long an answer takes that is late, but not too late.
func (r *recovery) late() Time { return r.srtt + 4*r.rttvar }

// patience is the time without an answer after which it is worth a packet to ask.
func (r *recovery) patience() Time { return max(r.late(), minProbe) }

// recovered notes progress: limits are reloaded, the round trip is measured, the timers start anew.
func (e *Engine) recovered(q *QP) {
	r := &q.rec
	r.reload(&q.attr)
	r.lost, r.alone, r.readyAt, r.backoff = noPSN, false, Never, 0
	if len(q.repeats.gaps) > 0 {
		q.repeats.acknowledged(q.comp.una)
	}
	if r.timed != noPSN && q.comp.una.Sub(r.timed) > 0 {
		e.measure(q)
	}
	switch {
	case r.probe < probeSent || q.comp.una.Sub(r.probeTop) >= 0: // none, or all is there
		r.probe = noProbe
	default:
		r.probe = probeHeard
	}
	e.restartTimers(q)
}

// probeAnswered is called for an ACK that repeats the last one: that is how a duplicate is answered. What was sent before the
// probe and is missing is lost.
func (e *Engine) probeAnswered(q *QP) {
	r := &q.rec
	if r.probe < probeSent {
		return
	}
	if q.comp.una.Sub(r.probeTop) < 0 && !r.waiting() {
		e.rewind(q)
		e.restartTimers(q)
	}
	r.probe = noProbe
}

// measure smooths the round trip that has ended (RFC 6298) and tells the window.
func (e *Engine) measure(q *QP) {
	r := &q.rec
	rtt := max(e.now-r.timedAt, minRTT)
	if r.base == 0 || rtt < r.base {
		r.base = rtt
	}
	if size := q.window.size; q.window.round(rtt, r.base, q.comp.una.Sub(r.timedUna)) > max(size, DefaultWindow) {
		e.stats.WindowGrown++
	}
	r.timed = noPSN
	if r.srtt == 0 {
		r.srtt, r.rttvar = rtt, rtt/2
		return
	}
	d := r.srtt - rtt
	if d < 0 {
		d = -d
	}
	r.rttvar += (d - r.rttvar) / 4
	r.srtt = max(r.srtt+(rtt-r.srtt)/8, 1)
}

// sequenceNAK is a retry because the peer says what it misses.
func (e *Engine) sequenceNAK(q *QP) {
	e.measureFirst(q)
	e.retry(q)
}

// measureFirst takes a NAK for the end of a round trip if there was none before: it bounds it.
func (e *Engine) measureFirst(q *QP) {
	if q.rec.srtt == 0 && q.rec.timed != noPSN {
		e.measure(q)
	}
}

// impliedNAK is a retry because response psn overtook what is missing. What was on its way before that retry goes on reporting
// the same loss, ever newer; when the report that started it is there again, or an older one, the peer has started over and it was lost
// once more. (A responder knows a repeated loss by the same sign: responder.passed.)
func (e *Engine) impliedNAK(q *QP, psn wire.PSN) {
	r := &q.rec
	e.stats.ImpliedNAK++
	if r.lost == q.comp.una && psn.Sub(r.overtook) > 0 {
		if r.probeAt != Never { // it is not silent
			e.armProbe(q)
			e.setDeadline(q)
		}
		return
	}
	r.overtook = psn
	e.retry(q)
}

// retry answers a report that the oldest unacknowledged packet is lost: it goes back there, if a retry is left. Reports that left
// the peer before the last retry got there are absorbed, else a burst of them would become a storm of retries: nothing can be
// new within the least round trip. Reports within the time that a silent peer is given use up one retry together: the peer lives.
func (e *Engine) retry(q *QP) {
	r := &q.rec
	again := r.lost == q.comp.una
	if r.waiting() || again && (r.base == 0 || e.now-r.lostAt < r.base) {
		return
	}
	if !again || e.now-r.chargedAt >= r.patience() {
		if !e.useRetry(q) {
			return
		}
		r.chargedAt = e.now
	}
	if size := q.window.size; q.window.loss() < size {
		e.stats.WindowCut++
	}
	e.rewind(q)
	e.restartTimers(q)
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

// rewind moves the position back to the oldest unacknowledged packet. If that was lost again, whatever follows it may be what
// overflows the path, over and over: the replies of a READ need room.
func (e *Engine) rewind(q *QP) {
	r := &q.rec
	r.alone = r.lost == q.comp.una
	r.lost, r.lostAt, r.timed, r.probe = q.comp.una, e.now, noPSN, noProbe // an ACK of a packet sent twice measures nothing
	q.seek(q.comp.una)
	q.repeats.init()
	e.schedule(q, dueRequest)
}

// rnrNAK waits as long as the peer asks before psn is sent again.
func (e *Engine) rnrNAK(q *QP, psn wire.PSN, syn wire.Syndrome) {
	e.stats.RcvdRNR++
	r := &q.rec
	if !e.ackBefore(q, psn) || r.waiting() {
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
	if q.attr.SelectiveRepeat { // what has been sent behind it stays there
		q.again()
	} else {
		q.seek(q.comp.una)
	}
	r.timed, r.probe = noPSN, noProbe
	r.ackAt, r.probeAt, r.readyAt = Never, Never, e.now+Time(wire.RNRTimeout(syn.Code()))
	e.setDeadline(q)
}

// timeout handles the deadlines that have come.
func (e *Engine) timeout(q *QP) {
	r := &q.rec
	if q.paused && q.rate.sendAt <= e.now {
		q.paused = false
		e.schedule(q, dueRequest|dueReply)
	}
	switch {
	case q.State() != StateRTS && q.State() != StateSQD:
	case r.readyAt <= e.now:
		r.readyAt = Never
		e.restartTimers(q)
		e.schedule(q, dueRequest)
	case r.ackAt <= e.now:
		e.stats.AckTimeouts++
		if e.useRetry(q) {
			e.askAgain(q)
			e.restartTimers(q)
		}
	case r.probeAt <= e.now:
		if quiet := r.sentAt + r.patience(); quiet > e.now && e.now < r.askBy && !q.awaitsACK() {
			r.probeAt = quiet
			e.setDeadline(q)
			return
		}
		if !q.heldByRate() { // else no answer is due: the packet that asks for it may not have left
			r.backoff++
			e.askAgain(q)
		}
		e.armProbe(q)
		e.setDeadline(q)
	default:
		e.setDeadline(q)
	}
}

// askAgain makes a probe due, unless one has been answered and answers have stopped, or packets are about to leave anyway. A peer that
// has acknowledged more than the probe is at what was sent before it, and sleeps now and then: it is asked once more.
func (e *Engine) askAgain(q *QP) {
	switch r := &q.rec; {
	case r.probe == probeHeard && q.comp.una.Sub(r.probePSN) <= 1:
		e.rewind(q)
	case q.req.psn == q.req.top || !q.windowOpen() || q.stopped():
		q.rec.probe = probeDue
	}
	e.schedule(q, dueRequest)
}

// sendProbe sends the oldest unacknowledged packet once more, with AckReq, and returns to where the position was.
func (e *Engine) sendProbe(q *QP, b *wire.Batch) verdict {
	r, at := &q.rec, q.req.psn
	q.seek(q.comp.una)
	q.req.unasked = q.window.every
	v := e.emit(q, b)
	if q.State() == StateErr { // its memory is gone
		return v
	}
	if v == sent {
		e.stats.Probes++
		r.probe, r.probePSN, r.probeTop, r.timed = probeSent, q.comp.una, at, noPSN
	}
	q.seek(at)
	return v
}
