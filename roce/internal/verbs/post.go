//go:build verbs

package verbs

// Posting: a batch is written into memory of C that the queue pair has, one request linked to the
// next, and goes to the device with one call.
//
// Stages: the memory; sends: state → each request against the table of operations, into its place →
// ibv_post_send; receives, likewise, and those of a shared receive queue (srq.go).
//
// What C would take on trust is checked here: that handles are of this device, that elements and
// inline data fit their places. What only the device knows it says itself.

/*
#cgo noescape goroce_post_send
#cgo nocallback goroce_post_send
#cgo noescape goroce_post_recv
#cgo nocallback goroce_post_recv
#include "glue.h"
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

const (
	// maxBatch is how many requests go to the device with one call, at most.
	maxBatch = 256
	// allFlags are those that this module has; libraries have others, at other bits.
	allFlags = qp.SendFence | qp.SendSignaled | qp.SendSolicited | qp.SendInline
)

// sendQueue is the memory of C for a batch of sends.
type sendQueue struct {
	mu     sync.Mutex
	wrs    []C.struct_ibv_send_wr // linked, each with its elements
	sges   []C.struct_ibv_sge     // maxSGE for each
	inline []byte                 // maxInline for each
	maxSGE int
	// of a request, as the device has rounded it up
	maxInline int
}

// recvQueue is the same for receives.
type recvQueue struct {
	mu     sync.Mutex
	wrs    []C.struct_ibv_recv_wr
	sges   []C.struct_ibv_sge
	maxSGE int
}

// zeroed returns memory of C for n values; n is at least 1.
func zeroed[T any](n int) []T {
	var t T
	return unsafe.Slice((*T)(C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(t)))), n)
}

func (s *sendQueue) init(c *qp.Cap) {
	n := int(min(max(c.MaxSendWR, 1), maxBatch))
	s.maxSGE, s.maxInline = int(max(c.MaxSendSGE, 1)), int(c.MaxInlineData)
	s.wrs, s.sges = zeroed[C.struct_ibv_send_wr](n), zeroed[C.struct_ibv_sge](n*s.maxSGE)
	s.inline = zeroed[byte](max(n*s.maxInline, 1))
	for i := range s.wrs {
		s.wrs[i].sg_list = &s.sges[i*s.maxSGE]
		if i > 0 {
			s.wrs[i-1].next = &s.wrs[i]
		}
	}
}

func (s *sendQueue) free() {
	C.free(unsafe.Pointer(unsafe.SliceData(s.wrs)))
	C.free(unsafe.Pointer(unsafe.SliceData(s.sges)))
	C.free(unsafe.Pointer(unsafe.SliceData(s.inline)))
	s.wrs, s.sges, s.inline = nil, nil, nil
}

func (r *recvQueue) init(wr, sge uint32) {
	n := int(min(max(wr, 1), maxBatch))
	r.maxSGE = int(max(sge, 1))
	r.wrs, r.sges = zeroed[C.struct_ibv_recv_wr](n), zeroed[C.struct_ibv_sge](n*r.maxSGE)
	for i := range r.wrs {
		r.wrs[i].sg_list = &r.sges[i*r.maxSGE]
		if i > 0 {
			r.wrs[i-1].next = &r.wrs[i]
		}
	}
}

func (r *recvQueue) free() {
	C.free(unsafe.Pointer(unsafe.SliceData(r.wrs)))
	C.free(unsafe.Pointer(unsafe.SliceData(r.sges)))
	r.wrs, r.sges = nil, nil
}

// Mirrors of the unions in struct ibv_send_wr; glue.h holds the library to them.
type (
	rdmaPart struct {
		remoteAddr uint64
		rkey       uint32
	}
	atomicPart struct {
		remoteAddr, compareAdd, swap uint64
		rkey                         uint32
	}
	datagramPart struct {
		ah         *C.struct_ibv_ah
		remoteQPN  uint32
		remoteQKey uint32
	}
	bindPart struct {
		mw           *C.struct_ibv_mw
		rkey         uint32
		mr           *C.struct_ibv_mr
		addr, length uint64
		access       uint32
	}
)

// operation is what a work request needs.
type operation struct {
	types                          uint16 // bit set of 1<<QPType; 0: there is no such operation
	inline, rdma, atomic, imm, inv bool
	local                          bool // no packet, no elements
}

const (
	onReliable  = 1 << qp.RC
	onConnected = onReliable | 1<<qp.UC
	onAll       = onConnected | 1<<qp.UD
)

var operations = [...]operation{
	qp.WRWrite:             {types: onConnected, inline: true, rdma: true},
	qp.WRWriteWithImm:      {types: onConnected, inline: true, rdma: true, imm: true},
	qp.WRSend:              {types: onAll, inline: true},
	qp.WRSendWithImm:       {types: onAll, inline: true, imm: true},
	qp.WRSendWithInv:       {types: onReliable, inline: true, inv: true},
	qp.WRRead:              {types: onReliable, rdma: true},
	qp.WRAtomicCmpAndSwp:   {types: onReliable, atomic: true},
	qp.WRAtomicFetchAndAdd: {types: onReliable, atomic: true},
	qp.WRLocalInv:          {types: onConnected, local: true, inv: true},
	qp.WRBindMW:            {types: onConnected, local: true},
}

// PostSend posts wrs and returns how many were accepted; err is about wrs[n].
func (q *QP) PostSend(wrs []qp.SendWR) (n int, err error) {
	q.send.mu.Lock()
	defer q.send.mu.Unlock()
	if err := q.maySend(); err != nil {
		return 0, err
	}
	return q.post(wrs)
}

// PostSendAll is PostSend of all or nothing, as far as it is known here what will be refused: what
// the device refuses, for want of a slot above all, leaves those before it posted.
func (q *QP) PostSendAll(wrs []qp.SendWR) (n int, err error) {
	q.send.mu.Lock()
	defer q.send.mu.Unlock()
	if err := q.maySend(); err != nil {
		return 0, err
	}
	for i := range wrs {
		if err := q.writeSend(i%len(q.send.wrs), &wrs[i]); err != nil {
			return i, err
		}
	}
	return q.post(wrs)
}

func (q *QP) maySend() error {
	if q.closed {
		return closed("QP")
	}
	if state := qp.QPState(q.state.Load()); state < qp.StateRTS {
		return fmt.Errorf("%w: PostSend needs RTS, QP 0x%06x is in %v", qp.ErrState, q.qpn, state)
	}
	return nil
}

// post is PostSend. The caller has the lock.
func (q *QP) post(wrs []qp.SendWR) (n int, err error) {
	s := &q.send
	for n < len(wrs) && err == nil {
		batch := wrs[n:min(n+len(s.wrs), len(wrs))]
		ready := 0
		for ready < len(batch) && err == nil {
			if err = q.writeSend(ready, &batch[ready]); err == nil {
				ready++
				if batch[ready-1].Opcode == qp.WRBindMW {
					break // the next one may bind the same window, whose key this one changes
				}
			}
		}
		posted, refusal := q.ringSend(ready)
		if refusal != nil {
			err = refusal
		}
		for i := range posted {
			if batch[i].Opcode == qp.WRBindMW || batch[i].Opcode == qp.WRLocalInv {
				q.noteWindow(&batch[i])
			}
		}
		n += posted
	}
	return n, err
}

// ringSend posts the first n requests.
func (q *QP) ringSend(n int) (posted int, err error) {
	if n == 0 {
		return 0, nil
	}
	last := &q.send.wrs[n-1]
	next := last.next
	last.next = nil
	p := C.goroce_post_send(q.qp, &q.send.wrs[0], C.int(n))
	last.next = next
	if p.err == 0 {
		return n, nil
	}
	return int(p.n), q.full("ibv_post_send", int(p.err), q.cap.MaxSendWR)
}

// full is the error of a post that the device refused. Without a free slot it says ENOMEM.
func (q *QP) full(verb string, result int, slots uint32) error {
	err := answeredAs(verb, result, map[syscall.Errno]error{syscall.ENOMEM: qp.ErrFull})
	if errors.Is(err, qp.ErrFull) {
		return fmt.Errorf("%w; QP 0x%06x takes %d work requests", err, q.qpn, slots)
	}
	return err
}

// writeSend checks wr and writes it into place i. (ibv_post_send has no FLUSH, nor ATOMIC WRITE:
// they came with ibv_qp_ex.)
func (q *QP) writeSend(i int, wr *qp.SendWR) error {
	if wr.Opcode == qp.WRFlush || wr.Opcode == qp.WRAtomicWrite {
		return unsupported("%v, on a device of the kernel: it serves it", wr.Opcode)
	}
	if int(wr.Opcode) >= len(operations) || operations[wr.Opcode].types&(1<<q.typ) == 0 {
		return invalid("%v is no operation of a %v queue pair", wr.Opcode, q.typ)
	}
	op, c := &operations[wr.Opcode], &q.send.wrs[i]
	length, err := q.writeData(i, wr, op)
	if err != nil {
		return err
	}
	c.wr_id, c.opcode, c.send_flags = C.uint64_t(wr.WRID), uint32(wr.Opcode), C.uint(wr.Flags&allFlags)
	switch {
	case op.imm:
		binary.BigEndian.PutUint32(c.anon0[:], wr.Imm)
	case op.inv:
		binary.NativeEndian.PutUint32(c.anon0[:], wr.InvalidateKey)
	}
	switch {
	case op.rdma:
		*(*rdmaPart)(unsafe.Pointer(&c.wr)) = rdmaPart{wr.RemoteAddr, wr.RKey}
	case op.atomic:
		if length != 8 || wr.RemoteAddr%8 != 0 {
			return invalid("%v of %d local bytes at remote address 0x%x: want 8 bytes and a multiple of 8",
				wr.Opcode, length, wr.RemoteAddr)
		}
		*(*atomicPart)(unsafe.Pointer(&c.wr)) = atomicPart{wr.RemoteAddr, wr.CompareAdd, wr.Swap, wr.RKey}
	case wr.Opcode == qp.WRBindMW:
		return q.writeBind(c, wr.Bind)
	case q.typ == qp.UD:
		return q.writeDatagram(c, wr)
	}
	return nil
}

// writeData writes the elements, or the inline data, and returns the length of the message.
func (q *QP) writeData(i int, wr *qp.SendWR, op *operation) (uint64, error) {
	s := &q.send
	c := &s.wrs[i]
	if wr.Flags&qp.SendInline == 0 {
		switch {
		case len(wr.Inline) != 0:
			return 0, invalid("SendWR.Inline holds %d bytes but SendFlags lacks SendInline", len(wr.Inline))
		case op.local && len(wr.SGL) != 0:
			return 0, invalid("%v takes no elements, got %d", wr.Opcode, len(wr.SGL))
		case len(wr.SGL) > s.maxSGE:
			return 0, invalid("%d scatter/gather elements, the queue takes at most %d", len(wr.SGL), s.maxSGE)
		}
		c.num_sge = C.int(len(wr.SGL))
		length := writeSGL(s.sges[i*s.maxSGE:], wr.SGL)
		if length > uint64(q.pd.dev.maxMessage) {
			return 0, invalid("message of %d bytes, the port carries at most %d", length, q.pd.dev.maxMessage)
		}
		return length, nil
	}
	if !op.inline {
		return 0, invalid("%v cannot be inline: only SENDs and WRITEs carry data in the request", wr.Opcode)
	}
	length, err := qp.InlineLength(wr, uint32(s.maxSGE))
	switch {
	case err != nil:
		return 0, err
	case int(length) > s.maxInline:
		return 0, invalid("%d bytes inline, QP 0x%06x takes at most %d (QPInit.Cap.MaxInlineData)",
			length, q.qpn, s.maxInline)
	}
	c.num_sge = 0
	if length > 0 {
		place := s.inline[i*s.maxInline:][:length]
		copy(place, wr.Inline)
		if err := qp.ReadInline(place, wr.SGL); err != nil {
			return 0, err
		}
		c.num_sge = 1
		s.sges[i*s.maxSGE] = C.struct_ibv_sge{addr: C.uint64_t(uintptr(unsafe.Pointer(&place[0]))),
			length: C.uint32_t(len(place))}
	}
	return uint64(length), nil
}

// writeSGL writes elements and returns how long they are together.
func writeSGL(to []C.struct_ibv_sge, from []qp.SGE) (length uint64) {
	for i := range from {
		to[i] = C.struct_ibv_sge{
			addr:   C.uint64_t(from[i].Addr),
			length: C.uint32_t(from[i].Length),
			lkey:   C.uint32_t(from[i].LKey),
		}
		length += uint64(from[i].Length)
	}
	return length
}

func (q *QP) writeDatagram(c *C.struct_ibv_send_wr, wr *qp.SendWR) error {
	if wr.AH == nil {
		return invalid("datagram without address handle (SendWR.AH)")
	}
	a, ok := wr.AH.Foreign().(*AH)
	switch {
	case !ok || a.pd != q.pd:
		return invalid("address handle to %v of another PD or device than QP 0x%06x", wr.AH.Attr().DGID, q.qpn)
	case a.dead.Load():
		return invalid("address handle to %v was destroyed", wr.AH.Attr().DGID)
	case wr.RemoteQPN > wire.QPNMask:
		return invalid("remote QPN 0x%x is wider than 24 bits", wr.RemoteQPN)
	}
	*(*datagramPart)(unsafe.Pointer(&c.wr)) = datagramPart{a.ah, wr.RemoteQPN, wr.RemoteQKey}
	return nil
}

// writeBind names the window and the region by the library's objects.
func (q *QP) writeBind(c *C.struct_ibv_send_wr, b *qp.BindInfo) error {
	if b == nil {
		return invalid("BIND_MW without SendWR.Bind")
	}
	if windowKey(b.WindowKey) != windowKey(b.NewKey) {
		return invalid("BIND_MW from key 0x%08x to 0x%08x: only the low byte may change", b.WindowKey, b.NewKey)
	}
	w, m := q.pd.window(b.WindowKey), q.pd.region(b.LKey)
	if w == nil || m == nil || w.typ != mr.Window2 {
		return invalid("BIND_MW of window 0x%08x to region 0x%08x: the PD of QP 0x%06x lacks one of them, or the "+
			"window is of type 1", b.WindowKey, b.LKey, q.qpn)
	}
	// The library takes the present key from its object, and leaves it to the application to keep
	// it up to date.
	w.mw.rkey = C.uint32_t(b.WindowKey)
	*(*bindPart)(unsafe.Pointer(&c.anon1)) = bindPart{w.mw, b.NewKey, m.mr, b.Addr, b.Length, uint32(b.Access)}
	return nil
}

// noteWindow keeps in mind what was posted for a window.
func (q *QP) noteWindow(wr *qp.SendWR) {
	key := wr.InvalidateKey
	if wr.Opcode == qp.WRBindMW {
		key = wr.Bind.NewKey
	}
	w := q.pd.window(key)
	if w == nil {
		return
	}
	w.bound.Store(wr.Opcode == qp.WRBindMW && wr.Bind.Length > 0)
	if wr.Opcode == qp.WRBindMW {
		w.mw.rkey = C.uint32_t(key)
		w.rkey.Store(key)
	}
}

// PostRecv posts wrs and returns how many were accepted; err is about wrs[n].
func (q *QP) PostRecv(wrs []qp.RecvWR) (n int, err error) {
	r := &q.recv
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.closed {
		return 0, closed("QP")
	}
	if state := qp.QPState(q.state.Load()); state < qp.StateInit {
		return 0, fmt.Errorf("%w: PostRecv needs INIT, QP 0x%06x is in %v", qp.ErrState, q.qpn, state)
	}
	if q.srq != nil {
		return 0, invalid("QP 0x%06x takes its receive requests from a shared receive queue: post them there", q.qpn)
	}
	return r.post(wrs, func(n int) (posted int, err error) {
		p := C.goroce_post_recv(q.qp, &r.wrs[0], C.int(n))
		if p.err == 0 {
			return n, nil
		}
		return int(p.n), q.full("ibv_post_recv", int(p.err), q.cap.MaxRecvWR)
	})
}

// post posts requests, in as many calls as it takes: ring posts the first n that are written.
func (r *recvQueue) post(wrs []qp.RecvWR, ring func(n int) (posted int, err error)) (n int, err error) {
	for n < len(wrs) && err == nil {
		ready := 0
		if ready, err = r.write(wrs[n:]); ready == 0 {
			break
		}
		r.cut(ready)
		posted, refusal := ring(ready)
		r.mend(ready)
		if refusal != nil {
			err = refusal
		}
		n += posted
	}
	return n, err
}

// write checks requests and writes as many as there are places for; err is about the one behind
// them.
func (r *recvQueue) write(wrs []qp.RecvWR) (ready int, err error) {
	for ; ready < min(len(wrs), len(r.wrs)); ready++ {
		wr, c := &wrs[ready], &r.wrs[ready]
		if len(wr.SGL) > r.maxSGE {
			return ready, invalid("%d scatter/gather elements, the queue takes at most %d", len(wr.SGL), r.maxSGE)
		}
		c.wr_id, c.num_sge = C.uint64_t(wr.WRID), C.int(len(wr.SGL))
		writeSGL(r.sges[ready*r.maxSGE:], wr.SGL)
	}
	return ready, nil
}

// cut ends the list of requests after n of them, and mend joins it again.
func (r *recvQueue) cut(n int) { r.wrs[n-1].next = nil }

func (r *recvQueue) mend(n int) {
	if n < len(r.wrs) {
		r.wrs[n-1].next = &r.wrs[n]
	}
}
