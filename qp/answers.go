package qp

// Requests that have an answer, READs and atomics: how they are asked for, and answers that come
// early, behind one that is missing.
//
// A responder executes and answers requests in order. So an answer, or an ACK, says that everything
// before it has been executed and answered: an answer that has not come is lost, or late. It alone
// is asked for again, as far as the peer takes that (missingFrom), and what has come early stays.
//
// Stages: a READ is asked for in pieces (piece, emitRead) → an answer or an ACK comes though those
// before it have not (Engine.executed) → those are gaps now, beside the ones that a peer with
// selective repeat reports (selective.go), and go out in the same way (sendGap) → each answer goes
// where it belongs when it comes (Engine.place) → una moves on to the next that is missing, and
// requests complete in order (Engine.answered).
//
// Up to recovery.reached gaps are of answers, behind it of requests. Who goes back, because of
// silence, asks for all answers that have not come, and keeps those that have.

import (
	"encoding/binary"

	"github.com/goroce/goroce/wire"
)

// depth is how many READs and atomics may be outstanding: max_rd_atomic, and more where the window
// has grown so long that so many need not fill it, and the peer remembers more (remembers).
func (q *QP) depth() int32 {
	n := int32(q.attr.MaxRdAtomic)
	if int64(q.rec.window.size)*int64(q.mtu) > longFrom && q.attr.long() {
		n *= longDepth
	}
	return n
}

// remembers is how many of the peer's READs and atomics are remembered.
func (a *QPAttr) remembers() int {
	if a.long() {
		return longDepth * int(a.MaxDestRdAtomic)
	}
	return int(a.MaxDestRdAtomic)
}

// long says whether both ends have agreed to long windows.
func (a *QPAttr) long() bool { return a.SelectiveRepeat && a.LongWindow }

// piece is how many packets of a READ that begins now each request asks for: so many that twice
// what the path holds is asked for with max_rd_atomic of them, and no more than a quarter of the
// window, which would leave at once. While nothing is lost it is half of the window, if that is no
// longer than a burst (spread.go): packets of a piece leave in one run but for the first and the
// last. None is much shorter than the others, as it would take the place of one. 0 stands for all:
// with few requests outstanding each end of a piece would cost a round trip.
func (q *QP) piece(packets uint32) uint16 {
	depth, w := int32(q.attr.MaxRdAtomic), &q.rec.window
	if q.whole || depth < pieceDepth {
		return 0
	}
	least := int32(leastPiece)
	if q.even && depth >= evenDepth {
		least = 2
	}
	n := max(2*w.path/depth, least)
	n = min(n, max(w.size/4, 2), mostPiece)
	if n == 2 {
		return 2
	}
	if w.smooth() { // up is rounded, not down: no piece is longer
		n = max(n, min(w.size/2, spreadBurst))
		requests := (packets + uint32(n) - 1) / uint32(n)
		return uint16((packets + requests - 1) / requests)
	}
	requests := max(packets/uint32(n), 1)
	return uint16(min((packets+requests-1)/requests, mostPiece))
}

// pieceLen is the same in bytes of a READ that has begun, counted from its beginning.
func (q *QP) pieceLen(w *wqe) uint32 {
	if w.piece == 0 {
		return MaxMessage
	}
	return uint32(w.piece) * q.mtu
}

// emitRead makes a READ or atomic request, or another one that has an answer. If a piece of a READ
// was answered in part, it asks for the rest of it only (section 4.4), or for what is missing.
func (e *Engine) emitRead(q *QP, b *wire.Batch, s *sendSlot) verdict {
	r := &q.req
	op := wrTable[s.opcode].opcodes.at(true, true, q.opcodes)
	info := op.Info()
	carried := 0
	if s.opcode == WRAtomicWrite {
		carried = 8
	}
	f := b.Reserve(&q.path, int(info.HdrLen)+carried+wire.ICRCLen)
	if f == nil {
		return verdictFull
	}
	(*wire.BTH)(f.Body).Put(op, wire.BTHAckReq, 0, wire.DefaultPKey, q.attr.DestQPN, q.rec.psn)
	if at := info.Off[wire.HdrXRCETH]; at != 0 {
		(*wire.XRCETH)(f.Body[at:]).Put(s.remoteQPN)
	}
	n, packets := s.length, uint32(1)
	switch s.opcode {
	case WRRead:
		piece := q.pieceLen(r.at(r.next))
		n = min(piece-r.off%piece, s.length-r.off, q.missingFrom(q.rec.psn))
		packets = max(1, (n+q.mtu-1)/q.mtu)
		(*wire.RETH)(f.Body[info.Off[wire.HdrRETH]:]).Put(s.remoteAddr+uint64(r.off), s.rkey, n)
	case WRAtomicCmpAndSwp:
		(*wire.AtomicETH)(f.Body[info.Off[wire.HdrAtomicETH]:]).Put(s.remoteAddr, s.rkey, s.swap, s.compareAdd)
	case WRAtomicFetchAndAdd:
		(*wire.AtomicETH)(f.Body[info.Off[wire.HdrAtomicETH]:]).Put(s.remoteAddr, s.rkey, s.compareAdd, 0)
	case WRAtomicWrite:
		(*wire.RETH)(f.Body[info.Off[wire.HdrRETH]:]).Put(s.remoteAddr, s.rkey, 8)
		binary.NativeEndian.PutUint64(f.Body[info.HdrLen:], s.swap)
	case WRFlush:
		(*wire.FETH)(f.Body[info.Off[wire.HdrFETH]:]).Put(uint8(s.imm), uint8(s.imm>>8))
		(*wire.RETH)(f.Body[info.Off[wire.HdrRETH]:]).Put(s.remoteAddr, s.rkey, uint32(s.compareAdd))
	}
	psn := q.rec.psn
	q.sealAsked(f, s.opcode, psn == q.rec.top)
	e.stats.SentPkts++
	if carried > 0 {
		e.spend(q, int(info.HdrLen)+carried+wire.ICRCLen)
	}
	r.unasked = 0
	if psn == q.rec.top {
		r.readsOut++
	}
	q.rec.psn = psn.Add(packets - 1)
	e.advance(q, psn, n, r.off+n == s.length)
	return verdictSent
}

// sealAsked seals a request that has an answer. A FLUSH that was not answered may have gone to rxe,
// which wants another ICRC in it (section 13) and says nothing to one that is wrong. So each time
// that one is repeated it is the other, until there is an answer.
func (q *QP) sealAsked(f *wire.Frame, op WROpcode, fresh bool) {
	if op == WRFlush && !fresh {
		q.req.rxeFlush = !q.req.rxeFlush
	}
	if op == WRFlush && q.req.rxeFlush {
		wire.SealFlush(f)
		return
	}
	wire.Seal(f)
}

// missingFrom is how many bytes are asked for at most when answer psn is. A peer that agreed to
// selective repeat answers any part of a request that it has executed; others need not answer one
// that does not run to the request's end.
func (q *QP) missingFrom(psn wire.PSN) uint32 {
	if q.attr.SelectiveRepeat && psn.Sub(q.rec.reached) < 0 {
		if g := q.rec.gaps.around(psn); g != nil {
			return uint32(g.to.Sub(psn)) * q.mtu
		}
	}
	return MaxMessage
}

// executed takes notice that the peer has executed everything before end, while una, an answer, is
// missing. What has not come of the answers before end is missing too.
func (e *Engine) executed(q *QP, end wire.PSN) {
	r, due := &q.rec, q.rec.gaps.due
	from := r.reached
	for i := q.placeOf(from); i != q.req.started && end.Sub(r.reached) > 0; i++ {
		w := q.req.at(i)
		q.req.early = i
		to := w.last.Next()
		if to.Sub(end) > 0 {
			to = end
		}
		if to.Sub(r.reached) <= 0 { // it has no packets
			continue
		}
		answers := wrTable[q.sq.at(i).opcode].answer != answerNone
		if !r.passed(to, answers) {
			break
		}
	}
	e.carryOut(q, r.overtaken(e.now, end.Prev(), from))
	e.recordGap(q, from, r.reached.Sub(from), due)
}

// passed moves reached to a packet up to which everything has been executed, with answers if the
// packets on the way have some. It returns false if there is no room to note what is missing.
func (r *recovery) passed(to wire.PSN, answers bool) bool {
	if answers && !r.gaps.missAnswers(r.reached, to) {
		return false
	}
	if !answers {
		r.gaps.came(r.reached, to)
	}
	r.reached = to
	return true
}

// overtaken is the event that packet newest is known to be executed, while una, an answer, is
// missing: answers from from on are, too, and those that were asked for again before newest left
// have been lost again.
func (r *recovery) overtaken(now Time, newest, from wire.PSN) decision {
	r.heard(now, newest, from, r.reached)
	again, oldest := r.gaps.lostAgain(newest, r.reached)
	n := r.gaps.missing(from, r.reached)
	if n > 0 {
		r.stats.ImpliedNAK++
		oldest = oldest || from == r.una
	}
	if n += again; n > 0 {
		r.lost(now, r.gaps.list[0].from, n)
	}
	d := thenResume               // the window may have opened
	if r.reached.Sub(r.psn) > 0 { // what was about to be sent again had been executed
		r.psn, d = r.reached, thenSkip
	}
	if r.notSilent(now); oldest && r.repeatOldest(now) == thenGiveUp {
		return thenGiveUp
	}
	return d
}

// placeOf returns the request that packet psn belongs to, or one that started when there is none.
func (q *QP) placeOf(psn wire.PSN) uint32 {
	i := q.sq.head.Load()
	if r := &q.rec; r.reached != r.una && psn.Sub(r.reached) >= 0 && int32(q.req.early-i) > 0 {
		i = q.req.early
	}
	for i != q.req.started && q.req.at(i).last.Sub(psn) < 0 {
		i++
	}
	return i
}

// place says which request an answer belongs to, and whether it is wanted. What it implies is
// settled first.
func (e *Engine) place(q *QP, psn wire.PSN) (i uint32, reason wire.DropReason) {
	r := &q.rec
	if e.ackBefore(q, psn) {
		return q.sq.head.Load(), wire.DropNone
	}
	switch {
	case q.State() == StateErr:
		return 0, wire.DropQPState
	case psn.Sub(r.reached) > 0: // no room to note what is missing before it
		return 0, wire.DropOutOfSequence
	case psn != r.reached && r.gaps.around(psn) == nil, psn.Sub(r.una) < 0:
		return 0, wire.DropDuplicate
	}
	return q.placeOf(psn), wire.DropNone
}

// refused is reached with an answer that cannot be right, or has nowhere to go. In its turn its
// request fails with the status; one that is early is as one that has not come.
func (e *Engine) refused(q *QP, psn wire.PSN, status WCStatus) wire.DropReason {
	if psn == q.rec.una {
		e.failHead(q, status)
		return wire.DropNone
	}
	e.executed(q, psn.Next())
	return wire.DropMalformed
}

// answered takes notice that answer psn is where it belongs. Requests complete up to the next that
// is missing.
func (e *Engine) answered(q *QP, psn wire.PSN) wire.DropReason {
	r := &q.rec
	una, ok := r.arrived(psn)
	if !ok {
		return wire.DropOutOfSequence
	}
	if una == r.una {
		e.carryOut(q, r.overtaken(e.now, psn, r.reached))
		return wire.DropNone
	}
	from := r.una
	for i := q.sq.head.Load(); i != q.req.started; i = q.sq.head.Load() {
		s, w := q.sq.at(i), q.req.at(i)
		rule := &wrTable[s.opcode]
		switch {
		case rule.local && w.status != WCSuccess, !rule.local && w.first.Sub(una) >= 0:
			e.progress(q, una)
			return wire.DropNone
		case rule.answer != answerNone:
			q.req.readsOut -= int32(w.ends(una) - w.ends(from))
		}
		if !rule.local && w.last.Sub(una) >= 0 {
			break
		}
		e.completeHead(q)
	}
	e.progress(q, una)
	return wire.DropNone
}

// arrived is the event that answer psn is there. una is the oldest packet that is not complete
// then; ok is false if there is no room to note that those around it are not there.
func (r *recovery) arrived(psn wire.PSN) (una wire.PSN, ok bool) {
	if psn.Sub(r.reached) < 0 {
		if !r.gaps.fill(psn, r.top) {
			return r.una, false
		}
	} else {
		r.gaps.came(psn, psn.Next())
		r.reached = psn.Next()
	}
	if g := r.gaps.oldest(r.reached.Prev()); g != nil {
		return g.from, true
	}
	return r.reached, true
}

// ends is how many of the requests that ask for w end before psn.
func (w *wqe) ends(psn wire.PSN) int {
	n, all, piece := psn.Sub(w.first), w.last.Sub(w.first)+1, int32(w.piece)
	switch {
	case n < all && (n <= 0 || piece == 0):
		return 0
	case piece == 0:
		return 1
	case n >= all:
		return int((all + piece - 1) / piece)
	}
	return int(n / piece)
}
