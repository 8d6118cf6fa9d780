//go:build verbs

package librdmacm

// The identifier: making one, its addresses and options, its end.

/*
#include "glue.h"
*/
import "C"

import (
	"net/netip"
	"time"
	"unsafe"

	"github.com/goroce/goroce/roce/internal/verbs"
)

// ID is an identifier (rdma_cm_id). Its owner sees to it that no method is called after Destroy;
// otherwise all may be called from any goroutine.
type ID struct {
	// Owner is its owner's. Of a new one it is to be set before told returns.
	Owner any

	c  *Channel
	id *C.struct_rdma_cm_id
}

// CreateID makes an identifier in a port space.
func (c *Channel) CreateID(space uint16, owner any) (*ID, error) {
	var id *C.struct_rdma_cm_id
	result, errno := C.rdma_create_id(c.ch, &id, nil, uint32(space))
	if err := answered("rdma_create_id", result, errno); err != nil {
		return nil, err
	}
	i := &ID{Owner: owner, c: c, id: id}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids[id] = i
	return i, nil
}

// answered returns what a call's result and errno mean.
func answered(call string, result C.int, errno error) error {
	if result == 0 {
		return nil
	}
	return verbs.Refused(call, errno)
}

// Destroy ends the identifier: nothing is told of it any more, and a peer that waits for an answer
// is refused.
func (i *ID) Destroy() {
	i.c.mu.Lock()
	delete(i.c.ids, i.id)
	i.c.mu.Unlock()
	C.rdma_destroy_id(i.id)
}

// Device is the kernel's device and port that the identifier is on; "" if it is on none yet.
func (i *ID) Device() (name string, port uint8) {
	if i.id.verbs == nil {
		return "", 0
	}
	return C.GoString(C.ibv_get_device_name(i.id.verbs.device)), uint8(i.id.port_num)
}

// IWARP says whether that device speaks iWARP.
func (i *ID) IWARP() bool {
	return i.id.verbs != nil && i.id.verbs.device.transport_type == C.IBV_TRANSPORT_IWARP
}

// LocalAddr is the local address and port; invalid if there is none yet.
func (i *ID) LocalAddr() netip.AddrPort { return addrPort(C.goroce_local_addr(i.id)) }

// PeerAddr is the peer's.
func (i *ID) PeerAddr() netip.AddrPort { return addrPort(C.goroce_peer_addr(i.id)) }

// Bind gives it a local address, and a port if that is 0.
func (i *ID) Bind(a netip.AddrPort) error {
	at := sockaddr(a)
	result, errno := C.goroce_bind_addr(i.id, &at)
	return answered("rdma_bind_addr", result, errno)
}

// ResolveAddr finds the neighbour; src is invalid if the identifier is bound.
func (i *ID) ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error {
	to := sockaddr(dst)
	if !src.IsValid() {
		result, errno := C.goroce_resolve_addr(i.id, nil, &to, ms(timeout))
		return answered("rdma_resolve_addr", result, errno)
	}
	from := sockaddr(src)
	result, errno := C.goroce_resolve_addr(i.id, &from, &to, ms(timeout))
	return answered("rdma_resolve_addr", result, errno)
}

// ResolveRoute finds the route.
func (i *ID) ResolveRoute(timeout time.Duration) error {
	result, errno := C.rdma_resolve_route(i.id, ms(timeout))
	return answered("rdma_resolve_route", result, errno)
}

// ms is a time in the library's unit, at least 1.
func ms(t time.Duration) C.int { return C.int(max(t.Milliseconds(), 1)) }

// SetTOS sets the traffic class.
func (i *ID) SetTOS(tos uint8) error {
	result, errno := C.goroce_set_byte(i.id, C.RDMA_OPTION_ID_TOS, C.uint8_t(tos))
	return answered("rdma_set_option", result, errno)
}

// SetAckTimeout sets the ack timeout.
func (i *ID) SetAckTimeout(timeout uint8) error {
	result, errno := C.goroce_set_byte(i.id, C.RDMA_OPTION_ID_ACK_TIMEOUT, C.uint8_t(timeout))
	return answered("rdma_set_option", result, errno)
}

// SetReuseAddr lets identifiers that do not listen share a port.
func (i *ID) SetReuseAddr() error {
	result, errno := C.goroce_set_int(i.id, C.RDMA_OPTION_ID_REUSEADDR, 1)
	return answered("rdma_set_option", result, errno)
}

// pointer is where bytes begin; nil if there are none.
func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
