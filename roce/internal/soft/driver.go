package soft

// Who runs a lane now, and who wakes that: the states of the package comment (doc.go).
//
// Stages: the states → the lease → sleeping, and waking who sleeps.

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
)

// claimLife is how long after its last poll an application is believed to poll on. Then the
// background takes over.
const claimLife = 50 * time.Microsecond

// place is where the background is.
type place int32

const (
	// it sleeps on an alarm of its own, and does not touch the port; or there is none
	standsBy place = iota
	onDuty         // it takes turns, or is about to
	// it sleeps on the port; changes to and from it are made under the turn lock
	parked
)

// seat is who watches the port. It changes under the turn lock.
type seat int32

const (
	backgroundSeat seat = iota
	reliefSeat
)

// driver is a lane's answer to who runs it.
type driver struct {
	where   atomic.Int32 // a place
	watcher atomic.Int32 // a seat
	claimed atomic.Int64 // the lease: when an application last polled; 0 says that none does
	visited atomic.Bool  // it has polled since the last turn, and found what it wanted without one

	// who watches the port sleeps until then at the latest; 0: it is awake, or nobody watches
	asleep  atomic.Int64
	alarmAt qp.Time // that is set for the port's watcher; under the turn lock
	// the latest deadline that a background without alarms has slept for; under the turn lock
	horizon qp.Time

	// the port, if two can watch it in turn; nil: the background alone does
	watched transport.Watched
	// there is a background, which sends what an application leaves behind; or a test plays it
	attended bool
	standby  alarm // what a background that stands by sleeps on
	closing  atomic.Bool
	done     chan struct{} // closed when the background has ended; nil: there was none

	relief reliefTurn
}

// reliefTurn is held by the goroutine that is the relief, from before it takes the seat until after
// it has given it back.
type reliefTurn struct {
	sync.Mutex
	heeds  <-chan struct{} // the end of the context that rouses it, and how to undo that
	forget func() bool
}

func (d *driver) place() place       { return place(d.where.Load()) }
func (d *driver) goes(to place)      { d.where.Store(int32(to)) }
func (d *driver) seat() seat         { return seat(d.watcher.Load()) }
func (d *driver) sits(who seat)      { d.watcher.Store(int32(who)) }
func (d *driver) standsBy() bool     { return d.place() == standsBy }
func (d *driver) hasRelief() bool    { return d.seat() == reliefSeat }
func (d *driver) canBeWatched() bool { return d.watched != nil }

// claim gives an application a lease, or a longer one. It is stored only now and then: it is read
// by others.
func (l *lane) claim(t qp.Time) {
	if t-qp.Time(l.claimed.Load()) > qp.Time(claimLife)/8 {
		l.claimed.Store(int64(t))
	}
}

// leased tells whether the last poll is so recent that the application is believed to poll on.
func (l *lane) leased(t qp.Time) bool { return t-qp.Time(l.claimed.Load()) < qp.Time(claimLife) }

// inUse is leased, however long the application's present turn takes.
func (l *lane) inUse() bool {
	at := l.claimed.Load()
	return at != 0 && (l.turns.held() || l.leased(l.clock.now()))
}

// unclaim ends the lease: the application stops polling, and the background comes.
func (l *lane) unclaim() {
	l.claimed.Store(0)
	if l.done != nil && l.standsBy() {
		l.standby.end()
	}
}

// announce says under the turn lock that who watches is going to sleep: whoever has the next turn
// sees it, and what it must be woken for.
func (l *lane) announce(until, t qp.Time) {
	l.asleep.Store(int64(until))
	l.setAlarm(until, t)
}

// setAlarm says when who watches wakes up if nothing happens. One that is set already stays.
func (l *lane) setAlarm(at, t qp.Time) {
	if !l.canBeWatched() || at == l.alarmAt && t < at {
		return
	}
	l.alarmAt = at
	l.watched.SetAlarm(waitFor(at, t))
}

// bedtime is how long to sleep. Where an alarm can be set for who sleeps, that is to the deadline.
// Elsewhere, after deadlines in the future have come and gone (the usual: all was acknowledged in
// time), it is until the latest of them rather than for ever: the next request's is later still, so
// that posting it need not wake us.
func (l *lane) bedtime(t qp.Time) qp.Time {
	if l.canBeWatched() {
		if l.deadline == l.engine.PollTimeout() {
			l.deadline = l.engine.NextTimeout()
		}
		return max(l.deadline, 1)
	}
	if l.deadline != qp.Never {
		l.horizon = max(l.horizon, l.deadline)
	} else if l.horizon > t {
		return l.horizon
	}
	return max(l.deadline, 1)
}

// waitFor is the argument of port.Wait to sleep until a deadline.
func waitFor(until, t qp.Time) time.Duration {
	if until == qp.Never {
		return -1
	}
	return time.Duration(max(until-t, 0))
}

// wakeBefore sees to it that who watches the port does not sleep past t, if it sleeps. If t is
// still to come, setting its alarm will do. The caller has the turn lock.
func (l *lane) wakeBefore(t qp.Time) {
	until := l.asleep.Load()
	if int64(t) >= until {
		return
	}
	if now := l.clock.at; l.canBeWatched() && t > now {
		if l.asleep.CompareAndSwap(until, int64(t)) {
			l.setAlarm(t, now)
		}
		return
	}
	if !l.asleep.CompareAndSwap(until, 0) {
		return
	}
	l.count.Wakes++
	if l.hasRelief() {
		l.rouseRelief()
		return
	}
	l.port.Wake()
}

// rouse wakes who watches the port, if it sleeps. Who is about to sleep has announced that before
// it looks into the mailbox. Who watches may change meanwhile, so it wakes both that may.
func (l *lane) rouse() {
	if until := l.asleep.Load(); until != 0 && l.asleep.CompareAndSwap(until, 0) {
		l.port.Wake()
		l.rouseRelief()
	}
}

// rouseRelief wakes the goroutine that watches the port as relief, if there is one.
func (l *lane) rouseRelief() {
	if l.canBeWatched() {
		l.watched.Rouse(transport.Relief)
	}
}
