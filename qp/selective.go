package qp

// Selective repeat, the requester's side: only what the peer reports missing is sent again. The
// responder's side is in reorder.go.
//
// Stages: a NAK names a gap (reportedGap, gapReported) → its packets go out again, before any new
// one (sendGap) → an ACK that acknowledges nothing new but names a newer packet says that una is
// still missing (stillMissing). Whether it was lost again or is still on its way shows in that
// newer packet: one that left after the repeated one has overtaken it only if that was lost.
//
// What this does not see, the end of a burst above all, is found out as ever: by probes and the ack
// timeout (silence.go). They go back as go-back-N does, and so does what is done about lost
// responses of READs.

import "github.com/goroce/goroce/wire"

// span is how many packets may be behind a gap: as many as the peer keeps and its NAKs can name.
// Where the peer keeps nothing it is as many as are ever of use.
func (a *QPAttr) span() int32 {
	if a.SelectiveRepeat && !a.LongWindow {
		return MaxWindow
	}
	return MaxLongWindow
}

// How a NAK's MSN field names a gap (QPAttr.SelectiveRepeat, QPAttr.LongWindow): so many of its
// bits hold the length, the others how far behind the NAK's PSN it begins.
const (
	gapBits      = 12
	longGapBits  = 8
	longGapExact = 1<<7 - 1 // longer ones in steps of one more
)

// gapCode is what the MSN field of a NAK says of a gap, and how many of its packets that names. 0
// is the NAK of the standard: all from its PSN on.
func (a *QPAttr) gapCode(offset, length int32) (code wire.PSN, named int32) {
	if !a.LongWindow {
		return wire.PSN(offset<<gapBits | length), length
	}
	n := length
	if n > longGapExact {
		n, length = longGapExact+n/(longGapExact+1), n-n%(longGapExact+1)
		if n >= 1<<longGapBits {
			n = 1<<longGapBits - 1
			length = (n - longGapExact) * (longGapExact + 1)
		}
	}
	return wire.PSN(offset<<longGapBits | n), length
}

// gapNamed is what such a code names.
func (a *QPAttr) gapNamed(code wire.PSN) (offset, length uint32) {
	if !a.LongWindow {
		return uint32(code >> gapBits), uint32(code & (1<<gapBits - 1))
	}
	length = uint32(code & (1<<longGapBits - 1))
	if length > longGapExact {
		length = (length - longGapExact) * (longGapExact + 1)
	}
	return uint32(code >> longGapBits), length
}

// reportedGap reads a NAK that names a gap: packets from to to-1 are missing.
func (q *QP) reportedGap(p *wire.Packet) (from, to wire.PSN, ok bool) {
	if !q.attr.SelectiveRepeat || !isAck(p) || p.AETH().Syndrome() != wire.SynNAKSeq {
		return 0, 0, false
	}
	offset, length := q.attr.gapNamed(p.AETH().MSN())
	from = p.BTH.PSN().Add(offset)
	return from, from.Add(length), length > 0
}

// gapReported is the event that packets from to to-1 are missing, and to has arrived. It
// acknowledges nothing: the NAK may have overtaken the replies to READs.
func (r *recovery) gapReported(now Time, from, to wire.PSN) (decision, wire.DropReason) {
	if from.Sub(r.reached) < 0 { // a part of it has arrived since
		from = r.reached
	}
	switch {
	case to.Sub(from) <= 0 || from.Sub(r.top) >= 0:
		return thenStay, wire.DropGhost
	case to.Sub(r.top) >= 0:
		return thenStay, wire.DropMalformed
	}
	arrived := to
	r.stats.RcvdSeqErr++
	if to.Sub(r.psn) > 0 { // the rest is about to be sent anyway
		to = r.psn
	}
	if newest := r.gaps.newest(); newest != nil && newest.to.Sub(from) > 0 {
		from = newest.to
	}
	if to.Sub(from) <= 0 || len(r.gaps.list) == maxGaps {
		return thenStay, wire.DropNone
	}
	r.heard(now, arrived, from, to)
	r.lost(now, from, to.Sub(from))
	r.gaps.list = append(r.gaps.list, gap{from: from, to: to, next: from})
	r.gaps.due++
	if from == r.una {
		return r.repeatOldest(now), wire.DropNone
	}
	r.notSilent(now)
	return thenResume, wire.DropNone
}

// beyond says whether an ACK of all up to psn, with newest in its MSN field, says that una is
// missing and newest is there.
func (r *recovery) beyond(psn, newest wire.PSN) bool {
	return psn.Next() == r.una && r.reached == r.una && newest.Sub(r.una) > 0 && newest.Sub(r.top) < 0
}

// stillMissing takes notice that una is missing while newest has arrived.
func (r *recovery) stillMissing(now Time, newest wire.PSN) decision {
	r.heard(now, newest, r.una, r.una.Next())
	heard := thenStay
	if len(r.gaps.list) > 0 { // the window may have opened
		heard = thenResume
	}
	switch g := r.gaps.oldest(r.una); {
	case r.phase == phaseResting || r.una.Sub(r.psn) >= 0: // it will be sent anyway
		return heard
	case g == nil: // the NAK was lost, or gaps behind una have been reported before it gave way
		if newest.Sub(r.psn) > 0 { // the rest is about to be sent anyway
			newest = r.psn
		}
		to := r.gaps.unnamed(r.una, newest)
		r.lost(now, r.una, to.Sub(r.una))
		r.gaps.insertOldest(r.una, to)
	case g.next != g.to || newest.Sub(g.top) < 0: // not sent yet, or still on its way
		r.notSilent(now)
		return heard
	default: // lost again, so what else there is of the gap may be too
		g.next = r.una
		r.gaps.due++
	}
	return r.repeatOldest(now)
}

// lost tells the window of n packets from psn on that were lost and will be sent again by
// themselves.
func (r *recovery) lost(now Time, psn wire.PSN, n int32) {
	before := r.window.size
	r.window.repeats(n)
	r.overflow(now, psn)
	r.countCut(before)
}

// repeatOldest accounts for the loss of una, which is due to be sent again: losses of one packet in
// a row use up the retries, as with go-back-N.
func (r *recovery) repeatOldest(now Time) decision {
	if r.phase == phaseResting {
		return thenResume
	}
	if r.oldest == unaSentOnce || now-r.chargedAt >= r.patience() {
		if !r.useRetry() {
			return thenGiveUp
		}
		r.chargedAt = now
	}
	if r.oldest == unaSentOnce {
		r.oldest = unaRepeated
	}
	r.phase, r.repeatedAt, r.whole = phaseFlowing, now, false
	r.restartTimers(now)
	return thenResume
}

// repeatAlone has una sent once more, without what else there may be of its gap: the peer could not
// take it.
func (r *recovery) repeatAlone() {
	if r.una.Sub(r.psn) >= 0 {
		return
	}
	r.gaps.hear(r.una)
	g := r.gaps.oldest(r.una)
	if g == nil {
		r.gaps.insertOldest(r.una, r.una.Next())
		return
	}
	r.gaps.settle(g)
	g.to, g.next = r.una.Next(), r.una
	r.gaps.due++
}

// sendGap sends the next packet of the oldest gap that is due. The last of a gap asks for an ACK,
// and so does the new packet after it, which tells whether the gap has been filled. As in
// sendProbe the position goes there for one packet, and comes back.
func (e *Engine) sendGap(q *QP, b *wire.Batch) verdict {
	if !e.mayPace(q) || !e.maySpread(q) {
		return verdictBlocked
	}
	r, at := &q.rec, q.rec.psn
	g := r.gaps.first()
	q.seek(g.next)
	v := verdictSent
	if q.stopped() { // it cannot be sent, and fails when its turn comes
		r.gaps.sent(g, g.to, r)
	} else {
		if g.next.Next() == g.to {
			q.req.unasked = r.window.every
		}
		v = e.again(q, b)
		if q.State() == StateErr { // its memory is gone
			return v
		}
		r.gaps.sent(g, r.psn, r) // the same packet if there was no room, or no memory any more
	}
	q.seek(at)
	q.req.unasked = r.window.every
	return v
}
