package roce

// Asynchronous events: what happens to a device, a queue pair or a completion queue that no
// completion reports.

import "fmt"

// AsyncEvent is an asynchronous event (ibv_async_event) and the object that it concerns; the others are nil.
type AsyncEvent struct {
	Type   EventType
	Device *Device
	QP     *QP
	CQ     *CQ
	Err    error // EventPortErr: what the port reported
}

// String prints "CQ error on udp:127.0.0.1", "send queue drained on udp:127.0.0.1, QP 0x00001a".
func (e AsyncEvent) String() string {
	s := fmt.Sprintf("%v on %s", e.Type, e.Device.name)
	if e.QP != nil {
		s += ", QP " + e.QP.label()
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// maxEvents is how many events wait for the application.
const maxEvents = 256

// Events is where asynchronous events arrive (ibv_get_async_event). The queue holds 256; if nobody
// takes them, the oldest go and are counted in Stats.EventsLost. Device.Close ends it.
func (d *Device) Events() *EventQueue[AsyncEvent] { return &d.events }
