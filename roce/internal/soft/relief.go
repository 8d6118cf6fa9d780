package soft

// The relief: an application's goroutine that sleeps in Wait, of a completion queue or a channel,
// watches the port itself. Package drive has the states, and why.
//
// Stages: take the seat, if it is free → turns and sleeps until there is what it waits for → give
// the seat back. And what ends that early: a context, the end of the lane.
//
// The background stays parked meanwhile, and wakes up only if something comes while the application
// is away.

import (
	"context"
	"sync/atomic"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft/drive"
	"github.com/goroce/goroce/transport"
)

// relief is what a lane keeps for the goroutine that has the relief's seat.
type relief struct {
	awaits atomic.Pointer[sleepers] // what it waits for, while it sleeps
	gone   chan struct{}            // closed when it has left a lane that ends

	// under the turn lock: the end of the context that rouses it, and how to undo that
	heeds  <-chan struct{}
	forget func() bool
}

// watchFor has the calling goroutine watch the port until w, which it waits for, calls it to look,
// or ctx has ended. It returns false if the goroutine has to wait for the background: because the
// port knows no relief, another goroutine is it, or one polls the lane; later as its queue pairs
// are no longer all on this lane, the port fails, or the lane ends.
func (l *lane) watchFor(ctx context.Context, w awaited) bool {
	if !l.drive.MayRelieve() {
		return false
	}
	l.turns.lock()
	if !l.drive.Sits() {
		l.release()
		return false
	}
	l.seats.Take()
	l.woke = false // if anybody, itself
	l.heed(ctx)
	ok := l.watchOn(ctx, w)
	l.relief.awaits.CompareAndSwap(w.by(), nil)
	l.giveBack()
	return ok
}

// heed has the end of ctx rouse the relief. Most applications come back with the same context, so
// what was agreed with that stays, and a sleep allocates nothing. The caller has the turn lock.
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

// unheed forgets the context that was heeded last. The caller has the turn lock.
func (l *lane) unheed() {
	r := &l.relief
	if r.forget != nil {
		r.forget()
	}
	r.heeds, r.forget = nil, nil
}

// watchOn takes turns and sleeps in between. The caller has the turn lock, before and after. If
// nothing is due it goes to sleep at once: what may have arrived ends the sleep.
func (l *lane) watchOn(ctx context.Context, w awaited) bool {
	s := w.by()
	for due := l.due(l.clock.read()); ; due = true {
		more := due && l.turnFor(w)
		l.relief.awaits.Store(s) // from here on whoever changes what w.calls says wakes us
		t := l.clock.read()
		switch {
		case w.calls() || ctx.Err() != nil || l.drive.Ended():
			return true
		case l.failed || l.drive.Leased(t) || !s.only(l):
			return false
		}
		if !more {
			l.carryOut(l.drive.Dozes(l.bedtime(t), t))
		}
		l.pause()
		var err error
		if !more && !l.mail.waiting() {
			err = l.seats.Watch(transport.Relief)
		}
		l.turns.lock()
		l.relief.awaits.CompareAndSwap(s, nil)
		l.drive.Stirs()
		if err != nil {
			return false
		}
	}
}

// due tells whether there is work for a turn, but for what may have arrived.
func (l *lane) due(t qp.Time) bool {
	return t >= l.deadline || !l.engine.Idle() || l.tx.Len() > 0 || l.drive.Owes() || l.failed || l.mail.waiting()
}

// turnFor is a turn of a goroutine that waits for w, and tells whether there is more to do now. An
// application that always posts at once when it is given completions has their acknowledgement
// leave with its post; the alarm has it sent if that does not come.
func (l *lane) turnFor(w awaited) (more bool) {
	t := l.clock.read()
	n := l.input(t, l.receive())
	found := w.found(l)
	postponed := found && l.canWait() && l.drive.PostponesAwoken(t)
	more = !postponed && l.output(t) || n >= rxBatch
	l.finish(t, more)
	if postponed {
		l.count.Postponed++
		l.deadline = min(l.deadline, t+drive.PostponedTime)
	}
	if found {
		l.drive.GivesAwoken(l.clock.read())
	}
	return more
}

// giveBack returns the seat and the turn lock.
func (l *lane) giveBack() {
	t := l.clock.read()
	l.carryOut(l.drive.Leaves(l.bedtime(t), t))
	if l.mail.waiting() { // it came since our turn, when nobody slept on the port
		l.carryOut(l.drive.Mail())
	}
	l.seats.Leave()
	ended := l.drive.Ended()
	l.release()
	if ended {
		close(l.relief.gone)
	}
}

// dismissRelief waits until the lane, which ends, has no relief, and will have none.
func (l *lane) dismissRelief() {
	l.turns.lock()
	if l.drive.Relieved() {
		l.turns.unlock()
		l.rouseRelief()
		<-l.relief.gone
		l.turns.lock()
	}
	l.unheed()
	l.turns.unlock()
}
