package qp

// Completion queues: a ring that one lane fills and one application thread at a time empties.
// Stages: the lane stages completions (push), publishes them once per turn (publish) and reports
// armed queues, some of them later (moderation); the application polls and arms. Control: making,
// resizing, moderating, destroying.
//
// A queue is sound until it is overrun, and then it stays overrun: nothing more goes in, so that
// what can be polled has no holes, and each completion that is lost has the queue pairs fail that
// complete there (Engine.Publish).

import (
	"fmt"
	"sync/atomic"
)

// CQ is a completion queue of one engine. Poll and Arm may be called by one goroutine at a time,
// concurrently with the engine.
type CQ struct {
	context any
	ring    []WC
	mask    uint32
	times   []Time // when those in ring were published; nil: nobody asked (KeepTimes)

	// lane only
	staged    uint32 // index after the last staged completion
	fresh     bool   // staged something since the last publish
	solicited bool   // and it wakes a solicited-only waiter
	listed    bool   // on the engine's list of queues to publish
	users     int    // queue pairs that complete here
	executed  uint64 // what Silent is to show

	// lane only: a notification comes with enough completions, or a while after the first of them
	enough uint32 // 0: with the first
	period Time
	held   uint32 // completions whose notification is held back
	tellAt Time   // until then at the latest
	waits  bool   // on the engine's list of queues with held notifications

	_         [cacheLine]byte
	published atomic.Uint32 // the lane's
	armed     atomic.Uint32 // an arm* value
	overrun   atomic.Bool   // the lane's
	silent    atomic.Uint64 // the lane's
	_         [cacheLine]byte
	consumed  atomic.Uint32 // the application's
}

const (
	armNone uint32 = iota
	armSolicited
	armAny
	armNow
)

// Context returns what CreateCQ was given; any goroutine.
func (c *CQ) Context() any { return c.context }

// Cap returns how many completions the queue holds: the requested number or the next power of two.
// Engine.ResizeCQ may not run meanwhile.
func (c *CQ) Cap() int { return len(c.ring) }

// Len returns how many completions wait to be polled.
func (c *CQ) Len() int { return int(c.published.Load() - c.consumed.Load()) }

// Err returns ErrOverrun after the queue was overrun: completions were lost and its queue pairs are
// in the error state.
func (c *CQ) Err() error {
	if c.overrun.Load() {
		return ErrOverrun
	}
	return nil
}

// Silent counts what peers have changed memory with and leaves no completion: WRITEs without
// immediate and atomics that were executed by queue pairs whose own requests complete here; any
// goroutine. Those that were executed before it has counted them are in memory.
func (c *CQ) Silent() uint64 { return c.silent.Load() }

// Poll takes up to len(dst) completions, oldest first, and returns how many.
func (c *CQ) Poll(dst []WC) int {
	at := c.consumed.Load()
	n := min(len(dst), int(c.published.Load()-at))
	for i := range n {
		dst[i] = c.ring[(at+uint32(i))&c.mask]
	}
	if n > 0 {
		c.consumed.Store(at + uint32(n))
	}
	return n
}

// Peek is Poll, but leaves the completions in the queue: it is for whoever shows one.
func (c *CQ) Peek(dst []WC) int {
	at := c.consumed.Load()
	n := min(len(dst), int(c.published.Load()-at))
	for i := range n {
		dst[i] = c.ring[(at+uint32(i))&c.mask]
	}
	return n
}

// PollEx is Poll with what the queue knows beside: of a queue that keeps times, Timestamp.
func (c *CQ) PollEx(dst []WCEx) int {
	at := c.consumed.Load()
	n := min(len(dst), int(c.published.Load()-at))
	for i := range n {
		dst[i] = WCEx{WC: c.ring[(at+uint32(i))&c.mask]}
		if c.times != nil {
			dst[i].Timestamp = uint64(c.times[(at+uint32(i))&c.mask])
		}
	}
	if n > 0 {
		c.consumed.Store(at + uint32(n))
	}
	return n
}

// Arm asks for one notification at the next completion, or with solicitedOnly at the next one whose
// sender asked for it or that is an error (ibv_req_notify_cq). Completions already in the queue do
// not count: arm, then poll, then sleep. A request for more (any completion, or ArmNow) is not
// weakened by a later one for less.
func (c *CQ) Arm(solicitedOnly bool) {
	if solicitedOnly {
		c.arm(armSolicited)
		return
	}
	c.arm(armAny)
}

// ArmNow is Arm for somebody who is not to wait for moderation (Engine.ModerateCQ).
func (c *CQ) ArmNow() { c.arm(armNow) }

// Armed tells whether a notification was asked for and is still to come; any goroutine.
func (c *CQ) Armed() bool { return c.armed.Load() != armNone }

// ArmedNow tells whether one was asked for by ArmNow, so that the next completion brings it; any
// goroutine.
func (c *CQ) ArmedNow() bool { return c.armed.Load() == armNow }

// arm asks for at least this much: who asked for more, and was not told yet, still waits for it.
func (c *CQ) arm(least uint32) {
	for was := c.armed.Load(); was < least && !c.armed.CompareAndSwap(was, least); {
		was = c.armed.Load()
	}
}

// push stages a completion; false: the ring is full, or the queue was overrun before.
func (c *CQ) push(wc *WC, solicited bool) bool {
	if c.staged-c.consumed.Load() > c.mask || c.overrun.Load() {
		return false
	}
	c.ring[c.staged&c.mask].set(wc)
	c.staged++
	c.fresh = true
	c.solicited = c.solicited || solicited || wc.Status != WCSuccess
	return true
}

// set is *w = *from, field by field: from was just written so, and a copy in larger units waits
// until its stores are done.
func (w *WC) set(from *WC) {
	w.WRID = from.WRID
	w.ByteLen = from.ByteLen
	w.QPN = from.QPN
	w.Imm = from.Imm
	w.SrcQP = from.SrcQP
	w.Opcode = from.Opcode
	w.PKeyIndex = from.PKeyIndex
	w.Status = from.Status
	w.VendorErr = from.VendorErr
	w.SL = from.SL
	w.NetworkType = from.NetworkType
	w.Flags = from.Flags
	w.InvalidatedRKey = from.InvalidatedRKey
}

// publish lets the application see what was staged and reports whether a waiter is to be told.
func (c *CQ) publish(now Time) (notify bool) {
	before := c.published.Load()
	if c.times != nil {
		for i := before; i != c.staged; i++ {
			c.times[i&c.mask] = now
		}
	}
	c.published.Store(c.staged)
	if c.executed != c.silent.Load() {
		c.silent.Store(c.executed)
	}
	armed := c.armed.Load()
	notify = c.fresh && (armed >= armAny || armed == armSolicited && (c.solicited || c.held > 0))
	if notify && (c.enough == 0 || armed == armNow || c.suffices(now, c.staged-before)) {
		c.told()
	} else {
		notify = false
	}
	c.fresh, c.solicited = false, false
	return notify
}

// suffices says whether to tell now of n more completions.
func (c *CQ) suffices(now Time, n uint32) bool {
	if c.held == 0 {
		c.tellAt = now + c.period
	}
	c.held += n
	return c.held >= c.enough || now >= c.tellAt
}

// told notes that the waiter is told.
func (c *CQ) told() {
	c.armed.Store(armNone)
	c.held = 0
}

// CreateCQ makes a completion queue for at least cqe completions, 1..MaxCQE. context is the owner's
// own value, returned by CQ.Context.
func (e *Engine) CreateCQ(cqe int, context any) (*CQ, error) {
	if err := checkCQE(cqe); err != nil {
		return nil, err
	}
	if len(e.cqs) >= MaxCQ {
		return nil, fmt.Errorf("%w: %d completion queues", ErrLimit, MaxCQ)
	}
	n := ringSize(uint32(cqe))
	c := &CQ{context: context, ring: make([]WC, n), mask: n - 1}
	e.cqs[c] = struct{}{}
	// so that listing never allocates
	for _, list := range []*[]*CQ{&e.freshCQs, &e.notifyCQs, &e.heldCQs} {
		if cap(*list) < len(e.cqs) {
			*list = append(make([]*CQ, 0, 2*len(e.cqs)), *list...)
		}
	}
	return c, nil
}

func checkCQE(cqe int) error {
	if cqe < 1 || cqe > MaxCQE {
		return invalid("completion queue of %d entries, 1 to %d are allowed", cqe, MaxCQE)
	}
	return nil
}

// KeepTimes has the queue note when each completion is published: the time that the engine's caller
// had given last. PollEx returns it. Call it before a queue pair completes here.
func (c *CQ) KeepTimes() { c.times = make([]Time, len(c.ring)) }

// ResizeCQ makes the queue hold at least cqe completions, 1..MaxCQE (ibv_resize_cq), and keeps
// those that are in it: ErrInvalid if they are more. Nobody polls meanwhile. An overrun is not
// undone: ErrOverrun.
func (e *Engine) ResizeCQ(c *CQ, cqe int) error {
	if !e.owns(c) {
		return fmt.Errorf("completion queue: %w", ErrUnknown)
	}
	if err := checkCQE(cqe); err != nil {
		return err
	}
	first := c.consumed.Load()
	switch there := c.staged - first; {
	case c.overrun.Load():
		return ErrOverrun
	case uint32(cqe) < there:
		return invalid("completion queue of %d entries, %d completions are in it", cqe, there)
	}
	ring, mask, times := c.ring, c.mask, c.times
	n := ringSize(uint32(cqe))
	c.ring, c.mask = make([]WC, n), n-1
	if c.times != nil {
		c.times = make([]Time, n)
	}
	for i := first; i != c.staged; i++ {
		c.ring[i&c.mask] = ring[i&mask]
		if c.times != nil {
			c.times[i&c.mask] = times[i&mask]
		}
	}
	return nil
}

// ModerateCQ has the notification that Arm asks for wait until there are so many completions it
// would tell of, or for the period after the first of them (ibv_modify_cq). A count below 2 or no
// period: it comes with the first, as it does in a new queue.
func (e *Engine) ModerateCQ(now Time, c *CQ, count int, period Time) error {
	e.now = now
	switch {
	case !e.owns(c):
		return fmt.Errorf("completion queue: %w", ErrUnknown)
	case count < 0 || count > MaxCQModCount || period < 0 || period > MaxCQModPeriod:
		return invalid("moderation by %d completions or %d ns, at most %d and %d",
			count, period, MaxCQModCount, MaxCQModPeriod)
	case count < 2 || period == 0:
		count, period = 0, 0
	}
	c.enough, c.period = uint32(count), period
	if c.held > 0 { // for which the old count or period would be too much
		if c.held >= c.enough {
			period = 0
		}
		c.tellAt = min(c.tellAt, now+period)
		e.tellAt = min(e.tellAt, c.tellAt)
	}
	return nil
}

// FailCQ ends a queue as an overrun does: nothing more goes into it, and Publish fails the
// queue pairs that complete there.
func (e *Engine) FailCQ(c *CQ) error {
	if !e.owns(c) {
		return fmt.Errorf("completion queue: %w", ErrUnknown)
	}
	if !c.overrun.Swap(true) {
		e.failUsers(c)
	}
	return nil
}

// hold notes that a notification is to come later.
func (e *Engine) hold(c *CQ) {
	e.tellAt = min(e.tellAt, c.tellAt)
	if !c.waits {
		c.waits = true
		e.heldCQs = append(e.heldCQs, c)
	}
}

// tellHeld tells of the queues whose notifications have been held back long enough.
func (e *Engine) tellHeld() {
	e.tellAt = Never
	waiting := e.heldCQs[:0]
	for _, c := range e.heldCQs {
		switch {
		case c.held > 0 && c.tellAt > e.now:
			e.tellAt = min(e.tellAt, c.tellAt)
			waiting = append(waiting, c)
			continue
		case c.held > 0:
			c.told()
			e.notifyCQs = append(e.notifyCQs, c)
		}
		c.waits = false
	}
	clear(e.heldCQs[len(waiting):])
	e.heldCQs = waiting
}

// DestroyCQ ends a completion queue. ErrBusy while a queue pair completes there.
func (e *Engine) DestroyCQ(c *CQ) error {
	if !e.owns(c) {
		return fmt.Errorf("completion queue: %w", ErrUnknown)
	}
	if c.users > 0 {
		return fmt.Errorf("completion queue: %w by %d queue pair ends", ErrBusy, c.users)
	}
	c.held = 0 // whoever lists it drops it
	delete(e.cqs, c)
	return nil
}

func (e *Engine) owns(c *CQ) bool { _, ok := e.cqs[c]; return ok }
