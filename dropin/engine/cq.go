package main

// Completion channels and queues. Polling converts what there is straight into the caller's
// ibv_wc.

// #include <infiniband/verbs.h>
// struct goroce_wc_ex { struct ibv_wc wc; uint64_t timestamp, wallclock; };
import "C"

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce"
)

// linger is for how long a poll runs the stack for a program that watches memory, and calls
// nothing while it does: roce.CQ.Linger says why, and that others pay nothing.
const linger = 50 * time.Microsecond

// attend is for how long at most a program that waits for an event is in Go, where no signal ends a
// call.
const attend = 10 * time.Millisecond

// attending is a context that ends after attend, shared by all who begin to wait in its first half,
// as to make one takes longer than most waits.
type attending struct {
	context.Context
	cancel context.CancelFunc
	half   time.Time
}

var attended atomic.Pointer[attending]

func attention() context.Context {
	a, now := attended.Load(), time.Now()
	if a == nil || now.After(a.half) {
		a = &attending{half: now.Add(attend / 2)}
		a.Context, a.cancel = context.WithTimeout(bg, attend)
		attended.Store(a)
	}
	return a.Context
}

// pollBatch is how many completions are taken at a time.
const pollBatch = 64

// completionQueue is an ibv_cq. C may poll it from several threads.
type completionQueue struct {
	*roce.CQ
	mu  sync.Mutex
	wcs [pollBatch]roce.WC
	ex  []roce.WCEx // of one made by ibv_create_cq_ex
}

//export goroce_create_comp_channel
func goroce_create_comp_channel(h C.uint32_t, fd *C.int, out *C.uint32_t) C.int {
	c, ok := find[*ctx](handle(h))
	if !ok {
		return invalid
	}
	ch, err := c.CreateCompChannel()
	if err != nil {
		return errno(err)
	}
	n, err := ch.FD()
	if err != nil {
		ch.Close()
		return errno(err)
	}
	*fd = C.int(n)
	return made(c.Device, ch, ch.Close, out)
}

// goroce_get_cq_event takes an event and returns the ibv_cq. EAGAIN: there is none, and with wait
// none has come in a while.
//
//export goroce_get_cq_event
func goroce_get_cq_event(h C.uint32_t, wait C.int, cq *C.uintptr_t) C.int {
	ch, ok := find[*roce.CompChannel](handle(h))
	if !ok {
		return invalid
	}
	var c *roce.CQ
	var some bool
	if wait == 0 {
		c, some = ch.TryGet()
	} else {
		ctx := attention()
		var err error
		c, err = ch.Wait(ctx)
		if some = err == nil; !some && ctx.Err() == nil {
			return errno(err)
		}
	}
	if !some {
		return C.int(unix.EAGAIN)
	}
	*cq = C.uintptr_t(c.Context().(owner).self)
	return 0
}

//export goroce_create_cq
func goroce_create_cq(h C.uint32_t, channel C.uint32_t, a *C.struct_ibv_cq_init_attr_ex, ex C.int, context C.uintptr_t,
	cq *C.struct_ibv_cq) C.int {
	c, ok := find[*ctx](handle(h))
	if !ok {
		return invalid
	}
	attr := roce.CQInitAttr{CQE: int(a.cqe), Vector: int(a.comp_vector),
		Context: owner{uintptr(context), uintptr(unsafe.Pointer(cq))}}
	x := &completionQueue{}
	if ex != 0 {
		attr.WCFlags, x.ex = roce.WCExFlags(a.wc_flags), make([]roce.WCEx, pollBatch)
		if a.comp_mask&C.IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 {
			attr.Flags = roce.CQFlags(a.flags)
		}
	}
	if channel != 0 {
		if attr.Channel, ok = find[*roce.CompChannel](handle(channel)); !ok {
			return invalid
		}
	}
	var err error
	if x.CQ, err = c.CreateCQ(attr); err != nil {
		return errno(err)
	}
	x.Linger(linger)
	cq.cqe = C.int(x.Cap())
	return made(c.Device, x, x.Close, &cq.handle)
}

//export goroce_resize_cq
func goroce_resize_cq(h C.uint32_t, cqe C.int, cq *C.struct_ibv_cq) C.int {
	x, ok := find[*completionQueue](handle(h))
	if !ok {
		return invalid
	}
	err := x.Resize(int(cqe))
	cq.cqe = C.int(x.Cap())
	return errno(err)
}

//export goroce_modify_cq
func goroce_modify_cq(h C.uint32_t, count, period C.uint16_t) C.int {
	x, ok := find[*completionQueue](handle(h))
	if !ok {
		return invalid
	}
	return errno(x.Modify(roce.CQModeration{Count: uint16(count), Period: uint16(period)}))
}

//export goroce_req_notify_cq
func goroce_req_notify_cq(h C.uint32_t, solicited C.int) C.int {
	x, ok := find[*completionQueue](handle(h))
	if !ok {
		return invalid
	}
	return errno(x.ReqNotify(solicited != 0))
}

// goroce_poll_cq returns how many completions it has written, or -1.
//
//export goroce_poll_cq
func goroce_poll_cq(h C.uint32_t, n C.int, out *C.struct_ibv_wc) C.int {
	x, ok := find[*completionQueue](handle(h))
	if !ok {
		return -1
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	to := unsafe.Slice((*wc)(unsafe.Pointer(out)), int(n))
	for got := 0; ; {
		k, err := x.Poll(x.wcs[:min(int(n)-got, pollBatch)])
		if err != nil {
			return -1
		}
		for i := range x.wcs[:k] {
			to[got].set(&x.wcs[i])
			got++
		}
		if k < pollBatch || got == int(n) {
			return C.int(got)
		}
	}
}

// goroce_poll_cq_ex is the same with what a queue made by ibv_create_cq_ex keeps beside.
//
//export goroce_poll_cq_ex
func goroce_poll_cq_ex(h C.uint32_t, n C.int, out *C.struct_goroce_wc_ex) C.int {
	x, ok := find[*completionQueue](handle(h))
	if !ok || x.ex == nil {
		return -1
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	k, err := x.PollEx(x.ex[:min(int(n), pollBatch)])
	if err != nil {
		return -1
	}
	to := unsafe.Slice(out, int(n))
	for i := range x.ex[:k] {
		e := &x.ex[i]
		(*wc)(unsafe.Pointer(&to[i].wc)).set(&e.WC)
		to[i].timestamp, to[i].wallclock = C.uint64_t(e.Timestamp), C.uint64_t(e.Wallclock)
	}
	return C.int(k)
}

// wc is struct ibv_wc, which has a union that cgo does not show.
type wc struct {
	wrID              uint64
	status, opcode    uint32
	vendorErr, length uint32
	imm               uint32 // in network order; or invalidated_rkey in the host's
	qpn, srcQP        uint32
	flags             uint32
	pkeyIndex, slid   uint16
	sl, dlidPathBits  uint8
}

var _ = [1]int{}[unsafe.Sizeof(wc{})-C.sizeof_struct_ibv_wc]

func (c *wc) set(w *roce.WC) {
	*c = wc{wrID: w.WRID, status: uint32(w.Status), opcode: uint32(w.Opcode), vendorErr: uint32(w.VendorErr),
		length: w.ByteLen, imm: networkOrder(w.Imm), qpn: w.QPN, srcQP: w.SrcQP, flags: uint32(w.Flags),
		pkeyIndex: w.PKeyIndex, sl: w.SL}
	if w.Flags&roce.WCWithInv != 0 {
		c.imm = w.InvalidatedRKey
	}
}

// networkOrder is a number as C keeps it that is __be32, and the way back.
func networkOrder(n uint32) uint32 {
	if littleEndian {
		return bits.ReverseBytes32(n)
	}
	return n
}

var littleEndian = *(*byte)(unsafe.Pointer(&[1]uint16{1})) == 1
