package qp

import "sync/atomic"

// doorbells is the list of queue pairs that were posted to since the lane last looked: pushed by
// any goroutine, taken whole by the lane.
type doorbells struct {
	top atomic.Pointer[QP]
}

// ring lists q unless it is listed already. The order of the two steps pairs with take: a post that
// finds its queue pair still listed is seen by the lane, which clears the mark before it reads the
// ring.
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
