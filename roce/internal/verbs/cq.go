//go:build verbs

package verbs

// The completion queue. Each has a completion channel of its own, whose descriptor a goroutine
// watches in Go's poller: it tells those who sleep in Wait, and whoever ReqNotify is for.
//
// Stages: the object; polling, one call of C; notification; waiting (poll, arm, look again, sleep);
// size and moderation; closing.

/*
#cgo noescape goroce_poll_cq
#cgo nocallback goroce_poll_cq
#include "glue.h"
*/
import "C"

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goroce/goroce/qp"
)

// CQ is a completion queue.
type CQ struct {
	dev     *Device
	cq      *C.struct_ibv_cq
	channel *C.struct_ibv_comp_channel
	events  *Descriptor
	cap     int
	context any // the owner's, for events
	// completions have the flags by the kernel's numbers: see kernelWithInv
	kernelFlags bool
	// called when a completion comes that ReqNotify asked for; nil: nobody can ask
	notify func()

	woken    chan struct{} // holds a token when an armed queue got a completion
	waiters  atomic.Int32  // goroutines in Wait
	wanted   atomic.Bool   // by ReqNotify: the next event is also for notify
	armedAny atomic.Bool   // for any completion, so a request for solicited ones must not weaken it
	spin     atomic.Int64  // ns that Wait polls before it sleeps; adapts
	overrun  atomic.Bool

	mu     sync.Mutex // one poller at a time
	raw    []C.struct_ibv_wc
	kept   []qp.WC // taken from the device already: older than what it has
	closed bool
}

const (
	// maxPoll is how many completions one Poll takes at most.
	maxPoll = 256
	// maxSpin is how long Wait polls at most before it arms and sleeps: about what going to sleep
	// and waking up costs.
	maxSpin = 20 * time.Microsecond

	// kernelWithInv is how rxe, which writes completions of user space itself, says that a key was
	// invalidated: by the number that the flag has inside the kernel. To libibverbs it means that a
	// checksum was right, which rxe never says.
	kernelWithInv = 4
	// noVendor is the vendor_id of rxe.
	noVendor = 0xffffff
)

// CreateCQ makes a completion queue for at least cqe completions on one of the completion vectors.
// Events name it by context; notify is told, on a goroutine of the queue, of the completions that
// ReqNotify asks for.
func (d *Device) CreateCQ(cqe, vector int, context any, notify func()) (*CQ, error) {
	if cqe < 1 || cqe > int(d.attr.max_cqe) {
		return nil, invalid("a completion queue of %d, want 1 to %d (max_cqe)", cqe, d.attr.max_cqe)
	}
	c := &CQ{
		dev:         d,
		context:     context,
		notify:      notify,
		woken:       make(chan struct{}, 1),
		kernelFlags: d.attr.vendor_id == noVendor,
	}
	c.spin.Store(int64(maxSpin))
	var errno error
	if c.channel, errno = C.ibv_create_comp_channel(d.context); c.channel == nil {
		return nil, Refused("ibv_create_comp_channel", errno)
	}
	if c.cq, errno = C.ibv_create_cq(d.context, C.int(cqe), nil, c.channel, C.int(vector)); c.cq == nil {
		C.ibv_destroy_comp_channel(c.channel)
		return nil, Refused("ibv_create_cq", errno)
	}
	c.cap = int(c.cq.cqe)
	take := func() bool { return C.goroce_take_cq_event(c.channel) != 0 }
	var err error
	if c.events, err = Watch(int(c.channel.fd), d.device+" completions", take, c.ring); err != nil {
		C.ibv_destroy_cq(c.cq)
		C.ibv_destroy_comp_channel(c.channel)
		return nil, err
	}
	n := min(c.cap, maxPoll)
	c.raw = unsafe.Slice((*C.struct_ibv_wc)(C.calloc(C.size_t(n), C.sizeof_struct_ibv_wc)), n)
	d.enlist(unsafe.Pointer(c.cq), c)
	return c, nil
}

// Cap returns how many completions the queue holds.
func (c *CQ) Cap() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cap
}

// Len returns how many completions wait to be polled. A device does not say so: they are taken from
// it, and kept for the next polls.
func (c *CQ) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep()
	return len(c.kept)
}

// Poll takes up to len(wcs) completions, at most 256, and returns how many. The error is ErrOverrun
// once completions were lost, ErrClosed after Close; then the number is 0.
func (c *CQ) Poll(wcs []qp.WC) (int, error) {
	c.mu.Lock()
	n, err := c.take(wcs)
	c.mu.Unlock()
	return n, err
}

// PollEx is Poll, of at most 16 completions: nothing is kept beside.
func (c *CQ) PollEx(wcs []qp.WCEx) (int, error) {
	var some [16]qp.WC
	n, err := c.Poll(some[:min(len(wcs), len(some))])
	for i := range n {
		wcs[i] = qp.WCEx{WC: some[i]}
	}
	return n, err
}

// take moves completions to the application. The caller has the lock.
func (c *CQ) take(wcs []qp.WC) (int, error) {
	switch {
	case c.closed:
		return 0, closed("CQ")
	case len(wcs) == 0:
		return 0, nil
	case len(c.kept) > 0:
		n := copy(wcs, c.kept)
		c.kept = c.kept[n:]
		return n, nil
	}
	n := int(C.goroce_poll_cq(c.cq, C.int(min(len(wcs), len(c.raw))), unsafe.SliceData(c.raw)))
	for i := range n {
		c.read(&wcs[i], &c.raw[i])
	}
	switch {
	case n > 0:
		return n, nil
	case c.overrun.Load():
		return 0, fmt.Errorf("%w: it holds %d", qp.ErrOverrun, c.cap)
	case n < 0:
		return 0, answered("ibv_poll_cq", n)
	}
	return 0, nil
}

// read makes a completion of this module out of one of the library. The numbers are the same.
func (c *CQ) read(to *qp.WC, from *C.struct_ibv_wc) {
	*to = qp.WC{WRID: uint64(from.wr_id), ByteLen: uint32(from.byte_len), QPN: uint32(from.qp_num),
		SrcQP: uint32(from.src_qp), PKeyIndex: uint16(from.pkey_index), Status: qp.WCStatus(from.status),
		Opcode: qp.WCOpcode(from.opcode), Flags: qp.WCFlags(from.wc_flags) & (qp.WCGRH | qp.WCWithImm | qp.WCWithInv),
		VendorErr: uint8(from.vendor_err), SL: uint8(from.sl)}
	if from.wc_flags&kernelWithInv != 0 && c.kernelFlags {
		to.Flags |= qp.WCWithInv
	}
	switch {
	case to.Status != qp.WCSuccess:
		to.Flags = 0
	case to.Flags&qp.WCWithImm != 0:
		to.Imm = binary.BigEndian.Uint32(from.anon0[:])
	case to.Flags&qp.WCWithInv != 0:
		to.InvalidatedRKey = binary.NativeEndian.Uint32(from.anon0[:])
	}
}

// keep takes all completions from the device. The caller has the lock.
func (c *CQ) keep() {
	if c.closed {
		return
	}
	for {
		n := int(C.goroce_poll_cq(c.cq, C.int(len(c.raw)), unsafe.SliceData(c.raw)))
		for i := range n {
			var wc qp.WC
			c.read(&wc, &c.raw[i])
			c.kept = append(c.kept, wc)
		}
		if n < len(c.raw) {
			return
		}
	}
}

// purge takes out the completions of a queue pair that is gone: after QP.Close none of it are seen
// any more. With keep those of its receives stay, and failures, which do not say of what they are.
func (c *CQ) purge(qpn uint32, keep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep()
	c.kept = slices.DeleteFunc(c.kept, func(wc qp.WC) bool {
		return wc.QPN == qpn && !(keep && (wc.Opcode >= qp.WCRecv || wc.Status != qp.WCSuccess))
	})
}

// ReqNotify arms the queue: the next completion, or with solicitedOnly the next one that its sender
// marked SendSolicited or that is an error, is told to notify, once.
func (c *CQ) ReqNotify(solicitedOnly bool) error {
	if c.notify == nil {
		return invalid("the completion queue has no channel: use Wait, or create it with one")
	}
	c.wanted.Store(true)
	return c.arm(solicitedOnly)
}

// arm asks for one event.
func (c *CQ) arm(solicitedOnly bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var solicited C.int
	switch {
	case c.closed:
		return closed("CQ")
	case !solicitedOnly:
		c.armedAny.Store(true)
	case c.armedAny.Load():
		return nil
	default:
		solicited = 1
	}
	return answered("ibv_req_notify_cq", int(C.goroce_req_notify_cq(c.cq, solicited)))
}

// ring tells who has armed the queue.
func (c *CQ) ring() {
	c.armedAny.Store(false)
	if c.wanted.Swap(false) {
		c.notify()
	}
	c.wake()
}

func (c *CQ) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// fail notes that completions were lost.
func (c *CQ) fail() {
	c.overrun.Store(true)
	c.wake()
}

// Wait takes up to len(wcs) completions, at least one, and waits for it if need be. It has forty
// lines in common with that of the software device, where who waits may watch a port. It polls for
// some microseconds, unless sleeps have been long lately, then arms the queue and sleeps.
func (c *CQ) Wait(ctx context.Context, wcs []qp.WC) (int, error) {
	if len(wcs) == 0 {
		return 0, nil
	}
	c.waiters.Add(1)
	defer c.leave()
	for {
		if n, err := c.pollFor(time.Duration(c.spin.Load()), wcs); n > 0 || err != nil {
			return n, err
		}
		if err := c.arm(false); err != nil {
			return 0, err
		}
		if n, err := c.Poll(wcs); n > 0 || err != nil {
			return n, err
		}
		asleep := time.Now()
		select {
		case <-c.woken:
			c.adapt(time.Since(asleep))
		case <-ctx.Done():
			if n, err := c.Poll(wcs); n > 0 || err != nil {
				return n, err
			}
			return 0, ctx.Err()
		}
	}
}

// leave passes the token on: it was for one waiter, there may be completions for more, and the
// queue is not armed any more.
func (c *CQ) leave() {
	if c.waiters.Add(-1) > 0 {
		c.wake()
	}
}

// pollFor polls for a while, once at least.
func (c *CQ) pollFor(d time.Duration, wcs []qp.WC) (int, error) {
	for end := time.Now().Add(d); ; {
		n, err := c.Poll(wcs)
		if n > 0 || err != nil || d == 0 || time.Now().After(end) {
			return n, err
		}
	}
}

// adapt learns from how long a sleep took whether polling for longer would have saved it.
func (c *CQ) adapt(slept time.Duration) {
	if slept < maxSpin {
		c.spin.Store(int64(maxSpin))
		return
	}
	c.spin.Store(c.spin.Load() / 2)
}

// Resize makes the queue hold at least cqe completions.
func (c *CQ) Resize(cqe int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return closed("CQ")
	case c.overrun.Load():
		return qp.ErrOverrun
	case cqe < 1 || cqe > int(c.dev.attr.max_cqe):
		return invalid("a completion queue of %d, want 1 to %d (max_cqe)", cqe, c.dev.attr.max_cqe)
	case cqe < len(c.kept):
		return invalid("a completion queue of %d, %d completions are in it", cqe, len(c.kept))
	}
	err := answered("ibv_resize_cq", int(C.ibv_resize_cq(c.cq, C.int(cqe))))
	c.cap = int(c.cq.cqe)
	return err
}

// Moderate has notifications wait for count completions, or until the first of them is period old.
func (c *CQ) Moderate(count int, period time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return closed("CQ")
	}
	attr := C.struct_ibv_modify_cq_attr{attr_mask: C.IBV_CQ_ATTR_MODERATE}
	attr.moderate.cq_count, attr.moderate.cq_period = C.uint16_t(count), C.uint16_t(period/time.Microsecond)
	return answered("ibv_modify_cq", int(C.goroce_modify_cq(c.cq, &attr)))
}

// Close destroys the queue, where no queue pair completes any more. Waiters return with ErrClosed.
// A second Close does nothing.
func (c *CQ) Close() error {
	defer c.wake()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.dev.strike(unsafe.Pointer(c.cq))
	if err := answered("ibv_destroy_cq", int(C.ibv_destroy_cq(c.cq))); err != nil {
		c.dev.enlist(unsafe.Pointer(c.cq), c)
		return err
	}
	c.closed = true
	c.events.Close() // takes no lock of the queue
	C.free(unsafe.Pointer(unsafe.SliceData(c.raw)))
	c.raw, c.kept = nil, nil
	return answered("ibv_destroy_comp_channel", int(C.ibv_destroy_comp_channel(c.channel)))
}
