//go:build !linux

package system

import "time"

// Pause is a sleep that can be ended.
type Pause struct{ over chan struct{} }

// NewPause makes a pause. There is no error.
func NewPause() (*Pause, error) { return &Pause{make(chan struct{})}, nil }

// Sleep returns after d, or when End is called or was. One goroutine at a time.
func (p *Pause) Sleep(d time.Duration) error {
	select {
	case <-p.over:
	case <-time.After(d):
	}
	return nil
}

// End ends the present sleep and all that come. It is called once.
func (p *Pause) End() { close(p.over) }

// Close does nothing.
func (p *Pause) Close() {}
