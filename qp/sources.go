package qp

// Sources: the peers of an engine, told apart by address, and whose turn it is to send.
//
// A peer makes as many queue pairs as it likes, but it has one address. So what the peers of an
// engine share is shared among addresses (section 14): one that floods takes nothing from the
// others that is theirs.
//
// Stages: a queue pair gets a source with its path, and loses it with RESET (belong) → it has
// something to send, and is put in line with the others of its source (schedule) → sources take
// turns, one queue pair of each at a time (PollTransmit) → a turn is a quantum of packets (serve),
// in one batch or over several.

import (
	"github.com/goroce/goroce/wire"
)

// source is an address that queue pairs are connected to.
type source struct {
	gid   wire.GID
	pairs int // queue pairs that are connected to it

	// of those, which have something to send, in the order of their turns; none: the source waits
	// for no turn
	first, last *QP
	next        *source // that has its turn after this one

	places int   // of maxKept, those that it has (reorder.go)
	holder int   // index in Engine.holders, if it has some
	stores []*QP // its queue pairs that keep packets
}

// belong makes q one of the queue pairs of an address. The zero GID stands for no peer: datagrams
// are the application's own.
func (e *Engine) belong(q *QP, gid wire.GID) {
	if q.source.gid == gid {
		return
	}
	e.dropKept(q) // which would count for the old one
	if old := q.source; old != &e.own {
		e.eachShared(q, func(s *SRQ) { s.leave(old.gid) })
		if old.pairs--; old.pairs == 0 {
			delete(e.sources, old.gid)
		}
	}
	q.sharer = nil
	if q.source = &e.own; gid.IsZero() {
		return
	}
	s := e.sources[gid]
	if s == nil {
		s = &source{gid: gid}
		e.sources[gid] = s
	}
	s.pairs++
	q.source = s
	e.eachShared(q, func(s *SRQ) {
		if by := s.join(gid); s == q.ownSRQ() {
			q.sharer = by
		}
	})
}

// eachShared calls f with each shared receive queue that q may take from: with XRC all of its
// domain.
func (e *Engine) eachShared(q *QP, f func(s *SRQ)) {
	if s := q.ownSRQ(); s != nil {
		f(s)
	}
	for _, t := range e.xrc {
		if q.noSends && t.srq.xrcd == q.xrcd {
			f(t.srq)
		}
	}
}

// line is that of the sources of queue pairs that have something to send, in the order of their
// turns.
type line struct {
	first, last *source
	had         int // packets that the first queue pair of the first source has had of its turn
}

func (l *line) append(s *source) {
	if s.next = nil; l.first == nil {
		l.first = s
	} else {
		l.last.next = s
	}
	l.last = s
}

// pass ends the turn of the first queue pair of the first source.
func (l *line) pass() *QP {
	s := l.first
	q := s.first
	s.first, l.first, l.had = q.readyNext, s.next, 0
	if q.ready, q.readyNext = false, nil; s.first != nil {
		l.append(s)
	}
	return q
}

// PollTransmit appends packets to b and returns how many. If it has filled b, there may be more:
// send it and call again. The peers take turns, by their addresses, and in the turn of one its
// queue pairs do, of quantum packets each.
func (e *Engine) PollTransmit(now Time, b *wire.Batch) (n int) {
	e.now = now
	before := b.Len()
	for e.line.first != nil {
		if !e.serve(e.line.first.first, b) {
			break
		}
		if q := e.line.pass(); q.due != 0 {
			e.schedule(q, q.due)
		}
	}
	if e.line.first == nil {
		e.urgent = false
	}
	if e.recorder != nil {
		e.recordSent(b.Frames()[before:])
	}
	return b.Len() - before
}

// heardFrom notes the UDP port that the peer sends from. Processes and lanes that share an address
// send from a port each, and a run must not go to two of them (wire.Batch.Toward): a kernel steers
// it by its first packet. Until something was heard q is alone with its peer's number, as are those
// that never hear anything. What merges packets on their way (GRO) may still join two runs;
// Identifications that begin anew keep newer kernels from that over IPv4.
func (q *QP) heardFrom(port uint16) { q.peerAt = uint32(port) | heard }

// heard is no bit of a queue pair number.
const heard = 1 << 24

// serve gives q its turn, or what is left of it; false: the batch is full and q keeps its place.
func (e *Engine) serve(q *QP, b *wire.Batch) bool {
	b.Toward(q.peerAt)
	for ; e.line.had < quantum; e.line.had++ {
		switch {
		case q.due&dueCNP != 0:
			if e.putCNP(q, b) == verdictFull {
				return false
			}
			q.due &^= dueCNP
		case q.due&dueReply != 0 && !(e.line.had < quantum-1 && q.due&dueRequest != 0 && q.resp.onlyAck()):
			// Requests go before an ACK. So the answer of a ping-pong waits for nothing; and as the
			// ACK is short, it leaves in one run with the last packets of the answer, instead of
			// cutting it in two.
			switch e.reply(q, b) {
			case verdictFull:
				return false
			case verdictBlocked:
				q.due &^= dueReply
			}
		case q.due&dueRequest != 0:
			switch e.request(q, b) {
			case verdictFull:
				return false
			case verdictBlocked:
				q.due &^= dueRequest
			}
		default:
			return true
		}
	}
	return true
}

// schedule puts q in line with something to send.
func (e *Engine) schedule(q *QP, d due) {
	q.due |= d
	if q.ready {
		return
	}
	q.ready = true
	s := q.source
	if s.first == nil {
		s.first = q
		e.line.append(s)
	} else {
		s.last.readyNext = q
	}
	s.last = q
}

// urge is schedule for what a peer must hear at once.
func (e *Engine) urge(q *QP, d due) {
	e.urgent = true
	e.schedule(q, d)
}

// unschedule forgets what q wanted to send. The line drops q when its turn comes.
func (e *Engine) unschedule(q *QP) { q.due = 0 }

// Idle says that the engine has nothing to send and no doorbell to look at.
func (e *Engine) Idle() bool { return e.line.first == nil && !e.bells.pending() }

// Urgent says that a NAK or a CNP is among what waits to be sent. An ACK may wait for what its
// application does next. But a peer that hears late of a loss, or of congestion, goes on sending
// what it must send again, or what fills the queue.
func (e *Engine) Urgent() bool { return e.urgent }
