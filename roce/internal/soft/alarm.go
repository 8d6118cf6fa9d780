package soft

import "time"

// alarm is a sleep of tens of microseconds, or what the system makes of it, that another goroutine
// can end.
type alarm interface {
	// sleep returns after d, or when end is called, or was since the last sleep.
	sleep(d time.Duration)
	// end ends the present sleep or makes the next one return at once. Any goroutine.
	end()
	// close ends the alarm: nobody sleeps any more, and to ring it late does nothing.
	close()
}

// timerAlarm is one that package time makes.
type timerAlarm struct {
	timer *time.Timer
	early chan struct{}
}

func newTimerAlarm() (alarm, error) {
	return &timerAlarm{time.NewTimer(time.Hour), make(chan struct{}, 1)}, nil
}

func (a *timerAlarm) sleep(d time.Duration) {
	a.timer.Reset(d)
	select {
	case <-a.timer.C:
	case <-a.early:
	}
}

func (a *timerAlarm) end() {
	select {
	case a.early <- struct{}{}:
	default:
	}
}

func (a *timerAlarm) close() { a.timer.Stop() }
