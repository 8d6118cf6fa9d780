package qp

import "sync/atomic"

// doorbells is the list of queue pairs that were posted to since the lane last looked. Any
// goroutine adds to it; the lane takes it as a whole.
type doorbells struct {
	top atomic.Pointer[QP]
}

// ring lists q unless it is listed already. It marks q first and lists it then, while the lane
// clears the mark before it reads the ring of requests: so a post that finds the mark set is seen
// by the lane.
func (d *doorbells) ring(q *QP) {
	if !q.rung.CompareAndSwap(false, true) {
		return
	}
	for {
		top := d.top.Load()
		q.rungNext = top
		if d.top.CompareAndSwap(top, q) {
			return
		}
	}
}

// take empties the list and returns its first element.
func (d *doorbells) take() *QP {
	if d.top.Load() == nil {
		return nil
	}
	return d.top.Swap(nil)
}

func (d *doorbells) pending() bool { return d.top.Load() != nil }
