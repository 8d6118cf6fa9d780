package qp

// XRC, the extended reliable connected service: an XRC_SEND queue pair names in each request which
// shared receive queue of the peer it is for, so one connection serves all of them (sections 2.6,
// 8.4).
//
// Its two ends are halves of RC. XRC_SEND only requests: its packets have an XRCETH with the number
// of the queue. XRC_RECV only responds: it has no queue and no protection domain of its own. For
// each request it takes those of the shared receive queue that the request names, which must be of
// the same XRC domain (aim); completions are in the completion queue of that one too.
//
// Stages: shared receive queues become known (AddXRC, RemoveXRC) → a request is for one of them
// (aim), before the rest of the responder's walk.

import (
	"fmt"

	"github.com/goroce/goroce/wire"
)

// XRCD is an XRC domain of a device (ibv_xrcd); 0 is none.
type XRCD uint32

// xrcTarget is a shared receive queue that requests may name.
type xrcTarget struct {
	srq *SRQ
	cq  *CQ
}

// AddXRC lets requests name s, an XRC shared receive queue, by its number; they complete in c. Each
// engine of a device must know of it. ErrInvalid if it is none or the number is taken.
func (e *Engine) AddXRC(s *SRQ, c *CQ) error {
	switch _, taken := e.xrc[s.number]; {
	case s.xrcd == 0 || s.mem != e.cfg.Memory:
		return invalid("the shared receive queue is no XRC one of this device")
	case !e.owns(c):
		return fmt.Errorf("completion queue: %w", ErrUnknown)
	case taken:
		return invalid("there is a shared receive queue with the number 0x%06x", s.number)
	}
	if e.xrc == nil {
		e.xrc = make(map[uint32]xrcTarget)
	}
	e.xrc[s.number] = xrcTarget{s, c}
	c.users++
	e.qps.each(func(q *QP) {
		if q.serves(s) {
			s.join(q.source.gid)
		}
	})
	return nil
}

// RemoveXRC ends AddXRC. A message for s that is in progress comes to nothing: what follows of it
// is refused.
func (e *Engine) RemoveXRC(s *SRQ) {
	t, ok := e.xrc[s.number]
	if !ok || t.srq != s {
		return
	}
	delete(e.xrc, s.number)
	t.cq.users--
	e.qps.each(func(q *QP) {
		if q.noSends && q.srq == s {
			q.putBack()
			q.srq, q.recvCQ = nil, nil
		}
		if q.serves(s) {
			s.leave(q.source.gid)
		}
	})
}

// serves says whether q is connected, and a request of its peer may name s.
func (q *QP) serves(s *SRQ) bool {
	return q.noSends && q.xrcd == s.xrcd && !q.source.gid.IsZero()
}

// aim has an XRC_RECV queue pair receive for the shared receive queue that a request names. All
// packets of a message must name the same one.
func (e *Engine) aim(q *QP, p *wire.Packet) fault {
	t, ok := e.xrc[p.XRCETH().SRQN()]
	switch {
	case !ok || t.srq.xrcd != q.xrcd:
		return faultTarget
	case t.srq != q.srq && q.resp.message != messageNone:
		return faultOrder
	case t.srq != q.srq || q.sharer == nil:
		q.srq, q.recvCQ, q.pd, q.sharer = t.srq, t.cq, t.srq.pd, t.srq.sharerOf(q.source.gid)
	}
	return faultNone
}
