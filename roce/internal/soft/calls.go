package soft

// The turns that an application takes: with each poll that finds its queue empty, and with each
// post.
//
// Stages: poll, step by step → a poll that needs no turn → a post → what both decide.

import (
	"sync/atomic"

	"github.com/goroce/goroce/qp"
)

// severalPackets in one send are part of a stream: then posts may be held from the first one on.
const severalPackets = 4

// yieldEvery is after how many polls in vain a poller lets other goroutines run: more pollers than
// processors would otherwise wait for each other's time slices of 10 ms.
const yieldEvery = 64

// pollers says when those who poll let others have the processor.
type pollers struct {
	vain  uint32        // polls since one that found completions; under the turn lock
	crowd atomic.Uint32 // polls that met somebody else's turn
}

// inVain counts a poll that had a turn, and says whether to rest after it.
func (p *pollers) inVain() (rest bool) {
	p.vain++
	return p.vain%yieldEvery == 0
}

// crowded is the same for a poll that met somebody else's.
func (p *pollers) crowded() (rest bool) { return p.crowd.Add(1)%yieldEvery == 0 }

// poll is a turn of an application that found its completion queue c empty. If somebody else is
// taking one, that will do. claim says that the application is going to poll again soon. rest says
// that it has come in vain so often that others should have the processor for a moment.
func (l *lane) poll(c *CQ, claim bool) (rest bool) {
	if !l.turns.tryLock() {
		if claim { // if the background has the turn, it is to go
			l.claim(l.clock.now())
		}
		return l.polls.crowded()
	}
	t := l.clock.within(fresh)
	if claim {
		l.claim(t)
	}
	frames, something := l.look(t)
	if something {
		l.serve(c, t, frames, claim)
	}
	rest = l.polls.inVain()
	l.release()
	return rest
}

// look sees whether there is anything for a poll to do. Posts that were held go before it looks at
// what has arrived.
func (l *lane) look(t qp.Time) (frames int, something bool) {
	held := l.engine.DoorbellPending()
	if !held {
		if frames = l.receive(); frames == 0 && l.quiet(t) {
			return 0, false
		}
	}
	l.back(t)
	if held {
		l.output(t)
		frames = l.receive()
	}
	return frames, true
}

// quiet tells whether a poll that found no frames can leave it at that.
func (l *lane) quiet(t qp.Time) bool {
	return t < l.deadline && !l.trust.away() && l.engine.Idle() && !l.mail.waiting()
}

// back notes that the application is here.
func (l *lane) back(t qp.Time) (visited bool) {
	l.trust.returns(t)
	if l.visited.Load() {
		l.visited.Store(false)
		return true
	}
	return false
}

// serve handles what has arrived. Completions are handed over before anything is sent, and so is
// what a WRITE may have brought.
func (l *lane) serve(c *CQ, t qp.Time, frames int, claim bool) {
	frames = l.input(t, frames)
	found := c.lanes[l.index].Len() > 0
	if found {
		l.polls.vain = 0
	}
	postponed := claim && (found || frames > 0) && l.attended && l.trusting() && l.postpone(t)
	l.finish(t, postponed || l.output(t) || frames >= rxBatch)
	end := t
	// the application is not late for what took us long, nor gone
	if !postponed || frames >= severalPackets {
		end = l.clock.read()
	}
	if found {
		l.trust.leaves(end)
	}
	if claim {
		l.claim(end)
	}
	l.holds(claim && l.burst >= severalPackets)
}

// postpone leaves what is due to the application's next call, unless a peer must hear of it at
// once, or it was left often or long enough.
func (l *lane) postpone(t qp.Time) bool {
	switch {
	case l.engine.Idle() || l.engine.Urgent() || l.trust.overdue(t):
		return false
	case !l.trust.owes():
		l.trust.owe(t)
	}
	l.trust.leavesOwed()
	l.count.Postponed++
	return true
}

// visit notes a poll that did not need a turn. If what earlier polls have left must go now, it
// sends that.
func (l *lane) visit() {
	if !l.visited.Load() {
		l.visited.Store(true)
	}
	switch {
	case !l.trust.owes():
	case l.trust.overdue(l.clock.now()) && l.turns.tryLock():
		t := l.clock.read()
		l.trust.returns(t)
		l.send(t)
		l.trust.leaves(l.clock.read())
		l.release()
	default:
		l.trust.leavesOwed()
	}
}

// posted sees to it that the n requests posted to q are sent: all that takes is the second half of
// a turn. If somebody else has the turn, release makes them look.
func (l *lane) posted(q *qp.QP, n int) {
	if l.trust.hold.Load() || !l.turns.tryLock() {
		l.engine.Ring(q)
		if l.trust.postHeld(n, l.clock.now) || !l.turns.tryLock() {
			return
		}
	} else { // nobody else is at it: no bell is needed
		l.engine.Posted(q)
	}
	t := l.clock.read()
	// it polls, but it never lacks completions: then its turns are here, or nothing would be
	// received
	if l.back(t) {
		l.claimed.Store(int64(t))
		l.turn(t)
	} else {
		l.send(t)
	}
	l.trust.leaves(l.clock.read())
	l.callToStandby(t)
	l.holds(l.engine.PollTimeout() != qp.Never || l.burst >= severalPackets)
	l.release()
}

// holds says whether posts may be held from now on. Somebody must be there to send them if the
// application does not come back.
func (l *lane) holds(yes bool) {
	l.trust.holds(yes && l.attended && !l.hasRelief() && l.trusting())
}

// trusting tells whether the application can be relied on to call again at once. While the
// background is on duty it would only be in the way.
func (l *lane) trusting() bool { return l.trust.earned() && l.standsBy() }

// callToStandby wakes a background that is parked while an application polls that has earned trust:
// it is to stand by, for the posts that are held from now on.
func (l *lane) callToStandby(t qp.Time) {
	if l.trust.earned() && !l.standsBy() && l.leased(t) {
		l.wakeBefore(0)
	}
}
