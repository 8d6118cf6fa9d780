package qp

import "testing"

// Packets that wait for their time are woken up for late. Those behind make up for it, to a limit; those that come after a pause
// do not.
func TestLateness(t *testing.T) {
	e := NewEngine(Config{})
	q := &QP{}
	q.rec.ackAt, q.rec.probeAt, q.rec.readyAt = Never, Never, Never
	r := &q.rate
	const us = Time(1000)
	*r = rate{limited: true, current: 10e6, target: 10e6, alphaAt: Never, raiseAt: Never} // 1000 bytes take 100 us
	for _, step := range []struct {
		at   Time
		may  bool
		next Time // when the next packet may leave
	}{
		{0, true, 100 * us},
		{50 * us, false, 100 * us},
		{150 * us, true, 200 * us}, // 50 us late: the next one comes as if this had been in time
		{160 * us, false, 200 * us},
		{450 * us, true, 350 * us}, // 250 us late: 50 of them are lost
		{450 * us, true, 450 * us},
		{450 * us, true, 550 * us},
		{900 * us, true, 1000 * us}, // nobody has waited
	} {
		if may := e.mayPace(step.at, q); may != step.may {
			t.Fatalf("at %d: may %v", step.at, may)
		}
		if step.may {
			e.spend(step.at, q, 1000)
		}
		if r.sendAt != step.next {
			t.Fatalf("at %d: the next at %d, want %d", step.at, r.sendAt, step.next)
		}
	}
}
