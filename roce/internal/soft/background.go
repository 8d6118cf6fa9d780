package soft

// The background of a lane: a goroutine that takes the turns which no application takes. This file
// and changes.go, which listens to the port, are all of the package that starts goroutines. Package
// drive has its states.
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

// start starts the background.
func (l *lane) start() (err error) {
	if l.standby, err = l.dev.alarm(); err != nil {
		return err
	}
	l.done = make(chan struct{})
	l.drive.Attend(l.clock.now())
	go l.background()
	return nil
}

// background takes the turns that no application takes. While one polls it stands by, without
// touching the port: waking up for each packet would cost the poller more than the stack itself.
func (l *lane) background() {
	defer close(l.done)
	for !l.drive.Ended() {
		if !l.inUse() {
			l.drive.Comes()
			l.watch()
			l.drive.Left(l.clock.now())
			continue
		}
		l.drive.StandsBy()
		if l.inUse() { // else it stopped before it could see that we stand by
			l.standby.sleep(time.Duration(l.drive.NextLook(l.clock.now())))
		}
	}
}

// watch takes turns until there has been nothing to do for a while, and then parks until the port
// has something, a deadline comes, or somebody wakes it. While a relief watches the port it parks
// behind that. It ends when an application polls, too.
func (l *lane) watch() {
	for t := l.takeOver(); l.drive.TakesTurns() && l.drive.Lingers(l.turn(t), t); t = l.clock.read() {
		l.pause()
		if l.inUse() {
			return
		}
		l.turns.lock()
	}
	l.park(l.clock.at)
}

// takeOver gets the turn lock for the background, which no longer relies on the application.
func (l *lane) takeOver() (t qp.Time) {
	l.turns.lock()
	t = l.clock.read()
	l.drive.TakesOver(t)
	return t
}

// pause gives the turn back. Whom it has woken can go on right here.
func (l *lane) pause() {
	told := l.told
	l.told = false
	l.release()
	if told {
		l.dev.yield()
	}
}

// park sleeps on the port. The caller has the turn lock, and has given it back when park returns.
func (l *lane) park(t qp.Time) {
	behind, failed := l.drive.Relieved(), l.failed
	until := l.bedtime(t)
	l.carryOut(l.drive.Parks(until, t))
	l.release()
	if !l.drive.Ended() && (behind || !l.mail.waiting()) {
		if err := l.sleep(until, t); err != nil || failed {
			time.Sleep(retryFailed) // a broken port may have nothing to wait for
		}
	}
	l.turns.lock()
	l.drive.Rises()
	l.release()
	if behind {
		l.dev.yield() // whatever has woken us, it is for the relief to go on
	}
}

// sleep waits for the port, after that was announced.
func (l *lane) sleep(until, t qp.Time) error {
	if l.watched != nil {
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
