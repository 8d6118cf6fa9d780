//go:build verbs

package librdmacm

// The event channel.
// Stages: making one → an event is taken → what it says is copied, and it is acknowledged → its
// owner is told.

/*
#cgo LDFLAGS: -lrdmacm -libverbs
#include "glue.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/goroce/goroce/roce/internal/verbs"
)

// Channel is an event channel (rdma_event_channel). All methods may be called from any goroutine.
type Channel struct {
	ch    *C.struct_rdma_event_channel
	fd    *verbs.Descriptor
	event *C.struct_rdma_cm_event // the one that was taken
	told  func(*Event)

	mu  sync.Mutex
	ids map[*C.struct_rdma_cm_id]*ID
}

// Event is something that happened to an identifier (rdma_cm_event).
type Event struct {
	Type     uint8 // RDMA_CM_EVENT_...
	Status   int   // 0, a reason of the peer's, or a negative errno
	ID       *ID   // of a request a new one
	Listener *ID   // of a request
	Param    Param
	QKey     uint32 // of a service that was resolved
}

// Open makes a channel (rdma_create_event_channel). told is called with each event, on a goroutine
// of the channel, one at a time.
func Open(told func(*Event)) (*Channel, error) {
	ch, errno := C.rdma_create_event_channel()
	if ch == nil {
		return nil, fmt.Errorf("%w (is the module rdma_ucm loaded, and may this user use /dev/infiniband/rdma_cm?)",
			verbs.Refused("rdma_create_event_channel", errno))
	}
	c := &Channel{ch: ch, told: told, ids: make(map[*C.struct_rdma_cm_id]*ID)}
	var err error
	if c.fd, err = verbs.Watch(int(ch.fd), "rdma_cm events", c.take, c.tell); err != nil {
		C.rdma_destroy_event_channel(ch)
		return nil, err
	}
	return c, nil
}

// Close ends the channel, whose identifiers are destroyed. It must not be called by told.
func (c *Channel) Close() {
	c.fd.Close()
	C.rdma_destroy_event_channel(c.ch)
}

func (c *Channel) take() bool { return C.rdma_get_cm_event(c.ch, &c.event) == 0 }

// tell copies an event, lets it go, and tells of it.
func (c *Channel) tell() {
	e, stray := c.read(c.event)
	C.rdma_ack_cm_event(c.event)
	switch {
	case stray != nil: // the listener is closed meanwhile
		C.rdma_destroy_id(stray)
	case e.ID != nil:
		c.told(e)
	}
}

// read copies an event. That of an identifier that is being destroyed has no ID; stray is a new one
// then.
func (c *Channel) read(from *C.struct_rdma_cm_event) (e *Event, stray *C.struct_rdma_cm_id) {
	e = &Event{Type: uint8(from.event), Status: int(from.status)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if from.event == C.RDMA_CM_EVENT_CONNECT_REQUEST {
		if e.Listener = c.ids[from.listen_id]; e.Listener == nil {
			return e, from.id
		}
		c.ids[from.id] = &ID{c: c, id: from.id}
	}
	if e.ID = c.ids[from.id]; e.ID == nil {
		return e, nil
	}
	if from.id.ps == C.RDMA_PS_UDP {
		p := C.goroce_ud(from)
		e.Param = Param{PrivateData: data(p.private_data, p.private_data_len), QPN: uint32(p.qp_num)}
		e.QKey = uint32(p.qkey)
		return e, nil
	}
	p := C.goroce_conn(from)
	e.Param = Param{PrivateData: data(p.private_data, p.private_data_len),
		ResponderResources: uint8(p.responder_resources), InitiatorDepth: uint8(p.initiator_depth),
		FlowControl: p.flow_control != 0, RetryCount: uint8(p.retry_count), RNRRetryCount: uint8(p.rnr_retry_count),
		SRQ: p.srq != 0, QPN: uint32(p.qp_num)}
	return e, nil
}

// data copies private data.
func data(at unsafe.Pointer, n C.uint8_t) []byte {
	if at == nil {
		return nil
	}
	return C.GoBytes(at, C.int(n))
}
