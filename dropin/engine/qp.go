package main

// Queue pairs, shared receive queues and XRC domains.

// #include <infiniband/verbs.h>
import "C"

import (
	"sync"
	"unsafe"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

// queuePair is an ibv_qp. C may post to it from several threads.
type queuePair struct {
	*roce.QP
	of    *rdmacm.ID // that has made it; nil: it is nobody's
	sends sync.Mutex
	swr   []roce.SendWR
	binds []roce.BindInfo
	list  *roce.QPEx
	receives
}

// Close ends the queue pair, also for the ID that has made it.
func (q *queuePair) Close() error {
	if q.of != nil && q.of.QP() == q.QP {
		return q.of.DestroyQP()
	}
	return q.QP.Close()
}

// sharedQueue is an ibv_srq.
type sharedQueue struct {
	*roce.SRQ
	receives
}

// receives is the memory of a queue for lists of receive requests.
type receives struct {
	recvs sync.Mutex
	rwr   []roce.RecvWR
}

func (r *receives) memory() *receives { return r }

// receiver is either.
type receiver interface {
	PostRecv(...roce.RecvWR) error
	memory() *receives
}

// leastInline is the least max_inline_data that a queue pair has. Providers of NICs give what fits
// the elements anyway, and there are programs that rely on it without asking for any.
const leastInline = 64

//export goroce_open_xrcd
func goroce_open_xrcd(h C.uint32_t, out *C.uint32_t) C.int {
	c, ok := find[*ctx](handle(h))
	if !ok {
		return invalid
	}
	x, err := c.OpenXRCD()
	if err != nil {
		return errno(err)
	}
	return made(c.Device, x, x.Close, out)
}

// goroce_create_srq makes a shared receive queue; xrcd is 0 for a basic one.
//
//export goroce_create_srq
func goroce_create_srq(h C.uint32_t, a *C.struct_ibv_srq_attr, xrcd, cq C.uint32_t, context C.uintptr_t,
	srq *C.struct_ibv_srq, number *C.uint32_t) C.int {
	pd, ok := find[*roce.PD](handle(h))
	if !ok {
		return invalid
	}
	attr := roce.SRQInitAttr{MaxWR: int(a.max_wr), MaxSGE: int(a.max_sge), Limit: int(a.srq_limit),
		Context: owner{uintptr(context), uintptr(unsafe.Pointer(srq))}}
	if xrcd != 0 {
		x, isX := find[*roce.XRCD](handle(xrcd))
		c, isCQ := find[*completionQueue](handle(cq))
		if !isX || !isCQ {
			return invalid
		}
		attr.XRCD, attr.CQ = x, c.CQ
	}
	s, err := pd.CreateSRQ(attr)
	if err != nil {
		return errno(err)
	}
	if now, err := s.Query(); err == nil {
		a.max_wr, a.max_sge = C.uint32_t(now.MaxWR), C.uint32_t(now.MaxSGE)
	}
	*number = C.uint32_t(s.Number())
	return made(pd.Device(), &sharedQueue{SRQ: s}, s.Close, &srq.handle)
}

//export goroce_modify_srq
func goroce_modify_srq(h C.uint32_t, a *C.struct_ibv_srq_attr, mask C.int) C.int {
	s, ok := find[*sharedQueue](handle(h))
	if !ok {
		return invalid
	}
	return errno(s.Modify(roce.SRQAttr{MaxWR: uint32(a.max_wr), Limit: uint32(a.srq_limit)}, roce.SRQAttrMask(mask)))
}

//export goroce_query_srq
func goroce_query_srq(h C.uint32_t, a *C.struct_ibv_srq_attr) C.int {
	s, ok := find[*sharedQueue](handle(h))
	if !ok {
		return invalid
	}
	now, err := s.Query()
	a.max_wr, a.max_sge, a.srq_limit = C.uint32_t(now.MaxWR), C.uint32_t(now.MaxSGE), C.uint32_t(now.Limit)
	return errno(err)
}

// goroce_create_qp makes a queue pair. pd is 0 for XRC_RECV, which has none in C; xrcd is 0 for all
// others; id is that of the connection manager that the queue pair is for, or 0. The sizes that it
// has got are written back.
//
//export goroce_create_qp
func goroce_create_qp(h, pd, xrcd, id C.uint32_t, a *C.struct_ibv_qp_init_attr, context C.uintptr_t,
	q *C.struct_ibv_qp) C.int {
	c, ok := find[*ctx](handle(h))
	if !ok {
		return invalid
	}
	domain, ok := find[*roce.PD](handle(pd))
	if !ok {
		if domain = c.hiddenPD(); domain == nil || xrcd == 0 {
			return invalid
		}
	}
	init := roce.QPInitAttr{Type: roce.QPType(a.qp_type), SQSigAll: a.sq_sig_all != 0,
		Context: owner{uintptr(context), uintptr(unsafe.Pointer(q))},
		Cap: roce.QPCap{MaxSendWR: max(uint32(a.cap.max_send_wr), 1), MaxRecvWR: max(uint32(a.cap.max_recv_wr), 1),
			MaxSendSGE: max(uint32(a.cap.max_send_sge), 1), MaxRecvSGE: max(uint32(a.cap.max_recv_sge), 1),
			MaxInlineData: max(uint32(a.cap.max_inline_data), leastInline)}}
	if xrcd != 0 {
		if init.XRCD, ok = find[*roce.XRCD](handle(xrcd)); !ok {
			return invalid
		}
	}
	for _, cq := range []struct {
		from *C.struct_ibv_cq
		to   **roce.CQ
	}{{a.send_cq, &init.SendCQ}, {a.recv_cq, &init.RecvCQ}} {
		if cq.from != nil && !(init.Type == roce.XRCSend && cq.to == &init.RecvCQ) && init.Type != roce.XRCRecv {
			x, ok := find[*completionQueue](handle(cq.from.handle))
			if !ok {
				return invalid
			}
			*cq.to = x.CQ
		}
	}
	if a.srq != nil {
		s, ok := find[*sharedQueue](handle(a.srq.handle))
		if !ok {
			return invalid
		}
		init.SRQ = s.SRQ
	}
	of, create, ok := creator(domain, id)
	if !ok {
		return invalid
	}
	x, err := create(init)
	if err != nil {
		return errno(err)
	}
	q.qp_num = C.uint32_t(x.QPN())
	if now, err := x.Query(); err == nil {
		setCap(&a.cap, now.Cap)
		q.state = C.enum_ibv_qp_state(now.State)
	}
	y := &queuePair{QP: x, of: of, list: x.Ex()}
	return made(c.Device, y, y.Close, &q.handle)
}

// creator makes queue pairs in a domain: of an ID of the connection manager's, unless id is 0.
func creator(domain *roce.PD, id C.uint32_t) (*rdmacm.ID, func(roce.QPInitAttr) (*roce.QP, error), bool) {
	if id == 0 {
		return nil, domain.CreateQP, true
	}
	i, ok := find[*cmID](handle(id))
	if !ok {
		return nil, nil, false
	}
	return i.ID, func(attr roce.QPInitAttr) (*roce.QP, error) { return i.ID.CreateQP(domain, attr) }, true
}

// hiddenPD is the domain of queue pairs that have none in C.
func (c *ctx) hiddenPD() *roce.PD {
	devices.Lock()
	defer devices.Unlock()
	if c.device.hidden == nil {
		c.device.hidden, _ = c.AllocPD()
	}
	return c.device.hidden
}

func setCap(to *C.struct_ibv_qp_cap, from roce.QPCap) {
	to.max_send_wr, to.max_recv_wr = C.uint32_t(from.MaxSendWR), C.uint32_t(from.MaxRecvWR)
	to.max_send_sge, to.max_recv_sge = C.uint32_t(from.MaxSendSGE), C.uint32_t(from.MaxRecvSGE)
	to.max_inline_data = C.uint32_t(from.MaxInlineData)
}

// attrs are the bits that C knows: above them are this stack's own.
const attrs = roce.AttrRateLimit<<1 - 1

// ofMemory are rights of regions that programs give to queue pairs too, where they say nothing.
const ofMemory = roce.OnDemand | roce.HugeTLB

//export goroce_modify_qp
func goroce_modify_qp(h C.uint32_t, a *C.struct_ibv_qp_attr, mask C.int) C.int {
	q, ok := find[*queuePair](handle(h))
	if !ok {
		return invalid
	}
	const psn = 1<<24 - 1 // programs leave rubbish above
	t := roce.QPAttr{
		State: roce.QPState(a.qp_state), CurState: roce.QPState(a.cur_qp_state), PathMTU: roce.MTU(a.path_mtu),
		QKey: uint32(a.qkey), RQPSN: roce.PSN(a.rq_psn & psn), SQPSN: roce.PSN(a.sq_psn & psn),
		DestQPN: uint32(a.dest_qp_num), AccessFlags: roce.Access(a.qp_access_flags) &^ ofMemory, AV: vector(&a.ah_attr),
		PKeyIndex: uint16(a.pkey_index), EnSQDAsyncNotify: a.en_sqd_async_notify != 0,
		MaxRdAtomic: uint8(a.max_rd_atomic), MaxDestRdAtomic: uint8(a.max_dest_rd_atomic),
		MinRNRTimer: uint8(a.min_rnr_timer), Port: uint8(a.port_num), Timeout: uint8(a.timeout),
		RetryCnt: uint8(a.retry_cnt), RNRRetry: uint8(a.rnr_retry), RateLimit: uint32(a.rate_limit),
	}
	if mask&C.IBV_QP_AV != 0 && a.ah_attr.is_global == 0 {
		return invalid
	}
	return errno(q.Modify(bg, &t, roce.AttrMask(mask)&attrs))
}

//export goroce_query_qp
func goroce_query_qp(h C.uint32_t, a *C.struct_ibv_qp_attr) C.int {
	q, ok := find[*queuePair](handle(h))
	if !ok {
		return invalid
	}
	t, err := q.Query()
	if err != nil {
		return errno(err)
	}
	setAttr(a, &t)
	return 0
}

// setAttr is the way back: attributes as C has them.
func setAttr(a *C.struct_ibv_qp_attr, t *roce.QPAttr) {
	*a = C.struct_ibv_qp_attr{}
	a.qp_state, a.cur_qp_state = C.enum_ibv_qp_state(t.State), C.enum_ibv_qp_state(t.State)
	a.path_mtu, a.qkey = C.enum_ibv_mtu(t.PathMTU), C.uint32_t(t.QKey)
	a.rq_psn, a.sq_psn, a.dest_qp_num = C.uint32_t(t.RQPSN), C.uint32_t(t.SQPSN), C.uint32_t(t.DestQPN)
	a.qp_access_flags = C.uint(t.AccessFlags)
	setCap(&a.cap, t.Cap)
	setVector(&a.ah_attr, t.AV)
	a.pkey_index, a.port_num = C.uint16_t(t.PKeyIndex), C.uint8_t(t.Port)
	a.max_rd_atomic, a.max_dest_rd_atomic = C.uint8_t(t.MaxRdAtomic), C.uint8_t(t.MaxDestRdAtomic)
	a.min_rnr_timer, a.timeout = C.uint8_t(t.MinRNRTimer), C.uint8_t(t.Timeout)
	a.retry_cnt, a.rnr_retry, a.rate_limit = C.uint8_t(t.RetryCnt), C.uint8_t(t.RNRRetry), C.uint32_t(t.RateLimit)
	if t.SQDraining {
		a.sq_draining = 1
	}
}

//export goroce_mcast
func goroce_mcast(h C.uint32_t, group unsafe.Pointer, join C.int) C.int {
	q, ok := find[*queuePair](handle(h))
	if !ok {
		return invalid
	}
	if g := *(*roce.GID)(group); join != 0 {
		return errno(q.AttachMcast(g))
	} else {
		return errno(q.DetachMcast(g))
	}
}
