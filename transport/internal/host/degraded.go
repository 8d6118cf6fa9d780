package host

import (
	"slices"
	"sync"

	"github.com/goroce/goroce/transport"
)

// Degradations is what the system has refused. Ports embed it. Its methods may be called from any
// goroutine.
type Degradations struct {
	mu   sync.Mutex
	list []transport.Degradation
}

// Degrade notes, once per feature, that the port works without it.
func (d *Degradations) Degrade(feature, effect string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.ContainsFunc(d.list, func(have transport.Degradation) bool { return have.Feature == feature }) {
		d.list = append(d.list, transport.Degradation{Feature: feature, Effect: effect, Err: err})
	}
}

// Degraded lists them, nil if there are none.
func (d *Degradations) Degraded() []transport.Degradation {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.list)
}
