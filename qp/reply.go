package qp

// Replies: what a responder owes its peer, made when there is room to send it.
//
// Stages: remember (acceptRead, acceptAtomic, acceptDone) → owe (job, NAK, ACK) → send in order:
// READ and atomic responses first, since an ACK or NAK of a later request must not overtake them
// (section 4.6) → replay for duplicates.

import (
	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// resource is a READ or atomic that can be replayed (section 4.6).
type resource struct {
	valid       bool
	owed        uint16 // jobs for it that are queued
	answer      answer
	first, last wire.PSN
	va          uint64
	rkey        uint32
	length      uint32
	pd          mr.PD  // READ: that of the key
	orig        uint64 // atomics: the value before
}

// job is a reply of one or more packets. The data of a READ is taken from memory packet by packet,
// as late as possible.
type job struct {
	res         int // the resource it answers; noResource once that is taken for another request
	answer      answer
	again       bool     // a replay
	start, next wire.PSN // first response, and the one to send next
	va          uint64   // READ: of response next
	left        uint32   // READ: bytes from there
	rkey        uint32   // READ
	pd          mr.PD    // READ: that of the key; of XRC another request's may be another
	orig        uint64   // atomic: the value before
	sync        uint64   // FLUSH: the sync that it waits for; 0: none
	since       Time     // FLUSH: when that was asked for
	asked       bool     // FLUSH: the peer has repeated it meanwhile
}

const noResource = -1

// resize sets how many READs and atomics the peer may have outstanding. A change while connected,
// in SQD, forgets nothing: what was executed must be answered, and answered again if the reply gets
// lost. So the rings only grow.
func (r *responder) resize(depth int) {
	r.depth = depth
	old := len(r.res)
	if old == 0 || depth <= old {
		return
	}
	res, jobs := make([]resource, depth), jobRing(depth)
	for i := range old { // oldest first, which is where the next one would have gone
		res[i] = r.res[(r.resNext+i)%old]
	}
	for n := range r.jobLen {
		jobs[n] = *r.jobAt(n)
		if at := jobs[n].res; at != noResource {
			jobs[n].res = (at - r.resNext + old) % old
		}
	}
	r.res, r.resNext, r.jobs, r.jobHead = res, old, jobs, 0
}

// jobRing is the ring of jobs for so many READs and atomics, and the replays of them.
func jobRing(depth int) []job { return make([]job, ringSize(uint32(depth+max(depth, leastReplays)))) }

// replays is how many may be queued: one of each resource, or of parts of them.
func (r *responder) replays() int { return max(len(r.res), leastReplays) }

// remember takes the oldest resource for a new request that takes this many PSNs. The rings are
// made for the first request, because most queue pairs of a server never see one.
func (r *responder) remember(packets uint32) (*resource, int) {
	if r.res == nil {
		r.res, r.jobs = make([]resource, r.depth), jobRing(r.depth)
	}
	i := r.resNext
	res := &r.res[i]
	for n := 0; res.owed > 0 && n < r.jobLen; n++ {
		if old := r.jobAt(n); old.res == i {
			old.res = noResource
		}
	}
	if r.resNext++; r.resNext == len(r.res) {
		r.resNext = 0
	}
	*res = resource{valid: true, first: r.epsn, last: r.epsn.Add(packets - 1)}
	r.epsn = r.epsn.Add(packets)
	r.msn = r.msn.Next()
	return res, i
}

// acceptRead remembers a READ and owes its responses.
func (e *Engine) acceptRead(q *QP) {
	r := &q.resp
	res, i := r.remember(max(1, (r.length+q.mtu-1)/q.mtu))
	res.answer, res.va, res.rkey, res.length, res.pd = answerData, r.va, r.rkey, r.length, q.pd
	j := e.owe(q, i, answerData, res.first, false)
	j.va, j.left, j.rkey, j.pd = r.va, r.length, r.rkey, q.pd
}

// acceptAtomic remembers an atomic, which was executed, and owes its response.
func (e *Engine) acceptAtomic(q *QP, orig uint64) {
	res, i := q.resp.remember(1)
	res.answer, res.orig = answerValue, orig
	e.owe(q, i, answerValue, res.first, false).orig = orig
}

// acceptDone remembers a request that is answered without data, and owes that answer.
func (e *Engine) acceptDone(q *QP) *job {
	res, i := q.resp.remember(1)
	res.answer = answerDone
	return e.owe(q, i, answerDone, res.first, false)
}

// owe queues a job for resource i and returns it, for the caller to say what else it is. It
// acknowledges whatever is before it.
func (e *Engine) owe(q *QP, i int, kind answer, start wire.PSN, again bool) *job {
	r := &q.resp
	if r.ack && r.ackPSN.Sub(start) < 0 {
		r.ack = false
	}
	j := r.jobAt(r.jobLen)
	*j = job{}
	j.res, j.answer, j.again, j.start, j.next = i, kind, again, start, start
	r.jobLen++
	r.res[i].owed++
	if !again {
		r.newJobs++
	}
	e.schedule(q, dueReply)
	return j
}

// jobAt returns the n-th queued job.
func (r *responder) jobAt(n int) *job { return &r.jobs[(r.jobHead+n)&(len(r.jobs)-1)] }

// oweNAK owes a NAK of the expected PSN. It acknowledges whatever is before it.
func (e *Engine) oweNAK(q *QP, syn wire.Syndrome) {
	r := &q.resp
	r.nak, r.nakPSN, r.ack = syn, r.epsn, false
	e.urge(q, dueReply)
}

// dropReplies forgets everything that is owed.
func (r *responder) dropReplies() {
	r.jobHead, r.jobLen, r.newJobs, r.ack, r.nak = 0, 0, 0, false, 0
	if r.syncing > 0 {
		r.syncs.withdraw(0)
	}
	r.syncing, r.absent = 0, absentUnnoticed
}

// cancelNAK takes back a NAK if what it asks for arrives before it was sent. An ACK takes its
// place, as the NAK would have acknowledged what is before it.
func (r *responder) cancelNAK() {
	if r.nak != 0 {
		r.nak, r.ack, r.ackPSN = 0, true, r.epsn.Prev()
	}
}

// duplicate answers a request that was executed before (section 4.5). Nothing is executed twice: a
// READ is read again, an atomic answers with the value it found then, everything else with an ACK.
func (e *Engine) duplicate(q *QP, p *wire.Packet) wire.DropReason {
	r, psn := &q.resp, p.BTH.PSN()
	waits := e.askedAgain(q, psn)
	if p.Op.Flags&hasAnswer != 0 {
		return e.replay(q, p, psn)
	}
	if !r.ack && !waits {
		r.ack, r.ackPSN = true, r.ackLimit(psn)
		e.schedule(q, dueReply)
	}
	return wire.DropNone
}

// ackLimit is the newest PSN that an ACK may name in answer to a duplicate of psn. The ACK must not
// overtake a READ or atomic whose responses the peer may have lost: that would be an implied NAK.
func (r *responder) ackLimit(psn wire.PSN) wire.PSN {
	limit := r.epsn.Prev()
	for i := range r.res {
		if res := &r.res[i]; res.valid && res.first.Sub(psn) > 0 && res.first.Sub(limit) <= 0 {
			limit = res.first.Prev()
		}
	}
	return limit
}

// replay owes the responses of a remembered READ or atomic once more, from psn on. It looks at the
// newest first: one that is 16 million packets older may have had the same PSN.
func (e *Engine) replay(q *QP, p *wire.Packet, psn wire.PSN) wire.DropReason {
	r := &q.resp
	for n := range r.res {
		i := r.resNext - 1 - n
		if i < 0 {
			i += len(r.res)
		}
		res := &r.res[i]
		if !res.valid || psn.Sub(res.first) < 0 || psn.Sub(res.last) > 0 || res.answer != answerTo(p) {
			continue
		}
		j := job{
			res:    i,
			again:  true,
			answer: res.answer,
			start:  psn,
			next:   psn,
			orig:   res.orig,
			rkey:   res.rkey,
			pd:     res.pd,
		}
		if res.answer == answerData {
			skip := uint32(psn.Sub(res.first)) * q.mtu
			h := p.RETH()
			if h.RKey() != res.rkey || h.VA() != res.va+uint64(skip) ||
				uint64(h.DMALen())+uint64(skip) > uint64(res.length) {
				return wire.DropMalformed
			}
			j.va, j.left = h.VA(), h.DMALen()
		}
		e.oweAgain(q, j)
		return wire.DropNone
	}
	return wire.DropDuplicate
}

// oweAgain queues a replay. If a job of the same resource is queued that has not come to what is
// asked for, that stands for it; if it has come to the middle of that, it is restarted.
func (e *Engine) oweAgain(q *QP, j job) {
	r := &q.resp
	for n := range r.jobLen {
		old := r.jobAt(n)
		if old.res != j.res {
			continue
		}
		switch done := int64(old.next.Sub(j.next)) * int64(q.mtu); {
		case old.sync != 0: // it is answered when that is done, see askedAgain
		case done > 0 && done >= int64(j.left) && j.left > 0: // all of that has been sent
			continue
		case done <= 0 && int64(old.left)-int64(j.left) >= -done && j.left > 0: // all will be
		case done > 0 && int64(old.left) > int64(j.left)-done: // and of this the rest
			j.left = uint32(done)
			continue
		default:
			j.again = old.again
			*old = j
		}
		return
	}
	if r.jobLen-r.newJobs < r.replays() { // else the peer will ask again
		*e.owe(q, j.res, j.answer, j.start, true) = j
		r.passFlush()
	}
}

// onlyAck says that all that is owed is an ACK.
func (r *responder) onlyAck() bool { return r.ack && r.nak == 0 && r.jobLen == 0 }

// reply sends the next packet that q owes.
func (e *Engine) reply(q *QP, b *wire.Batch) verdict {
	r := &q.resp
	if from, to, ok := r.nextGap(); ok { // its NAK acknowledges nothing, so it overtakes nothing
		code, n := q.attr.gapCode(from.Sub(r.epsn), to.Sub(from))
		if !e.putAck(q, b, wire.SynNAKSeq, r.epsn, code) {
			return verdictFull
		}
		r.kept.reported = from.Add(uint32(n))
		r.notice(whenKept)
		return verdictSent
	}
	switch {
	case r.jobLen > 0 && r.jobAt(0).sync != 0:
		return e.replyNotYet(q, b, r.jobAt(0))
	case r.jobLen > 0 && r.jobAt(0).answer == answerValue:
		return e.replyAtomic(q, b)
	case r.jobLen > 0 && r.jobAt(0).answer == answerDone:
		return e.replyDone(q, b)
	case r.jobLen > 0:
		if !e.mayPace(q) {
			return verdictBlocked
		}
		return e.replyRead(q, b)
	case r.nak != 0:
		if !e.putAck(q, b, r.nak, r.nakPSN, q.nakMSN()) {
			return verdictFull
		}
		if n := e.stats.naks(r.nak); n.sent != nil {
			*n.sent++
		}
		if r.nak == wire.SynNAKSeq { // it asks for all
			r.missed = false
		}
		r.nak = 0
	case r.ack:
		if !e.putAck(q, b, wire.SynACK, r.ackPSN, q.ackMSN()) {
			return verdictFull
		}
		r.ack = false
	default:
		return verdictBlocked
	}
	return verdictSent
}

// putAck makes an ACK, NAK or RNR NAK.
func (e *Engine) putAck(q *QP, b *wire.Batch, syn wire.Syndrome, psn, msn wire.PSN) bool {
	body := e.putReply(q, b, wire.RCAcknowledge.Of(q.opcodes), syn, psn, msn, 0)
	if body == nil {
		return false
	}
	e.seal(b)
	return true
}

// putReply reserves a response packet with n bytes of payload and writes its headers; nil: no room.
func (e *Engine) putReply(q *QP, b *wire.Batch, op wire.Opcode, syn wire.Syndrome, psn, msn wire.PSN, n uint32) []byte {
	info := op.Info()
	pad := -n & 3
	f := b.Reserve(&q.path, int(uint32(info.HdrLen)+n+pad+wire.ICRCLen))
	if f == nil {
		return nil
	}
	(*wire.BTH)(f.Body).Put(op, 0, uint8(pad), wire.DefaultPKey, q.attr.DestQPN, psn)
	if at := info.Off[wire.HdrAETH]; at != 0 {
		(*wire.AETH)(f.Body[at:]).Put(syn, msn)
	}
	clear(f.Body[uint32(info.HdrLen)+n : uint32(info.HdrLen)+n+pad])
	return f.Body[info.HdrLen : uint32(info.HdrLen)+n]
}

func (e *Engine) replyAtomic(q *QP, b *wire.Batch) verdict {
	r := &q.resp
	j := r.jobAt(0)
	op := wire.RCAtomicAcknowledge.Of(q.opcodes)
	body := e.putReply(q, b, op, wire.SynACK, j.next, r.msn, 0)
	if body == nil {
		return verdictFull
	}
	frames := b.Frames()
	(*wire.AtomicAckETH)(frames[len(frames)-1].Body[op.Info().Off[wire.HdrAtomicAckETH]:]).Put(j.orig)
	e.seal(b)
	e.popJob(q)
	return verdictSent
}

// replyDone makes the answer to a FLUSH or an ATOMIC WRITE.
func (e *Engine) replyDone(q *QP, b *wire.Batch) verdict {
	r := &q.resp
	if e.putReply(q, b, readReplies.only.Of(q.opcodes), wire.SynACK, r.jobAt(0).next, r.msn, 0) == nil {
		return verdictFull
	}
	e.seal(b)
	e.popJob(q)
	return verdictSent
}

// replyRead makes the next response packet of a READ. Right and key are checked again, because the
// application may have taken the memory back by now (section 7.7).
func (e *Engine) replyRead(q *QP, b *wire.Batch) verdict {
	r := &q.resp
	j := r.jobAt(0)
	n := min(j.left, q.mtu)
	first, last := j.next == j.start, n == j.left
	op := readReplies.at(first, last, q.opcodes)
	if e.putReply(q, b, op, wire.SynACK, j.next, r.msn, n) == nil {
		return verdictFull
	}
	var payload []byte
	st := mr.OK
	var span mr.Span
	if n > 0 {
		span, st = e.cfg.Memory.Remote(j.pd, q.qpn, j.rkey, j.va, n, mr.RemoteRead)
		payload = span.Bytes()
		if q.attr.AccessFlags&mr.RemoteRead == 0 {
			st = mr.BadAccess
		}
	}
	if st == mr.OK {
		frames := b.Frames()
		st = e.noted(e.sealPayload(&frames[len(frames)-1], int(op.Info().HdrLen), payload, true))
	}
	if st != mr.OK || !span.Still() {
		b.Undo()
		psn := j.next
		r.dropReplies()
		e.raise(Event{Type: EventQPAccessErr, QP: q})
		e.oweNAK(q, wire.SynNAKAccess)
		r.nakPSN = psn
		e.failAfterReplies(q)
		return verdictSent
	}
	e.stats.SentPkts++
	e.spend(q, int(uint32(op.Info().HdrLen)+n+-n&3+wire.ICRCLen))
	j.next, j.va, j.left = j.next.Next(), j.va+uint64(n), j.left-n
	if last {
		e.popJob(q)
	}
	return verdictSent
}

// popJob ends the oldest job, which has been answered.
func (e *Engine) popJob(q *QP) {
	r := &q.resp
	r.leave(r.jobAt(0))
	r.jobHead++
	e.readmit(q)
}

// forgetLast takes back the newest job.
func (r *responder) forgetLast() { r.leave(r.jobAt(r.jobLen - 1)) }

// leave counts a job that is queued no more.
func (r *responder) leave(j *job) {
	if !j.again {
		r.newJobs--
	}
	if j.res != noResource {
		r.res[j.res].owed--
	}
	if j.sync != 0 {
		r.syncs.withdraw(j.sync)
		r.syncing--
	}
	r.jobLen--
}

// seal finishes the newest packet of the batch.
func (e *Engine) seal(b *wire.Batch) {
	frames := b.Frames()
	wire.Seal(&frames[len(frames)-1])
	e.stats.SentPkts++
}
