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
// A store takes MaxWindow PSNs from the expected one on, or MaxLongWindow where that is agreed and
// needed, and an engine has maxKept places. What finds no room is dropped as it is without
// selective repeat, and asked for with a NAK of the standard as soon as everything before it is
// there (recall).
//
// Sources share that room (section 14). Nothing of it is kept free for who comes late: a packet of
// a source that has less than its share takes the place of one of a source that has more
// (makeRoom), which is allowed, because its peer repeats it. So no gap has to age.

import "github.com/goroce/goroce/wire"

// reorder holds packets of one queue pair that came too early. A queue pair has one only while it
// has a gap.
type reorder struct {
	short    [MaxWindow]kept // by PSN
	long     []kept          // in its place, if a packet was further away; of MaxLongWindow
	n        int             // of them, in use
	from     wire.PSN        // what was expected when slots were last given up
	reported wire.PSN        // gaps before this one have been reported
	high     wire.PSN        // one past the newest
	of       *source         // that the places count for
	index    int             // in its stores
}

// kept is one packet, from BTH to ICRC, and how many PSNs it takes: a READ takes those of its
// responses.
type kept struct {
	body []byte // nil: none
	psns uint32
}

func (s *reorder) at(psn wire.PSN) *kept {
	if s.long != nil {
		return &s.long[psn%MaxLongWindow]
	}
	return &s.short[psn%MaxWindow]
}

// size is how many PSNs the store takes.
func (s *reorder) size() int32 {
	if s.long != nil {
		return MaxLongWindow
	}
	return MaxWindow
}

// places is how many a packet takes, from BTH to ICRC.
func places(body []byte) int { return (len(body)-1)/keptPlace + 1 }

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
	ahead := psn.Sub(r.epsn)
	room := q.attr.span() - ahead
	if r.kept != nil && ahead < r.kept.size() && r.kept.at(psn).body != nil {
		return wire.DropDuplicate
	}
	long := ahead >= MaxWindow
	if room <= 0 || !e.makeRoom(q, places(p.Body), long) {
		if r.kept == nil {
			return e.goBack(q, psn)
		}
		r.miss(psn)
		return wire.DropOutOfSequence
	}
	if r.kept == nil {
		e.takeStore(q)
	}
	if long {
		e.lengthen(r.kept)
	}
	s, k := r.kept, r.kept.at(psn)
	*k = kept{e.takeBody(p.Body, s.of), min(q.psns(p), uint32(room))}
	s.n++
	e.stats.Kept++
	e.recordRequest(RecordKept, q, p)
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
// repeat does: psn cannot be kept. If all was asked for already, it comes again.
func (e *Engine) goBack(q *QP, psn wire.PSN) wire.DropReason {
	r := &q.resp
	if r.absent != absentAsked || r.nak == wire.SynNAKSeq { // which may be taken back
		r.miss(psn)
	}
	if r.notice(whenNoRoom) {
		e.oweNAK(q, wire.SynNAKSeq)
	}
	return wire.DropOutOfSequence
}

// miss notes a packet that is not kept.
func (r *responder) miss(psn wire.PSN) {
	if !r.missed || r.dropped.Sub(psn) <= 0 {
		r.missed, r.dropped = true, psn.Next()
	}
}

// recall is called while packets that were not kept have not been asked for. It asks for them when
// everything before them is there, unless they have come by themselves. A NAK that is owed goes
// first: what it says may be another thing.
func (e *Engine) recall(q *QP) {
	r := &q.resp
	switch {
	case r.dropped.Sub(r.epsn) <= 0:
		r.missed = false
	case r.kept == nil && r.nak == 0 && r.notice(whenNoRoom):
		e.oweNAK(q, wire.SynNAKSeq)
	}
}

// nextGap returns the oldest gap that has not been reported: packets from to to-1 are missing, to
// is there.
func (r *responder) nextGap() (from, to wire.PSN, ok bool) {
	s := r.kept
	if s == nil {
		return 0, 0, false
	}
	if (r.absent == absentReported || r.absent == absentPostponed) && s.reported == r.epsn {
		s.reported = r.epsn.Next() // it was here
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
		return 0 // the code of no gap
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
		body, of := k.body, s.of
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
		e.giveBody(body, of)
	}
	if r.kept != s { // an error has ended the queue pair
		return
	}
	if acks && r.nak == 0 { // the requester's window waits for it
		r.ack, r.ackPSN = true, r.epsn.Prev()
		e.schedule(q, dueReply)
	}
	if s.n == 0 {
		e.dropKept(q)
	}
}

// passTo gives up the slots before psn. If one is in use, its packet has been executed as a part of
// something longer.
func (e *Engine) passTo(s *reorder, psn wire.PSN) {
	for n := min(psn.Sub(s.from), s.size()); n > 0; n-- {
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
		e.giveBody(k.body, s.of)
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
	last := len(s.of.stores) - 1
	if other := s.of.stores[last]; other != q {
		s.of.stores[s.index], other.resp.kept.index = other, s.index
	}
	s.of.stores = s.of.stores[:last]
	if s.long != nil {
		e.count(s.of, -longPlaces)
		e.spareLong, s.long = s.long, nil
	}
	e.count(s.of, -storePlaces)
	if s.of = nil; len(e.spareStores) < spareStores {
		e.spareStores = append(e.spareStores, s)
	}
}

// takeStore gives q an empty store of what follows the expected packet.
func (e *Engine) takeStore(q *QP) {
	s, psn := new(reorder), q.resp.epsn
	if n := len(e.spareStores); n > 0 {
		s, e.spareStores = e.spareStores[n-1], e.spareStores[:n-1]
	}
	s.n, s.from, s.reported, s.high = 0, psn, psn, psn
	s.of, s.index = q.source, len(q.source.stores)
	s.of.stores = append(s.of.stores, q)
	e.count(s.of, storePlaces)
	q.resp.kept = s
	if q.resp.nak == 0 { // if all was asked for, it comes
		q.resp.notice(whenKept)
	}
}

// lengthen gives a store room for MaxLongWindow packets, in the place of MaxWindow.
func (e *Engine) lengthen(s *reorder) {
	if s.long != nil {
		return
	}
	long := e.spareLong
	if e.spareLong = nil; long == nil {
		long = make([]kept, MaxLongWindow)
	}
	for psn := range wire.PSN(MaxWindow) { // from s.from on; more is not in use
		k := s.at(s.from.Add(uint32(psn)))
		long[s.from.Add(uint32(psn))%MaxLongWindow], *k = *k, kept{}
	}
	s.long = long
	e.count(s.of, longPlaces)
}

// takeBody returns a copy of a packet, which takes a place of a source's.
func (e *Engine) takeBody(packet []byte, s *source) []byte {
	e.count(s, places(packet))
	var b []byte
	if n := len(e.spareBodies); n > 0 {
		b, e.spareBodies = e.spareBodies[n-1], e.spareBodies[:n-1]
	}
	return append(b[:0], packet...)
}

func (e *Engine) giveBody(b []byte, s *source) {
	e.count(s, -places(b))
	if len(e.spareBodies) < MaxWindow {
		e.spareBodies = append(e.spareBodies, b)
	}
}

// count has a source take n places more.
func (e *Engine) count(s *source, n int) {
	before := s.places
	s.places += n
	e.keptPlaces += n
	switch last := len(e.holders) - 1; {
	case before == 0:
		s.holder = len(e.holders)
		e.holders = append(e.holders, s)
	case s.places == 0:
		e.holders[last].holder, e.holders[s.holder] = s.holder, e.holders[last]
		e.holders = e.holders[:last]
	}
}

// makeRoom says whether q may keep a packet more that takes so many places; long says that it lies
// beyond a short store. Where there is no place left, sources that have more than their share give
// way to one that has less.
func (e *Engine) makeRoom(q *QP, want int, long bool) bool {
	sources := len(e.holders)
	if q.resp.kept == nil {
		want += storePlaces
	}
	if long && (q.resp.kept == nil || q.resp.kept.long == nil) {
		want += longPlaces
	}
	if q.source.places == 0 {
		sources++
	}
	for e.keptPlaces+want > e.cfg.Kept {
		share := e.cfg.Kept / sources
		if q.source.places+want > share || !e.giveWay(share) {
			return false
		}
	}
	return true
}

// giveWay drops a packet of the next source that has more places than its share; false: none has.
func (e *Engine) giveWay(share int) bool {
	for range e.holders {
		if e.hand >= len(e.holders) {
			e.hand = 0
		}
		if s := e.holders[e.hand]; s.places > share {
			e.dropNewest(s.stores[len(s.stores)-1])
			return true
		}
		e.hand++
	}
	return false
}

// dropNewest drops the newest packet that q keeps, as if it had found no room. The one before it is
// the newest then.
func (e *Engine) dropNewest(q *QP) {
	s := q.resp.kept
	at := s.newest(s.high)
	s.discard(e, at)
	e.stats.GivenUp++
	if s.n == 0 {
		e.dropKept(q)
		e.goBack(q, at)
		return
	}
	q.resp.miss(at)
	at = s.newest(at)
	s.high = at.Add(s.at(at).psns)
	if s.reported.Sub(s.high) > 0 {
		s.reported = s.high
	}
}

// newest returns the newest packet before end. There is one.
func (s *reorder) newest(end wire.PSN) wire.PSN {
	for end = end.Prev(); s.at(end).body == nil; end = end.Prev() {
	}
	return end
}
