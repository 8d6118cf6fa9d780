package main

// Work requests: one call for a list, however long.
//
// Stages: the structures of C, whose unions cgo does not show; sends, as a list of C's or as one
// that ibv_wr_* has built; receives.

// #include <infiniband/verbs.h>
import "C"

import (
	"errors"
	"unsafe"

	"github.com/goroce/goroce/roce"
)

// sendWR is struct ibv_send_wr.
type sendWR struct {
	wrID          uint64
	next          *sendWR
	sgl           *roce.SGE // struct ibv_sge has the same layout
	sges          int32
	opcode, flags uint32
	imm           uint32 // in network order; or invalidate_rkey in the host's
	wr            [32]byte
	remoteSRQN    uint32
	_             uint32
	bind          bindMW
}

// Members of the union wr.
type (
	rdma struct {
		addr uint64
		rkey uint32
	}
	atomicOp struct {
		addr, compareAdd, swap uint64
		rkey                   uint32
	}
	datagram struct {
		ah        *C.struct_ibv_ah
		qpn, qkey uint32
	}
)

// bindMW is the other union's bind_mw.
type bindMW struct {
	mw     *C.struct_ibv_mw
	rkey   uint32
	mr     *C.struct_ibv_mr
	addr   uint64
	length uint64
	access uint32
}

// recvWR is struct ibv_recv_wr.
type recvWR struct {
	wrID uint64
	next *recvWR
	sgl  *roce.SGE
	sges int32
}

var (
	_ = [1]int{}[unsafe.Sizeof(sendWR{})-C.sizeof_struct_ibv_send_wr]
	_ = [1]int{}[unsafe.Sizeof(recvWR{})-C.sizeof_struct_ibv_recv_wr]
	_ = [1]int{}[unsafe.Sizeof(roce.SGE{})-C.sizeof_struct_ibv_sge]
)

// postBatch is how many requests are handed on at a time.
const postBatch = 64

// elements are n elements of C's; false: there cannot be so many there.
func elements(list *roce.SGE, n int32) (sgl []roce.SGE, ok bool) {
	if n < 0 || n > 0 && list == nil {
		return nil, false
	}
	return unsafe.Slice(list, n), true
}

// set makes a request of C's one of roce's; false: it names an address handle or a window that is
// none, or no elements.
func (q *queuePair) set(to *roce.SendWR, w *sendWR, bind *roce.BindInfo) bool {
	sgl, ok := elements(w.sgl, w.sges)
	if !ok {
		return false
	}
	*to = roce.SendWR{WRID: w.wrID, Opcode: roce.WROpcode(w.opcode), Flags: roce.SendFlags(w.flags), SGL: sgl}
	switch op := to.Opcode; {
	case op == roce.WRSendWithInv || op == roce.WRLocalInv:
		to.InvalidateKey = w.imm
	case op == roce.WRBindMW:
		b := &w.bind
		if b.mw == nil {
			return false
		}
		*bind = roce.BindInfo{WindowKey: uint32(b.mw.rkey), NewKey: b.rkey, Addr: b.addr, Length: b.length,
			Access: windowAccess(uint32(b.access))}
		if b.mr != nil {
			bind.LKey = uint32(b.mr.lkey)
		}
		to.Bind, to.SGL = bind, nil
	default:
		to.Imm = networkOrder(w.imm)
	}
	switch {
	case q.Type() == roce.UD || q.Type() == roce.GSI:
		d := (*datagram)(unsafe.Pointer(&w.wr))
		if d.ah == nil {
			return false
		}
		a, ok := find[*ah](handle(d.ah.handle))
		if !ok {
			return false
		}
		to.AH, to.RemoteQPN, to.RemoteQKey = a.AH, d.qpn, d.qkey
	case to.Opcode == roce.WRAtomicCmpAndSwp || to.Opcode == roce.WRAtomicFetchAndAdd:
		a := (*atomicOp)(unsafe.Pointer(&w.wr))
		to.RemoteAddr, to.RKey, to.CompareAdd, to.Swap = a.addr, a.rkey, a.compareAdd, a.swap
	default:
		r := (*rdma)(unsafe.Pointer(&w.wr))
		to.RemoteAddr, to.RKey = r.addr, r.rkey
		if to.Opcode == roce.WRAtomicWrite {
			to.Swap = (*atomicOp)(unsafe.Pointer(&w.wr)).swap
		}
	}
	if q.Type() == roce.XRCSend {
		to.RemoteSRQN = w.remoteSRQN
	}
	return true
}

// bound gives a window of type 2 the key that its bind, which has been posted, asks for.
func bound(w *sendWR) {
	if roce.WROpcode(w.opcode) == roce.WRBindMW {
		w.bind.mw.rkey = C.uint32_t(w.bind.rkey)
	}
}

// goroce_post_send posts a list. What was not posted begins at *bad.
//
//export goroce_post_send
func goroce_post_send(h C.uint32_t, list *C.struct_ibv_send_wr, bad **C.struct_ibv_send_wr) C.int {
	q, ok := find[*queuePair](handle(h))
	if !ok {
		*bad = list
		return invalid
	}
	q.sends.Lock()
	defer q.sends.Unlock()
	if q.swr == nil {
		q.swr, q.binds = make([]roce.SendWR, postBatch), make([]roce.BindInfo, postBatch)
	}
	for w := (*sendWR)(unsafe.Pointer(list)); w != nil; {
		first, n, good := w, 0, true
		for ; w != nil && n < postBatch && good; n++ {
			if good = q.set(&q.swr[n], w, &q.binds[n]); !good {
				break
			}
			w = w.next
		}
		err := q.PostSend(q.swr[:n]...)
		for done := posted(err, n); done > 0; done-- {
			bound(first)
			first = first.next
		}
		if err != nil || !good {
			*bad = (*C.struct_ibv_send_wr)(unsafe.Pointer(first))
			return refusal(err)
		}
	}
	return 0
}

// refusal is the errno of a list that was not posted whole: of the post, or if that went well, of
// the request behind it, which makes no sense.
func refusal(err error) C.int {
	if err == nil {
		return invalid
	}
	return errno(err)
}

// posted is how many of n requests an error lets be posted.
func posted(err error, n int) int {
	if err == nil {
		return n
	}
	var e *roce.PostError
	if errors.As(err, &e) {
		return e.Index
	}
	return 0
}

// goroce_post_list posts what ibv_wr_* has built: all, or nothing.
//
//export goroce_post_list
func goroce_post_list(h C.uint32_t, list *C.struct_ibv_send_wr) C.int {
	q, ok := find[*queuePair](handle(h))
	if !ok {
		return invalid
	}
	q.sends.Lock()
	defer q.sends.Unlock()
	x := q.list
	x.WRStart()
	for w := (*sendWR)(unsafe.Pointer(list)); w != nil; w = w.next {
		var to roce.SendWR
		var bind roce.BindInfo
		if !q.set(&to, w, &bind) {
			x.WRAbort()
			return invalid
		}
		x.WRID, x.WRFlags = to.WRID, to.Flags&^roce.SendInline
		add, ok := building[to.Opcode]
		if !ok {
			x.WRAbort()
			return invalid
		}
		add(x, &to)
		if to.AH != nil {
			x.WRSetUDAddr(to.AH, to.RemoteQPN, to.RemoteQKey)
		}
		if q.Type() == roce.XRCSend {
			x.WRSetXRCSRQN(to.RemoteSRQN)
		}
		switch {
		case to.Flags&roce.SendInline != 0:
			x.WRSetInlineDataList(pieces(to.SGL))
		case len(to.SGL) > 0:
			x.WRSetSGEList(to.SGL)
		}
	}
	if err := x.WRComplete(); err != nil {
		return errno(err)
	}
	for w := (*sendWR)(unsafe.Pointer(list)); w != nil; w = w.next {
		bound(w)
	}
	return 0
}

// building is how each operation is added to a list.
var building = map[roce.WROpcode]func(*roce.QPEx, *roce.SendWR){
	roce.WRWrite:        func(x *roce.QPEx, w *roce.SendWR) { x.WRRDMAWrite(w.RKey, w.RemoteAddr) },
	roce.WRWriteWithImm: func(x *roce.QPEx, w *roce.SendWR) { x.WRRDMAWriteImm(w.RKey, w.RemoteAddr, w.Imm) },
	roce.WRSend:         func(x *roce.QPEx, w *roce.SendWR) { x.WRSend() },
	roce.WRSendWithImm:  func(x *roce.QPEx, w *roce.SendWR) { x.WRSendImm(w.Imm) },
	roce.WRSendWithInv:  func(x *roce.QPEx, w *roce.SendWR) { x.WRSendInv(w.InvalidateKey) },
	roce.WRRead:         func(x *roce.QPEx, w *roce.SendWR) { x.WRRDMARead(w.RKey, w.RemoteAddr) },
	roce.WRLocalInv:     func(x *roce.QPEx, w *roce.SendWR) { x.WRLocalInv(w.InvalidateKey) },
	roce.WRBindMW:       func(x *roce.QPEx, w *roce.SendWR) { x.WRBindMW(*w.Bind) },
	roce.WRAtomicFetchAndAdd: func(x *roce.QPEx, w *roce.SendWR) {
		x.WRAtomicFetchAdd(w.RKey, w.RemoteAddr, w.CompareAdd)
	},
	roce.WRAtomicCmpAndSwp: func(x *roce.QPEx, w *roce.SendWR) {
		x.WRAtomicCmpSwp(w.RKey, w.RemoteAddr, w.CompareAdd, w.Swap)
	},
	roce.WRAtomicWrite: func(x *roce.QPEx, w *roce.SendWR) { x.WRAtomicWrite(w.RKey, w.RemoteAddr, w.Swap) },
}

// pieces are the bytes that elements name.
func pieces(sgl []roce.SGE) (list [][]byte) {
	for i := range sgl {
		list = append(list, unsafe.Slice(*(**byte)(unsafe.Pointer(&sgl[i].Addr)), int(sgl[i].Length)))
	}
	return list
}

// goroce_post_recv posts a list to a queue pair's own queue, or to a shared one.
//
//export goroce_post_recv
func goroce_post_recv(h C.uint32_t, list *C.struct_ibv_recv_wr, bad **C.struct_ibv_recv_wr) C.int {
	q, ok := find[receiver](handle(h))
	if !ok {
		*bad = list
		return invalid
	}
	m := q.memory()
	m.recvs.Lock()
	defer m.recvs.Unlock()
	if m.rwr == nil {
		m.rwr = make([]roce.RecvWR, postBatch)
	}
	for w := (*recvWR)(unsafe.Pointer(list)); w != nil; {
		first, n, good := w, 0, true
		for ; w != nil && n < postBatch; n++ {
			to := &m.rwr[n]
			to.WRID = w.wrID
			if to.SGL, good = elements(w.sgl, w.sges); !good {
				break
			}
			w = w.next
		}
		err := q.PostRecv(m.rwr[:n]...)
		if err == nil && good {
			continue
		}
		for done := posted(err, n); done > 0; done-- {
			first = first.next
		}
		*bad = (*C.struct_ibv_recv_wr)(unsafe.Pointer(first))
		return refusal(err)
	}
	return 0
}
