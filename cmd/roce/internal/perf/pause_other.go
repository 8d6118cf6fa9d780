//go:build !linux

package perf

import "time"

// pause is a sleep that can be ended.
type pause struct{ over chan struct{} }

func newPause() (*pause, error) { return &pause{make(chan struct{})}, nil }

// sleep returns after d, or when end is called or was.
func (p *pause) sleep(d time.Duration) error {
	select {
	case <-p.over:
	case <-time.After(d):
	}
	return nil
}

// end ends the present sleep and all that come. It is called once.
func (p *pause) end() { close(p.over) }

func (p *pause) close() {}
