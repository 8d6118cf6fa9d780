package qp

// The responder's FLUSH: what has been written becomes visible to all, or reaches storage.
//
// Stages: which memory, with which rights (flushed) → for persistence, whoever drives the engine is
// asked to sync that memory, elsewhere (PollSync), while the queue pair goes on → it has been done,
// or has failed (Synced), and the answer leaves, in its order among the others.
//
// Visibility takes nothing: what was executed before is in memory, which all processors see alike.
//
// SENDs, WRITEs, READs and more FLUSHes are executed while a sync is under way. Atomics and ATOMIC
// WRITEs are not: an application writes data, flushes, and then writes the word that says that the
// data is there, all in one go (section 6.6). Until then they are turned away, as if they had been
// lost, and then asked for.

import (
	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// Sync is memory that a FLUSH of a peer wants on storage.
type Sync struct {
	Mem    []byte // registered when the FLUSH arrived; it may be gone by now
	qp     *QP
	ticket uint64 // tells it from all others of the engine; 0 is none
}

// QP is the queue pair whose peer waits.
func (s *Sync) QP() *QP { return s.qp }

// flushRight is the right that each placement needs.
var flushRight = [...]mr.Access{
	PlacementGlobal:                       mr.FlushGlobal,
	PlacementPersistent:                   mr.FlushPersistent,
	PlacementGlobal | PlacementPersistent: mr.FlushGlobal | mr.FlushPersistent,
}

// flushNeeds are the rights that a FLUSH needs of the queue pair and of the memory; ok is false if
// its header has values that mean nothing.
func flushNeeds(h *wire.FETH) (need mr.Access, ok bool) {
	if p := h.Placement(); int(p) < len(flushRight) {
		need = flushRight[p]
	}
	return need, need != 0 && h.Selectivity() <= wire.SelectivityMR
}

// flushed is the memory that a FLUSH names.
func (e *Engine) flushed(q *QP, p *wire.Packet) (mr.Span, mr.Status) {
	r := &q.resp
	need, _ := flushNeeds(p.FETH())
	if p.FETH().Selectivity() == wire.SelectivityMR { // then va and length mean nothing
		return e.cfg.Memory.RemoteAll(q.pd, q.qpn, r.rkey, need)
	}
	return e.cfg.Memory.Remote(q.pd, q.qpn, r.rkey, r.va, r.length, need)
}

// flush executes a FLUSH as far as that can be done at once.
func (e *Engine) flush(q *QP, p *wire.Packet) fault {
	span, st := e.flushed(q, p)
	if st != mr.OK {
		return faultKey
	}
	j := e.acceptDone(q)
	if p.FETH().Placement()&wire.PlacementPersistent != 0 && span.Len() > 0 {
		e.tickets++
		j.sync = e.tickets
		q.resp.syncing++
		e.syncs = append(e.syncs, Sync{span.Bytes(), q, j.sync})
	}
	return noFault
}

// PollSync returns memory that is to be synced to storage, on another goroutine than the one that
// drives the engine, which then says so with Synced. Ask after HandleFrames until it returns false.
func (e *Engine) PollSync() (Sync, bool) {
	if len(e.syncs) == 0 {
		return Sync{}, false
	}
	s := e.syncs[0]
	e.syncs = append(e.syncs[:0], e.syncs[1:]...)
	return s, true
}

// Synced takes note that memory is on storage, or that it could not be brought there: then the peer
// is told that its request failed, and the connection is over. If the queue pair has failed or was
// reset or destroyed meanwhile, nothing happens.
func (e *Engine) Synced(now Time, s Sync, ok bool) {
	e.now = now
	q, r := s.qp, &s.qp.resp
	for n := range r.jobLen {
		j := r.jobAt(n)
		if j.sync != s.ticket {
			continue
		}
		j.sync = 0
		r.syncing--
		if ok {
			e.schedule(q, dueReply)
			e.readmit(q)
			return
		}
		psn := j.start
		for r.jobLen > n { // what comes before it is still answered
			r.forgetLast()
		}
		e.raise(Event{Type: EventQPReqErr, QP: q})
		e.oweNAK(q, wire.SynNAKOp)
		r.nakPSN = psn
		e.failAfterReplies(q)
		return
	}
}

// mustWait says whether the expected request cannot be executed now, but can later: an atomic or
// ATOMIC WRITE behind a FLUSH, or one FLUSH more than can be remembered, as peers do not count
// those (section 4.6).
func (q *QP) mustWait(p *wire.Packet) bool {
	r := &q.resp
	switch {
	case p.Op.Flags&(wire.OpAtomic|wire.OpAtomicWrite) != 0:
		return r.syncing > 0
	case p.Op.Flags&wire.OpFlush != 0:
		return r.depth > 0 && r.newJobs >= r.depth
	}
	return false
}

// turnAway drops the expected request until readmit.
func (q *QP) turnAway() wire.DropReason {
	r := &q.resp
	r.turnedAway, r.complained, r.passed = true, true, false
	return wire.DropNoResource
}

// readmit asks for the request that was turned away, if it need not wait any more, and with it for
// all that has come since.
func (e *Engine) readmit(q *QP) {
	r := &q.resp
	if r.turnedAway && r.syncing == 0 && r.newJobs < r.depth && q.State() != StateErr {
		r.turnedAway = false
		e.oweNAK(q, wire.SynNAKSeq)
	}
}
