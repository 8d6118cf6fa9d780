package main

// What the connection manager tells C: events, and where an ID is.
//
// Stages: addresses, as C has them; an event; what is known of an ID.

// #include <rdma/rdma_cma.h>
import "C"

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

// anyAddress is that of who leaves the choice to the system; unbound is all of IPv4's, at any port.
var (
	anyAddress netip.AddrPort
	unbound    = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
)

// addressOf is a struct sockaddr of IPv4 or IPv6; or an errno.
func addressOf(from unsafe.Pointer) (netip.AddrPort, C.int) {
	if from == nil {
		return anyAddress, invalid
	}
	family := *(*uint16)(from)
	switch family {
	case unix.AF_INET:
		b := unsafe.Slice((*byte)(from), unix.SizeofSockaddrInet4)
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:])), binary.BigEndian.Uint16(b[2:])), 0
	case unix.AF_INET6:
		b := unsafe.Slice((*byte)(from), unix.SizeofSockaddrInet6)
		a := netip.AddrFrom16([16]byte(b[8:]))
		if scope := binary.NativeEndian.Uint32(b[24:]); scope != 0 && a.IsLinkLocalUnicast() {
			a = a.WithZone(zone(int(scope)))
		}
		return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(b[2:])), 0
	}
	return anyAddress, C.int(syscall.EAFNOSUPPORT)
}

func zone(scope int) string {
	if i, err := net.InterfaceByIndex(scope); err == nil {
		return i.Name
	}
	return strconv.Itoa(scope)
}

// setAddress is the way back, into a struct sockaddr_storage. What is not known stays as it is.
func setAddress(to unsafe.Pointer, a netip.AddrPort) {
	b := unsafe.Slice((*byte)(to), unix.SizeofSockaddrInet6)
	switch ip := a.Addr(); {
	case ip.Is4():
		clear(b)
		binary.NativeEndian.PutUint16(b, unix.AF_INET)
		copy(b[4:], ip.AsSlice())
	case ip.Is6():
		clear(b)
		binary.NativeEndian.PutUint16(b, unix.AF_INET6)
		copy(b[8:], ip.AsSlice())
		if i, err := net.InterfaceByName(ip.Zone()); err == nil {
			binary.NativeEndian.PutUint32(b[24:], uint32(i.Index))
		}
	default:
		return
	}
	binary.BigEndian.PutUint16(b[2:], a.Port())
}

// goroce_cm_get_event takes an event. private is room for as many bytes as private_data_len can
// say. EAGAIN: there is none.
//
//export goroce_cm_get_event
func goroce_cm_get_event(h C.uint32_t, out *C.struct_rdma_cm_event, private unsafe.Pointer) C.int {
	ch, ok := find[*cmChannel](handle(h))
	if !ok {
		return C.int(syscall.EBADF)
	}
	for {
		e, x, ok := ch.take()
		switch {
		case !ok:
			return C.int(syscall.EAGAIN)
		case !x.known():
			ch.forget(x.ID)
			x.Close()
			continue
		}
		errno(e.Err) // prints it
		if e.Type == rdmacm.EventDisconnected {
			x.parted.Store(true)
		}
		x.tell(out, e, private)
		return 0
	}
}

// take takes an event and counts it. A request counts for its listener, as C may end the new ID
// before it acknowledges the event.
func (ch *cmChannel) take() (*rdmacm.Event, *cmID, bool) {
	taking.Lock()
	defer taking.Unlock()
	e, ok := ch.Events().TryGet()
	if !ok {
		return nil, nil, false
	}
	x := e.ID.Context.(*cmID)
	switch {
	case !x.known(): // C does not hear of it
	case e.Listener != nil:
		e.Listener.Context.(*cmID).reported++
	default:
		x.reported++
	}
	return e, x, true
}

// tell writes an event as C has it.
func (x *cmID) tell(out *C.struct_rdma_cm_event, e *rdmacm.Event, private unsafe.Pointer) {
	*out = C.struct_rdma_cm_event{id: x.c, event: C.enum_rdma_cm_event_type(e.Type), status: C.int(e.Status)}
	if e.Listener != nil {
		out.listen_id = e.Listener.Context.(*cmID).c
	}
	group := e.Type == rdmacm.EventMulticastJoin || e.Type == rdmacm.EventMulticastError
	says := e.Param.PrivateData
	if says == nil {
		says = e.Datagram.PrivateData
	}
	n := C.uint8_t(copy(unsafe.Slice((*byte)(private), 0xff), says))
	if n == 0 {
		private = nil
	}
	if x.c.qp_type == C.IBV_QPT_UD || group {
		p := (*C.struct_rdma_ud_param)(unsafe.Pointer(&out.param))
		p.private_data, p.private_data_len = private, n
		p.qp_num, p.qkey = C.uint32_t(e.Datagram.QPN), C.uint32_t(e.Datagram.QKey)
		if e.Datagram.QPN != 0 {
			setVector(&p.ah_attr, e.Datagram.AH)
		}
		if group {
			*(*uintptr)(unsafe.Pointer(&p.private_data)), _ = e.Context.(uintptr)
		}
		return
	}
	from := &e.Param
	*(*C.struct_rdma_conn_param)(unsafe.Pointer(&out.param)) = C.struct_rdma_conn_param{
		private_data: private, private_data_len: n,
		responder_resources: C.uint8_t(from.ResponderResources), initiator_depth: C.uint8_t(from.InitiatorDepth),
		flow_control: oneIf(from.FlowControl), retry_count: C.uint8_t(from.RetryCount),
		rnr_retry_count: C.uint8_t(from.RNRRetryCount), srq: oneIf(from.SRQ), qp_num: C.uint32_t(from.QPN)}
}

func oneIf(b bool) C.uint8_t {
	if b {
		return 1
	}
	return 0
}

// goroce_cm_known writes what is known of an ID: its addresses, the path to its peer, and the place
// of its device in the list; -1: it has none, or several. Who is bound to all addresses or to the
// loopback hears of one when there is a peer, as with Linux: libfabric binds to localhost to see
// all devices, and would see that of the loopback alone, which it does not use.
//
//export goroce_cm_known
func goroce_cm_known(h C.uint32_t, path *C.struct_ibv_sa_path_rec, device *C.int) C.int {
	x, ok := find[*cmID](handle(h))
	if !ok {
		return invalid
	}
	*device = -1
	addr := &x.c.route.addr
	local := x.LocalAddr()
	if x.asked.IsValid() && local.Addr().IsUnspecified() {
		local = netip.AddrPortFrom(x.asked, local.Port())
	}
	setAddress(unsafe.Pointer(&addr.anon0), local)
	setAddress(unsafe.Pointer(&addr.anon1), x.PeerAddr())
	d, own := x.Device(), local.Addr()
	if d == nil || (own.IsLoopback() || own.IsUnspecified()) && !x.PeerAddr().IsValid() {
		return 0
	}
	cmDevices.Lock()
	if at, ok := cmDevices.open[d]; ok {
		*device = C.int(at)
	}
	cmDevices.Unlock()
	ib := (*C.struct_rdma_ib_addr)(unsafe.Pointer(&addr.addr))
	ib.pkey = 0xffff
	*(*roce.GID)(unsafe.Pointer(&ib.sgid)) = roce.GID(own.WithZone("").As16())
	v, mtu, err := x.AddressVector()
	if err != nil { // it has no peer
		return 0
	}
	*(*roce.GID)(unsafe.Pointer(&ib.dgid)) = v.DGID
	const equal = 2 // what a selector says of a value that is meant as it is
	*path = C.struct_ibv_sa_path_rec{dgid: ib.dgid, sgid: ib.sgid, flow_label: C.__be32(networkOrder(v.FlowLabel)),
		hop_limit: C.uint8_t(v.HopLimit), traffic_class: C.uint8_t(v.TrafficClass), reversible: 1, numb_path: 1,
		pkey: 0xffff, sl: C.uint8_t(v.SL), mtu_selector: equal, mtu: C.uint8_t(mtu), rate_selector: equal,
		packet_life_time_selector: equal}
	x.c.route.path_rec, x.c.route.num_paths = path, 1
	return 0
}
