// Package park lets a goroutine sleep where there is no file descriptor to sleep on.
package park

import "time"

// Parker lets one goroutine sleep until another one wakes it, for ports without a file descriptor.
// A token that is already there stands for "woken": so a wake-up before the sleep is not lost, and
// any number of them are one.
type Parker struct {
	token chan struct{}
	timer *time.Timer // of all sleeps, so that none makes a new one
}

// New returns a parker that nobody has woken.
func New() Parker { return Parker{token: make(chan struct{}, 1)} }

// Unpark wakes the sleeper, or the next one if nobody sleeps. It may be called from anywhere.
func (p *Parker) Unpark() {
	select {
	case p.token <- struct{}{}:
	default:
	}
}

// Park sleeps until Unpark or for the timeout (<0: for ever).
func (p *Parker) Park(timeout time.Duration) {
	switch {
	case timeout < 0:
		<-p.token
	case timeout == 0:
		select {
		case <-p.token:
		default:
		}
	default:
		if p.timer == nil {
			p.timer = time.NewTimer(timeout)
		} else {
			p.timer.Reset(timeout)
		}
		select {
		case <-p.token:
			p.timer.Stop()
		case <-p.timer.C:
		}
	}
}
