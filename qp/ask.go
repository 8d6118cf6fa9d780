package qp

// Which request packets ask for an ACK.
//
// An ACK costs the peer as much as a message, and without one work requests do not complete, the
// window does not open, and nobody learns how long the path is. Stages: does somebody wait for the
// end of this request (awaits)? → is it time for the window's sake (asksACK)?

// awaits says whether somebody waits for the ACK of request s, the next one:
//   - the application, for its completion;
//   - the clock that has not measured the path yet;
//   - later messages, if the peer's credits end with this one;
//   - the ring, if a quarter of it has been sent since an ACK was last awaited: requests without a
//     completion must give their slots back too. The last of them are found out about by a probe;
//   - nobody else, but the request leaves after a silence: it is likely to be the last for a while,
//     and a probe would wake both ends;
//   - nobody else, but no packet has asked for a good part of the ack timeout, which is for peers
//     that are gone.
func (q *QP) awaits(now Time, s *sendSlot) bool {
	r := &q.req
	if q.sigAll || s.flags&SendSignaled != 0 || q.rec.srtt == 0 ||
		r.next-r.awaited >= uint32(len(r.wqes))/4 || r.lone || q.creditEnds() ||
		now >= q.rec.askBy && !q.rec.awaitsACK() {
		r.awaited = r.next
		return true
	}
	return false
}

// asksACK says whether the next packet asks for an ACK: at the end of a message that is awaited,
// several times a window, and whenever the window closes behind it, else both sides would wait
// (section 4.3). The first of a connection does, so that the round trip is known before anything is
// lost; and at a limited rate one does for each minProbe of it, because the silence while packets
// wait for their time would look like a loss, or like a peer that is gone.
func (q *QP) asksACK(awaited bool) bool {
	r := &q.req
	r.unasked++
	limit := q.limit()
	if awaited || r.unasked >= min(q.rec.window.every, limit/4) ||
		q.rec.inFlight()+1 >= limit || q.rec.unmeasured() || q.rate.takes(uint32(r.unasked)*q.mtu) >= minProbe {
		r.unasked = 0
		return true
	}
	return false
}
