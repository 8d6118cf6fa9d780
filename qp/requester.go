package qp

// The requester: work requests become packets.
// Stages of one packet: which request (start) → may it go (windowOpen, mayAsk, outOfCredit,
// mayPace) → how much of it, headers and payload (emit) → what follows (advance). A retry only
// moves the position back (seek): the packet is made again from registered memory. What is sent
// out of turn is in silence.go (sendProbe) and selective.go (sendGap), requests that have an answer
// are in answers.go (emitRead), and which packets ask for an ACK in ask.go.

import (
	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// wqe is what the lane remembers of a started send work request, beside its slot.
type wqe struct {
	first, last wire.PSN // PSNs it occupies; a READ's are those of its responses
	ssn         wire.PSN // send sequence number: of its last message, see credits
	piece       uint16   // READ: packets that each of its requests asks for; 0: all
	status      WCStatus // not WCSuccess: it cannot be sent, and will fail with this in its turn
}

// requester is the sending role of a queue pair. Indices run freely, as the ring's do.
type requester struct {
	wqes     []wqe
	next     uint32 // request that the packet at recovery.psn belongs to
	started  uint32 // one past the newest request that has PSNs
	off      uint32 // bytes of request next that lie before that packet
	readsOut int32  // READ requests and atomics that were sent and not answered in full
	unasked  int32  // packets since the last with AckReq
	awaited  uint32 // newest request whose last packet had AckReq because its ACK was awaited
	doomed   int32  // started requests whose wqe.status is not WCSuccess
	stop     uint32 // the oldest of them
	early    uint32 // request that recovery.reached is in, if beyond una, or one before it
	credits  credits
	lone     bool // the present message began after a silence
	rxeFlush bool // FLUSHes are sealed as rxe wants it
}

func (r *requester) at(i uint32) *wqe { return &r.wqes[i&uint32(len(r.wqes)-1)] }

// verdict is what came of trying to send a packet.
type verdict uint8

const (
	verdictSent    verdict = iota // it is in the batch
	verdictBlocked                // none can be before something happens: a post, an ACK, a timer
	verdictFull                   // the batch has no room for it
)

// request sends the next request packet of q.
func (e *Engine) request(q *QP, b *wire.Batch) verdict {
	for {
		r := &q.req
		if s := q.State(); s != StateRTS && s != StateSQD {
			return verdictBlocked
		}
		switch q.rec.next() {
		case sendNothing:
			return verdictBlocked
		case sendGap:
			return e.sendGap(q, b)
		case sendProbe:
			return e.sendProbe(q, b)
		}
		if q.stopped() {
			return verdictBlocked
		}
		if r.next == r.started {
			if r.next == q.sq.tail.Load() || q.State() == StateSQD || !q.mayStart(r.next) {
				return verdictBlocked
			}
			if wrTable[q.sq.at(r.next).opcode].local {
				e.local(q)
				continue
			}
			if !e.start(q) {
				continue
			}
		}
		s := q.sq.at(r.next)
		rule := &wrTable[s.opcode]
		if rule.local { // passed again by a retry
			r.next++
			continue
		}
		if !q.windowOpen() || !q.mayAsk(rule) || q.outOfCredit() || !e.mayPace(q) || !e.maySpread(q) {
			return verdictBlocked
		}
		return e.emit(q, b, s, rule)
	}
}

// mayStart says whether request i, which has no PSNs yet, may begin now. Fences and local
// invalidations may have to wait (section 6.1).
func (q *QP) mayStart(i uint32) bool {
	s := q.sq.at(i)
	switch {
	case s.flags&SendFence != 0 && q.req.readsOut > 0:
		return false
	case s.opcode == WRLocalInv:
		return q.sq.head.Load() == i // waits for all earlier requests
	}
	return true
}

// mayAsk says whether the next packet may leave as far as READs and atomics are limited: a new one
// may only if the peer can remember one more; one that was sent before is remembered already
// (section 4.6).
func (q *QP) mayAsk(rule *wrRule) bool {
	return rule.answer == answerNone || q.rec.psn != q.rec.top || q.req.readsOut < q.depth()
}

// start gives request next its PSNs. It returns false if the request fails instead.
func (e *Engine) start(q *QP) bool {
	r := &q.req
	s := q.sq.at(r.next)
	status := e.onPurpose(s)
	if status == WCSuccess {
		status = e.checkSend(q, s)
	}
	if status != WCSuccess {
		r.started++
		*r.at(r.next) = wqe{first: q.rec.psn, last: q.rec.psn.Prev()}
		e.doom(q, status)
		return false
	}
	packets := uint32(1)
	if !wrTable[s.opcode].atomic && s.length > 0 {
		packets = (s.length-1)/q.mtu + 1
	}
	w := r.at(r.next)
	*w = wqe{first: q.rec.psn, last: q.rec.psn.Add(packets - 1)}
	if s.opcode == WRRead {
		w.piece = q.piece(packets)
	}
	w.ssn = q.number(s, packets, w)
	r.started++
	r.off = 0
	if e.recorder != nil {
		e.recorder.add(Record{
			At:     e.now,
			Kind:   RecordRequest,
			QPN:    q.qpn,
			PSN:    q.rec.psn,
			Op:     uint8(s.opcode),
			Value:  s.wrid,
			Length: s.length,
		})
	}
	q.rec.window.small = s.length <= smallMessage
	return true
}

// checkSend checks what can be known before the first packet: local memory and its rights. So
// nothing of a request with a bad key reaches the peer.
func (e *Engine) checkSend(q *QP, s *sendSlot) WCStatus {
	if q.datagram && s.length > q.mtu {
		return WCLocLenErr
	}
	fetches := wrTable[s.opcode].answer != answerNone
	if fetches && q.attr.MaxRdAtomic == 0 {
		return WCLocQPOpErr
	}
	if s.flags&SendInline != 0 || !fetches && s.length <= q.mtu {
		return WCSuccess // a single packet is checked while it is made
	}
	need := mr.Access(0)
	if fetches {
		need = mr.LocalWrite
	}
	if st := e.checkSGL(q.pd, q.sq.sgl(q.req.next), need); st != mr.OK {
		return WCLocProtErr
	}
	return WCSuccess
}

// doom lets request next fail once everything before it is complete, because completions keep their
// order. If the request was sent before, and its memory went away since, the peer may have executed
// it all the same: then an ACK that is still on its way completes it with success, which is the
// truth.
func (e *Engine) doom(q *QP, status WCStatus) {
	r := &q.req
	w := r.at(r.next)
	if r.doomed == 0 || int32(r.next-r.stop) < 0 { // it was passed before, and is to be sent again
		r.stop = r.next
	}
	if w.status == WCSuccess {
		r.doomed++
	}
	w.status = status
	e.failDoomed(q)
}

// stopped says whether the position has reached or passed a request that cannot be sent: nothing
// goes out from there on.
func (q *QP) stopped() bool { return q.req.doomed > 0 && int32(q.req.next-q.req.stop) >= 0 }

// spare takes back that request i, the oldest, cannot be sent: it need not be any more.
func (r *requester) spare(i uint32) {
	r.at(i).status = WCSuccess
	if r.doomed--; r.doomed == 0 {
		return
	}
	for r.stop = i + 1; r.at(r.stop).status == WCSuccess; r.stop++ {
	}
}

// failDoomed fails a request that cannot be sent if its turn has come. Whoever handles a response
// calls it last: a queue pair must not fail in the middle of what a response does to it.
func (e *Engine) failDoomed(q *QP) {
	r, i := &q.req, q.sq.head.Load()
	if r.doomed > 0 && i != r.started && r.at(i).status != WCSuccess {
		e.failHead(q, r.at(i).status)
	}
}

// limit is how many packets may be unacknowledged now.
func (q *QP) limit() int32 {
	n := q.rec.limit()
	if q.rate.limited {
		n = min(n, q.rate.bound(q.rec.base, q.mtu))
	}
	return n
}

// windowOpen says whether one more packet may be unacknowledged. UC and UD have no acknowledgements
// and no window.
func (q *QP) windowOpen() bool {
	if !q.reliable {
		return true
	}
	if q.rec.inFlight() >= q.limit() {
		q.rec.window.limited = q.rec.oldest != unaAlone && !q.rate.limited
		return false
	}
	w := q.req.at(q.req.next)
	return w.last.Sub(q.rec.una) >= 0 // a READ longer than half the PSN circle would look old
}

// again makes the packet at the present position, to which recovery has moved.
func (e *Engine) again(q *QP, b *wire.Batch) verdict {
	s := q.sq.at(q.req.next)
	return e.emit(q, b, s, &wrTable[s.opcode])
}

// emit makes the packet at the present position, which is one of request s.
func (e *Engine) emit(q *QP, b *wire.Batch, s *sendSlot, rule *wrRule) verdict {
	r := &q.req
	if rule.answer != answerNone {
		return e.emitRead(q, b, s)
	}
	n := min(q.mtu, s.length-r.off)
	last := r.off+n == s.length
	whole := q.even && s.opcode == WRWrite // each packet is a message
	op := rule.opcodes.at(r.off == 0 || whole, last || whole, q.opcodes)
	path, ah := &q.path, (*AH)(nil)
	if q.datagram {
		if ah = e.ah(s.ah); ah == nil {
			e.doom(q, WCLocQPOpErr)
			return verdictSent
		}
		if s.length > q.mtu { // the port's has shrunk since the request began
			e.doom(q, WCLocLenErr)
			return verdictSent
		}
		path = &ah.path
		b.Toward(s.remoteQPN)
	}
	info := op.Info()
	pad := -n & 3
	body := uint32(info.HdrLen) + n + pad + wire.ICRCLen
	f := b.Reserve(path, int(body))
	if f == nil {
		return verdictFull
	}
	payload := f.Body[info.HdrLen : uint32(info.HdrLen)+n]
	rest, st := e.payload(q, s, payload)
	if st != mr.OK {
		b.Undo()
		e.doom(q, WCLocProtErr)
		return verdictSent
	}
	if pad > 0 {
		clear(f.Body[uint32(info.HdrLen)+n:][:pad])
	}
	q.putRequestHeaders(e.now, f.Body, op, info, s, uint8(pad), last)
	if at := info.Off[wire.HdrRETH]; at != 0 {
		va, length := s.remoteAddr, s.length
		if whole {
			va, length = va+uint64(r.off), n
		}
		(*wire.RETH)(f.Body[at:]).Put(va, s.rkey, length)
	}
	if st := e.noted(e.sealPayload(f, int(uint32(info.HdrLen)+n)-len(rest), rest,
		s.flags&SendInline == 0)); st != mr.OK {
		b.Undo()
		e.doom(q, WCLocProtErr)
		return verdictSent
	}
	e.stats.SentPkts++
	e.spend(q, int(body))
	e.advance(q, q.rec.psn, n, last)
	return verdictSent
}

// putRequestHeaders writes BTH and the extension headers of a SEND or WRITE packet, bar its RETH.
func (q *QP) putRequestHeaders(now Time, body []byte, op wire.Opcode, info *wire.OpInfo, s *sendSlot, pad uint8,
	last bool) {
	r := &q.req
	var flags wire.BTHFlags
	if r.off == 0 {
		r.lone = now-q.rec.sentAt > q.rec.patience()
	}
	if last && s.flags&SendSolicited != 0 && info.Flags&(wire.OpSend|wire.OpConsumesRecv) != 0 {
		flags |= wire.BTHSolicited
	}
	dest := q.attr.DestQPN
	switch {
	case q.reliable && q.asksACK(last && q.awaits(now, s)):
		flags |= wire.BTHAckReq
	case q.datagram:
		dest = s.remoteQPN
		qkey := s.remoteQKey
		if qkey&wire.PrivilegedQKey != 0 { // section 1.11: it means "mine"
			qkey = q.attr.QKey
		}
		(*wire.DETH)(body[info.Off[wire.HdrDETH]:]).Put(qkey, q.qpn)
	}
	(*wire.BTH)(body).Put(op, flags, pad, wire.DefaultPKey, dest, q.rec.psn)
	if at := info.Off[wire.HdrXRCETH]; at != 0 {
		(*wire.XRCETH)(body[at:]).Put(s.remoteQPN)
	}
	if at := info.Off[wire.HdrImmDt]; at != 0 {
		(*wire.ImmDt)(body[at:]).Put(s.imm)
	}
	if at := info.Off[wire.HdrIETH]; at != 0 {
		(*wire.IETH)(body[at:]).Put(s.imm)
	}
}

// advance moves past the packet that was just made with this PSN. It held n bytes of the request;
// last says that they were the last.
func (e *Engine) advance(q *QP, psn wire.PSN, n uint32, last bool) {
	r, rec := &q.req, &q.rec
	rec.psn = rec.psn.Next()
	fresh := rec.psn.Sub(rec.top) > 0
	if fresh {
		rec.top = rec.psn
	} else {
		e.stats.Retransmitted++
		q.sent.again++
	}
	r.off += n
	if last {
		r.next++
		r.off = 0
	}
	if q.reliable {
		rec.spread(e.now, rec.psn.Sub(psn))
		if rec.sent(e.now, psn, fresh, r.unasked == 0) == thenWake {
			e.setDeadline(q)
		}
		return
	}
	if last { // UC and UD: complete when handed to the network (section 6.1)
		e.completeHead(q)
		e.checkDrained(q)
	}
}

// seek moves the position to psn, which lies in a started request or is one past the last: the next
// packet is the one with that PSN. It passes a request that failed before its first packet and has
// no PSNs; stopped sees it all the same.
func (q *QP) seek(psn wire.PSN) {
	r := &q.req
	q.rec.psn, r.off, r.unasked = psn, 0, 0
	r.next = q.sq.head.Load()
	for r.next != r.started {
		w := r.at(r.next)
		if !wrTable[q.sq.at(r.next).opcode].local && w.last.Sub(psn) >= 0 {
			r.off = uint32(psn.Sub(w.first)) * q.mtu
			return
		}
		r.next++
	}
}

// payload copies the data that belongs at the present offset of request s into a packet, except for
// its last piece: that it returns.
func (e *Engine) payload(q *QP, s *sendSlot, dst []byte) (rest []byte, st mr.Status) {
	if s.flags&SendInline != 0 {
		return q.sq.inlineRoom(q.req.next)[q.req.off:][:len(dst)], mr.OK
	}
	return e.gather(q.pd, q.sq.sgl(q.req.next), q.req.off, dst)
}

// local executes request next, one that puts nothing on the wire, when its turn to be sent comes.
// It completes in its turn: now if everything before it is complete,
// else when it reaches the head of the queue.
func (e *Engine) local(q *QP) {
	r := &q.req
	s := q.sq.at(r.next)
	*r.at(r.next) = wqe{first: q.rec.psn, last: q.rec.psn.Prev()}
	r.started++
	status := e.onPurpose(s)
	switch {
	case status != WCSuccess:
	case s.opcode == WRLocalInv:
		if e.cfg.Memory.Invalidate(q.pd, q.qpn, s.imm) != mr.OK {
			status = WCLocQPOpErr
		}
	case s.opcode == WRBindMW:
		b := s.bind(q.qpn)
		if e.cfg.Memory.BindWindow(q.pd, &b) != mr.OK {
			status = WCMWBindErr
		}
	}
	if status != WCSuccess {
		e.doom(q, status)
		return
	}
	r.next++
	e.completeLocal(q)
	e.checkDrained(q)
}
