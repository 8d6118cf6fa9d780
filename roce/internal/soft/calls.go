package soft

// The turns that an application takes: with each poll that finds its queue empty, and with each
// post.
//
// Stages: poll, step by step → a poll that needs no turn → a post. What is left to the
// application's next call package drive decides.

import "github.com/goroce/goroce/qp"

// severalPackets in one send are part of a stream: then posts may be held from the first one on.
const severalPackets = 4

// poll is a turn of an application that found w empty. If somebody else is taking one, that will
// do. pollsOn says that the application is going to poll again soon. yield says that it has come in
// vain so often that others should have the processor for a moment.
func (l *lane) poll(w awaited, pollsOn bool) (yield bool) {
	if !l.tryTurn() {
		if pollsOn { // if the background has the turn, it is to go
			l.drive.Polls(l.clock.now())
		}
		return l.drive.Crowded()
	}
	t := l.clock.within(fresh)
	if pollsOn {
		l.drive.Polls(t)
	}
	frames, something := l.look(t)
	if something {
		l.serve(w, t, frames, pollsOn)
	}
	yield = l.drive.InVain()
	l.release()
	return yield
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
	l.drive.Returns(t)
	l.drive.Visited()
	if held {
		l.output(t)
		frames = l.receive()
	}
	return frames, true
}

// quiet tells whether a poll that found no frames can leave it at that.
func (l *lane) quiet(t qp.Time) bool {
	return t < l.deadline && !l.drive.Away() && l.engine.Idle() && !l.mail.waiting()
}

// serve handles what has arrived. Completions are handed over before anything is sent, and so is
// what a WRITE may have brought.
func (l *lane) serve(w awaited, t qp.Time, frames int, pollsOn bool) {
	frames = l.input(t, frames)
	found := w.found(l)
	if found {
		l.drive.Found()
	}
	postponed := pollsOn && (found || frames > 0) && l.canWait() && l.drive.Postpones(t)
	l.finish(t, postponed || l.output(t) || frames >= rxBatch)
	end := t
	// the application is not late for what took us long, nor gone
	if !postponed || frames >= severalPackets {
		end = l.clock.read()
	}
	if postponed {
		l.count.Postponed++
	}
	if found {
		l.drive.Gives(end)
	}
	if pollsOn {
		l.drive.Polls(end)
	}
	l.drive.LetHold(pollsOn && l.burst >= severalPackets)
}

// canWait tells whether something is due that no peer must hear of at once.
func (l *lane) canWait() bool { return !l.engine.Idle() && !l.engine.Urgent() }

// visit notes a poll that did not need a turn. If what earlier polls have left must go now, it
// sends that.
func (l *lane) visit() {
	switch {
	case !l.drive.Visits():
	case l.drive.Overdue(l.clock.now()) && l.tryTurn():
		t := l.clock.read()
		l.drive.Returns(t)
		l.send(t)
		l.drive.Gives(l.clock.read())
		l.release()
	default:
		l.drive.LeavesOwed()
	}
}

// sendPosted sees to it that the n requests posted to q are sent: all that takes is the second half
// of a turn. If somebody else has the turn, release makes them look.
//
// An application may poll all the time and always find completions, so that none of its polls takes
// a turn. Then its posts do, whole ones, or nothing would be received.
func (l *lane) sendPosted(q *qp.QP, n int) {
	if l.drive.MayHold() || !l.tryTurn() {
		l.engine.Ring(q)
		if l.drive.PostHeld(n, l.clock.now) || !l.tryTurn() {
			return
		}
	} else { // nobody else is at it: no bell is needed
		l.engine.Posted(q)
	}
	t := l.clock.read()
	l.drive.Returns(t)
	if l.drive.Visited() {
		l.drive.PollsNow(t)
		l.turn(t)
	} else {
		l.send(t)
	}
	l.drive.Gives(l.clock.read())
	l.carryOut(l.drive.Posts(t))
	l.drive.LetHold(l.engine.PollTimeout() != qp.Never || l.burst >= severalPackets)
	l.release()
}
