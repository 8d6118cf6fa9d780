package qp

// The responder of the connected services: requests of the peer become memory accesses, completions
// and replies. The walk of a packet: PSN → order → access → receive → length → key → execute →
// finish. A step that objects names a fault; what a fault means on the wire, for the receive
// request and for the queue pair stands in one table (section 6.3).

import (
	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// responder is the receiving role of a queue pair.
type responder struct {
	epsn    wire.PSN // expected
	msn     wire.PSN // messages completed
	message message  // in progress
	recv    receive  // of it, if it needs one: a SEND has it throughout
	got     uint32   // bytes of it
	va      uint64   // of a WRITE in progress
	rkey    uint32
	length  uint32 // its RETH.DMALen
	met     bool   // a packet has arrived: IBV_EVENT_COMM_EST

	parting bool    // the queue pair is in ERR but still sends what it owes, a NAK at the end
	absent  absence // what the peer has been told of epsn
	ack     bool    // an ACK through ackPSN is due
	// selective repeat: something before dropped found no room, or gave way, and no NAK has asked
	// for it yet
	missed  bool
	ackPSN  wire.PSN
	nak     wire.Syndrome // a NAK of nakPSN is due; 0: none
	nakPSN  wire.PSN
	dropped wire.PSN
	kept    *reorder // selective repeat: what came after a gap; nil: no gap

	depth   int        // max_dest_rd_atomic
	res     []resource // READs and atomics remembered for replay, a ring
	resNext int
	jobs    []job // replies to READs and atomics not sent yet, a ring
	jobHead int
	jobLen  int
	newJobs int // of them, those that are no replay: the peer must keep to the depth with these
	syncing int // of them, FLUSHes that wait for storage
	// of those, the ones that wait for their turn there; nil: there never was one
	syncs *syncLine
}

// message is what kind of message is in progress.
type message uint8

const (
	messageNone message = iota
	messageSend
	messageWrite
)

// start begins with the PSN that the peer sends first, and the message number before its first.
func (r *responder) start(psn, msn wire.PSN) { r.epsn, r.msn = psn, msn }

// fault is an objection of the walk.
type fault uint8

const (
	faultNone       fault = iota
	faultOrder            // first, middle and last packets out of order
	faultAccess           // the queue pair does not allow the operation
	faultNoRecv           // no receive request posted
	faultDepth            // more READs and atomics than are remembered
	faultLength           // packet or message length against the rules
	faultTooLong          // SEND longer than the receive request
	faultMisaligned       // atomic not on 8 bytes
	faultKey              // rkey unknown, of another domain, out of range, or without the right
	faultMemory           // receive request names bad memory
	faultInvalidate       // SEND_WITH_INV of what cannot be invalidated
	faultTarget           // XRC: no such shared receive queue in the domain
)

// faults is the table of sections 6.3 and 6.4.
var faults = [...]struct {
	nak    wire.Syndrome   // RC: to the requester; 0: none
	recv   WCStatus        // RC: how the receive request that is claimed ends; UC: of faultMemory
	event  EventType       // RC: raised if there is no such request
	reason wire.DropReason // counted; UC: the message is dropped and nothing else happens
}{
	faultOrder:      {wire.SynNAKInvReq, WCRemInvReqErr, EventQPReqErr, wire.DropMalformed},
	faultAccess:     {wire.SynNAKInvReq, WCRemInvReqErr, EventQPReqErr, wire.DropMalformed},
	faultNoRecv:     {reason: wire.DropNoRecv}, // RC answers RNR, see whenNoReceive
	faultDepth:      {wire.SynNAKInvReq, WCRemInvReqErr, EventQPReqErr, wire.DropNoResource},
	faultLength:     {wire.SynNAKInvReq, WCRemInvReqErr, EventQPReqErr, wire.DropMalformed},
	faultTooLong:    {wire.SynNAKInvReq, WCLocLenErr, EventQPReqErr, wire.DropTooLong},
	faultMisaligned: {wire.SynNAKInvReq, WCRemInvReqErr, EventQPReqErr, wire.DropMalformed},
	faultKey:        {wire.SynNAKAccess, WCRemAccessErr, EventQPAccessErr, wire.DropMalformed},
	faultMemory:     {wire.SynNAKOp, WCLocProtErr, EventQPReqErr, wire.DropMalformed},
	faultInvalidate: {0, WCRemInvReqErr, EventQPAccessErr, wire.DropMalformed},
	faultTarget:     {wire.SynNAKInvReq, WCRemInvReqErr, EventQPReqErr, wire.DropMalformed},
}

// respond walks one request packet of an RC or UC queue pair.
func (e *Engine) respond(q *QP, p *wire.Packet) wire.DropReason {
	if drop, stop := e.checkPSN(q, p); stop {
		return drop
	}
	if q.mustWait(p) {
		return q.turnAway()
	}
	f := faultNone
	if q.noSends {
		f = e.aim(q, p)
	}
	if f == faultNone {
		f = q.checkOrder(p)
	}
	if f == faultNone {
		f = q.checkAccess(p)
	}
	if f == faultNone {
		f = e.recvOnPurpose(q, p)
	}
	if f == faultNone {
		f = e.checkResources(q, p)
	}
	if f == faultNone {
		f = q.checkLength(p)
	}
	if f == faultNone {
		f = e.checkKey(q, p)
	}
	if f == faultNone {
		f = e.execute(q, p)
	}
	if f == faultNone || f == faultInvalidate {
		e.finish(q, p, f)
		if e.recorder != nil {
			e.recordExecuted(q, p)
		}
		return faults[f].reason
	}
	return e.object(q, p, f)
}

// checkPSN lets the expected packet pass. A reliable queue pair answers a gap with one NAK, and a
// duplicate with what it answered before. UC gives up the message and goes on with the packet at
// hand (sections 4.5, 6.4).
func (e *Engine) checkPSN(q *QP, p *wire.Packet) (drop wire.DropReason, stop bool) {
	r := &q.resp
	d := p.BTH.PSN().Sub(r.epsn)
	switch {
	case d == 0 && !q.reliable && p.Op.Flags&wire.OpStart == 0 && r.message == messageNone:
		r.epsn = r.epsn.Next() // the rest of a message that was given up
		return wire.DropOutOfSequence, true
	case d == 0:
		r.absent = absentUnnoticed
		r.cancelNAK()
		return wire.DropNone, false
	case !q.reliable:
		e.stats.OutOfSequence++
		q.abandon()
		r.epsn = p.BTH.PSN()
		if p.Op.Flags&wire.OpStart == 0 {
			r.epsn = r.epsn.Next()
			return wire.DropOutOfSequence, true
		}
		return wire.DropNone, false
	case d < 0:
		e.stats.DuplicateRequest++
		e.recordRequest(RecordDuplicate, q, p)
		return e.duplicate(q, p), true
	}
	if q.attr.SelectiveRepeat {
		return e.keep(q, p), true
	}
	e.stats.OutOfSequence++
	came := whenLaterCame
	if d == 1 {
		came = whenNextCame
	}
	if r.notice(came) {
		e.oweNAK(q, wire.SynNAKSeq)
	}
	return wire.DropOutOfSequence, true
}

// checkOrder holds the opcode against the message in progress (section 2.7).
func (q *QP) checkOrder(p *wire.Packet) fault {
	want := messageNone
	if p.Op.Flags&wire.OpStart != 0 && !q.reliable {
		q.abandon() // a new message ends one that was cut off
	}
	if p.Op.Flags&wire.OpStart == 0 {
		want = messageWrite
		if p.Op.Flags&wire.OpSend != 0 {
			want = messageSend
		}
	}
	if q.resp.message != want {
		return faultOrder
	}
	return faultNone
}

// checkAccess holds the operation against the queue pair's qp_access_flags (section 6.2).
func (q *QP) checkAccess(p *wire.Packet) fault {
	var need mr.Access
	switch {
	case p.Op.Flags&(wire.OpWrite|wire.OpAtomicWrite) != 0:
		need = mr.RemoteWrite
	case p.Op.Flags&wire.OpRead != 0:
		need = mr.RemoteRead
	case p.Op.Flags&wire.OpAtomic != 0:
		need = mr.RemoteAtomic
	case p.Op.Flags&wire.OpFlush != 0:
		var ok bool
		if need, ok = flushNeeds(p.FETH()); !ok {
			return faultAccess
		}
	case p.Op.Flags&wire.OpSend == 0:
		return faultAccess // RESYNC
	}
	if q.attr.AccessFlags&need != need {
		return faultAccess
	}
	return faultNone
}

// checkResources claims a receive request, or asks for room to remember a READ or atomic
// (sections 2.8, 4.6).
func (e *Engine) checkResources(q *QP, p *wire.Packet) fault {
	if p.Op.Flags&wire.OpConsumesRecv != 0 && !e.claim(q, p.Op.Flags&wire.OpEnd == 0) {
		return faultNoRecv
	}
	if p.Op.Flags&hasAnswer != 0 && q.resp.newJobs >= q.resp.depth {
		return faultDepth
	}
	return faultNone
}

// checkLength holds packet and message lengths against path MTU, receive request and RETH
// (sections 2.1, 6.3).
func (q *QP) checkLength(p *wire.Packet) fault {
	r := &q.resp
	n := uint32(len(p.Payload))
	if !p.Op.Payload.Allows(int(n), int(q.mtu)) {
		return faultLength
	}
	if p.Op.Flags&wire.OpStart != 0 {
		r.got = 0
		if h := p.RETH(); h != nil {
			r.va, r.rkey, r.length = h.VA(), h.RKey(), h.DMALen()
		}
	}
	switch {
	case p.Op.Flags&wire.OpSend != 0:
		if uint64(r.got)+uint64(n) > uint64(q.recvRoom()) {
			return faultTooLong
		}
	case p.Op.Flags&wire.OpWrite != 0:
		sum := uint64(r.got) + uint64(n)
		if end := p.Op.Flags&wire.OpEnd != 0; r.length > MaxMessage || end && sum != uint64(r.length) ||
			!end && sum >= uint64(r.length) {
			return faultLength
		}
	case p.Op.Flags&wire.OpRead != 0:
		if r.length > maxMessageFor(q.attr.PathMTU) {
			return faultLength
		}
	case p.Op.Flags&wire.OpAtomicWrite != 0:
		if r.length != n {
			return faultLength
		}
	}
	return faultNone
}

// checkKey checks the whole range when a WRITE begins, and the range of a READ or atomic. With
// length 0 neither key nor address is looked at (C9-88). If a WRITE is one packet, execute checks
// the same range before it touches memory.
func (e *Engine) checkKey(q *QP, p *wire.Packet) fault {
	r := &q.resp
	switch {
	case p.Op.Flags&(wire.OpWrite|wire.OpEnd) == wire.OpWrite|wire.OpEnd:
	case p.Op.Flags&wire.OpAtomic != 0:
		a := p.AtomicETH()
		return e.checkWord(q, a.RKey(), a.VA(), mr.RemoteAtomic)
	case p.Op.Flags&wire.OpAtomicWrite != 0:
		return e.checkWord(q, r.rkey, r.va, mr.RemoteWrite)
	case p.Op.Flags&wire.OpFlush != 0:
		if _, st := e.flushed(q, p); st != mr.OK {
			return faultKey
		}
	case p.Op.Flags&wire.OpRETH != 0 && r.length != 0:
		need := mr.RemoteWrite
		if p.Op.Flags&wire.OpRead != 0 {
			need = mr.RemoteRead
		}
		if _, st := e.cfg.Memory.Remote(q.pd, q.qpn, r.rkey, r.va, r.length, need); st != mr.OK {
			return faultKey
		}
	}
	return faultNone
}

// checkWord checks the 8 bytes of an atomic or ATOMIC WRITE.
func (e *Engine) checkWord(q *QP, rkey uint32, va uint64, need mr.Access) fault {
	if va%8 != 0 {
		return faultMisaligned
	}
	span, st := e.cfg.Memory.Remote(q.pd, q.qpn, rkey, va, 8, need)
	switch {
	case st != mr.OK:
		return faultKey
	case !span.Aligned8():
		return faultMisaligned
	}
	return faultNone
}

// execute does what the packet asks for. The steps before it have touched no memory.
func (e *Engine) execute(q *QP, p *wire.Packet) fault {
	r := &q.resp
	switch {
	case p.Op.Flags&wire.OpSend != 0:
		if sgl, pd := q.recvSGL(); e.scatter(pd, sgl, r.got, p.Payload) != mr.OK {
			return faultMemory
		}
		if p.Op.Flags&wire.OpInv != 0 && e.cfg.Memory.Invalidate(q.pd, q.qpn, p.IETH().RKey()) != mr.OK {
			return faultInvalidate
		}
	case p.Op.Flags&wire.OpWrite != 0:
		if n := uint32(len(p.Payload)); n > 0 { // the right may be gone since the first packet
			span, st := e.cfg.Memory.Remote(q.pd, q.qpn, r.rkey, r.va+uint64(r.got), n, mr.RemoteWrite)
			if st != mr.OK {
				return faultKey
			}
			if e.noted(span.Write(p.Payload, 0)) != mr.OK {
				return faultKey
			}
		}
	case p.Op.Flags&wire.OpRead != 0:
		e.acceptRead(q)
	case p.Op.Flags&wire.OpAtomic != 0:
		a := p.AtomicETH()
		span, st := e.cfg.Memory.Remote(q.pd, q.qpn, a.RKey(), a.VA(), 8, mr.RemoteAtomic)
		if st != mr.OK {
			return faultKey
		}
		orig := uint64(0)
		if p.Opcode.Operation() == wire.RCCompareSwap {
			orig, st = span.CompareSwap(a.Compare(), a.SwapAdd())
		} else {
			orig, st = span.FetchAdd(a.SwapAdd())
		}
		if e.noted(st) != mr.OK || !span.Still() {
			return faultKey
		}
		e.acceptAtomic(q, orig)
	case p.Op.Flags&wire.OpAtomicWrite != 0:
		span, st := e.cfg.Memory.Remote(q.pd, q.qpn, r.rkey, r.va, 8, mr.RemoteWrite)
		if st != mr.OK || e.noted(span.Store8([8]byte(p.Payload))) != mr.OK {
			return faultKey
		}
		e.acceptDone(q)
	case p.Op.Flags&wire.OpFlush != 0:
		return e.acceptFlush(q, p)
	}
	return faultNone
}

// finish counts the packet, completes the message and owes the acknowledgement. An invalidation
// that failed is class J: the SEND is acknowledged, and then the queue pair fails.
func (e *Engine) finish(q *QP, p *wire.Packet, f fault) {
	r := &q.resp
	if p.Op.Flags&hasAnswer == 0 { // those have moved epsn and msn themselves
		r.got += uint32(len(p.Payload))
		r.epsn = r.epsn.Next()
		if p.Op.Flags&wire.OpEnd == 0 {
			r.message = messageWrite
			if p.Op.Flags&wire.OpSend != 0 {
				r.message = messageSend
			}
		} else {
			r.message = messageNone
			r.msn = r.msn.Next()
		}
		if q.reliable && p.BTH.AckReq() {
			r.ack, r.ackPSN = true, r.epsn.Prev()
			e.schedule(q, dueReply)
		}
	}
	if f == faultInvalidate {
		e.endReceive(q, &WC{Status: faults[f].recv, Opcode: WCRecv}, true)
		e.failAfterReplies(q)
		return
	}
	switch {
	case p.Op.Flags&wire.OpEnd == 0:
	case p.Op.Flags&(wire.OpSend|wire.OpConsumesRecv) != 0:
		e.receive(q, p)
	case p.Op.Flags&(wire.OpWrite|wire.OpAtomic|wire.OpAtomicWrite) != 0 && q.sendCQ != nil:
		q.sendCQ.executed++
		e.list(q.sendCQ)
	}
}

// receive completes the receive request of a SEND, or the one that a WRITE with immediate took
// (section 6.5).
func (e *Engine) receive(q *QP, p *wire.Packet) {
	wc := WC{Opcode: WCRecv, ByteLen: q.resp.got}
	if p.Op.Flags&wire.OpWrite != 0 {
		wc.Opcode, wc.ByteLen = WCRecvRDMAWithImm, q.resp.length
	}
	if p.Op.Flags&wire.OpImm != 0 {
		wc.Flags, wc.Imm = WCWithImm, p.ImmDt().Imm()
	}
	if p.Op.Flags&wire.OpInv != 0 {
		wc.Flags, wc.InvalidatedRKey = WCWithInv, p.IETH().RKey()
	}
	e.endReceive(q, &wc, p.BTH.Solicited())
}

// abandon forgets the message in progress, if there is one. Its receive request is used for the
// next (section 6.4).
func (q *QP) abandon() {
	q.resp.message = messageNone
	q.putBack()
}

// object does what the table says about a fault.
func (e *Engine) object(q *QP, p *wire.Packet, f fault) wire.DropReason {
	r, row := &q.resp, &faults[f]
	if !q.reliable {
		if f == faultMemory { // kept for the next message, it would fail that too
			e.endReceive(q, &WC{Status: row.recv, Opcode: WCRecv}, true)
		}
		q.abandon()
		r.epsn = r.epsn.Next()
		return row.reason
	}
	if f == faultNoRecv {
		e.stats.SentRNR++
		r.notice(whenNoReceive)
		e.oweNAK(q, wire.RNRSyndrome(q.attr.MinRNRTimer))
		return wire.DropNoRecv
	}
	if f == faultAccess && p.Op.Flags&wire.OpConsumesRecv != 0 {
		e.claim(q, false) // the walk had not come to that
	}
	if r.recv.claimed {
		e.endReceive(q, &WC{Status: row.recv, Opcode: WCRecv}, true)
	} else {
		e.raise(Event{Type: row.event, QP: q})
	}
	e.oweNAK(q, row.nak)
	e.failAfterReplies(q)
	return row.reason
}

// failAfterReplies fails the queue pair, but lets it send what it owes: above all the NAK that says
// why.
func (e *Engine) failAfterReplies(q *QP) {
	q.resp.parting = true
	e.fail(q)
}
