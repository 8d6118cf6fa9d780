package roce

// Counters: of the engine (the names of IB and rxe), of the port, and of the turns.

import (
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
)

// Stats is a snapshot of a device's counters since it was opened, all lanes together.
type Stats struct {
	Engine     qp.Stats
	Port       transport.Stats
	Lane       LaneStats
	EventsLost uint64 // asynchronous events that nobody received in time
}

// LaneStats counts what lanes do.
type LaneStats struct {
	Turns     uint64 // turns taken, by anybody
	Wakes     uint64 // times that the background was woken for an earlier deadline
	PortFull  uint64 // sends that the port had no room for
	Postponed uint64 // turns whose sending was left to the application's next call
}

// Stats returns the present counters. It waits for the end of a turn, so do not call it per message.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{Engine: d.engineStats(), EventsLost: d.queue.lostCount()}
	for _, l := range d.lanes {
		s.Port = l.port.Stats() // one lane so far
		l.turns.lock()
		s.Lane = l.count
		l.release()
	}
	return s
}

// engineStats has the device's control lock.
func (d *Device) engineStats() qp.Stats {
	var s qp.Stats
	for _, l := range d.lanes {
		l.turns.lock()
		s = l.engine.Stats() // one lane so far
		l.release()
	}
	return s
}
