package qp

// The responder's FLUSH: what has been written becomes visible to all, or reaches storage.
//
// Stages: which memory, with which rights (flushed) → the answer is owed (acceptFlush) → for
// persistence, it waits for its turn at storage (Storage) → whoever drives the engine is asked to
// sync that memory, elsewhere (PollSync), while the queue pair goes on → it has been done, or has
// failed (Synced), and the answer leaves, in its order among the others.
//
// Visibility takes nothing: what was executed before is in memory, which all processors see alike.
//
// SENDs, WRITEs, READs and more FLUSHes are executed while a sync is under way. Atomics and ATOMIC
// WRITEs are not: an application writes data, flushes, and then writes the word that says that the
// data is there, all in one go (section 6.6). Until then they are turned away, as if they had been
// lost, and then asked for.
//
// A peer that asks again meanwhile is told to wait (askedAgain, replyNotYet).

import (
	"container/list"
	"slices"
	"sync/atomic"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// Sync is memory that a FLUSH of a peer wants on storage.
type Sync struct {
	Mem    []byte // registered when the FLUSH arrived; it may be gone by now
	qp     *QP
	ticket uint64 // tells it from all others of the engine; 0 is none
	// mapping is what Mem belonged to when the FLUSH arrived. Once it is gone, others may have
	// memory at the same addresses, and that this was synced means nothing.
	mapping *mr.Mapping
	source  *syncSource // who has asked for it, once it has begun
}

// QP is the queue pair whose peer waits.
func (s *Sync) QP() *QP { return s.qp }

// Storage is where the FLUSHes of a device wait for storage, those of all engines that share it
// (Config.Storage). A few syncs are under way at the same time, half of them of one source. For the
// rest sources take turns, and in the turn of one its queue pairs do, so that who flushes without
// end leaves the others their share, on however many queue pairs it does so (section 14). A FLUSH
// whose queue pair is gone, was reset or modified to ERR waits no more, and leaves nothing behind.
// All methods may be called from any goroutine.
type Storage struct {
	most    atomic.Int32 // syncs under way
	begun   atomic.Int32 // of these there are
	waiting atomic.Int32 // the others

	spinLock           // of what follows
	turns    list.List // of *syncSource, of which syncs wait
	sources  map[wire.GID]*syncSource
}

// syncSource is a peer, by its address, of whom syncs wait or are under way.
type syncSource struct {
	gid   wire.GID
	begun int           // under way
	lines list.List     // of *syncLine, which have syncs, in the order of their turns
	turn  *list.Element // nil: there are none
}

// syncLine are the syncs of a queue pair that wait for their turn.
type syncLine struct {
	at     *Storage
	syncs  []Sync
	source *syncSource
	turn   *list.Element // among the lines of the source; nil: there are no syncs
}

// NewStorage makes one that has up to most syncs under way. yield is as in SRQInit.
func NewStorage(most int, yield func()) *Storage {
	s := &Storage{sources: map[wire.GID]*syncSource{}, spinLock: spinLock{yield: yield}}
	s.SetMost(most)
	return s
}

// SetMost says how many syncs may be under way from now on; 0: none begins. If that is more than
// before, ask PollSync.
func (s *Storage) SetMost(n int) { s.most.Store(int32(n)) }

// add has a sync wait for its turn.
func (s *Storage) add(l *syncLine, y Sync) {
	s.lock()
	defer s.unlock()
	l.syncs = append(l.syncs, y)
	s.waiting.Add(1)
	if l.turn != nil {
		return
	}
	gid := y.qp.path.Dst
	from := s.sources[gid]
	if from == nil {
		from = &syncSource{gid: gid}
		s.sources[gid] = from
	}
	if from.turn == nil {
		from.turn = s.turns.PushBack(from)
	}
	l.source, l.turn = from, from.lines.PushBack(l)
}

// next begins the sync whose turn it is, if there is one and room for it.
func (s *Storage) next() (y Sync, ok bool) {
	if s.waiting.Load() == 0 || s.begun.Load() >= s.most.Load() {
		return y, false
	}
	s.lock()
	defer s.unlock()
	most := int(s.most.Load())
	if int(s.begun.Load()) >= most {
		return y, false
	}
	for turn := s.turns.Front(); turn != nil; turn = turn.Next() {
		from := turn.Value.(*syncSource)
		if from.begun >= most-most/2 { // so few are that these are passed quickly
			continue
		}
		l := from.lines.Front().Value.(*syncLine)
		y = l.syncs[0]
		y.source = from
		from.begun++
		s.begun.Add(1)
		s.turns.MoveToBack(turn)
		from.lines.MoveToBack(l.turn)
		s.remove(l, func(other *Sync) bool { return other.ticket == y.ticket })
		return y, true
	}
	return y, false
}

// remove takes syncs out of the line.
func (s *Storage) remove(l *syncLine, which func(y *Sync) bool) {
	before := len(l.syncs)
	l.syncs = slices.DeleteFunc(l.syncs, func(y Sync) bool { return which(&y) })
	s.waiting.Add(int32(len(l.syncs) - before))
	if l.turn == nil || len(l.syncs) > 0 {
		return
	}
	from := l.source
	from.lines.Remove(l.turn)
	if l.source, l.turn = nil, nil; from.lines.Len() == 0 {
		s.turns.Remove(from.turn)
		from.turn = nil
		s.settle(from)
	}
}

// settle forgets a source that asks for nothing.
func (s *Storage) settle(from *syncSource) {
	if from.begun == 0 && from.turn == nil {
		delete(s.sources, from.gid)
	}
}

// ended says that a sync is under way no more, however it has ended.
func (s *Storage) ended(y *Sync) {
	s.lock()
	defer s.unlock()
	s.begun.Add(-1)
	y.source.begun--
	s.settle(y.source)
}

// withdraw takes a sync back that has not begun, or with ticket 0 all of a queue pair's.
func (l *syncLine) withdraw(ticket uint64) {
	l.at.lock()
	defer l.at.unlock()
	l.at.remove(l, func(y *Sync) bool { return ticket == 0 || y.ticket == ticket })
}

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

// acceptFlush executes a FLUSH as far as that can be done at once.
func (e *Engine) acceptFlush(q *QP, p *wire.Packet) fault {
	r := &q.resp
	mapping := e.cfg.Memory.MappingOf(r.rkey) // before the check, see there
	span, st := e.flushed(q, p)
	if st != mr.OK || mapping == nil {
		return faultKey
	}
	j := e.acceptDone(q)
	if p.FETH().Placement()&wire.PlacementPersistent != 0 && len(span.Bytes()) > 0 {
		e.tickets++
		j.sync, j.since = e.tickets, e.now
		r.syncing++
		if r.syncs == nil {
			r.syncs = &syncLine{at: e.cfg.Storage}
		}
		r.syncs.at.add(r.syncs, Sync{Mem: span.Bytes(), qp: q, ticket: j.sync, mapping: mapping})
	}
	return faultNone
}

// PollSync returns memory that is to be synced to storage, on another goroutine than the one that
// drives an engine, which then says so with Synced: the engine of the Sync's queue pair, if several
// share a Storage. Ask after HandleFrames and Synced until it returns false. Any goroutine.
func (e *Engine) PollSync() (Sync, bool) { return e.cfg.Storage.next() }

// Synced takes note that memory is on storage, or that it could not be brought there: then the peer
// is told that its request failed, and the connection is over. That is so, too, if the memory was
// deregistered meanwhile: what was synced may have been memory of others (section 6.6). If the
// queue pair has failed or was reset or destroyed meanwhile, nothing happens. Every Sync that
// PollSync returned must come here, once.
func (e *Engine) Synced(now Time, s Sync, ok bool) {
	e.now = now
	q, r := s.qp, &s.qp.resp
	e.cfg.Storage.ended(&s)
	ok = ok && !s.mapping.Gone()
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

// askedAgain takes note that the peer has repeated what comes before the FLUSH that waits for
// storage, or the FLUSH itself: without a word its retries would run out. The answer to that
// acknowledges what comes before.
func (e *Engine) askedAgain(q *QP, psn wire.PSN) bool {
	r := &q.resp
	if r.jobLen == 0 || r.jobAt(0).sync == 0 || psn.Sub(r.jobAt(0).start) > 0 {
		return false
	}
	r.jobAt(0).asked = true
	e.schedule(q, dueReply)
	return true
}

// passFlush moves the newest job, a replay, before the FLUSH that waits for storage and came after
// what is replayed: the peer needs it first.
func (r *responder) passFlush() {
	last := r.jobLen - 1
	for n := range last {
		if j := r.jobAt(n); j.sync == 0 || r.jobAt(last).start.Sub(j.start) > 0 {
			continue
		}
		for ; last > n; last-- {
			a, b := r.jobAt(last-1), r.jobAt(last)
			*a, *b = *b, *a
		}
		return
	}
}

// replyNotYet asks a peer that has repeated a FLUSH to wait as long again as the sync has taken so
// far, and thereby acknowledges what comes before it: however long storage takes, few of these are
// sent. Others are not sent: the answer comes by itself.
func (e *Engine) replyNotYet(q *QP, b *wire.Batch, j *job) verdict {
	wait := max(int64(e.now-j.since), wire.RNRTimeout(q.attr.MinRNRTimer))
	switch {
	case !j.asked:
		return verdictBlocked
	case !e.putAck(q, b, wire.RNRSyndrome(wire.RNRCode(wait)), j.start, q.resp.msn):
		return verdictFull
	}
	j.asked = false
	e.stats.FlushWaits++
	return verdictSent
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
	q.resp.notice(whenMustStay)
	return wire.DropNoResource
}

// readmit asks for the request that was turned away, if it need not wait any more, and with it for
// all that has come since.
func (e *Engine) readmit(q *QP) {
	r := &q.resp
	if r.absent == absentPostponed && r.syncing == 0 && r.newJobs < r.depth && q.State() != StateErr &&
		r.notice(whenMayCome) {
		e.oweNAK(q, wire.SynNAKSeq)
	}
}
