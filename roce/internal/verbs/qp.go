//go:build verbs

package verbs

// The queue pair: making one, what it is, multicast, its end.

/*
#include "glue.h"
*/
import "C"

import (
	"crypto/rand"
	"encoding/binary"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// QPInit says what queue pair to make.
type QPInit struct {
	Type           qp.QPType
	SendCQ, RecvCQ *CQ
	SRQ            *SRQ // nil: a receive queue of its own
	Cap            qp.Cap
	SQSigAll       bool
	Context        any // the owner's, for events
}

// QP is a queue pair.
type QP struct {
	pd             *PD
	qp             *C.struct_ibv_qp
	qpn            uint32
	typ            qp.QPType
	cap            qp.Cap
	sendCQ, recvCQ *CQ
	srq            *SRQ // nil: its receive queue is its own
	context        any

	// state is what Modify has led to. The device may have gone on to ERR or SQE by itself, where
	// posting is allowed too.
	state atomic.Uint32
	start atomic.Uint32 // StartPSN

	control sync.Mutex // Modify, Query, multicast, Close
	closed  bool       // under all three locks
	// sockets that are members of the groups that the queue pair is attached to
	groups map[wire.GID]int

	send sendQueue
	recv recvQueue
}

// CreateQP makes a queue pair in RESET.
func (p *PD) CreateQP(init QPInit) (*QP, error) {
	if err := p.dev.checkInit(&init); err != nil {
		return nil, err
	}
	attr := C.struct_ibv_qp_init_attr{send_cq: init.SendCQ.cq, recv_cq: init.RecvCQ.cq, qp_type: uint32(init.Type)}
	attr.cap.max_send_wr, attr.cap.max_recv_wr = C.uint32_t(init.Cap.MaxSendWR), C.uint32_t(init.Cap.MaxRecvWR)
	attr.cap.max_send_sge, attr.cap.max_recv_sge = C.uint32_t(max(init.Cap.MaxSendSGE, 1)),
		C.uint32_t(max(init.Cap.MaxRecvSGE, 1))
	attr.cap.max_inline_data = C.uint32_t(init.Cap.MaxInlineData)
	if init.SRQ != nil {
		attr.srq, attr.cap.max_recv_wr, attr.cap.max_recv_sge = init.SRQ.srq, 0, 0
	}
	if init.SQSigAll {
		attr.sq_sig_all = 1
	}
	ibv, errno := C.ibv_create_qp(p.pd, &attr)
	if ibv == nil {
		return nil, Refused("ibv_create_qp", errno)
	}
	q := &QP{pd: p, qp: ibv, qpn: uint32(ibv.qp_num), typ: init.Type, sendCQ: init.SendCQ, recvCQ: init.RecvCQ,
		srq: init.SRQ, context: init.Context, groups: make(map[wire.GID]int)}
	q.cap = qp.Cap{MaxSendWR: uint32(attr.cap.max_send_wr), MaxRecvWR: uint32(attr.cap.max_recv_wr),
		MaxSendSGE: uint32(attr.cap.max_send_sge), MaxRecvSGE: uint32(attr.cap.max_recv_sge),
		MaxInlineData: uint32(attr.cap.max_inline_data)}
	if q.srq != nil {
		q.cap.MaxRecvWR, q.cap.MaxRecvSGE = 0, 0
	}
	q.drawStart()
	q.send.init(&q.cap)
	q.recv.init(q.cap.MaxRecvWR, q.cap.MaxRecvSGE)
	p.dev.enlist(unsafe.Pointer(ibv), q)
	p.mu.Lock()
	p.queues[q] = struct{}{}
	p.mu.Unlock()
	return q, nil
}

// checkInit holds what is asked for against the limits of the device, which would only say EINVAL.
func (d *Device) checkInit(init *QPInit) error {
	c, a := &init.Cap, &d.attr
	switch {
	case init.Type == qp.GSI:
		return unsupported("queue pair 1 of %s is the kernel's", d.device)
	case init.Type == qp.XRCSend || init.Type == qp.XRCRecv:
		return unsupported("XRC over libibverbs")
	case init.Type != qp.RC && init.Type != qp.UC && init.Type != qp.UD:
		return invalid("qp_type %d: there are RC (2), UC (3) and UD (4)", init.Type)
	case c.MaxSendWR > uint32(a.max_qp_wr) || c.MaxRecvWR > uint32(a.max_qp_wr):
		return invalid("%d send and %d receive work requests, at most %d each", c.MaxSendWR, c.MaxRecvWR, a.max_qp_wr)
	case c.MaxSendSGE > uint32(a.max_sge) || c.MaxRecvSGE > uint32(a.max_sge):
		return invalid("%d send and %d receive elements a request, at most %d each",
			c.MaxSendSGE, c.MaxRecvSGE, a.max_sge)
	case c.MaxInlineData > maxInline:
		return invalid("max_inline_data %d, at most %d", c.MaxInlineData, maxInline)
	}
	return nil
}

// maxInline is more than any device takes. It bounds the memory of C that is asked for.
const maxInline = 1 << 16

// drawStart draws a first PSN that nobody can predict.
func (q *QP) drawStart() {
	var b [4]byte
	rand.Read(b[:]) // never fails
	q.start.Store(binary.NativeEndian.Uint32(b[:]) & uint32(wire.PSNMask))
}

// QPN is the queue pair's number.
func (q *QP) QPN() uint32 { return q.qpn }

// Type is the transport service.
func (q *QP) Type() qp.QPType { return q.typ }

// StartPSN is where this side should start counting.
func (q *QP) StartPSN() wire.PSN { return wire.PSN(q.start.Load()) }

// Lane is always 0.
func (q *QP) Lane() int { return 0 }

// AttachMcast lets a UD queue pair receive datagrams to a group. The verb tells the device alone.
// The host's IP stack, through which packets come to rxe, and the switches hear of the group by a
// socket that is a member of it.
func (q *QP) AttachMcast(group wire.GID) error {
	q.control.Lock()
	defer q.control.Unlock()
	switch {
	case q.closed:
		return closed("QP")
	case q.typ != qp.UD:
		return invalid("%v queue pair 0x%06x: only UD receives multicast", q.typ, q.qpn)
	case !group.IsMulticast():
		return invalid("%v is no multicast group: ff00::/8 or ::ffff:224.0.0.0/100", group)
	}
	if _, again := q.groups[group]; again {
		return nil
	}
	member, err := q.pd.dev.join(group)
	if err != nil {
		return err
	}
	if err := answered("ibv_attach_mcast", int(C.ibv_attach_mcast(q.qp, gidFor(group), 0))); err != nil {
		unix.Close(member)
		return err
	}
	q.groups[group] = member
	return nil
}

// join returns a socket that is a member of a group on the device's interface, until it is closed.
func (d *Device) join(group wire.GID) (fd int, err error) {
	if d.link == nil {
		return -1, unsupported("multicast on %s: its interface is in another network namespace", d.device)
	}
	if group.Is4() {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
			err = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
				&unix.IPMreqn{Multiaddr: [4]byte(group[12:]), Ifindex: int32(d.link.Index)})
		}
	} else if fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
		err = unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
			&unix.IPv6Mreq{Multiaddr: group, Interface: uint32(d.link.Index)})
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return -1, os.NewSyscallError("join "+group.String(), err)
	}
	return fd, nil
}

// DetachMcast undoes AttachMcast.
func (q *QP) DetachMcast(group wire.GID) error {
	q.control.Lock()
	defer q.control.Unlock()
	if q.closed {
		return closed("QP")
	}
	member, attached := q.groups[group]
	if !attached {
		return invalid("QP 0x%06x is not attached to %v", q.qpn, group)
	}
	if err := answered("ibv_detach_mcast", int(C.ibv_detach_mcast(q.qp, gidFor(group), 0))); err != nil {
		return err
	}
	unix.Close(member)
	delete(q.groups, group)
	return nil
}

// gidFor is a copy of a GID that is aligned as C has it.
func gidFor(g wire.GID) *C.union_ibv_gid {
	var words [2]uint64
	aligned := (*C.union_ibv_gid)(unsafe.Pointer(&words))
	*aligned = C.union_ibv_gid(g)
	return aligned
}

// Close destroys the queue pair. Its completions that were not polled are gone.
func (q *QP) Close() error {
	q.control.Lock()
	defer q.control.Unlock()
	q.send.mu.Lock()
	defer q.send.mu.Unlock()
	q.recv.mu.Lock()
	defer q.recv.mu.Unlock()
	if q.closed {
		return nil
	}
	d := q.pd.dev
	for group, member := range q.groups { // drivers keep a queue pair that is attached
		C.ibv_detach_mcast(q.qp, gidFor(group), 0)
		unix.Close(member)
		delete(q.groups, group)
	}
	q.save()
	d.strike(unsafe.Pointer(q.qp))
	if err := answered("ibv_destroy_qp", int(C.ibv_destroy_qp(q.qp))); err != nil {
		d.enlist(unsafe.Pointer(q.qp), q)
		return err
	}
	q.closed = true
	q.forget()
	q.send.free()
	q.recv.free()
	q.pd.mu.Lock()
	delete(q.pd.queues, q)
	q.pd.mu.Unlock()
	return nil
}

// save takes completions of requests of a shared receive queue from the device before that forgets
// them together with the queue pair.
func (q *QP) save() {
	if q.srq != nil {
		q.recvCQ.Len()
	}
}

// forget takes what the queue pair has completed out of its completion queues, but for requests of
// a shared receive queue: nothing else says that those are over.
func (q *QP) forget() {
	q.sendCQ.purge(q.qpn, q.srq != nil && q.recvCQ == q.sendCQ)
	if q.recvCQ != q.sendCQ && q.srq == nil {
		q.recvCQ.purge(q.qpn, false)
	}
}
