package soft

// The background of a lane: a goroutine that takes the turns which no application takes. This file
// is the only place of the package that starts goroutines.
//
// Stages: does an application poll → start → stand by while one does → watch the port while none
// does, or sleep behind one that watches it itself (relief.go) → how long to sleep, and who wakes it.

import (
	"runtime"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
)

const (
	// claimLife is how long after its last poll an application is believed to poll on. Then the
	// background takes over.
	claimLife = 50 * time.Microsecond
	// minStandby and maxStandby bound how often the background looks whether the application is
	// still polling, if nobody tells it: the longer the application has been at it, the rarer, as
	// each look takes microseconds from a processor that the application or its peer may be polling
	// on.
	minStandby = 50 * time.Microsecond
	maxStandby = time.Millisecond
	// minLinger and maxLinger bound how long the background goes on polling after it last had
	// something to do, before it sleeps: as long as it has been busy since it woke up, so that it
	// takes at most twice the time. In a stream of 20 Gbit/s 100 us are 15 % of the bandwidth at the
	// same cost, as the sender does not have to wake it. 100 us for everybody would spare it waking
	// up for READs 60 us apart (45 -> 10 us, BenchmarkRead), but take its processor from other
	// processes in between: two paced flows and their receiver on two processors came to 0.6 to
	// 0.94 : 1 instead of 0.93 to 0.99 ("bench fair").
	minLinger = 20 * time.Microsecond
	maxLinger = 100 * time.Microsecond
)

// unclaim says that the application stops polling: the background takes over.
func (l *lane) unclaim() {
	l.claimed.Store(0)
	if l.done != nil && !l.onDuty.Load() {
		l.standby.ring()
	}
}

// inUse tells whether an application is polling the lane, however long its present turn takes.
func (l *lane) inUse() bool {
	at := l.claimed.Load()
	return at != 0 && (l.turns.held() || l.clock.now()-qp.Time(at) < qp.Time(claimLife))
}

// start starts the background.
func (l *lane) start() (err error) {
	if l.standby, err = newAlarm(); err != nil {
		return err
	}
	l.done, l.attended = make(chan struct{}), true
	go l.background()
	return nil
}

// background takes the turns that no application takes. While one polls it stands by, without
// touching the port: waking up for each packet would cost the poller more than the stack itself.
func (l *lane) background() {
	defer close(l.done)
	relieved := l.clock.now() // when it last left the lane to an application
	for !l.closing.Load() {
		if !l.inUse() {
			l.onDuty.Store(true)
			l.watch()
			relieved = l.clock.now()
			continue
		}
		l.onDuty.Store(false)
		if !l.inUse() { // it stopped before it could see that we stand by
			continue
		}
		rest := time.Duration(l.clock.now()-relieved) / 8
		l.standby.sleep(min(max(rest, minStandby), maxStandby))
	}
}

// watch takes turns until there has been nothing to do for a while, and then sleeps until the port
// has something, a deadline comes, or somebody wakes it. While a relief watches the port it sleeps
// behind that.
func (l *lane) watch() {
	t := l.takeOver()
	woken := t
	for busy := t; !l.closing.Load() && !l.relieved.Load(); {
		if l.turn(t) {
			busy = t
		} else if t-busy >= lingerFor(busy-woken) {
			break
		}
		rang := l.rang
		l.rang = false
		l.release()
		if rang {
			runtime.Gosched() // whom we woke can go on right here
		}
		if l.inUse() {
			return
		}
		l.turns.lock()
		t = l.clock.read()
	}
	relieved, failed := l.relieved.Load(), l.failed
	until := l.bedtime(t)
	l.parked = true
	if !relieved {
		l.announce(until, t)
	}
	l.release()
	if !l.closing.Load() && (relieved || !l.mail.waiting()) {
		if err := l.sleep(transport.Background, until, t); err != nil || failed {
			time.Sleep(retryFailed) // a broken port may have nothing to wait for
		}
	}
	l.turns.lock()
	l.parked = false
	if !l.relieved.Load() {
		l.asleep.Store(0)
	}
	l.release()
	if relieved {
		runtime.Gosched() // whatever has woken us, it is for the relief to go on
	}
}

// lingerFor is how long to go on polling after having been busy for so long.
func lingerFor(busy qp.Time) qp.Time {
	return min(max(busy, qp.Time(minLinger)), qp.Time(maxLinger))
}

// announce says under the turn lock that who watches is going to sleep: whoever has the next turn
// sees it, and what it must be woken for.
func (l *lane) announce(until, t qp.Time) {
	l.asleep.Store(int64(until))
	l.setAlarm(until, t)
}

// setAlarm says when who watches wakes up if nothing happens. One that is set already stays.
func (l *lane) setAlarm(at, t qp.Time) {
	if l.watched == nil || at == l.alarm && t < at {
		return
	}
	l.alarm = at
	l.watched.SetAlarm(waitFor(at, t))
}

// sleep waits for the port, after the sleep was announced.
func (l *lane) sleep(w transport.Watcher, until, t qp.Time) error {
	if l.watched != nil {
		return l.watched.Watch(w)
	}
	return l.port.Wait(waitFor(until, t))
}

// takeOver gets the turn lock for the background, which no longer relies on the application.
func (l *lane) takeOver() qp.Time {
	l.turns.lock()
	l.trust.lost()
	return l.clock.read()
}

// bedtime is how long to sleep. Where an alarm can be set for who sleeps, that is to the deadline.
// Elsewhere, after deadlines in the future have come and gone (the usual: all was acknowledged in
// time), it is until the latest of them rather than for ever: the next request's is later still, so
// that posting it need not wake us.
func (l *lane) bedtime(t qp.Time) qp.Time {
	if l.watched != nil {
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

// wakeBefore sees to it that who watches the port does not sleep past t, if it sleeps. If t is still
// to come, setting its alarm will do. The caller has the turn lock.
func (l *lane) wakeBefore(t qp.Time) {
	until := l.asleep.Load()
	if int64(t) >= until {
		return
	}
	if now := l.clock.at; l.watched != nil && t > now {
		if l.asleep.CompareAndSwap(until, int64(t)) {
			l.setAlarm(t, now)
		}
		return
	}
	if !l.asleep.CompareAndSwap(until, 0) {
		return
	}
	l.count.Wakes++
	if l.relieved.Load() {
		l.rouseRelief()
		return
	}
	l.port.Wake()
}
