package roce

// Counters: of the engine (the names of IB and rxe), of the port, and of the turns.

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
)

// Stats is a snapshot of counters since the device was opened, of all lanes together or of one.
type Stats struct {
	Engine qp.Stats
	Port   transport.Stats
	Lane   LaneStats
	// asynchronous events that nobody received in time; of the device, not of a lane
	EventsLost uint64
}

// LaneStats counts what lanes do.
type LaneStats struct {
	Turns      uint64 // turns taken, by anybody
	Wakes      uint64 // times that who slept on the port was woken for something due earlier
	PortFull   uint64 // sends that the port had no room for
	Postponed  uint64 // turns whose sending was left to the application's next call
	Strays     uint64 // frames that arrived here and were handed over to another lane
	StraysLost uint64 // of these, those that it had no room for
	Foreign    uint64 // frames for another slot of the address, which Config.Foreign was shown
}

// Stats returns the present counters, all lanes together. It waits for the end of a turn, so do not
// call it per message.
func (d *Device) Stats() Stats {
	s := Stats{EventsLost: d.events.lostCount()}
	for _, l := range d.provider.stats() {
		add(reflect.ValueOf(&s).Elem(), reflect.ValueOf(l))
	}
	return s
}

// StatsByLane returns the present counters of each lane (Config.Lanes): whether all of them have
// something to do, and how many packets come to another lane than that of their queue pair.
func (d *Device) StatsByLane() []Stats { return d.provider.stats() }

// Records appends what the device has done since the last call, in the order of time, and returns
// the extended slice: of each lane as much as Config.Records keeps, and a qp.RecordLost for what
// was overwritten since. Times are those of the device's clock (QueryRTValues). It waits for the
// end of a turn. Without Config.Records, and of an RDMA device of the kernel, there is nothing.
func (d *Device) Records(dst []qp.Record) []qp.Record {
	n := len(dst)
	dst = d.provider.records(dst)
	slices.SortStableFunc(dst[n:], func(a, b qp.Record) int { return cmp.Compare(a.At, b.At) })
	return dst
}

// add adds counters, whatever there are, to others of the same type. Of texts, the last one that
// says something stays.
func add(sum, more reflect.Value) {
	switch sum.Kind() {
	case reflect.Uint64:
		sum.SetUint(sum.Uint() + more.Uint())
	case reflect.String:
		if more.Len() > 0 {
			sum.Set(more)
		}
	case reflect.Array:
		for i := range sum.Len() {
			add(sum.Index(i), more.Index(i))
		}
	case reflect.Struct:
		for i := range sum.NumField() {
			add(sum.Field(i), more.Field(i))
		}
	}
}
