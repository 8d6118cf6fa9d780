package qp

// Loss recovery: which request packets of a reliable queue pair are sent again, and when.
//
// The type recovery owns it all. Events go in, each of them one method; a decision comes out, which
// carryOut puts into effect. Besides, the requester asks what to send next (next), and the timers
// ask when to wake (deadline). Nothing here sends or completes anything.
//
//	sent               a request packet has left
//	acknowledged       the oldest unacknowledged packet (una) has moved on
//	acknowledgedAgain  an ACK has acknowledged nothing new
//	arrivedBeyond      an ACK names a packet that has arrived after what it acknowledges
//	sequenceNAK        the peer misses una                                    goback.go
//	sequenceNAKBeyond  the same of a later one; answers before it are missing goback.go
//	executed           an answer or ACK has come, but not the answers before it answers.go
//	arrived            an answer has come, early or not                       answers.go
//	gapReported        the peer misses some packets, but has what follows     selective.go
//	notReady           RNR NAK: the peer has no receive request for una
//	timer              a deadline may have come                               silence.go
//	configured         limits, ack timeout or path have been modified
//
// # Two policies
//
// Go-back-N (goback.go) sends again the packet that is lost and all behind it. It is what the
// standard knows, and the last resort of the other. Selective repeat (selective.go), if both ends
// have agreed to it, sends again only what the peer reports missing. QPAttr.SelectiveRepeat says
// which, and the few places where they differ ask it. Both find out in the same way about what
// nobody reports (silence.go). How many packets may be under way is the window's affair
// (window.go), how fast they go that of the rate (rate.go); this is where they hear of losses.
//
// # State machine
//
// The phase (phaseFlowing and so on) says what the requester knows of its peer:
//
//	flowing    nothing is suspected, or what is lost is being sent again
//	probeDue   the peer is silent: una is to be sent once more, to find out where it is
//	probeSent  that has been done, and there was no answer yet
//	alive      the peer answers, but has not acknowledged all that was sent before the probe
//	resting    RNR: the peer gets nothing until readyAt
//
//	event                     in                   to
//	acknowledged              flowing, probeDue    flowing
//	acknowledged              probeSent, alive     flowing if all from before the probe is there,
//	                                               else alive
//	acknowledged              resting              flowing
//	acknowledgedAgain         probeSent, alive     flowing; if something from before the probe is
//	                                               missing, it goes back
//	a loss is repaired        all but resting      flowing (goBack, repeatOldest)
//	notReady                  all but resting      resting
//	timer: nothing was heard  all but resting      probeDue, unless packets are about to leave
//	                                               anyway; or flowing, and back, if answers
//	                                               have stopped after that of the probe
//	timer: readyAt            resting              flowing
//	the probe has left        probeDue             probeSent
//
// In resting, gaps are noted, and all other reports of losses are ignored: nothing is sent, and no
// retry is used up.
//
// Beside it stands what is known of una (unaSentOnce and so on): it was sent once; or it was lost
// and repeated; or it was lost again, and goes alone. An acknowledgement begins anew with the next
// packet.
//
//	event         sentOnce  repeated  alone
//	goBack        repeated  alone     alone
//	repeatOldest  repeated  repeated  alone
//	acknowledged  sentOnce  sentOnce  sentOnce
//
// # Retries
//
// They count against retry_cnt and rnr_retry (section 4.7), which reload with every progress;
// retry_cnt with an RNR NAK too: it says that una has arrived, and who waits for ever for a receive
// must bear any number of losses meanwhile. Probes are free, and change nothing about when the ack
// timeout ends the connection.

import "github.com/goroce/goroce/wire"

// sequence is where the request packets of a queue pair stand: una ≤ psn ≤ top.
type sequence struct {
	una wire.PSN // oldest unacknowledged; inside a READ, of the response that is missing first
	psn wire.PSN // of the next packet
	top wire.PSN // one past the newest that was ever sent
	// una, or one past the newest that is known to be executed, while answers before are missing
	reached wire.PSN
}

// noPSN is no sequence number.
const noPSN wire.PSN = 1 << 24

// phase is what the requester knows of its peer.
type phase uint8

const (
	phaseFlowing phase = iota
	phaseProbeDue
	phaseProbeSent
	phaseAlive
	phaseResting
)

// standing is what is known of the oldest unacknowledged packet.
type standing uint8

const (
	unaSentOnce standing = iota
	unaRepeated
	unaAlone // no other packet goes out behind it until it is there
)

// recovery is a requester's knowledge of losses and of time on its path.
type recovery struct {
	sequence
	roundTrip
	attr  *QPAttr // of the queue pair: limits, ack timeout, policy
	stats *Stats  // of the engine

	phase      phase
	oldest     standing
	retries    uint8 // left
	rnrRetries uint8 // left
	backoff    uint8 // probes without an answer
	timeouts   uint8 // ack timeouts since una was heard of
	whole      bool  // when una was last sent again, so was all behind it, and not a gap only

	ackAt   Time // ack timeout; Never: nothing is unacknowledged, or code 0
	probeAt Time // when the peer has been silent for so long that it is probed; Never: not at all
	askBy   Time // from when on the next message asks for an ACK; Never: that can wait
	readyAt Time // the end of resting; Never: in any other phase

	sentAt   Time     // when the newest packet left
	asked    wire.PSN // the newest packet that asked for an ACK; noPSN: none
	probePSN wire.PSN // of the last probe
	probeTop wire.PSN // one past what had been sent before it since the position last went back

	cutTop     wire.PSN // losses before this packet have had their effect on the window
	repeatedAt Time     // when una was last sent again because it was reported lost
	chargedAt  Time     // when a retry was last counted for it
	backTo     wire.PSN // what the peer missed last behind answers that are missing; noPSN: nothing
	backAt     Time     // when the position went back there

	gaps   gaps
	window window
}

// start makes a recovery for a new queue pair. The window is of n packets; 0 stands for an adaptive
// one.
func (r *recovery) start(attr *QPAttr, stats *Stats, n int) {
	r.attr, r.stats = attr, stats
	r.clear()
	r.window.start(n)
	r.window.bound = attr.span()
}

// begin is the way from RTR to RTS.
func (r *recovery) begin(psn wire.PSN) {
	r.sequence = sequence{una: psn, psn: psn, top: psn, reached: psn}
	r.cutTop = psn
	r.reload()
}

// clear forgets all losses and measurements and stops all clocks. What has been sent and what has
// been acknowledged stays known.
func (r *recovery) clear() {
	*r = recovery{attr: r.attr, stats: r.stats, sequence: r.sequence, window: r.window,
		roundTrip: roundTrip{timed: noPSN, movedAt: Never}, asked: noPSN, backTo: noPSN,
		ackAt: Never, probeAt: Never, askBy: Never, readyAt: Never,
		gaps: gaps{list: r.gaps.list[:0], alarm: noPSN}}
}

func (r *recovery) reload() {
	r.retries, r.rnrRetries, r.timeouts = r.attr.RetryCnt, r.attr.RNRRetry, 0
}

// configured is the event that the attributes of mask have been modified. Limits count at once. A
// new ack timeout counts when the clocks start anew. Of a new path nothing is known yet, and what
// was measured of the old one is corrected by the next round trips.
func (r *recovery) configured(mask AttrMask) {
	if mask&AttrRetryCnt != 0 {
		r.retries = r.attr.RetryCnt
	}
	if mask&AttrRNRRetry != 0 {
		r.rnrRetries = r.attr.RNRRetry
	}
	r.window.bound = r.attr.span()
}

// decision is what comes of an event.
type decision uint8

const (
	thenStay      decision = iota // nothing has changed
	thenWake                      // the time to wake has changed
	thenResume                    // besides, there may be something to send
	thenMove                      // besides, it begins at another packet: psn has changed
	thenSkip                      // the same, without sending anything again
	thenRest                      // psn has changed, but there is nothing to send before readyAt
	thenGiveUp                    // no retry is left: the oldest request fails
	thenGiveUpRNR                 // the same after RNR NAKs
)

// carryOut puts a decision into effect.
func (e *Engine) carryOut(q *QP, d decision) {
	switch d {
	case thenStay:
		return
	case thenGiveUp:
		e.stats.RetryExceeded++
		e.recordDecision(RecordGiveUp, q)
		e.failHead(q, WCRetryExcErr)
		return
	case thenGiveUpRNR:
		e.stats.RNRRetryExceeded++
		e.recordDecision(RecordGiveUp, q)
		e.failHead(q, WCRNRRetryExcErr)
		return
	case thenResume:
		e.schedule(q, dueRequest)
	case thenMove, thenSkip:
		if d == thenMove {
			e.recordDecision(RecordRetry, q)
		}
		q.seek(q.rec.psn)
		e.schedule(q, dueRequest)
	case thenRest:
		q.seek(q.rec.psn)
	}
	e.setDeadline(q)
}

// step is what the requester sends next.
type step uint8

const (
	sendNothing step = iota
	sendGap          // a packet of the oldest gap that is due
	sendProbe        // una, to find out where the peer is
	sendOn           // the packet at psn, as far as window and rate allow
)

// next decides what is sent next.
func (r *recovery) next() step {
	switch {
	case r.phase == phaseResting:
		return sendNothing
	case r.gaps.due > 0:
		return sendGap
	case r.phase == phaseProbeDue:
		return sendProbe
	}
	return sendOn
}

// deadline is when timer is to be called.
func (r *recovery) deadline() Time { return min(r.ackAt, r.probeAt, r.readyAt) }

// limit is how many packets may be unacknowledged.
func (r *recovery) limit() int32 {
	if r.oldest == unaAlone {
		return 1
	}
	return r.window.size
}

// inFlight is how many packets before psn are on their way, as far as is known: all that are
// unacknowledged, but with gaps only what is missing and what is newer than anything that has
// arrived. So a gap does not hold up what comes after it, as long as the peer can keep that.
func (r *recovery) inFlight() int32 {
	n := r.psn.Sub(r.una)
	if len(r.gaps.list) == 0 || n < r.window.size || n >= r.window.bound {
		return n
	}
	return r.gaps.inFlight(r.psn)
}

// sent is the event that request packet psn has left: for the first time if it is fresh, and with
// the AckReq bit if it asks. From now on something is unacknowledged.
func (r *recovery) sent(now Time, psn wire.PSN, fresh, asks bool) decision {
	r.sentAt = now
	if !fresh {
		r.again(psn)
	}
	if asks {
		r.asked = r.psn.Prev() // of a READ, its last response
		if fresh && r.timed == noPSN {
			r.time(now, psn, r.una)
		}
	}
	if r.ackAt == Never && r.probeAt == Never {
		r.restartTimers(now)
		return thenWake
	}
	return thenStay
}

// acknowledged is the event that the oldest unacknowledged packet is now una: limits are reloaded,
// the round trip is measured, the clocks start anew.
func (r *recovery) acknowledged(now Time, una wire.PSN) decision {
	r.window.acked(una.Sub(r.una))
	r.moved(now, una != r.top && una.Sub(r.una) == 1)
	r.una = una
	r.reload()
	r.oldest, r.readyAt = unaSentOnce, Never
	r.backoff = min(r.backoff, keptBackoff)
	if una.Sub(r.cutTop) > 0 {
		r.cutTop = una
	}
	if una.Sub(r.reached) > 0 {
		r.reached = una
	}
	if len(r.gaps.list) > 0 {
		r.gaps.acknowledged(una)
	}
	if r.timed != noPSN && una.Sub(r.timed) > 0 {
		r.measure(now)
	}
	if (r.phase == phaseProbeSent || r.phase == phaseAlive) && una.Sub(r.probeTop) < 0 {
		r.phase = phaseAlive
	} else {
		r.phase = phaseFlowing
	}
	r.restartTimers(now)
	if una.Sub(r.psn) > 0 { // the peer had got what was about to be sent again
		r.psn = una
		return thenSkip
	}
	return thenResume
}

// acknowledgedAgain is the event that the peer has sent once more what it last acknowledged, with
// this AETH: that is how it answers a duplicate, a probe among others.
func (r *recovery) acknowledgedAgain(now Time, psn wire.PSN, aeth *wire.AETH) decision {
	if r.attr.SelectiveRepeat {
		if aeth.Syndrome().Kind() != wire.KindACK { // an old NAK
			return thenStay
		}
		if r.beyond(psn, aeth.MSN()) {
			return r.stillMissing(now, aeth.MSN())
		}
	}
	return r.probeAnswered(now)
}

// arrivedBeyond is the event that an ACK of all up to psn says that the packet newest has arrived
// too, which only selective repeat knows.
func (r *recovery) arrivedBeyond(now Time, psn, newest wire.PSN) decision {
	if !r.attr.SelectiveRepeat || !r.beyond(psn, newest) {
		return thenStay
	}
	return r.stillMissing(now, newest)
}

// notReady is the event that the peer has no receive request for una, and asks to wait this long.
func (r *recovery) notReady(now, wait Time) decision {
	if r.phase == phaseResting {
		return thenStay
	}
	if r.rnrRetries == 0 {
		return thenGiveUpRNR
	}
	if r.rnrRetries != rnrForever {
		r.rnrRetries--
	}
	r.retries, r.timeouts = r.attr.RetryCnt, 0
	r.timed, r.phase = noPSN, phaseResting
	r.ackAt, r.probeAt, r.readyAt = Never, Never, now+wait
	if r.attr.SelectiveRepeat { // what has been sent behind it stays there
		r.repeatAlone()
		return thenWake
	}
	r.psn = r.una
	return thenRest
}

// useRetry counts a retry; false: there is none left.
func (r *recovery) useRetry() bool {
	if r.retries == 0 {
		return false
	}
	r.retries--
	return true
}

// overflow tells the window of the loss of psn, once for all that left before it was cut.
func (r *recovery) overflow(now Time, psn wire.PSN) {
	if psn.Sub(r.cutTop) >= 0 && r.window.overflowed(now, r.base) {
		r.cutTop = r.top
	}
}

// heard is the event that newest has arrived, before which the packets from lost to end-1 are
// missing. It may end the round trip that is being measured, or tell that nothing will.
func (r *recovery) heard(now Time, newest, lost, end wire.PSN) {
	r.gaps.hear(newest)
	switch {
	case r.timed == noPSN || newest.Sub(r.timed) < 0:
	case r.timed.Sub(lost) >= 0 && r.timed.Sub(end) < 0:
		r.timed = noPSN
	default:
		r.measure(now)
	}
}

// countCut counts a loss that has made the window smaller than it was.
func (r *recovery) countCut(before int32) {
	if r.window.size < before {
		r.stats.WindowCut++
		r.window.cuts++
	}
}

// measure ends the round trip that is being measured, and tells the window.
func (r *recovery) measure(now Time) {
	if r.doubtful {
		r.doubtful, r.timed, r.doubt = false, noPSN, now-r.timedAt
		return
	}
	before := max(r.window.size, DefaultWindow)
	rtt := r.took(now)
	r.backoff, r.doubt, r.most = 0, 0, 0
	if r.window.round(now, rtt, r.base, r.una.Sub(r.timedUna)); r.window.size > before {
		r.stats.WindowGrown++
	}
}

// measureFirst takes a NAK for the end of a round trip if there was none before: it bounds it.
func (r *recovery) measureFirst(now Time) {
	if r.srtt == 0 && r.timed != noPSN {
		r.measure(now)
	}
}
