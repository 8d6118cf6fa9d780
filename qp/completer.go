package qp

// The completer: responses of the peer become completions, or reports of losses (recovery.go).
// Stages: which response (response) → what it acknowledges (ackThrough) → its own effect (READ
// data, atomic value, NAK, RNR) → completions in the order of posting. Rules: section 4.4.

import (
	"encoding/binary"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// handleResponse handles one response packet of a reliable queue pair. Then a request that cannot
// be sent fails, if everything before it is complete now.
func (e *Engine) handleResponse(q *QP, p *wire.Packet) wire.DropReason {
	reason := e.response(q, p)
	e.failDoomed(q)
	return reason
}

// isAck tells ACK, NAK and RNR NAK from the responses that carry data.
func isAck(p *wire.Packet) bool { return p.Op.Flags&(wire.OpAck|wire.OpAtomic) == wire.OpAck }

// response does what one response packet says.
func (e *Engine) response(q *QP, p *wire.Packet) wire.DropReason {
	r, psn := &q.rec, p.BTH.PSN()
	if a := p.AETH(); a != nil && a.Syndrome().Kind() == wire.KindACK {
		e.credited(q, a)
	}
	if from, to, ok := q.reportedGap(p); ok {
		due := r.gaps.due
		d, reason := r.gapReported(e.now, from, to)
		e.recordGap(q, from, to.Sub(from), due)
		e.carryOut(q, d)
		return reason
	}
	if psn.Sub(r.una) < 0 || psn.Sub(r.top) >= 0 {
		r.answeredTwice()
		if psn.Next() == r.una && isAck(p) {
			q.sounded()
			due := r.gaps.due
			d := r.acknowledgedAgain(e.now, psn, p.AETH())
			e.recordGap(q, r.una, 1, due)
			e.carryOut(q, d)
		}
		return wire.DropGhost // of something complete, or never sent
	}
	if p.Op.Flags&wire.OpRead != 0 && p.AETH() == nil { // READ_RESPONSE_MIDDLE
		return e.readResponse(q, p, psn)
	}
	switch syn := p.AETH().Syndrome(); {
	case isAck(p):
		return e.acknowledge(q, psn, syn, p.AETH().MSN())
	case syn.Kind() != wire.KindACK:
		return wire.DropMalformed // reserved syndromes are ignored (section 4.4, as hfi1)
	case p.Op.Flags&wire.OpAtomic != 0:
		return e.atomicResponse(q, p, psn)
	}
	return e.readResponse(q, p, psn)
}

// acknowledge handles an ACKNOWLEDGE packet: an ACK, a NAK or an RNR NAK of psn.
func (e *Engine) acknowledge(q *QP, psn wire.PSN, syn wire.Syndrome, msn wire.PSN) wire.DropReason {
	switch syn.Kind() {
	case wire.KindACK:
		e.ackThrough(q, psn)
		if q.State() != StateErr {
			due := q.rec.gaps.due
			d := q.rec.arrivedBeyond(e.now, psn, msn)
			e.recordGap(q, q.rec.una, 1, due)
			e.carryOut(q, d)
		}
	case wire.KindRNR:
		e.stats.RcvdRNR++
		if e.ackBefore(q, psn) {
			d := q.rec.notReady(e.now, Time(wire.RNRTimeout(syn.Code())))
			if e.recorder != nil && q.rec.phase == phaseResting && d != thenStay {
				e.recorder.add(Record{At: e.now, Kind: RecordWait, QPN: q.qpn, PSN: q.rec.una})
			}
			e.carryOut(q, d)
		}
	case wire.KindNAK:
		return e.nakReceived(q, psn, syn)
	default:
		return wire.DropMalformed
	}
	return wire.DropNone
}

// ackThrough completes everything up to and including psn. It returns false if the response of a
// READ or an atomic among it is missing: that is an implied NAK (answers.go).
func (e *Engine) ackThrough(q *QP, psn wire.PSN) bool {
	una := q.rec.una
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
		if wrTable[s.opcode].answer != answerNone {
			if una.Sub(w.first) < 0 {
				una = w.first
			}
			e.progress(q, una)
			e.executed(q, psn.Next())
			return false
		}
		if w.last.Sub(psn) > 0 { // in the middle of a message
			break
		}
		una = w.last.Next()
		e.completeHead(q)
	}
	if psn.Next().Sub(una) > 0 {
		una = psn.Next()
	}
	e.progress(q, una)
	return true
}

// ackBefore completes everything before psn, which responses of psn imply.
func (e *Engine) ackBefore(q *QP, psn wire.PSN) bool {
	if psn == q.rec.una {
		e.completeLocal(q)
		return true
	}
	return e.ackThrough(q, psn.Prev())
}

// completeLocal completes local operations that have reached the head.
func (e *Engine) completeLocal(q *QP) {
	for i := q.sq.head.Load(); i != q.req.started; i = q.sq.head.Load() {
		if !wrTable[q.sq.at(i).opcode].local || q.req.at(i).status != WCSuccess {
			return
		}
		e.completeHead(q)
	}
}

// progress is called when una may be the oldest unacknowledged PSN from now on.
func (e *Engine) progress(q *QP, una wire.PSN) {
	if una == q.rec.una {
		return
	}
	d := q.rec.acknowledged(e.now, una)
	e.completeLocal(q)
	e.carryOut(q, d)
	e.checkDrained(q)
}

// readResponse takes the data of one READ response packet. Where the data belongs follows from its
// PSN, and whether it is whole from its length, not from the opcode: after a restart a peer may
// continue with MIDDLE and LAST, or begin again with FIRST or ONLY (section 4.4). Every piece that
// was asked for has a LAST of its own. The answer to a FLUSH or ATOMIC WRITE is that to a READ of
// nothing.
func (e *Engine) readResponse(q *QP, p *wire.Packet, psn wire.PSN) wire.DropReason {
	i, reason := e.place(q, psn)
	if reason != wire.DropNone {
		return reason
	}
	s, w := q.sq.at(i), q.req.at(i)
	if kind := wrTable[s.opcode].answer; i == q.req.started || kind != answerData && kind != answerDone {
		return e.refused(q, psn, WCBadRespErr)
	}
	off := uint32(psn.Sub(w.first)) * q.mtu
	n := min(q.mtu, s.length-off)
	end := off+n == s.length || (off+n)%q.pieceLen(w) == 0
	ends := p.Op.Flags&wire.OpEnd != 0
	if uint32(len(p.Payload)) != n || end != ends && (end || !q.attr.SelectiveRepeat) {
		return e.refused(q, psn, WCLocLenErr)
	}
	if e.scatter(q.pd, q.sq.sgl(i), off, p.Payload) != mr.OK {
		return e.refused(q, psn, WCLocProtErr)
	}
	return e.answered(q, psn)
}

// atomicResponse stores the value that an atomic found at the peer.
func (e *Engine) atomicResponse(q *QP, p *wire.Packet, psn wire.PSN) wire.DropReason {
	i, reason := e.place(q, psn)
	if reason != wire.DropNone {
		return reason
	}
	s := q.sq.at(i)
	if i == q.req.started || wrTable[s.opcode].answer != answerValue {
		return e.refused(q, psn, WCBadRespErr)
	}
	binary.NativeEndian.PutUint64(e.scratch[:], p.AtomicAckETH().Orig())
	if e.scatter(q.pd, q.sq.sgl(i), 0, e.scratch[:8]) != mr.OK {
		return e.refused(q, psn, WCLocProtErr)
	}
	return e.answered(q, psn)
}

// nakReceived handles a NAK. Everything before psn is acknowledged; psn itself is sent again, or
// fails (section 4.4).
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
		if status == WCSuccess && q.State() != StateErr {
			e.carryOut(q, q.rec.sequenceNAKBeyond(e.now, psn))
		}
		return wire.DropNone
	}
	if status == WCSuccess {
		e.carryOut(q, q.rec.sequenceNAK(e.now))
		return wire.DropNone
	}
	*e.stats.naks(syn).rcvd++
	e.failHead(q, status)
	return wire.DropNone
}

// completeHead ends the oldest send work request with success. It completes if that was asked for.
func (e *Engine) completeHead(q *QP) {
	i := q.sq.head.Load()
	s := q.sq.at(i)
	if q.req.doomed > 0 && q.req.at(i).status != WCSuccess {
		q.req.spare(i)
	}
	if q.sigAll || s.flags&SendSignaled != 0 {
		e.complete(q.sendCQ, &WC{WRID: s.wrid, Opcode: wrTable[s.opcode].wc, ByteLen: s.length, QPN: q.qpn}, false)
	}
	q.sq.head.Store(i + 1)
}

// failHead completes the oldest send work request with an error and stops the queue: a reliable
// queue pair goes to ERR, another to SQE.
func (e *Engine) failHead(q *QP, status WCStatus) {
	i := q.sq.head.Load()
	s := q.sq.at(i)
	e.stats.SendErrors++
	wc := WC{WRID: s.wrid, Status: status, Opcode: wrTable[s.opcode].wc, QPN: q.qpn}
	if status == WCRetryExcErr {
		wc.VendorErr = q.gaveUp()
	}
	e.complete(q.sendCQ, &wc, false)
	q.sq.head.Store(i + 1)
	if q.reliable {
		e.fail(q)
		return
	}
	e.sendError(q)
}
