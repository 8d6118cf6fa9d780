package qp

// The completer: responses of the peer become completions, or retries.
// Stages: which response (completeRC) → what it acknowledges (ackThrough) → its own effect (READ data, atomic value, NAK, RNR)
// → completions in posting order. Retries are in recovery.go. Rules: section 4.4.

import (
	"encoding/binary"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// completer is the part of a queue pair that handles responses.
type completer struct {
	una wire.PSN // oldest unacknowledged; inside a READ, of the response that is missing first
}

// completeRC handles one response packet of an RC queue pair, and then lets fail what cannot be
// sent and has nothing before it any more.
func (e *Engine) completeRC(q *QP, p *wire.Packet) wire.DropReason {
	reason := e.response(q, p)
	e.failDoomed(q)
	return reason
}

// response does what one response packet says.
func (e *Engine) response(q *QP, p *wire.Packet) wire.DropReason {
	psn := p.BTH.PSN()
	if from, to, ok := q.reportedGap(p); ok {
		return e.gapReported(q, from, to)
	}
	if psn.Sub(q.comp.una) < 0 || psn.Sub(q.req.top) >= 0 {
		if psn.Next() == q.comp.una && p.Opcode == wire.RCAcknowledge && !e.stillMissing(q, p) {
			e.probeAnswered(q)
		}
		return wire.DropGhost // of something complete, or never sent
	}
	if p.Op.Flags&wire.OpRead != 0 && p.AETH() == nil { // READ_RESPONSE_MIDDLE
		return e.readResponse(q, p, psn)
	}
	syn := p.AETH().Syndrome()
	switch {
	case p.Opcode == wire.RCAcknowledge && syn.Kind() == wire.KindACK:
		e.ackThrough(q, psn)
		e.stillMissing(q, p)
	case p.Opcode == wire.RCAcknowledge && syn.Kind() == wire.KindRNR:
		e.rnrNAK(q, psn, syn)
	case p.Opcode == wire.RCAcknowledge && syn.Kind() == wire.KindNAK:
		return e.nakReceived(q, psn, syn)
	case syn.Kind() != wire.KindACK:
		return wire.DropMalformed // reserved syndromes are ignored (section 4.4, as hfi1)
	case p.Opcode == wire.RCAtomicAcknowledge:
		e.atomicResponse(q, p, psn)
	default:
		return e.readResponse(q, p, psn)
	}
	return wire.DropNone
}

// ackThrough completes everything up to and including psn. A READ or atomic without its response on the way is an implied
// NAK: false, and a retry from there has begun.
func (e *Engine) ackThrough(q *QP, psn wire.PSN) bool {
	c, before := &q.comp, q.comp.una
	for q.sq.head.Load() != q.req.started {
		i := q.sq.head.Load()
		s, w := q.sq.at(i), q.req.at(i)
		if wrTable[s.opcode].local && w.status == WCSuccess {
			e.completeHead(q)
			continue
		}
		if psn.Sub(w.first) < 0 || wrTable[s.opcode].local {
			break
		}
		if s.opcode == WRRead || wrTable[s.opcode].atomic {
			if c.una.Sub(w.first) < 0 {
				c.una = w.first
			}
			e.progress(q, before)
			e.impliedNAK(q, psn)
			return false
		}
		if w.last.Sub(psn) > 0 { // in the middle of a message
			break
		}
		c.una = w.last.Next()
		e.completeHead(q)
	}
	if psn.Next().Sub(c.una) > 0 {
		c.una = psn.Next()
	}
	e.progress(q, before)
	return true
}

// ackBefore completes everything before psn, which responses of psn imply.
func (e *Engine) ackBefore(q *QP, psn wire.PSN) bool {
	if psn == q.comp.una {
		e.completeLocal(q)
		return true
	}
	return e.ackThrough(q, psn.Prev())
}

// completeLocal completes local operations that have reached the head.
func (e *Engine) completeLocal(q *QP) {
	for i := q.sq.head.Load(); i != q.req.started && wrTable[q.sq.at(i).opcode].local && q.req.at(i).status == WCSuccess; i = q.sq.head.Load() {
		e.completeHead(q)
	}
}

// progress is called when the oldest unacknowledged PSN may have moved on from before.
func (e *Engine) progress(q *QP, before wire.PSN) {
	una := q.comp.una
	if una == before {
		return
	}
	if una.Sub(q.req.psn) > 0 { // the peer had got what a retry was about to repeat
		q.seek(una)
	}
	q.window.clean += int64(una.Sub(before))
	e.completeLocal(q)
	e.recovered(q)
	e.schedule(q, dueRequest)
	e.checkDrained(q)
}

// readResponse takes the data of one READ response packet. They are told apart by PSN and length: after a restart a peer may
// continue with MIDDLE and LAST or begin again with FIRST or ONLY (section 4.4). Every piece that was asked for has its own LAST.
func (e *Engine) readResponse(q *QP, p *wire.Packet, psn wire.PSN) wire.DropReason {
	if !e.ackBefore(q, psn) {
		return wire.DropOutOfSequence
	}
	i := q.sq.head.Load()
	s, w := q.sq.at(i), q.req.at(i)
	if i == q.req.started || s.opcode != WRRead {
		e.failHead(q, WCBadRespErr)
		return wire.DropNone
	}
	off := uint32(psn.Sub(w.first)) * q.mtu
	n := min(q.mtu, s.length-off)
	last := off+n == s.length
	end := last || (off+n)%q.piece() == 0
	if uint32(len(p.Payload)) != n || end != (p.Op.Flags&wire.OpEnd != 0) {
		e.failHead(q, WCLocLenErr)
		return wire.DropNone
	}
	if e.scatter(q.pd, q.sq.sgl(i), off, p.Payload) != mr.OK {
		e.failHead(q, WCLocProtErr)
		return wire.DropNone
	}
	e.answered(q, psn, end, last)
	return wire.DropNone
}

// atomicResponse stores the value that an atomic found at the peer.
func (e *Engine) atomicResponse(q *QP, p *wire.Packet, psn wire.PSN) {
	if !e.ackBefore(q, psn) {
		return
	}
	i := q.sq.head.Load()
	s := q.sq.at(i)
	if i == q.req.started || !wrTable[s.opcode].atomic {
		e.failHead(q, WCBadRespErr)
		return
	}
	binary.NativeEndian.PutUint64(e.scratch[:], p.AtomicAckETH().Orig())
	if e.scatter(q.pd, q.sq.sgl(i), 0, e.scratch[:8]) != mr.OK {
		e.failHead(q, WCLocProtErr)
		return
	}
	e.answered(q, psn, true, true)
}

// answered moves past a response of the READ or atomic at the head: of a request's end, and of the last one's.
func (e *Engine) answered(q *QP, psn wire.PSN, end, last bool) {
	before := q.comp.una
	q.comp.una = psn.Next()
	if end {
		q.req.readsOut--
	}
	if last {
		e.completeHead(q)
	}
	e.progress(q, before)
}

// nakReceived handles a NAK: everything before psn is acknowledged; psn itself is sent again or fails (section 4.4).
func (e *Engine) nakReceived(q *QP, psn wire.PSN, syn wire.Syndrome) wire.DropReason {
	status := WCSuccess
	switch syn {
	case wire.SynNAKSeq:
	case wire.SynNAKInvReq:
		status = WCRemInvReqErr
	case wire.SynNAKAccess:
		status = WCRemAccessErr
	case wire.SynNAKOp:
		status = WCRemOpErr
	default:
		return wire.DropMalformed
	}
	if !e.ackBefore(q, psn) {
		return wire.DropNone
	}
	if status == WCSuccess {
		e.stats.RcvdSeqErr++
		e.sequenceNAK(q)
		return wire.DropNone
	}
	e.failHead(q, status)
	return wire.DropNone
}

// completeHead retires the oldest send work request with success, with a completion if it was asked for.
func (e *Engine) completeHead(q *QP) {
	i := q.sq.head.Load()
	s := q.sq.at(i)
	if q.req.doomed > 0 && q.req.at(i).status != WCSuccess { // it could not be sent again, but need not be
		q.req.at(i).status = WCSuccess
		q.req.doomed--
	}
	if q.sigAll || s.flags&SendSignaled != 0 {
		e.complete(q.sendCQ, &WC{WRID: s.wrid, Opcode: wrTable[s.opcode].wc, ByteLen: s.length, QPN: q.qpn}, false)
	}
	q.sq.head.Store(i + 1)
}

// failHead completes the oldest send work request with an error and stops the queue: RC goes to ERR, UC and UD to SQE.
func (e *Engine) failHead(q *QP, status WCStatus) {
	i := q.sq.head.Load()
	s := q.sq.at(i)
	e.stats.SendErrors++
	e.complete(q.sendCQ, &WC{WRID: s.wrid, Status: status, Opcode: wrTable[s.opcode].wc, QPN: q.qpn}, false)
	q.sq.head.Store(i + 1)
	if q.typ == RC {
		e.fail(q)
		return
	}
	e.sendError(q)
}
