package qp

// Selective repeat, the requester's side: only what the peer reports missing is sent again. The responder's side is in reorder.go.
//
// Stages: a NAK reports a gap (reportedGap, gapReported) → its packets go out again, before any new
// one (sendRepeat) → an ACK that acknowledges nothing new but names a newer packet says that the
// oldest one is still missing (stillMissing). Whether it was lost again or is still on its way
// shows in that newer packet: one that left after the repeated one has overtaken it only if that
// was lost.
//
// What this does not see, the end of a burst above all, is found out as ever: by probes and the ack timeout (recovery.go). They go
// back as go-back-N does, and so does what is done about lost responses of READs.

import "github.com/goroce/goroce/wire"

// gap is packets that the peer has reported missing.
type gap struct {
	from, to wire.PSN // from to to-1
	next     wire.PSN // the one to be sent again next; to: all have been
	top      wire.PSN // then: one past the newest packet sent before
}

// repeats is what is to be sent again: gaps by PSN, none of them acknowledged.
type repeats struct {
	gaps  []gap
	due   int      // how many of them have something to be sent
	heard wire.PSN // while there are gaps: the newest packet that is known to have arrived
}

// init forgets all gaps and keeps the room for them.
func (r *repeats) init() { r.gaps, r.due = r.gaps[:0], 0 }

// gapBits is how many bits of a NAK's MSN field hold the length of a gap; the rest holds how far
// behind the NAK's PSN it begins. Both are below MaxWindow.
const gapBits = 12

// gapCode is what the MSN field of a NAK says of a gap. 0 is the NAK of the standard: all from its
// PSN on.
func gapCode(offset, length int32) wire.PSN { return wire.PSN(offset<<gapBits | length) }

// reportedGap reads a NAK that names a gap: packets from to to-1 are missing.
func (q *QP) reportedGap(p *wire.Packet) (from, to wire.PSN, ok bool) {
	if !q.attr.SelectiveRepeat || p.Opcode != wire.RCAcknowledge || p.AETH().Syndrome() != wire.SynNAKSeq {
		return 0, 0, false
	}
	code := uint32(p.AETH().MSN())
	from = p.BTH.PSN().Add(code >> gapBits)
	length := code & (1<<gapBits - 1)
	return from, from.Add(length), length > 0
}

// gapReported takes a NAK: packets from to to-1 are missing, to has arrived. It acknowledges
// nothing: it may overtake the replies to READs.
func (e *Engine) gapReported(q *QP, from, to wire.PSN) wire.DropReason {
	r := &q.repeats
	if from.Sub(q.comp.una) < 0 { // a part of it has arrived since
		from = q.comp.una
	}
	switch {
	case to.Sub(from) <= 0 || from.Sub(q.req.top) >= 0:
		return wire.DropGhost
	case to.Sub(q.req.top) >= 0:
		return wire.DropMalformed
	}
	arrived := to
	e.stats.RcvdSeqErr++
	e.measureFirst(q)
	q.rec.timed = noPSN // ACKs of what is behind the gap come late
	if to.Sub(q.req.psn) > 0 {
		to = q.req.psn // the rest is about to be sent anyway
	}
	if n := len(r.gaps); n > 0 && r.gaps[n-1].to.Sub(from) > 0 {
		from = r.gaps[n-1].to
	}
	if to.Sub(from) <= 0 || len(r.gaps) == maxGaps {
		return wire.DropNone
	}
	if size := q.window.size; q.window.lost(to.Sub(from)) < size {
		e.stats.WindowCut++
	}
	r.hear(arrived)
	r.gaps = append(r.gaps, gap{from: from, to: to, next: from})
	r.due++
	e.schedule(q, dueRequest)
	if from == q.comp.una {
		e.repeatOldest(q)
	} else {
		e.notSilent(q)
	}
	return wire.DropNone
}

// stillMissing looks for a report in an ACK: false if there is none. The ACK is of all that was executed, and something newer than
// that has arrived.
func (e *Engine) stillMissing(q *QP, p *wire.Packet) bool {
	if !q.attr.SelectiveRepeat || q.State() == StateErr {
		return false
	}
	r, una, newest := &q.repeats, q.comp.una, p.AETH().MSN()
	if p.AETH().Syndrome().Kind() != wire.KindACK {
		return true // an old NAK
	}
	if p.BTH.PSN().Next() != una || newest.Sub(una) <= 0 || newest.Sub(q.req.top) >= 0 {
		return false
	}
	if r.hear(newest); len(r.gaps) > 0 { // the window may have opened
		e.schedule(q, dueRequest)
	}
	switch g := r.oldest(una); {
	case q.rec.waiting() || una.Sub(q.req.psn) >= 0:
		return true // it will be sent anyway
	case g == nil: // the NAK was lost
		if size := q.window.size; q.window.lost(1) < size {
			e.stats.WindowCut++
		}
		r.insertOldest(una)
	case g.next != g.to || newest.Sub(g.top) < 0: // not sent yet, or still on its way
		e.notSilent(q)
		return true
	default: // lost again, so what else there is of the gap may be too
		g.next = una
		r.due++
	}
	e.repeatOldest(q)
	return true
}

// hear notes a packet that has arrived behind a gap.
func (r *repeats) hear(psn wire.PSN) {
	if len(r.gaps) == 0 || psn.Sub(r.heard) > 0 {
		r.heard = psn
	}
}

// inFlight is how many packets before the next one are on their way, as far as is known: all that are unacknowledged, but with
// gaps only what is missing and what is newer than anything that has arrived. So a gap does not hold up what comes after it,
// as long as the peer can keep that.
func (q *QP) inFlight() int32 {
	r, una := &q.repeats, q.comp.una
	n := q.req.psn.Sub(una)
	if len(r.gaps) == 0 || n < q.window.size || n >= MaxWindow {
		return n
	}
	n = max(q.req.psn.Sub(r.heard)-1, 0)
	for i := range r.gaps {
		n += r.gaps[i].to.Sub(r.gaps[i].from)
	}
	return n
}

// oldest returns the gap that una belongs to, nil if there is none.
func (r *repeats) oldest(una wire.PSN) *gap {
	if len(r.gaps) > 0 && r.gaps[0].from.Sub(una) <= 0 {
		return &r.gaps[0]
	}
	return nil
}

// insertOldest makes the oldest unacknowledged packet a gap of its own. There is room, at the cost of the newest gap.
func (r *repeats) insertOldest(una wire.PSN) {
	if n := len(r.gaps); n == maxGaps {
		r.cut(&r.gaps[n-1])
		r.gaps = r.gaps[:n-1]
	}
	r.gaps = append(r.gaps, gap{})
	copy(r.gaps[1:], r.gaps)
	r.gaps[0] = gap{from: una, to: una.Next(), next: una}
	r.due++
}

// cut takes a gap out of the account of what is due.
func (r *repeats) cut(g *gap) {
	if g.next != g.to {
		r.due--
	}
}

// acknowledged forgets what lies before una.
func (r *repeats) acknowledged(una wire.PSN) {
	n := 0
	for n < len(r.gaps) && r.gaps[n].to.Sub(una) <= 0 {
		r.cut(&r.gaps[n])
		n++
	}
	if n > 0 {
		r.gaps = append(r.gaps[:0], r.gaps[n:]...)
	}
	if g := r.oldest(una); g != nil {
		g.from = una
		if g.next.Sub(una) < 0 {
			g.next = una
		}
	}
}

// again has the oldest unacknowledged packet sent once more, alone: the peer could not take it.
func (q *QP) again() {
	r, una := &q.repeats, q.comp.una
	if una.Sub(q.req.psn) >= 0 {
		return
	}
	r.hear(una)
	g := r.oldest(una)
	if g == nil {
		r.insertOldest(una)
		return
	}
	r.cut(g)
	g.to, g.next = una.Next(), una
	r.due++
}

// repeatOldest accounts for the loss of the oldest unacknowledged packet: losses of one packet in a row use up the retries, as
// without selective repeat.
func (e *Engine) repeatOldest(q *QP) {
	r := &q.rec
	if r.waiting() {
		return
	}
	if r.lost != q.comp.una || e.now-r.chargedAt >= r.patience() {
		if !e.useRetry(q) {
			return
		}
		r.chargedAt = e.now
	}
	r.lost, r.lostAt, r.timed, r.probe = q.comp.una, e.now, noPSN, noProbe
	e.restartTimers(q)
	e.schedule(q, dueRequest)
}

// notSilent puts the next probe off: the peer has just been heard of.
func (e *Engine) notSilent(q *QP) {
	if q.rec.probeAt != Never {
		e.armProbe(q)
		e.setDeadline(q)
	}
}

// sendRepeat sends the next packet of the oldest gap that is due, and returns to where the position was. The last of a gap asks
// for an ACK, and so does the new packet after it, which tells whether the gap has been filled.
func (e *Engine) sendRepeat(q *QP, b *wire.Batch) verdict {
	if !e.mayPace(q) {
		return blocked
	}
	r, at := &q.repeats, q.req.psn
	i := 0
	for r.gaps[i].next == r.gaps[i].to {
		i++
	}
	g := &r.gaps[i]
	q.seek(g.next)
	v := sent
	if q.stopped() { // it cannot be sent, and fails when its turn comes
		g.next = g.to
	} else {
		if g.next.Next() == g.to {
			q.req.unasked = q.window.every
		}
		v = e.emit(q, b)
		if q.State() == StateErr { // its memory is gone
			return v
		}
		g.next = q.req.psn // the same if there was no room, or no memory any more
	}
	if g.next.Sub(g.to) >= 0 {
		g.next, g.top = g.to, q.req.top
		r.due--
	}
	q.seek(at)
	q.req.unasked = q.window.every
	return v
}
