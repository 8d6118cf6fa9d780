package roce

// Asynchronous events: what happens to a device, a queue pair or a completion queue that no completion reports.

import (
	"fmt"
	"sync"

	"github.com/goroce/goroce/qp"
)

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

// asyncEvent turns the engine's event into this API's.
func asyncEvent(d *Device, e qp.Event) AsyncEvent {
	a := AsyncEvent{Type: e.Type, Device: d}
	if e.QP != nil {
		a.QP = e.QP.Context().(*QP)
	}
	if e.CQ != nil {
		a.CQ = e.CQ.Context.(*CQ)
	}
	return a
}

// maxEvents is how many events wait for the application.
const maxEvents = 256

// eventQueue never makes a lane wait: when it is full, the oldest event goes, and is counted.
type eventQueue struct {
	ch     chan AsyncEvent
	mu     sync.Mutex // one writer at a time, so that dropping one makes room for one
	closed bool
	lost   uint64
}

func (q *eventQueue) init() { q.ch = make(chan AsyncEvent, maxEvents) }

func (q *eventQueue) put(e AsyncEvent) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		select {
		case q.ch <- e:
			return
		default:
		}
		select {
		case <-q.ch:
			q.lost++
		default: // somebody received meanwhile
		}
	}
}

func (q *eventQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	close(q.ch)
}

func (q *eventQueue) lostCount() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// Events is where asynchronous events arrive (ibv_get_async_event). The queue holds 256; if nobody receives, the oldest are
// dropped and counted in Stats.EventsLost. The channel is closed by Device.Close.
func (d *Device) Events() <-chan AsyncEvent { return d.queue.ch }
