package qp

// A long window leaves over the round trip.
//
// Packets leave when answers come, one for one, and so are as far apart as the path has made them.
// But what repairs a gap opens the window by all that had arrived behind it, and an application
// that waited for completions posts all at once: then a whole window would leave together, into a
// queue that holds a part of it. On a path that is short, or holds few packets, that is a burst of
// a millisecond at most, and no timer would spread it.
//
// Stages: each packet has its time, a bit sooner than the window lasts for a round trip (spread) →
// who is ahead of that by a burst waits for half of it (maySpread).

// spacing is how far apart packets of a long window leave; 0: as they come.
func (r *recovery) spacing() Time {
	w := &r.window
	if w.size < spreadFrom || r.base < spreadBase || !w.adaptive {
		return 0
	}
	return r.srtt * 2 / 3 / Time(w.size)
}

// spread takes notice that n packets leave.
func (r *recovery) spread(now Time, n int32) {
	if gap := r.spacing(); gap > 0 {
		r.window.nextAt = max(r.window.nextAt, now) + gap*Time(n)
	}
}

// maySpread says whether a packet may leave now; if not, the queue pair wakes up when it may. Where
// there is a rate, that has them spread.
func (e *Engine) maySpread(q *QP) bool {
	gap := q.rec.spacing()
	if gap == 0 || q.rate.paced || q.rec.window.nextAt <= e.now+spreadBurst*gap {
		return true
	}
	q.paused, q.rate.sendAt = true, q.rec.window.nextAt-spreadBurst/2*gap
	e.setDeadline(q)
	return false
}
