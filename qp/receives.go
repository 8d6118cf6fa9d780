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
// be another place where slots are: claim takes one from there, and endReceive gives it back, in
// whatever order messages end.

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

// receive is the receive request of the message in progress. It is not copied: its slot in the ring
// is not given back before the request completes.
type receive struct {
	claimed bool   // there is one
	at      uint32 // its slot
}

// recvRoom is how many bytes the receive request that is claimed has room for.
func (q *QP) recvRoom() uint32 { return q.rq.at(q.resp.recv.at).length }

// recvSGL returns the elements of the receive request that is claimed.
func (q *QP) recvSGL() []SGE { return q.rq.sgl(q.resp.recv.at) }

// claim takes the oldest receive request for the message that begins; false: there is none.
func (q *QP) claim() bool {
	i := q.rq.head.Load()
	if i == q.rq.tail.Load() {
		return false
	}
	q.resp.recv = receive{claimed: true, at: i}
	return true
}

// putBack lets the next message have the receive request, if one is claimed.
func (q *QP) putBack() { q.resp.recv.claimed = false }

// endReceive completes the receive request that is claimed.
func (e *Engine) endReceive(q *QP, wc *WC, solicited bool) {
	i := q.resp.recv.at
	wc.WRID, wc.QPN = q.rq.at(i).wrid, q.qpn
	e.complete(q.recvCQ, wc, solicited)
	q.resp.recv.claimed = false
	q.rq.head.Store(i + 1)
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
