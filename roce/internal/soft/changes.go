package soft

// What changes below the device's ports: link, addresses, MTU. The first port tells of it, for all.
//
// Stages: who listens; from the ports' events to the GID table, the MTU and those of the verbs.

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// listener is what a device has to hear of changes. A device with a background has a goroutine for
// it; one without listens when its polls have long been in vain (sleepers.yield).
type listener struct {
	news   <-chan transport.Event // nil: nobody tells
	gids   atomic.Pointer[[]wire.GID]
	mu     sync.Mutex    // one change at a time
	mtu    wire.MTU      // as the engines have it; under mu
	ending chan struct{} // closed to end the goroutine
	ended  chan struct{} // closed when it has ended; nil: there is none
}

// listen begins to hear of changes.
func (d *Device) listen() {
	if d.news = transport.Events(d.lanes[0].port); d.news == nil || !d.attended() {
		return
	}
	d.ending, d.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(d.ended)
		for {
			select {
			case e, ok := <-d.news:
				if !ok {
					return
				}
				d.changed(e)
			case <-d.ending:
				return
			}
		}
	}()
}

// deafen ends the goroutine, before the ports are closed.
func (d *Device) deafen() {
	if d.ended != nil {
		close(d.ending)
		<-d.ended
	}
}

// hear is what listens without a goroutine. It costs a load from memory if there is nothing.
func (d *Device) hear() {
	if len(d.news) == 0 || d.ended != nil || !d.mu.TryLock() {
		return
	}
	defer d.mu.Unlock()
	if !d.closed {
		select {
		case e := <-d.news:
			d.changed(e)
		default:
		}
	}
}

// GIDs is the GID table as it is now, which nobody modifies. A row may be empty.
func (d *Device) GIDs() []wire.GID { return *d.listener.gids.Load() }

// NetMTU is the longest IP packet that is sent when the first port says this: what fits now, and
// fitted when the device was opened. An interface that has gone has none: then what it had counts.
func (d *Device) NetMTU(info transport.Info) int {
	if info.NetMTU == 0 {
		return d.info.NetMTU
	}
	return min(info.NetMTU, d.info.NetMTU)
}

// maxMTU is the largest path MTU by that. Where not even the smallest fits the port drops packets.
func (d *Device) maxMTU(info transport.Info) wire.MTU {
	return max(wire.MTUForNet(d.NetMTU(info)), wire.MTU256)
}

// errLinkDown goes with EventPortErr.
var errLinkDown = errors.New("the link is down")

// told says what the events of a port are in the terms of the verbs. That the MTU is another one
// has no event of its own there: with NICs the port goes down and up for it, and so applications
// ask a port that has become active what it is like.
var told = [...]Event{
	transport.LinkUp:        {Type: qp.EventPortActive},
	transport.LinkDown:      {Type: qp.EventPortErr, Err: errLinkDown},
	transport.AddressGone:   {Type: qp.EventGIDChange},
	transport.AddressBack:   {Type: qp.EventGIDChange},
	transport.MTUChanged:    {Type: qp.EventPortActive},
	transport.InterfaceGone: {Type: qp.EventDeviceFatal},
}

// changed takes over what the port is like now, and then tells of the event and of those that came
// with it, two of a kind in a row as one.
func (d *Device) changed(first transport.Event) {
	d.listener.mu.Lock()
	defer d.listener.mu.Unlock()
	happened := []transport.Event{first}
	for more := true; more; {
		select {
		case e, ok := <-d.news:
			if more = ok; ok {
				happened = append(happened, e)
			}
		default:
			more = false
		}
	}
	info := d.lanes[0].port.Info()
	if !slices.Equal(info.GIDs, d.GIDs()) {
		d.listener.gids.Store(&info.GIDs)
		d.eachLane(func(e *qp.Engine) error { e.SetGIDs(info.GIDs); return nil })
	}
	if mtu := d.maxMTU(info); mtu != d.mtu {
		d.mtu = mtu
		d.eachLane(func(e *qp.Engine) error { e.SetMTU(mtu); return nil })
	}
	var last Event
	for _, e := range happened {
		tells := int(e) < len(told) && (e != transport.MTUChanged || info.Up)
		if tells && told[e] != last {
			last = told[e]
			d.tell(last)
		}
	}
}
