package transport

import "time"

// parker lets one goroutine sleep until another one wakes it, for ports without a file descriptor. A token that is
// already there stands for "woken": so a wake-up before the sleep is not lost, and any number of them are one.
type parker struct {
	token chan struct{}
}

func (p *parker) init() { p.token = make(chan struct{}, 1) }

// unpark may be called from anywhere.
func (p *parker) unpark() {
	select {
	case p.token <- struct{}{}:
	default:
	}
}

// park sleeps until unpark or for the timeout (<0: for ever).
func (p *parker) park(timeout time.Duration) {
	switch {
	case timeout < 0:
		<-p.token
	case timeout == 0:
		select {
		case <-p.token:
		default:
		}
	default:
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		select {
		case <-p.token:
		case <-timer.C:
		}
	}
}
