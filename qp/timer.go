package qp

// Deadlines of the queue pairs: a binary heap of wake-up times. A queue pair only stores its new
// deadline, so that to restart the ack timer at every ACK costs one store; if its heap entry fires
// too early, it is inserted again. So the heap is touched about once per timeout.
//
// What has a time of its own, and who looks at it then:
//
//	recovery.ackAt    nothing was acknowledged for an ack timeout             silence.go
//	recovery.probeAt  nothing was heard for so long that una is probed        silence.go
//	recovery.readyAt  the time is over that an RNR NAK has asked for          silence.go
//	rate.sendAt       the rate lets the packet leave that waits (QP.paused)   rate.go
//	QP.deadline       the earliest of these four                              setDeadline
//	QP.timerAt        as the heap has it: never later
//	Engine.tellAt     notifications that are moderated are due                cq.go
//
// The earliest of the last two is the engine's next deadline (PollTimeout), which a lane has its
// alarm set to. Nobody wakes up for other times; they are looked at when something happens anyway:
// recovery.askBy, from when on a message asks for an ACK (ask.go), and those of the rate at which
// it rises, forgets a mark, or may send a CNP (rate.go).

// setDeadline tells the timers when q must be looked at: by recovery, or because a packet that was
// held back by the rate may leave.
func (e *Engine) setDeadline(q *QP) {
	if t := min(q.rec.deadline(), q.pausedUntil()); t != Never {
		e.timers.arm(q, t)
	} else {
		e.timers.disarm(q)
	}
}

// timeout handles the deadline of q.
func (e *Engine) timeout(q *QP) {
	d := thenStay
	e.recordTimer(q)
	if s := q.State(); s == StateRTS || s == StateSQD {
		d = q.rec.timer(e.now, q)
	}
	if q.paused && q.rate.sendAt <= e.now { // not before: what is about to leave breaks the silence
		q.paused = false
		e.schedule(q, dueRequest|dueReply)
	}
	e.carryOut(q, d)
}

// timers is the heap; each queue pair stands in it at most once, at q.timerPos-1.
type timers []*QP

// arm makes q fire at t or soon after.
func (h *timers) arm(q *QP, t Time) {
	q.deadline = t
	switch {
	case q.timerPos == 0:
		q.timerAt = t
		*h = append(*h, q)
		q.timerPos = len(*h)
		h.up(q.timerPos - 1)
	case t < q.timerAt:
		q.timerAt = t
		h.up(q.timerPos - 1)
	}
}

// disarm makes q not fire; its entry leaves when it surfaces.
func (h *timers) disarm(q *QP) { q.deadline = Never }

// remove takes q's entry out at once.
func (h *timers) remove(q *QP) {
	if q.timerPos == 0 {
		return
	}
	i, last := q.timerPos-1, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	q.timerPos, q.deadline = 0, Never
	if i < last {
		h.down(i)
		h.up(i)
	}
}

// next returns the earliest wake-up time.
func (h timers) next() Time {
	if len(h) == 0 {
		return Never
	}
	return h[0].timerAt
}

// expired returns a queue pair whose deadline has come, or nil.
func (h *timers) expired(now Time) *QP {
	for len(*h) > 0 {
		q := (*h)[0]
		if q.timerAt > now {
			return nil
		}
		if q.deadline <= now {
			h.remove(q)
			return q
		}
		h.relist() // it has moved on since it was listed
	}
	return nil
}

// relist puts the first entry where its deadline belongs.
func (h *timers) relist() {
	q := (*h)[0]
	if q.deadline == Never {
		h.remove(q)
		return
	}
	q.timerAt = q.deadline
	h.down(0)
}

// settle makes next exact.
func (h *timers) settle() {
	for len(*h) > 0 && (*h)[0].timerAt < (*h)[0].deadline {
		h.relist()
	}
}

func (h timers) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timerPos, h[j].timerPos = i+1, j+1
}

func (h timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].timerAt <= h[i].timerAt {
			return
		}
		h.swap(parent, i)
		i = parent
	}
}

func (h timers) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].timerAt < h[child].timerAt {
			child++
		}
		if h[i].timerAt <= h[child].timerAt {
			return
		}
		h.swap(i, child)
		i = child
	}
}
