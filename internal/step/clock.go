package step

// Time is virtual. A look at the clock takes some, and so does waking up; while all sleep it goes
// on to the next timer.
//
// Stages: looks → timers → sleeping.

import (
	"slices"
	"time"
)

// Pace is how time passes in a play.
type Pace struct {
	Look time.Duration // with each look at the clock
	Wake time.Duration // with each wait
}

// clock is the time of a play.
type clock struct {
	Pace
	passed time.Duration
	timers []*Timer
}

// Timer is something that happens later.
type Timer struct {
	at   time.Duration
	rang func() // it must not wait
}

// horizon is for how long the goroutines of a play may sleep on: what is woken only then is
// forgotten.
const horizon = time.Minute

var began = time.Unix(1_000_000_000, 0)

// Now looks at the clock.
func Now() time.Time {
	p := the
	if p == nil {
		return began
	}
	p.look()
	return began.Add(p.passed)
}

// look has the time pass that a look takes.
func (p *Play) look() { p.pass(p.Look) }

// woke has the time pass that waking up takes.
func (p *Play) woke() { p.pass(p.Wake) }

func (p *Play) pass(d time.Duration) {
	p.passed += d
	for len(p.timers) > 0 && p.timers[0].at <= p.passed {
		p.ring()
	}
}

func (p *Play) ring() {
	t := p.timers[0]
	p.timers = slices.Delete(p.timers, 0, 1)
	t.rang()
}

// wait goes on to the next timer; false: there is none.
func (p *Play) wait() bool {
	if len(p.timers) == 0 || p.timers[0].at > horizon {
		return false
	}
	p.passed = max(p.passed, p.timers[0].at)
	p.ring()
	return true
}

// After has something happen later.
func After(d time.Duration, rang func()) *Timer {
	p := the
	if p == nil {
		panic("step: a timer outside of a play")
	}
	t := &Timer{p.passed + max(d, 0), rang}
	i, _ := slices.BinarySearchFunc(p.timers, t, func(a, b *Timer) int {
		if a.at <= b.at {
			return -1
		}
		return 1
	})
	p.timers = slices.Insert(p.timers, i, t)
	return t
}

// Stop says whether it was still to come, and will not.
func (t *Timer) Stop() bool {
	if the == nil {
		return false
	}
	i := slices.Index(the.timers, t)
	if i >= 0 {
		the.timers = slices.Delete(the.timers, i, i+1)
	}
	return i >= 0
}

// Sleep waits.
func Sleep(d time.Duration) {
	if d <= 0 {
		Yield()
		return
	}
	var over bool
	After(d, func() {
		over = true
		Touch(Object(&over))
	})
	for !over {
		Block(Object(&over))
	}
}
