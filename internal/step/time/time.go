// Package time is that of the standard library for a rewritten build: see package step. Its time is
// virtual.
package time

import (
	"time"

	"github.com/goroce/goroce/internal/step"
)

// What is a time stays so.
type (
	Duration = time.Duration
	Time     = time.Time
	Month    = time.Month
)

// The units.
const (
	Nanosecond  = time.Nanosecond
	Microsecond = time.Microsecond
	Millisecond = time.Millisecond
	Second      = time.Second
	Minute      = time.Minute
	Hour        = time.Hour
)

// Now looks at the clock.
func Now() Time { return step.Now() }

// Since is how long ago t was.
func Since(t Time) Duration { return step.Now().Sub(t) }

// Until is how long it is to t.
func Until(t Time) Duration { return t.Sub(step.Now()) }

// Sleep waits.
func Sleep(d Duration) { step.Sleep(d) }

// Unix is a time of day.
func Unix(sec, nsec int64) Time { return time.Unix(sec, nsec) }

// Timer is one.
type Timer struct {
	C    <-chan Time
	c    chan Time
	f    func()
	next *step.Timer
}

// NewTimer sends the time after d.
func NewTimer(d Duration) *Timer {
	c := make(chan Time, 1)
	t := &Timer{C: c, c: c}
	t.Reset(d)
	return t
}

// AfterFunc calls f after d, on a goroutine of its own.
func AfterFunc(d Duration, f func()) *Timer {
	t := &Timer{f: f}
	t.Reset(d)
	return t
}

// Reset has it go off after d, and says whether it was to go off.
func (t *Timer) Reset(d Duration) bool {
	was := t.Stop()
	t.next = step.After(d, t.rings)
	return was
}

func (t *Timer) rings() {
	t.next = nil
	if t.f != nil {
		step.Go(t.f)
		return
	}
	select {
	case t.c <- time.Time{}:
	default:
	}
	step.TouchChan(t.C)
}

// Stop keeps it from going off, and says whether it was to. As of Go 1.23 nothing is left in C.
func (t *Timer) Stop() bool {
	was := t.next != nil && t.next.Stop()
	t.next = nil
	select {
	case <-t.c:
		was = true
	default:
	}
	return was
}
