package soft

// The background of a lane: a goroutine that takes the turns which no application takes. This file
// and changes.go, which listens to the port, are all of the package that starts goroutines.
// driver.go has its states.
//
// Stages: start → stand by while an application polls → watch the port while none does: take turns,
// linger, park. And what is done beside it: FLUSHes to storage.

import (
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/storage"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

const (
	// minStandby and maxStandby bound how often the background looks whether the application is
	// still polling, if nobody tells it: the longer the application has been at it, the rarer, as
	// each look takes microseconds from a processor that the application or its peer may be polling
	// on.
	minStandby = 50 * time.Microsecond
	maxStandby = time.Millisecond
	// minLinger and maxLinger bound how long the background goes on polling after it last had
	// something to do, before it sleeps: as long as it has been busy since it woke up, so that it
	// takes at most twice the time. In a stream of 20 Gbit/s 100 us are 15 % of the bandwidth at
	// the same cost, as the sender does not have to wake it. 100 us for everybody would spare it
	// waking up for READs 60 us apart (45 -> 10 us, BenchmarkRead), but take its processor from
	// other processes in between: two paced flows and their receiver on two processors came to 0.6
	// to 0.94 : 1 instead of 0.93 to 0.99 ("bench fair").
	minLinger = 20 * time.Microsecond
	maxLinger = 100 * time.Microsecond
)

// start starts the background.
func (l *lane) start() (err error) {
	if l.standby, err = newStandby(); err != nil {
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
	left := l.clock.now() // when it last left the lane to an application
	for !l.closing.Load() {
		if !l.inUse() {
			l.goes(onDuty)
			l.watch()
			left = l.clock.now()
			continue
		}
		l.goes(standsBy)
		if !l.inUse() { // it stopped before it could see that we stand by
			continue
		}
		rest := time.Duration(l.clock.now()-left) / 8
		l.standby.sleep(min(max(rest, minStandby), maxStandby))
	}
}

// watch takes turns until there has been nothing to do for a while, and then parks until the port
// has something, a deadline comes, or somebody wakes it. While a relief watches the port it parks
// behind that. It ends when an application polls, too.
func (l *lane) watch() {
	t := l.takeOver()
	woken := t
	for busy := t; !l.closing.Load() && !l.hasRelief(); {
		if l.turn(t) {
			busy = t
		} else if t-busy >= lingerFor(busy-woken) {
			break
		}
		l.pause()
		if l.inUse() {
			return
		}
		l.turns.lock()
		t = l.clock.read()
	}
	l.park(t)
}

// takeOver gets the turn lock for the background, which no longer relies on the application.
func (l *lane) takeOver() qp.Time {
	l.turns.lock()
	l.trust.forget()
	return l.clock.read()
}

// pause gives the turn back. Whom it has woken can go on right here.
func (l *lane) pause() {
	told := l.told
	l.told = false
	l.release()
	if told {
		yield()
	}
}

// lingerFor is how long to go on polling after having been busy for so long.
func lingerFor(busy qp.Time) qp.Time {
	return min(max(busy, qp.Time(minLinger)), qp.Time(maxLinger))
}

// park sleeps on the port. The caller has the turn lock, and has given it back when park returns.
func (l *lane) park(t qp.Time) {
	behind, failed := l.hasRelief(), l.failed
	until := l.bedtime(t)
	l.goes(parked)
	if !behind {
		l.announce(until, t)
	}
	l.release()
	if !l.closing.Load() && (behind || !l.mail.waiting()) {
		if err := l.sleep(until, t); err != nil || failed {
			time.Sleep(retryFailed) // a broken port may have nothing to wait for
		}
	}
	l.turns.lock()
	l.goes(onDuty)
	if !l.hasRelief() {
		l.asleep.Store(0)
	}
	l.release()
	if behind {
		yield() // whatever has woken us, it is for the relief to go on
	}
}

// sleep waits for the port, after that was announced.
func (l *lane) sleep(until, t qp.Time) error {
	if l.canBeWatched() {
		return l.watched.Watch(transport.Background)
	}
	return l.port.Wait(waitFor(until, t))
}

// FLUSHes to storage: what the engines want synced is synced on a goroutine of its own, as that
// takes milliseconds, while the lanes go on; or, where there are none, on the spot. The memory may
// have been deregistered by then, and unmapped: a sync touches no byte of it, and fails if it is
// gone.

// maxSyncs is how many syncs of a device are under way at the same time, each on a goroutine and a
// thread. The others wait in qp.Storage, on none.
const maxSyncs = 8

// sync begins what peers have asked for, as far as there is room. The caller has the turn lock.
func (l *lane) sync(t qp.Time) {
	for s, ok := l.engine.PollSync(); ok; s, ok = l.engine.PollSync() {
		if l.dev.cfg.NoBackground {
			l.engine.Synced(t, s, storage.Sync(s.Mem) == nil)
			continue
		}
		l.dev.syncs.Add(1)
		go l.dev.syncBeside(s)
	}
}

// syncBeside is sync beside the lanes. The turn in which it says how that went begins the next.
func (d *Device) syncBeside(s qp.Sync) {
	defer d.syncs.Done()
	err := storage.Sync(s.Mem)
	d.lanes[wire.LaneOf(s.QP().QPN(), len(d.lanes))].do(func(e *qp.Engine, now qp.Time) error {
		e.Synced(now, s, err == nil)
		return nil
	})
}

// HoldStorage keeps all syncs that are yet to begin waiting, as slow storage would, until release
// is called, once: for tests of what peers make of that.
func (d *Device) HoldStorage() (release func()) {
	d.storage.SetMost(0)
	return func() {
		d.storage.SetMost(maxSyncs)
		d.eachLane(func(*qp.Engine) error { return nil }) // a turn
	}
}
