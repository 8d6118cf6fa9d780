package qp

// Silence: what a requester does when it hears nothing of what it has sent.
//
// Stages: a packet leaves, or something is acknowledged, and the clocks start (restartTimers) →
// nothing has come back for a few round trips (probeAt), or for 4.096 us * 2^timeout (ackAt) → una
// is sent once more (ask, sendProbe), with less and less hurry → the answer says where the peer is
// (probeAnswered, acknowledged) → without an answer each ack timeout uses up a retry, and the last
// one ends the connection.
//
// Probes exist because the common timeout code 14 is 67 ms, an eternity for a path of 50 us. One
// packet is enough to ask: a peer that is merely slow would only choke on the whole window. Even
// its answer proves no loss while more answers come: the peer may just have woken up. What was sent
// before the probe and is not there when answers stop is lost.

import "github.com/goroce/goroce/wire"

// restartTimers starts ack timeout and probe if something is unacknowledged and the peer may be
// spoken to, else stops them (section 4.7).
func (r *recovery) restartTimers(now Time) {
	r.ackAt, r.probeAt, r.askBy = Never, Never, Never
	if r.top == r.una || r.phase == phaseResting {
		return
	}
	if t := r.ackTimeout(); t != 0 {
		r.ackAt, r.askBy = now+t, now+t/4
	}
	r.armProbe(now)
}

// ackTimeout is that of the queue pair, or longer where the path takes longer; 0: there is none.
func (r *recovery) ackTimeout() Time {
	t := Time(wire.AckTimeout(r.attr.Timeout))
	if t != 0 {
		t = max(t, r.late(), 2*r.most)
	}
	return t
}

// armProbe sets the next probe, or the end of waiting for more answers to one, if it comes before
// the ack timeout.
func (r *recovery) armProbe(now Time) {
	r.probeAt = Never
	if r.srtt == 0 || r.backoff > maxProbes {
		return
	}
	wait := r.patience() << r.backoff
	if r.phase == phaseAlive { // a peer that is awake is prompt
		wait = r.late()
	}
	wait = max(wait, 2*r.pace) // unless it is a rate that it keeps to
	if t := now + wait; t < r.ackAt {
		r.probeAt = t
	}
}

// notSilent puts the next probe off: the peer has just been heard of.
func (r *recovery) notSilent(now Time) decision {
	if r.probeAt == Never {
		return thenStay
	}
	r.armProbe(now)
	return thenWake
}

// awaitsACK says whether an unacknowledged packet has asked for an ACK. If none has, silence means
// nothing as long as packets leave: the peer of an exchange of messages has no reason to say more
// than its own.
func (r *recovery) awaitsACK() bool { return r.asked != noPSN && r.asked.Sub(r.una) >= 0 }

// timer is the event that a deadline may have come. q knows whether packets are about to leave: it
// is asked only if that matters, as it keeps in mind what it was held up by (windowOpen,
// outOfCredit).
func (r *recovery) timer(now Time, q *QP) decision {
	switch {
	case r.readyAt <= now:
		r.readyAt, r.phase = Never, phaseFlowing
		r.restartTimers(now)
		return thenResume
	case r.ackAt <= now:
		r.stats.AckTimeouts++
		r.timeouts++
		if !r.useRetry() {
			return thenGiveUp
		}
		d := r.ask(now, q)
		r.restartTimers(now)
		return d
	case r.probeAt <= now:
		return r.silence(now, q)
	}
	return thenWake
}

// silence is reached when nothing has been heard for long enough to probe. But while packets leave
// of which none has asked for an ACK, or the first has asked only now, that is as it should be; and
// while a packet waits for its rate no answer is due, as it may be the one that asks.
func (r *recovery) silence(now Time, q *QP) decision {
	since := r.sentAt
	if r.awaitsACK() {
		since = r.timedAt
	}
	known := r.timed != noPSN || !r.awaitsACK()
	if quiet := since + r.patience(); known && quiet > now && now < r.askBy {
		r.probeAt = quiet
		return thenWake
	}
	if q.heldByRate() {
		r.armProbe(max(now, q.rate.sendAt))
		return thenWake
	}
	r.backoff++
	d := r.ask(now, q)
	r.armProbe(now)
	return d
}

// ask is what breaks the silence. A probe becomes due, unless packets are about to leave anyway.
// But if a probe was answered, and no other answer has come since, what was sent before it is lost,
// and the position goes back. A peer that has acknowledged more than the probe has got some of
// that, and may sleep now and then: it is probed once more.
func (r *recovery) ask(now Time, q *QP) decision {
	switch {
	case r.phase == phaseAlive && r.una.Sub(r.probePSN) <= 1:
		r.goBack(now)
		return thenMove
	case r.psn == r.top || !q.windowOpen() || q.outOfCredit() || q.stopped():
		r.phase = phaseProbeDue
	}
	return thenResume
}

// probed is the event that a probe has left. The next packet is the one at psn, as before.
func (r *recovery) probed(psn wire.PSN) {
	r.stats.Probes++
	r.phase, r.probePSN, r.probeTop = phaseProbeSent, r.una, psn
}

// probeAnswered is reached when the peer answers a duplicate. What was sent before the probe and is
// missing is lost.
func (r *recovery) probeAnswered(now Time) decision {
	if r.phase != phaseProbeSent && r.phase != phaseAlive {
		return thenStay
	}
	r.phase = phaseFlowing
	if r.una.Sub(r.probeTop) >= 0 {
		return thenStay
	}
	r.goBack(now)
	r.restartTimers(now)
	return thenMove
}

// sendProbe sends the oldest unacknowledged packet once more, with AckReq, at its time. Nothing of
// a packet was kept, so the position goes there for one packet, and comes back (QP.seek).
func (e *Engine) sendProbe(q *QP, b *wire.Batch) verdict {
	if !e.mayPace(q) {
		return verdictBlocked
	}
	at := q.rec.psn
	q.seek(q.rec.una)
	q.req.unasked = q.rec.window.every
	doubt := q.suspect()
	v := e.again(q, b)
	if q.State() == StateErr { // its memory is gone
		return v
	}
	if v == verdictSent {
		q.rec.probed(at)
		e.recordProbe(q)
	}
	q.seek(at)
	if doubt && v == verdictSent {
		e.sound(q, b)
	}
	return v
}
