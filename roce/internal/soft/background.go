package soft

// The background of a lane: a goroutine that takes the turns which no application takes. This file,
// changes.go, which listens to the port, and flush.go are all of the package that starts
// goroutines. Package drive has its states.
//
// Stages: start → stand by while an application polls → watch the port while none does: take turns,
// stay up, park.

import (
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
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

// attended tells whether the lanes have a background. It does not change once the device is open.
func (d *Device) attended() bool { return d.lanes[0].drive.Attended() }

// background takes the turns that no application takes. While one polls it stands by, without
// touching the port: waking up for each packet would cost the poller more than the stack itself.
func (l *lane) background() {
	defer close(l.done)
	for !l.drive.Ended() {
		if !l.inUse() {
			l.drive.Comes()
			l.watch()
			continue
		}
		t := l.clock.now()
		l.drive.StandsBy(t)
		if l.inUse() { // else it stopped before it could see that we stand by
			l.standby.sleep(time.Duration(l.drive.NextLook(t)))
		}
	}
}

// watch takes turns until there has been nothing to do for a while, and then parks until the port
// has something, a deadline comes, or somebody wakes it. While a relief watches the port it parks
// behind that. It ends when an application polls, too.
func (l *lane) watch() {
	for t := l.takeOver(); l.drive.TakesTurns() && l.drive.StaysUp(l.turn(t), t); t = l.clock.read() {
		l.pause()
		if l.inUse() {
			return
		}
		l.turns.lock()
	}
	l.park(l.clock.at)
}

// takeOver gets the turn lock for the background.
func (l *lane) takeOver() (t qp.Time) {
	l.turns.lock()
	t = l.clock.read()
	l.drive.TakesOver(t)
	return t
}

// pause gives the turn back. Whom it has woken can go on right here.
func (l *lane) pause() {
	woke := l.woke
	l.woke = false
	l.release()
	if woke {
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
	if l.seats != nil {
		return l.seats.Watch(transport.Background)
	}
	return l.port.Wait(waitFor(until, t))
}
