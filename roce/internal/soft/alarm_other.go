//go:build !linux

package soft

import "time"

// alarm is a sleep of tens of microseconds, or what the system makes of it, that another goroutine can end.
type alarm struct {
	timer *time.Timer
	early chan struct{}
}

func newAlarm() (*alarm, error) {
	return &alarm{time.NewTimer(time.Hour), make(chan struct{}, 1)}, nil
}

// sleep returns after d, or when ring is called, or was since the last sleep.
func (a *alarm) sleep(d time.Duration) {
	a.timer.Reset(d)
	select {
	case <-a.timer.C:
	case <-a.early:
	}
}

// ring ends the present sleep or makes the next one return at once. Any goroutine.
func (a *alarm) ring() {
	select {
	case a.early <- struct{}{}:
	default:
	}
}

// close ends the alarm: nobody sleeps or rings any more.
func (a *alarm) close() { a.timer.Stop() }
