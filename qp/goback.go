package qp

// Go-back-N: the packet that is lost is sent again, and all behind it.
//
// Stages: a report that una is lost (sequenceNAK) → is it news? (retry) → a retry is counted and
// the window hears of it → the position goes back to una (goBack).
//
// One loss is reported by many packets, and all of them left the peer before it could know of the
// retry. To take each for another loss would turn a burst of reports into a storm of retries.

import "github.com/goroce/goroce/wire"

// sequenceNAK is the event that the peer misses una, has thrown away what came behind it, and says
// so.
func (r *recovery) sequenceNAK(now Time) decision {
	r.stats.RcvdSeqErr++
	r.measureFirst(now)
	return r.retry(now, !r.whole) // what asks for all is news to who has repeated a gap only
}

// sequenceNAKBeyond is the event that the peer misses psn, while answers before it are missing
// here. Those are asked for by themselves; everything from psn on is sent again.
func (r *recovery) sequenceNAKBeyond(now Time, psn wire.PSN) decision {
	r.stats.RcvdSeqErr++
	switch {
	case r.phase == phaseResting, psn != r.reached, psn.Sub(r.psn) >= 0:
		return thenStay // it has been executed since, or will be sent anyway
	case psn == r.backTo && (r.base == 0 || now-r.backAt < r.base):
		return thenStay // as retry has it
	}
	r.backTo, r.backAt = psn, now
	before := r.window.size
	r.window.wentBack()
	r.overflow(now, psn)
	r.countCut(before)
	r.gaps.cut(psn)
	r.psn = psn
	r.notSilent(now)
	return thenMove
}

// retry answers a report that una is lost, if a retry is left. Unless it is news, a report is
// absorbed if it can have left the peer before the last retry got there: nothing can be new within
// the least round trip.
// Reports within the time that a silent peer is given use up one retry together: the peer lives.
func (r *recovery) retry(now Time, news bool) decision {
	again := r.oldest != unaSentOnce
	if r.phase == phaseResting || again && !news && (r.base == 0 || now-r.repeatedAt < r.base) {
		return thenStay
	}
	if !again || now-r.chargedAt >= r.patience() {
		if !r.useRetry() {
			return thenGiveUp
		}
		r.chargedAt = now
	}
	before := r.window.size
	r.window.wentBack()
	r.overflow(now, r.una)
	r.countCut(before)
	r.goBack(now)
	r.restartTimers(now)
	return thenMove
}

// goBack moves the position back to una. What has come early of the answers behind it stays, and
// those that have not are asked for again. If una was lost again, it goes alone: whatever follows
// it may be what overflows the path, over and over, as the replies of a READ need room.
func (r *recovery) goBack(now Time) {
	if r.oldest == unaSentOnce {
		r.oldest = unaRepeated
	} else {
		r.oldest = unaAlone
	}
	r.phase, r.repeatedAt = phaseFlowing, now
	r.psn, r.whole = r.reached, true
	r.gaps.cut(r.reached)
	r.gaps.askAll(r.oldest == unaAlone)
}
