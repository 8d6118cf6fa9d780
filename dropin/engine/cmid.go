package main

// Event channels and IDs of librdmacm.so.1: each call is one of package rdmacm.
//
// Stages: what C knows them by; requests' new IDs; making and ending; addresses; connecting; queue
// pairs; options; groups.

// #include <rdma/rdma_cma.h>
// typedef struct rdma_cm_id *(*goroce_born)(struct rdma_cm_id *listener, uint32_t handle);
// typedef void (*goroce_unborn)(struct rdma_cm_id *child);
// static struct rdma_cm_id *born(void *f, struct rdma_cm_id *l, uint32_t h)
// { return ((goroce_born)f)(l, h); }
// static void unborn(void *f, struct rdma_cm_id *c) { ((goroce_unborn)f)(c); }
import "C"

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

// cmID is an rdma_cm_id.
type cmID struct {
	*rdmacm.ID
	number   handle
	c        *C.struct_rdma_cm_id
	reported C.uint32_t  // events that C has taken, and must acknowledge; taking has the lock
	parted   atomic.Bool // it was disconnected, by whomever
	asked    netip.Addr  // the loopback's, of one that is bound to all in its place
}

// taking is held while an event goes from its queue to an ID's count, so that who ends an ID knows
// of all that were taken.
var taking sync.Mutex

// cmChannel is an rdma_event_channel. The functions make and free the C structure of the ID that a
// request gets.
type cmChannel struct {
	*rdmacm.EventChannel
	born, unborn unsafe.Pointer
}

//export goroce_cm_create_channel
func goroce_cm_create_channel(born, unborn unsafe.Pointer, fd *C.int, out *C.uint32_t) C.int {
	ch := &cmChannel{born: born, unborn: unborn}
	cfg := cmConfig()
	cfg.Born, cfg.Unborn = ch.bear, ch.forget
	var err error
	if ch.EventChannel, err = rdmacm.NewEventChannel(&cfg); err != nil {
		return errno(err)
	}
	n, err := ch.Events().FD()
	if err != nil {
		ch.Close()
		return errno(err)
	}
	*fd = C.int(n)
	return made(nil, ch, ch.Close, out)
}

// bear makes what C and Go know of a request's ID.
func (ch *cmChannel) bear(child, listener *rdmacm.ID) any {
	x := &cmID{ID: child}
	x.number = put(nil, x)
	x.c = C.born(ch.born, listener.Context.(*cmID).c, C.uint32_t(x.number))
	return x
}

// known says whether C knows the ID: of a request's there may have been no room.
func (x *cmID) known() bool { return x.number != 0 && x.c != nil }

// forget takes back what bear has made.
func (ch *cmChannel) forget(child *rdmacm.ID) {
	x := child.Context.(*cmID)
	if x.number != 0 {
		drop(x.number)
	}
	C.unborn(ch.unborn, x.c)
}

// goroce_cm_destroy_channel ends a channel, and before it the IDs that are on it: Linux does so,
// and there are programs that destroy the channel first.
//
//export goroce_cm_destroy_channel
func goroce_cm_destroy_channel(h C.uint32_t) C.int {
	ch, ok := find[*cmChannel](handle(h))
	if !ok {
		return invalid
	}
	err := ch.Close()
	for errors.Is(err, rdmacm.ErrBusy) { // until its listeners are closed, others come
		for x := range all[*cmID] {
			if x.Channel() == ch.EventChannel {
				x.Close()
			}
		}
		err = ch.Close()
	}
	drop(handle(h))
	return errno(err)
}

//export goroce_cm_create_id
func goroce_cm_create_id(h C.uint32_t, space C.int, id *C.struct_rdma_cm_id, out *C.uint32_t) C.int {
	ch, ok := find[*cmChannel](handle(h))
	if !ok || space < 0 || space > 0xffff {
		return invalid
	}
	x := &cmID{c: id}
	var err error
	if x.ID, err = ch.CreateID(rdmacm.PortSpace(space)); err != nil {
		return errno(err)
	}
	x.Context = x
	no := made(nil, x, x.Close, out)
	x.number = handle(*out)
	return no
}

// goroce_cm_destroy_id ends an ID, and says how many events C has taken of it.
//
//export goroce_cm_destroy_id
func goroce_cm_destroy_id(h C.uint32_t, reported *C.uint32_t) C.int {
	x, ok := find[*cmID](handle(h))
	if !ok {
		return invalid
	}
	no := errno(x.Close())
	taking.Lock()
	*reported = x.reported
	taking.Unlock()
	drop(x.number)
	return no
}

// goroce_cm_migrate_id moves an ID to another channel, and says how many events C has taken of it.
//
//export goroce_cm_migrate_id
func goroce_cm_migrate_id(h, channel C.uint32_t, reported *C.uint32_t) C.int {
	x, ok := find[*cmID](handle(h))
	ch, isChannel := find[*cmChannel](handle(channel))
	if !ok || !isChannel {
		return invalid
	}
	no := errno(x.Migrate(ch.EventChannel))
	taking.Lock()
	*reported = x.reported
	taking.Unlock()
	return no
}

// goroce_cm_bind_addr: an address of the loopback is to Linux as none at all. So it is here, if no
// device is on the loopback; if one is, an ID that listens there is asked there alone.
//
//export goroce_cm_bind_addr
func goroce_cm_bind_addr(h C.uint32_t, addr unsafe.Pointer) C.int {
	x, ok := find[*cmID](handle(h))
	if !ok {
		return invalid
	}
	a, no := addressOf(addr)
	if no != 0 {
		return no
	}
	err := x.BindAddr(a)
	if a.Addr().IsLoopback() && errors.Is(err, syscall.EADDRNOTAVAIL) && !onLoopback() {
		if err = x.BindAddr(netip.AddrPortFrom(unspecified(a.Addr()), a.Port())); err == nil {
			x.asked = a.Addr()
		}
	}
	return errno(err)
}

func unspecified(like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// goroce_cm_resolve_addr: src may be NULL.
//
//export goroce_cm_resolve_addr
func goroce_cm_resolve_addr(h C.uint32_t, src, dst unsafe.Pointer, ms C.int) C.int {
	x, ok := find[*cmID](handle(h))
	if !ok {
		return invalid
	}
	to, no := addressOf(dst)
	if no != 0 {
		return no
	}
	from, no := anyAddress, C.int(0)
	if src != nil {
		if from, no = addressOf(src); no != 0 {
			return no
		}
	}
	return errno(x.ResolveAddr(from, to, milliseconds(ms)))
}

func milliseconds(n C.int) time.Duration { return time.Duration(max(n, 0)) * time.Millisecond }

//export goroce_cm_resolve_route
func goroce_cm_resolve_route(h C.uint32_t, ms C.int) C.int {
	x, ok := find[*cmID](handle(h))
	if !ok {
		return invalid
	}
	return errno(x.ResolveRoute(milliseconds(ms)))
}

// goroce_cm_listen binds an ID that is not bound to a port of its own choice, as Linux does.
//
//export goroce_cm_listen
func goroce_cm_listen(h C.uint32_t, backlog C.int) C.int {
	x, ok := find[*cmID](handle(h))
	if !ok {
		return invalid
	}
	if !x.LocalAddr().IsValid() {
		if err := x.BindAddr(unbound); err != nil {
			return errno(err)
		}
	}
	if err := x.Listen(int(backlog)); err != nil {
		return errno(err)
	}
	say("listens on", x.LocalAddr())
	return 0
}

// paramOf is what C says; NULL is what rdmacm makes of nil. What is beyond their bits the kernel
// cuts off, too.
func paramOf(p *C.struct_rdma_conn_param) *rdmacm.ConnParam {
	if p == nil {
		return nil
	}
	to := &rdmacm.ConnParam{ResponderResources: uint8(p.responder_resources), InitiatorDepth: uint8(p.initiator_depth),
		FlowControl: p.flow_control != 0, RetryCount: min(uint8(p.retry_count), 7),
		RNRRetryCount: min(uint8(p.rnr_retry_count), 7), SRQ: p.srq != 0, QPN: uint32(p.qp_num) & 0xffffff}
	to.PrivateData = bytesOf(p.private_data, p.private_data_len)
	return to
}

func bytesOf(from unsafe.Pointer, n C.uint8_t) []byte {
	if from == nil {
		return nil
	}
	return C.GoBytes(from, C.int(n))
}

//export goroce_cm_connect
func goroce_cm_connect(h C.uint32_t, p *C.struct_rdma_conn_param) C.int {
	x, ok := find[*cmID](handle(h))
	if !ok {
		return invalid
	}
	return errno(x.Connect(paramOf(p)))
}

//export goroce_cm_accept
func goroce_cm_accept(h C.uint32_t, p *C.struct_rdma_conn_param) C.int {
	x, ok := find[*cmID](handle(h))
	if !ok {
		return invalid
	}
	return errno(x.Accept(paramOf(p)))
}

//export goroce_cm_reject
func goroce_cm_reject(h C.uint32_t, private unsafe.Pointer, n C.uint8_t) C.int {
	x, ok := find[*cmID](handle(h))
	if !ok {
		return invalid
	}
	return errno(x.Reject(bytesOf(private, n)))
}

//export goroce_cm_establish
func goroce_cm_establish(h C.uint32_t) C.int {
	x, ok := find[*cmID](handle(h))
	if !ok {
		return invalid
	}
	return errno(x.Establish())
}

// goroce_cm_disconnect: to disconnect what is disconnected is no error of Linux's.
//
//export goroce_cm_disconnect
func goroce_cm_disconnect(h C.uint32_t) C.int {
	x, ok := find[*cmID](handle(h))
	if !ok {
		return invalid
	}
	err := x.Disconnect()
	if errors.Is(err, rdmacm.ErrState) && x.parted.Load() {
		return 0
	}
	if err == nil {
		x.parted.Store(true)
	}
	return errno(err)
}

// goroce_cm_init_qp_attr: attr has the state that is wanted.
//
//export goroce_cm_init_qp_attr
func goroce_cm_init_qp_attr(h C.uint32_t, attr *C.struct_ibv_qp_attr, mask *C.int) C.int {
	x, ok := find[*cmID](handle(h))
	if !ok {
		return invalid
	}
	t, m, err := x.InitQPAttr(roce.QPState(attr.qp_state))
	if err != nil {
		return errno(err)
	}
	setAttr(attr, &t)
	*mask = C.int(m & attrs)
	return 0
}

// goroce_cm_set_option sets one of level RDMA_OPTION_ID.
//
//export goroce_cm_set_option
func goroce_cm_set_option(h C.uint32_t, name, value C.int) C.int {
	x, ok := find[*cmID](handle(h))
	if !ok {
		return invalid
	}
	switch name {
	case C.RDMA_OPTION_ID_TOS:
		return errno(x.SetTOS(uint8(value)))
	case C.RDMA_OPTION_ID_REUSEADDR:
		return errno(x.SetReuseAddr(value != 0))
	case C.RDMA_OPTION_ID_AFONLY:
		return errno(x.SetAFOnly(value != 0))
	case C.RDMA_OPTION_ID_ACK_TIMEOUT:
		return errno(x.SetAckTimeout(uint8(value)))
	}
	return C.int(syscall.ENOSYS)
}

// goroce_cm_mcast joins a group, with send only as a sender, or leaves it.
//
//export goroce_cm_mcast
func goroce_cm_mcast(h C.uint32_t, group unsafe.Pointer, join, sendOnly C.int, context C.uintptr_t) C.int {
	x, ok := find[*cmID](handle(h))
	if !ok {
		return invalid
	}
	a, no := addressOf(group)
	switch {
	case no != 0:
		return no
	case join == 0:
		return errno(x.LeaveMulticast(a.Addr()))
	}
	return errno(x.JoinMulticast(a.Addr(), sendOnly != 0, uintptr(context)))
}
