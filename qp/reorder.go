package qp

// Selective repeat, the responder's side: what comes after a gap is kept until the gap is filled,
// instead of being sent again. QPAttr.SelectiveRepeat says who agrees to it and what changes on the
// wire; the requester's side is in selective.go.
//
// Stages: a packet after a gap is copied into the store (keep), which asks for what is missing
// (nextGap; reply.go sends the NAK) → the missing packet arrives and is executed → what follows it
// in the store goes through the same walk, in order of PSN (catchUp): so nothing is ever executed
// out of order → the store is empty and goes back to the engine.
//
// A store takes MaxWindow PSNs from the expected one on, and an engine keeps maxKept packets. What
// finds no room is dropped as it is without selective repeat, and asked for with a NAK of the
// standard as soon as everything before it is there.

import "github.com/goroce/goroce/wire"

// reorder holds packets of one queue pair that came too early. A queue pair has one only while it
// has a gap.
type reorder struct {
	slots    [MaxWindow]kept // by PSN
	n        int             // of them, in use
	from     wire.PSN        // what was expected when slots were last given up
	reported wire.PSN        // gaps before this one have been reported
	high     wire.PSN        // one past the newest
	short    bool            // something was dropped for lack of room
}

// kept is one packet, from BTH to ICRC, and how many PSNs it takes: a READ takes those of its
// responses.
type kept struct {
	body []byte // nil: none
	psns uint32
}

func (s *reorder) at(psn wire.PSN) *kept { return &s.slots[psn%MaxWindow] }

// keep takes a packet that is newer than the expected one.
func (e *Engine) keep(q *QP, p *wire.Packet) wire.DropReason {
	r, psn := &q.resp, p.BTH.PSN()
	e.stats.OutOfSequence++
	if len(p.Payload) > int(q.mtu) { // it is not honest, and maxKept counts on the path MTU
		return wire.DropTooLong
	}
	if p.BTH.AckReq() && r.nak == 0 { // the peer wants to know what is there
		r.ack, r.ackPSN = true, r.epsn.Prev()
		e.schedule(q, dueReply)
	}
	room := MaxWindow - psn.Sub(r.epsn)
	if room <= 0 || e.keptBodies == maxKept {
		if r.kept == nil {
			return e.goBack(q)
		}
		r.kept.short = true
		return wire.DropOutOfSequence
	}
	if r.kept == nil {
		r.kept = e.takeStore(r.epsn)
	}
	s, k := r.kept, r.kept.at(psn)
	if k.body != nil {
		return wire.DropDuplicate
	}
	*k = kept{e.takeBody(p.Body), min(q.psns(p), uint32(room))}
	s.n++
	e.stats.Kept++
	if end := psn.Add(k.psns); end.Sub(s.high) > 0 {
		s.high = end
	}
	if psn.Sub(s.reported) >= 0 {
		e.urge(q, dueReply)
	}
	return wire.DropNone
}

// psns is how many sequence numbers a request packet takes.
func (q *QP) psns(p *wire.Packet) uint32 {
	if p.Op.Flags&wire.OpRead == 0 {
		return 1
	}
	return uint32(max(1, (uint64(p.RETH().DMALen())+uint64(q.mtu)-1)/uint64(q.mtu)))
}

// goBack asks once for everything from the expected packet on, as a responder without selective
// repeat does.
func (e *Engine) goBack(q *QP) wire.DropReason {
	if q.resp.notice(noRoom) {
		e.oweNAK(q, wire.SynNAKSeq)
	}
	return wire.DropOutOfSequence
}

// nextGap returns the oldest gap that has not been reported: packets from to to-1 are missing, to
// is there.
func (r *responder) nextGap() (from, to wire.PSN, ok bool) {
	s := r.kept
	if s == nil {
		return 0, 0, false
	}
	if r.absent != unnoticed && s.reported == r.epsn { // what was expected found no receive request
		s.reported = r.epsn.Next()
	}
	for p := s.reported; p.Sub(s.high) < 0; {
		if k := s.at(p); k.body != nil {
			p = p.Add(k.psns)
			s.reported = p
			continue
		}
		for from, to = p, p; to.Sub(s.high) < 0 && s.at(to).body == nil; to = to.Next() {
		}
		return from, to, true
	}
	return 0, 0, false
}

// ackMSN is what the ACK that is due says in its MSN field. With selective repeat that is the
// newest packet that is there, if the ACK is of all that was executed.
func (q *QP) ackMSN() wire.PSN {
	r := &q.resp
	switch {
	case !q.attr.SelectiveRepeat:
		return r.msn
	case r.kept == nil || r.ackPSN.Next() != r.epsn:
		return r.ackPSN
	}
	return r.kept.high.Prev()
}

// nakMSN is the same for the NAK that is due. With selective repeat a sequence NAK names no gap
// here: it asks for all from its PSN on.
func (q *QP) nakMSN() wire.PSN {
	if q.attr.SelectiveRepeat && q.resp.nak == wire.SynNAKSeq {
		return gapCode(0, 0)
	}
	return q.resp.msn
}

// catchUp is called after a packet that may have filled a gap. It executes what was kept, as far as
// nothing is missing.
func (e *Engine) catchUp(q *QP) {
	r := &q.resp
	s := r.kept
	if s.from == r.epsn {
		return
	}
	acks := false
	for r.kept == s && s.from != r.epsn {
		e.passTo(s, r.epsn)
		k := s.at(r.epsn)
		if k.body == nil {
			break
		}
		body := k.body
		s.n, *k = s.n-1, kept{}
		e.keptFrame = wire.Frame{Body: body}
		reason := wire.Parse(&e.keptFrame, &e.packet)
		if reason == wire.DropNone {
			reason = e.respond(q, &e.packet) // one that has no receive request comes again
			acks = e.packet.Op.Flags&hasAnswer == 0
		}
		if reason != wire.DropNone {
			e.stats.Drops[reason]++
		}
		e.giveBody(body)
	}
	if r.kept != s { // an error has ended the queue pair
		return
	}
	if acks && r.nak == 0 { // the requester's window waits for it
		r.ack, r.ackPSN = true, r.epsn.Prev()
		e.schedule(q, dueReply)
	}
	if s.n == 0 {
		short := s.short
		e.dropKept(q)
		if short {
			r.notice(roomAgain)
			e.oweNAK(q, wire.SynNAKSeq)
		}
	}
}

// passTo gives up the slots before psn. If one is in use, its packet has been executed as a part of
// something longer.
func (e *Engine) passTo(s *reorder, psn wire.PSN) {
	for n := min(psn.Sub(s.from), MaxWindow); n > 0; n-- {
		s.discard(e, s.from)
		s.from = s.from.Next()
	}
	s.from = psn
	if s.reported.Sub(psn) < 0 {
		s.reported = psn
	}
	if s.high.Sub(psn) < 0 {
		s.high = psn
	}
}

// discard empties one slot.
func (s *reorder) discard(e *Engine, psn wire.PSN) {
	if k := s.at(psn); k.body != nil {
		e.giveBody(k.body)
		s.n, *k = s.n-1, kept{}
	}
}

// dropKept forgets everything that q keeps.
func (e *Engine) dropKept(q *QP) {
	s := q.resp.kept
	if s == nil {
		return
	}
	q.resp.kept = nil
	for psn := s.from; s.n > 0; psn = psn.Next() {
		s.discard(e, psn)
	}
	if len(e.spareStores) < spareStores {
		e.spareStores = append(e.spareStores, s)
	}
}

// takeStore returns an empty store of what follows psn, the expected packet.
func (e *Engine) takeStore(psn wire.PSN) *reorder {
	s := new(reorder)
	if n := len(e.spareStores); n > 0 {
		s, e.spareStores = e.spareStores[n-1], e.spareStores[:n-1]
	}
	s.n, s.short, s.from, s.reported, s.high = 0, false, psn, psn, psn
	return s
}

// takeBody returns a copy of a packet.
func (e *Engine) takeBody(packet []byte) []byte {
	e.keptBodies++
	var b []byte
	if n := len(e.spareBodies); n > 0 {
		b, e.spareBodies = e.spareBodies[n-1], e.spareBodies[:n-1]
	}
	return append(b[:0], packet...)
}

func (e *Engine) giveBody(b []byte) {
	e.keptBodies--
	if len(e.spareBodies) < MaxWindow {
		e.spareBodies = append(e.spareBodies, b)
	}
}
