package qp

// Completion queues: a ring that one lane fills and one application thread at a time empties.
// Stages: the lane stages completions (push), publishes them once per turn (flush) and reports
// armed queues; the application polls and arms. A completion is visible only after its flush.

import "sync/atomic"

// CQ is a completion queue of one engine. Poll and Arm may be called by one goroutine at a time,
// concurrently with the engine.
type CQ struct {
	Context any // the owner's own value; the engine never reads it

	ring []WC
	mask uint32

	// lane only
	staged    uint32 // index after the last staged completion
	fresh     bool   // staged something since the last flush
	solicited bool   // and it wakes a solicited-only waiter
	listed    bool   // on the engine's list of queues to flush
	users     int    // queue pairs that complete here

	_         [cacheLine]byte
	published atomic.Uint32 // the lane's
	armed     atomic.Uint32 // an arm* value
	overrun   atomic.Bool
	_         [cacheLine]byte
	consumed  atomic.Uint32 // the application's
}

const (
	armNone uint32 = iota
	armSolicited
	armAny
)

func newCQ(cqe uint32) *CQ {
	n := ringSize(cqe)
	return &CQ{ring: make([]WC, n), mask: n - 1}
}

// Cap returns how many completions the queue holds: the requested number or the next power of two.
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

// Arm asks for one notification at the next completion, or with solicitedOnly at the next one whose
// sender asked for it or that is an error (ibv_req_notify_cq). Completions already in the queue do
// not count: arm, then poll, then sleep. A request for any completion is not weakened by a later
// one for solicited only.
func (c *CQ) Arm(solicitedOnly bool) {
	if !solicitedOnly {
		c.armed.Store(armAny)
		return
	}
	c.armed.CompareAndSwap(armNone, armSolicited)
}

// push stages a completion; false means that the ring was full and the completion is lost.
func (c *CQ) push(wc *WC, solicited bool) bool {
	if c.staged-c.consumed.Load() > c.mask {
		return false
	}
	c.ring[c.staged&c.mask] = *wc
	c.staged++
	c.fresh = true
	c.solicited = c.solicited || solicited || wc.Status != WCSuccess
	return true
}

// flush publishes what was staged and reports whether a waiter is to be told.
func (c *CQ) flush() (notify bool) {
	c.published.Store(c.staged)
	armed := c.armed.Load()
	notify = c.fresh && (armed == armAny || armed == armSolicited && c.solicited)
	if notify {
		c.armed.Store(armNone)
	}
	c.fresh, c.solicited = false, false
	return notify
}
