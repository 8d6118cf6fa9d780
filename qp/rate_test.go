package qp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Packets that wait for their time are woken up for late. Those behind make up for it, to a limit;
// those that come after a pause do not.
func TestLateness(t *testing.T) {
	e := NewEngine(Config{})
	q := &QP{}
	q.rec.ackAt, q.rec.probeAt, q.rec.readyAt = Never, Never, Never
	r := &q.rate
	const us = Time(1000)
	// 1000 bytes take 100 us.
	*r = rate{paced: true, limited: true, slowdown: &slowdown{current: 10e6, target: 10e6, alphaAt: Never, raiseAt: Never}}
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

// At a user's limit the packets behind a late one make up for as much as a timer is late, but for
// no more than a burst of packets.
func TestLatenessAtLimit(t *testing.T) {
	const us = Time(1000)
	for _, row := range []struct {
		bytes float64 // per second
		late  Time
	}{
		{1e5, 4000 * us}, // a burst takes longer
		{12.5e6, 4000 * us},
		{125e6, 1966 * us}, // 60 packets of 4096 bytes
		{12.5e9, 200 * us},
	} {
		e := NewEngine(Config{})
		e.now = Time(1e9)
		q := &QP{mtu: 4096}
		q.rate = rate{paced: true, ceiling: row.bytes, sendAt: 1, waited: true}
		e.spend(q, 0)
		require.InDelta(t, int64(e.now-row.late), int64(q.rate.sendAt), 1e3, "%v", row)
	}
}

// A congested queue pair has no more unacknowledged than its rate sends in the round trip and a
// little, and asks for ACKs several times in that, and each 100 us of its rate; one that is not
// goes by its window alone.
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
		{true, 500, ms / 10, 128, 32, 2},
		{true, 500, 20 * ms, 128, 128, 2},      // a long path: the window is less
		{true, 500, 20 * ms, 1024, 335, 2},     // and here it is not
		{true, 10, ms / 10, 128, minWindow, 1}, // a batch is always allowed
		{true, 100e3, 0, 128, 128, 32},
		{true, 1e12, 1000 * ms, psnSpan, psnSpan, maxUnasked},
	} {
		q := &QP{typ: RC, traits: services[RC].traits, mtu: 4096}
		q.rec.window.resize(row.window)
		q.rec.srtt, q.rec.base, q.rec.timed = 1, row.base, noPSN
		q.rate.limited, q.rate.slowdown = row.limited, &slowdown{current: row.mbits * 1e6 / 8}
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

// A user's limit and congestion: the lesser one counts, at any time, and what is lower than the
// least rate of the congestion control stays so.
func TestCeiling(t *testing.T) {
	e := NewEngine(Config{Congestion: CongestionParams{LineRate: 10e9}})
	q := &QP{source: &e.own}
	r := &q.rate
	q.rec.ackAt, q.rec.probeAt, q.rec.readyAt = Never, Never, Never
	took := func(n int) Time { // a packet of so many bytes
		e.now += Time(1e9)
		r.waited = false
		e.spend(q, n)
		return max(r.sendAt, e.now) - e.now
	}
	limit := func(kbps uint32) {
		q.attr.RateLimit = kbps
		e.limitRate(q)
	}
	require.Zero(t, took(1000))
	limit(8000) // 1000 bytes a ms
	require.Equal(t, Time(1_000_000), took(1000))
	limit(80_000_000) // more than the line, which nobody has said is full
	require.Equal(t, Time(100), took(1000))
	limit(0)
	require.Zero(t, took(1000))

	limit(800_000)
	r.cut(e.now, 0, &e.cc)
	require.Equal(t, 50e6, r.current, "half of what the user allows")
	limit(80_000)
	require.Equal(t, 10e6, r.current, "the user's limit has become the lesser one")
	limit(8)
	r.cut(e.now+Time(1e6), 0, &e.cc)
	require.Equal(t, 1e3, r.current, "the least rate of congestion control is more")
	require.Equal(t, Time(1e9), took(1000))
	require.False(t, r.limited, "congestion is over")
	require.True(t, r.paced, "the limit is not")
	limit(0)
	require.False(t, r.paced)

	limit(8000)
	took(1000)
	require.False(t, e.mayPace(q))
	require.True(t, q.paused)
	limit(0)
	require.False(t, q.paused, "it need not wait any more")
	require.True(t, e.mayPace(q))
}

// A CNP counts, too, if the rate has risen to the line's since the one before, and nothing was sent
// that would have noticed.
func TestCNPAfterRise(t *testing.T) {
	e := NewEngine(Config{Congestion: CongestionParams{LineRate: 10e9}})
	var r rate
	for now := Time(0); now < 10e9; now += 1e9 {
		r.cut(now, 0, &e.cc)
		require.True(t, r.limited && r.paced)
		require.Equal(t, 10e9/8/2, r.current)
	}
}
