package qp

// Packets out of their turn: what recovery wants sent before the position goes on. Nothing of a
// packet was kept, so the position goes there for one packet, and comes back (QP.seek).

import "github.com/goroce/goroce/wire"

// sendProbe sends the oldest unacknowledged packet once more, with AckReq, at its time.
func (e *Engine) sendProbe(q *QP, b *wire.Batch) verdict {
	if !e.mayPace(q) {
		return blocked
	}
	at := q.rec.psn
	q.seek(q.rec.una)
	q.req.unasked = q.rec.window.every
	v := e.again(q, b)
	if q.State() == StateErr { // its memory is gone
		return v
	}
	if v == sent {
		q.rec.probed(at)
	}
	q.seek(at)
	return v
}

// sendGap sends the next packet of the oldest gap that is due. The last of a gap asks for an ACK,
// and so does the new packet after it, which tells whether the gap has been filled.
func (e *Engine) sendGap(q *QP, b *wire.Batch) verdict {
	if !e.mayPace(q) {
		return blocked
	}
	r, at := &q.rec, q.rec.psn
	g := r.gaps.first()
	q.seek(g.next)
	v := sent
	if q.stopped() { // it cannot be sent, and fails when its turn comes
		r.gaps.sent(g, g.to, r.top)
	} else {
		if g.next.Next() == g.to {
			q.req.unasked = r.window.every
		}
		v = e.again(q, b)
		if q.State() == StateErr { // its memory is gone
			return v
		}
		r.gaps.sent(g, r.psn, r.top) // the same packet if there was no room, or no memory any more
	}
	q.seek(at)
	q.req.unasked = r.window.every
	return v
}
