// Package event tells what has changed below a port.
package event

// Stages: what is compared, and what its differences are called; the output of a port.

import (
	"sync"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// Facts are what events are about.
type Facts struct {
	Up   bool       // transport.Info.Up
	GIDs []wire.GID // transport.Info.GIDs; nobody modifies it
	MTU  int        // transport.Info.NetMTU; 0: there is no interface any more
}

// since lists what has changed from before to f, at most one event of each kind.
func (f Facts) since(before Facts) (list []transport.Event) {
	for _, row := range []struct {
		happened bool
		event    transport.Event
	}{
		{f.Up && !before.Up, transport.LinkUp},
		{before.Up && !f.Up, transport.LinkDown},
		{lacks(f.GIDs, before.GIDs), transport.AddressGone},
		{lacks(before.GIDs, f.GIDs), transport.AddressBack},
		{f.MTU != before.MTU && f.MTU != 0, transport.MTUChanged},
		{f.MTU == 0 && before.MTU != 0, transport.InterfaceGone},
	} {
		if row.happened {
			list = append(list, row.event)
		}
	}
	return list
}

// lacks tells whether a row of other has an address that it does not have in rows.
func lacks(rows, other []wire.GID) bool {
	for i, gid := range other {
		if !gid.IsZero() && (i >= len(rows) || rows[i] != gid) {
			return true
		}
	}
	return false
}

// room is how many events wait for their reader: a link that flaps makes two each time.
const room = 64

// Output is where a port tells of events. Its methods may be called from any goroutine.
type Output struct {
	mu     sync.Mutex
	facts  Facts
	events chan transport.Event
	closed bool
}

// New returns an output of a port below which things are as the facts say.
func New(facts Facts) *Output {
	return &Output{facts: facts, events: make(chan transport.Event, room)}
}

// Events is the channel.
func (o *Output) Events() <-chan transport.Event { return o.events }

// Note tells what has changed since the last call. What there is no room for is dropped.
func (o *Output) Note(now Facts) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	for _, e := range now.since(o.facts) {
		select {
		case o.events <- e:
		default:
		}
	}
	o.facts = now
}

// Facts are those of the last Note.
func (o *Output) Facts() Facts {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.facts
}

// Close closes the channel. A second Close does nothing, and so does Note from then on.
func (o *Output) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		close(o.events)
	}
}
