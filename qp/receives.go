package qp

// Receive requests: the queue of them, and how a responder takes one.
//
// Stages: the application writes a request into the ring (PostRecv, wr.go) → the first packet of a
// message that needs one claims it (claim), so that the rest of the walk sees only responder.recv →
// the message is complete, or has failed, and the request completes (endReceive); or the message
// came to nothing without a failure, and the request waits for the next one (putBack) → what is
// left when the queue pair fails is flushed (flushRecvs).
//
// Where requests come from is known in this file alone. A queue shared by several queue pairs would
// be another source of claim; it could not keep the slot of a claimed request, as the present one
// does, because others go on taking from it.

import "sync/atomic"

// recvSlot is a receive work request in its ring. 16 bytes.
type recvSlot struct {
	wrid   uint64
	length uint32 // room in bytes
	numSGE uint8
	_      [3]byte
}

// recvQueue is the ring of a queue pair's receive work requests.
type recvQueue struct {
	slots  []recvSlot
	sges   []SGE // maxSGE a slot
	mask   uint32
	maxSGE uint32

	_    [cacheLine]byte
	tail atomic.Uint32 // first free slot; the application's
	_    [cacheLine]byte
	head atomic.Uint32 // oldest slot not completed; the lane's
}

func newRecvQueue(wr, sge uint32) *recvQueue {
	n := ringSize(wr)
	return &recvQueue{slots: make([]recvSlot, n), sges: make([]SGE, n*sge), mask: n - 1, maxSGE: sge}
}

func (r *recvQueue) at(i uint32) *recvSlot { return &r.slots[i&r.mask] }

// sgl returns the elements of slot i.
func (r *recvQueue) sgl(i uint32) []SGE {
	at := (i & r.mask) * r.maxSGE
	return r.sges[at : at+uint32(r.at(i).numSGE)]
}

// reset empties the queue; the lane calls it when the queue pair is reset and nobody posts.
func (r *recvQueue) reset() { r.head.Store(r.tail.Load()) }

// receive is the receive request of the message in progress.
type receive struct {
	claimed bool // there is one
	wrid    uint64
	length  uint32 // room in bytes
	sgl     []SGE  // in the ring: its slot is not given back before the request completes
}

// claim takes the oldest receive request for the message that begins; false: there is none.
func (q *QP) claim() bool {
	i := q.rq.head.Load()
	if i == q.rq.tail.Load() {
		return false
	}
	s := q.rq.at(i)
	q.resp.recv = receive{claimed: true, wrid: s.wrid, length: s.length, sgl: q.rq.sgl(i)}
	return true
}

// putBack lets the next message have the receive request, if one is claimed.
func (q *QP) putBack() { q.resp.recv.claimed = false }

// endReceive completes the receive request that is claimed.
func (e *Engine) endReceive(q *QP, wc *WC, solicited bool) {
	wc.WRID, wc.QPN = q.resp.recv.wrid, q.qpn
	e.complete(q.recvCQ, wc, solicited)
	q.resp.recv.claimed = false
	q.rq.head.Store(q.rq.head.Load() + 1)
}

// flushRecvs completes every receive work request there is with WCWRFlushErr, the one that is
// claimed included.
func (e *Engine) flushRecvs(q *QP) {
	q.abandon()
	tail := q.rq.tail.Load()
	for i := q.rq.head.Load(); i != tail; i++ {
		e.complete(q.recvCQ, &WC{WRID: q.rq.at(i).wrid, Status: WCWRFlushErr, Opcode: WCRecv, QPN: q.qpn}, false)
	}
	q.rq.head.Store(tail)
}
