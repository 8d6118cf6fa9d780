package qp

// Receive requests: the queue of them, and how a responder takes one.
//
// Stages: the application writes a request into the ring (PostRecv, wr.go) → the first packet of a
// message that needs one claims it (claim), so that the rest of the walk sees only responder.recv →
// the message is complete, or has failed, and the request completes (endReceive); or the message
// came to nothing without a failure, and the request waits for the next one (putBack) → what is
// left when the queue pair fails is flushed (flushRecvs).
//
// Whether a request is from the queue pair's own ring, or from a queue that it shares with others
// (srq.go), no other step of the walk knows. From a shared queue claim takes one out, and
// endReceive gives its slot back, in whatever order messages end. What no message of a queue pair
// has claimed is not the queue pair's: RESET and the end of a queue pair put a claimed request
// back, so that nothing that was posted is lost, and ERR flushes the claimed one alone (section
// 8.1).

import (
	"sync/atomic"

	"github.com/goroce/goroce/mr"
)

// recvSlot is a receive work request in its ring. 16 bytes.
type recvSlot struct {
	wrid   uint64
	length uint32 // room in bytes
	numSGE uint8
	_      [3]byte
}

// fill is what the slot holds of a request for length bytes, but for its elements.
func (s *recvSlot) fill(wr *RecvWR, length uint32) {
	s.wrid, s.length, s.numSGE = wr.WRID, length, uint8(len(wr.SGL))
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
	claimed bool        // there is one
	at      uint32      // its slot in the queue pair's ring
	shared  *sharedSlot // its slot, if it is from a shared queue
}

// recvRoom is how many bytes the receive request that is claimed has room for.
func (q *QP) recvRoom() uint32 {
	if s := q.resp.recv.shared; s != nil {
		return s.length
	}
	return q.rq.at(q.resp.recv.at).length
}

// recvSGL returns the elements of the receive request that is claimed, and the protection domain
// that their keys are of.
func (q *QP) recvSGL() ([]SGE, mr.PD) {
	if s := q.resp.recv.shared; s != nil {
		return s.sges[:s.numSGE], q.srq.pd
	}
	return q.rq.sgl(q.resp.recv.at), q.pd
}

// claim takes the oldest receive request for the message that begins, with more of it to come or
// not; false: there is none for it.
func (e *Engine) claim(q *QP, more bool) bool {
	if s := q.srq; s != nil {
		var by *sharer
		if more {
			by = q.sharer
		}
		slot, low, over := s.claim(by)
		if low {
			e.raise(Event{Type: EventSRQLimit, SRQ: s})
		}
		if over {
			e.stats.OverShare++
		}
		q.resp.recv = receive{claimed: slot != nil, shared: slot}
		return slot != nil
	}
	i := q.rq.head.Load()
	if i == q.rq.tail.Load() {
		return false
	}
	q.resp.recv.claimed, q.resp.recv.at = true, i
	return true
}

// putBack lets the next message have the receive request, if one is claimed.
func (q *QP) putBack() {
	if r := &q.resp.recv; r.shared != nil {
		q.srq.putBack(r.shared)
		r.shared = nil
	}
	q.resp.recv.claimed = false
}

// endReceive completes the receive request that is claimed.
func (e *Engine) endReceive(q *QP, wc *WC, solicited bool) {
	if s := q.resp.recv.shared; s != nil {
		wc.WRID, wc.QPN = s.wrid, q.qpn
		e.complete(q.recvCQ, wc, solicited)
		q.resp.recv = receive{}
		q.srq.release(s)
		return
	}
	i := q.resp.recv.at
	wc.WRID, wc.QPN = q.rq.at(i).wrid, q.qpn
	e.complete(q.recvCQ, wc, solicited)
	q.resp.recv.claimed = false
	q.rq.head.Store(i + 1)
}

// flushRecvs completes every receive work request there is with WCWRFlushErr, the one that is
// claimed included. Of a shared queue it is the only one.
func (e *Engine) flushRecvs(q *QP) {
	if q.srq != nil {
		if q.resp.recv.claimed {
			e.endReceive(q, &WC{Status: WCWRFlushErr, Opcode: WCRecv}, false)
		}
		q.abandon()
		return
	}
	if q.rq == nil {
		return
	}
	q.abandon()
	tail := q.rq.tail.Load()
	for i := q.rq.head.Load(); i != tail; i++ {
		e.complete(q.recvCQ, &WC{WRID: q.rq.at(i).wrid, Status: WCWRFlushErr, Opcode: WCRecv, QPN: q.qpn}, false)
	}
	q.rq.head.Store(tail)
}
