package qp

import "testing"

// Packets that wait for their time are woken up for late. Those behind make up for it, to a limit;
// those that come after a pause do not.
func TestLateness(t *testing.T) {
	e := NewEngine(Config{})
	q := &QP{}
	q.rec.ackAt, q.rec.probeAt, q.rec.readyAt = Never, Never, Never
	r := &q.rate
	const us = Time(1000)
	// 1000 bytes take 100 us.
	*r = rate{limited: true, current: 10e6, target: 10e6, alphaAt: Never, raiseAt: Never}
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
		e.now = step.at
		if may := e.mayPace(q); may != step.may {
			t.Fatalf("at %d: may %v", step.at, may)
		}
		if step.may {
			e.spend(q, 1000)
		}
		if r.sendAt != step.next {
			t.Fatalf("at %d: the next at %d, want %d", step.at, r.sendAt, step.next)
		}
	}
}

// A congested queue pair has no more unacknowledged than its rate sends in the round trip and a
// little, and asks for ACKs several times in that; one that is not goes by its window alone.
func TestRateBoundsWindow(t *testing.T) {
	const ms = Time(1_000_000)
	for _, row := range []struct {
		limited bool
		mbits   float64
		base    Time
		window  int32
		limit   int32
		every   int // packets after which an ACK is asked for
	}{
		{false, 500, ms / 10, 128, 128, 32},
		// 62.5 MB/s for 2.1 ms, in packets of 4096 bytes.
		{true, 500, ms / 10, 128, 32, 8},
		{true, 500, 20 * ms, 128, 128, 32},          // a long path: the window is less
		{true, 500, 20 * ms, 1024, 335, maxUnasked}, // and here it is not
		{true, 10, ms / 10, 128, minWindow, 4},      // a batch is always allowed
		{true, 100e3, 0, 128, 128, 32},
		{true, 1e12, 1000 * ms, psnSpan, psnSpan, maxUnasked},
	} {
		q := &QP{typ: RC, service: services[RC], mtu: 4096}
		q.rec.window.resize(row.window)
		q.rec.srtt, q.rec.base, q.rec.timed = 1, row.base, noPSN
		q.rate.limited, q.rate.current = row.limited, row.mbits*1e6/8
		if got := q.limit(); got != row.limit {
			t.Errorf("%+v: %d packets", row, got)
		}
		asked := 1
		for ; !q.asksACK(false); asked++ {
		}
		if asked != row.every {
			t.Errorf("%+v: an ACK asked for after %d packets", row, asked)
		}
	}
}
