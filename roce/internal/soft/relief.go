package soft

// The relief: an application's goroutine that sleeps in Wait watches the port itself. driver.go has
// the states.
//
// Stages: can it → take the seat → turns and sleeps until there is a completion → give the seat
// back.
//
// If the background watched, each packet would wake it first and it would wake the application, and
// before each sleep the two would hand the port over: some five thread switches an exchange, each
// of which costs more than all of our work on a packet. So the goroutine that waits takes the seat
// while the background stays parked, and gives it back while the background stays parked. The
// background wakes up only if something comes while the application is away.

import (
	"context"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
)

// watchFor has the calling goroutine, which waits for a completion in c, watch the port until there
// is one, or ctx has ended, or c is closed. It returns false if the goroutine has to wait for the
// background: because the port knows no relief, another goroutine is it, or one polls the lane.
// The caller has armed c.
func (l *lane) watchFor(ctx context.Context, c *CQ) bool {
	if !l.canBeWatched() || !l.attended || !l.relief.TryLock() {
		return false
	}
	defer l.relief.Unlock()
	l.heed(ctx)
	l.takeSeat()
	ok := l.watchOn(ctx, c)
	c.relief.CompareAndSwap(l, nil) // the queue may have moved to another lane's relief
	l.giveBack()
	return ok
}

// heed has the end of ctx rouse the relief. Most applications come back with the same context, so
// what was agreed with that stays, and a sleep allocates nothing. The caller has l.relief.
func (l *lane) heed(ctx context.Context) {
	r := &l.relief
	if ctx.Done() == r.heeds {
		return
	}
	l.unheed()
	if r.heeds = ctx.Done(); r.heeds != nil {
		r.forget = context.AfterFunc(ctx, l.rouseRelief)
	}
}

// unheed forgets the context that was heeded last. The caller has l.relief.
func (l *lane) unheed() {
	r := &l.relief
	if r.forget != nil {
		r.forget()
	}
	r.heeds, r.forget = nil, nil
}

// takeSeat gets the turn lock and the port for the relief.
func (l *lane) takeSeat() {
	l.claimed.Store(0) // what it polled before does not mean that it polls on
	l.turns.lock()
	l.sits(reliefSeat)
	l.watched.Take()
	// nobody would send what is held; what was posted before is seen by the next turn
	l.trust.holds(false)
}

// watchOn takes turns and sleeps in between. The caller has the turn lock, before and after. If
// nothing is due it goes to sleep at once: what may have arrived ends the sleep.
func (l *lane) watchOn(ctx context.Context, c *CQ) bool {
	for due := l.due(l.clock.read()); ; due = true {
		busy := due && l.turnFor(c)
		c.relief.Store(l) // from here on who fills or closes c wakes us
		t := l.clock.read()
		switch {
		// Who is woken has to arm the queue again, also if another goroutine was faster.
		case !c.idle() || !c.armedNow() || ctx.Err() != nil || l.closing.Load():
			return true
		case l.failed || l.leased(t) || !c.drivesOnly(l):
			return false
		}
		if !busy {
			l.announce(l.bedtime(t), t)
		}
		l.pause()
		var err error
		if !busy && !l.mail.waiting() {
			err = l.watched.Watch(transport.Relief)
		}
		l.turns.lock()
		c.relief.CompareAndSwap(l, nil)
		l.asleep.Store(0)
		if err != nil {
			return false
		}
	}
}

// due tells whether there is work for a turn, but for what may have arrived.
func (l *lane) due(t qp.Time) bool {
	return t >= l.deadline || !l.engine.Idle() || l.tx.Len() > 0 || l.trust.owes() || l.failed || l.mail.waiting()
}

// turnFor is a turn of a goroutine that waits for c; busy says that there is more to do now. An
// application that always posts at once when it is given completions has their acknowledgement
// leave with its post; the alarm has it sent if that does not come.
func (l *lane) turnFor(c *CQ) (busy bool) {
	t := l.clock.read()
	n := l.input(t, l.receive())
	found := c.lanes[l.index].Len() > 0
	postponed := found && l.trust.earnedAsleep() && l.postpone(t)
	more := !postponed && l.output(t) || n >= rxBatch
	l.finish(t, more)
	if postponed {
		l.deadline = min(l.deadline, t+postponedTime)
	}
	if found {
		l.trust.wakes(l.clock.read())
	}
	return more
}

// giveBack returns the seat and the turn lock. The background sleeps on if it is parked, or else
// comes.
func (l *lane) giveBack() {
	l.sits(backgroundSeat)
	sleepsOn := l.place() == parked
	if sleepsOn {
		t := l.clock.read()
		l.announce(l.bedtime(t), t)
		if l.mail.waiting() { // it came since our turn, when nobody slept who could have been woken
			l.rouse()
		}
	}
	l.watched.Leave()
	l.release()
	if !sleepsOn {
		l.unclaim()
	}
}
