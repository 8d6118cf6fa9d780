package qp

// Local operations: send work requests that put nothing on the wire, executed when their turn to be
// sent comes.

import "github.com/goroce/goroce/mr"

// local executes request next. It completes in its turn: now if everything before it is complete,
// else when it reaches the head of the queue.
func (e *Engine) local(q *QP) {
	r := &q.req
	s := q.sq.at(r.next)
	*r.at(r.next) = wqe{first: q.rec.psn, last: q.rec.psn.Prev()}
	r.started++
	status := WCSuccess
	switch s.opcode {
	case WRLocalInv:
		if e.cfg.Memory.Invalidate(q.pd, q.qpn, s.imm) != mr.OK {
			status = WCLocQPOpErr
		}
	case WRBindMW:
		mw, key := uint32(s.swap>>32), uint32(s.swap)
		if e.cfg.Memory.BindWindow(q.pd, q.qpn, mw, key, s.rkey, s.remoteAddr, s.compareAdd, mr.Access(s.imm)) != mr.OK {
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
