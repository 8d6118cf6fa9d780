package qp

import (
	"math/rand/v2"
	"testing"
)

// TestStopped: where the position is stopped is known without looking at all that is outstanding,
// which a peer may have made much of, for each ACK. It is the same as what looking would find.
func TestStopped(t *testing.T) {
	const slots = 16
	rnd := rand.New(rand.NewPCG(1, 2))
	e := NewEngine(Config{})
	q := &QP{}
	q.sq.init(slots, 1, 0)
	r := &q.req
	r.wqes = make([]wqe, slots)
	looked := func() bool {
		for i := q.sq.head.Load(); i != r.started; i++ {
			if r.at(i).status != WCSuccess {
				return true
			}
			if i == r.next {
				break
			}
		}
		return false
	}
	stopped := 0
	for range 20000 {
		head := q.sq.head.Load()
		switch n := rnd.IntN(8); {
		case n < 3 && r.started-head < slots: // another starts
			*r.at(r.started) = wqe{}
			r.started++
		case n < 5: // a retry, or what follows one
			r.next = head + rnd.Uint32N(r.started-head+1)
		case n == 5 && r.next != head && r.next != r.started && r.at(head).status == WCSuccess:
			e.doom(q, WCLocProtErr)
		case n > 5 && head != r.started && rnd.IntN(2) == 0: // an ACK
			e.completeHead(q)
			r.next = max(r.next, head+1)
		}
		if got, want := q.stopped(), looked(); got != want {
			t.Fatalf("stopped %v, want %v: head %d, next %d, started %d, %d doomed from %d",
				got, want, q.sq.head.Load(), r.next, r.started, r.doomed, r.stop)
		}
		if q.stopped() {
			stopped++
		}
	}
	if stopped < 1000 {
		t.Errorf("stopped %d times only", stopped)
	}
}
