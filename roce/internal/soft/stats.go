package soft

// Counters of a lane: of its engine, of its port, and of its turns.

import (
	"slices"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
)

// Stats are the counters of a lane since the device was opened.
type Stats struct {
	Engine qp.Stats
	Port   transport.Stats
	Lane   LaneStats
}

// LaneStats counts what happens around a lane's turns.
type LaneStats struct {
	Turns      uint64 // turns taken, by anybody
	Wakes      uint64 // times that a goroutine which slept on the port was woken early
	PortFull   uint64 // sends that the port had no room for
	Postponed  uint64 // turns whose sending was left to the application's next call
	Strays     uint64 // frames that arrived here and were handed over to another lane
	StraysLost uint64 // of these, those that it had no room for
	Foreign    uint64 // frames for another slot of the address, which Config.Foreign was shown
}

func (l *lane) stats() Stats {
	l.turns.lock()
	defer l.release()
	return Stats{Engine: l.engine.Stats(), Port: l.port.Stats(), Lane: l.count}
}

// records appends what the lane has recorded since the last call, and before it how much of that is
// lost.
func (l *lane) records(dst []qp.Record) []qp.Record {
	if l.recorder == nil {
		return dst
	}
	l.turns.lock()
	defer l.release()
	from, n := l.recorded, len(dst)
	dst, l.recorded = l.recorder.Append(dst, from)
	if lost := l.recorded - from - uint64(len(dst)-n); lost > 0 {
		dst = slices.Insert(dst, n, qp.Record{At: dst[n].At, Kind: qp.RecordLost, Value: lost})
	}
	return dst
}
