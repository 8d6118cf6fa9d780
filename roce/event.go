package roce

// What is told beside completions. Stages: asynchronous events, of what no completion reports, and
// who hears of them → the completion channel, where completion queues that are armed tell of their
// next completion.

import (
	"context"
	"fmt"

	"github.com/goroce/goroce/roce/internal/soft"
)

// AsyncEvent is an asynchronous event (ibv_async_event) and the object that it concerns; the others
// are nil.
type AsyncEvent struct {
	Type   EventType
	Device *Device
	QP     *QP
	CQ     *CQ
	SRQ    *SRQ
	Err    error // EventPortErr: that the link is down, or what the port reported
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

// Events is where asynchronous events arrive (ibv_get_async_event). Those of the port are told
// when QueryPort and GIDs show what has happened: EventPortErr when the link goes down, and
// EventPortActive when it is up again (both also of a port whose calls fail and work again) or has
// another MTU; EventGIDChange when an address comes or goes, EventDeviceFatal when the interface
// was removed. Changes within some milliseconds are told as one: a link that was down for less may
// have no event. Without netlink nobody tells; PortInfo().Degraded says so. The queue holds 256; if
// nobody takes them, the oldest go and are counted in Stats.EventsLost. Device.Close ends it.
func (d *Device) Events() *EventQueue[AsyncEvent] { return &d.events }

// OnEvent has f told of each asynchronous event before Events has it: for packages that keep
// something on a device, as roce/rdmacm, and leave Events to the application. f is called by
// whoever finds out, in a lane's turn, one event at a time: it must return at once and call nothing
// of the device. When stop returns f is called no more.
func (d *Device) OnEvent(f func(AsyncEvent)) (stop func()) {
	d.watching.Lock()
	defer d.watching.Unlock()
	if d.watchers == nil {
		d.watchers = make(map[*func(AsyncEvent)]struct{})
	}
	key := &f
	d.watchers[key] = struct{}{}
	return func() {
		d.watching.Lock()
		defer d.watching.Unlock()
		delete(d.watchers, key)
	}
}

// happened tells of an event.
func (d *Device) happened(e AsyncEvent) {
	d.watching.Lock()
	for f := range d.watchers {
		(*f)(e)
	}
	d.watching.Unlock()
	d.events.put(e)
}

// CompChannel is a completion channel (ibv_comp_channel): several completion queues share it, and
// it says which of them has a completion that [CQ.ReqNotify] asked for. Each request is told once.
//
// Completions that were in a queue before it was armed do not count, so: arm, Poll, and only if
// that was empty wait for the channel, with [CompChannel.Wait] where a goroutine has nothing else
// to wait for. An event is told in the turn of the stack that makes it. All methods may be called
// from any goroutine.
type CompChannel struct {
	EventQueue[*CQ]
	dev  *Device
	soft *soft.Channel // nil: the device is none of this stack
}

func (ch *CompChannel) kind() string    { return "CompChannel" }
func (ch *CompChannel) label() string   { return "" }
func (ch *CompChannel) needs() []object { return nil }

// CreateCompChannel makes a completion channel (ibv_create_comp_channel); CQInitAttr.Channel gives
// it to queues. ErrClosed.
func (d *Device) CreateCompChannel() (ch *CompChannel, err error) {
	err = d.create("CreateCompChannel", func() error {
		ch = &CompChannel{dev: d}
		ch.init(0)
		d.provider.createChannel(ch)
		d.objects.add(ch)
		return nil
	})
	return ch, err
}

// Wait takes the oldest event and waits for one if need be (ibv_get_cq_event). It is Get, which it
// shares its errors with, but works meanwhile, as CQ.Wait does: the goroutine runs the stack for
// some microseconds and then sleeps on the port itself where it can, so that a packet wakes one
// thread and not the background first. Several goroutines may wait, also in other ways.
func (ch *CompChannel) Wait(ctx context.Context) (*CQ, error) {
	if ch.soft != nil {
		if c, ok := ch.take(func() bool { return ch.soft.Wait(ctx) }); ok {
			return c, nil
		}
	}
	return ch.Get(ctx)
}

// Close ends the channel (ibv_destroy_comp_channel): who waits returns with ErrClosed. While
// completion queues have it the error is ErrBusy. A second Close does nothing.
func (ch *CompChannel) Close() error {
	return ch.dev.destroy(ch, func() error {
		if ch.soft != nil {
			ch.soft.Close()
		}
		ch.close()
		return nil
	})
}
