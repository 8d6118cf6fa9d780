package qp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The rules of the window, one by one. What they do to goodput stands in qptest's table.

const hop = Time(100_000) // the least round trip of these tests

func adaptive() *window {
	w := new(window)
	w.start(0)
	return w
}

// full is a round trip in which the window was what held the requester back.
func (w *window) full(rtt Time, delivered int32) {
	w.limited = true
	w.clean += int64(delivered)
	w.round(rtt, hop, delivered)
}

func TestFixedWindowStays(t *testing.T) {
	for _, n := range []int{1, 2, 8, 128, 5000} {
		w := new(window)
		w.start(n)
		for range 100 {
			w.full(hop, 1)
			w.full(10*hop, int32(n))
			w.wentBack()
		}
		require.EqualValues(t, n, w.size)
		require.Equal(t, min(max(n/4, 1), 64), w.every)
	}
}

// TestWindowGrows: only while it is the window that limits and nothing queues, up to its maximum.
func TestWindowGrows(t *testing.T) {
	w := adaptive()
	require.EqualValues(t, DefaultWindow, w.size)
	require.Equal(t, DefaultWindow/4, w.every)
	w.round(hop, hop, 128)
	require.EqualValues(t, 128, w.size, "the window did not limit")
	w.full(hop+hop/2, 128)
	require.EqualValues(t, 128, w.size, "a third queues")
	w.full(hop+hop/4, 128)
	require.EqualValues(t, 160, w.size)
	for range 20 {
		w.full(hop, w.size)
	}
	require.EqualValues(t, MaxWindow, w.size)
	require.Equal(t, 64, w.every)
}

// TestWindowYields: what it has grown by, it gives up when as much stands in queues as on the path;
// but a round trip that is long because processors are busy never takes it below where it began.
func TestWindowYields(t *testing.T) {
	w := adaptive()
	w.resize(1000)
	w.full(2*hop, 1000)
	require.EqualValues(t, 1000, w.size)
	for range 200 {
		w.full(2*hop+1, w.size)
	}
	require.EqualValues(t, DefaultWindow, w.size)
	for range 200 {
		w.full(50*hop, w.size)
	}
	require.EqualValues(t, DefaultWindow, w.size)
}

// TestWindowOfSmallMessages: many of them may be on their way from the first round trip on, unless
// packets get lost.
func TestWindowOfSmallMessages(t *testing.T) {
	w := adaptive()
	w.small = true
	w.full(3*hop, 128)
	require.EqualValues(t, smallWindow, w.size)
	for range 200 {
		w.full(50*hop, w.size)
	}
	require.EqualValues(t, smallWindow, w.size, "slow processors are no reason for less")
	w.wentBack()
	require.EqualValues(t, smallWindow, w.size, "one loss in so many packets costs little")
	for range 100 {
		w.full(3*hop, 300)
		w.wentBack()
	}
	require.Less(t, w.size, int32(DefaultWindow))

	w = adaptive()
	w.small = true
	w.full(3*hop, 128)
	w.small = false
	for range 200 {
		w.full(3*hop, 128)
	}
	require.EqualValues(t, DefaultWindow, w.size, "large ones again")
}

// TestWindowAfterLosses: every 100 packets one is lost on a path of 40: the window becomes that and
// a little more; every 1000: a 16th of the distance; without losses it comes back.
func TestWindowAfterLosses(t *testing.T) {
	w := adaptive()
	lose := func(every int32) {
		for range 40 {
			for n := int32(0); n < every; n += 50 {
				w.full(2*hop, 80) // half of which queued
				w.clean += 50 - 80
			}
			w.wentBack()
		}
	}
	lose(100)
	require.EqualValues(t, 50, w.size)
	require.Equal(t, 6, w.every)
	lose(1000)
	require.EqualValues(t, 1000/lossShare, w.size)
	lose(100)
	require.EqualValues(t, 50, w.size)
	for range DefaultWindow * lossShare / 50 {
		w.full(2*hop, 50)
	}
	require.InDelta(t, DefaultWindow, w.size, 3)
}

// TestWindowLongPath: losses do not take it below what the path holds, which may be more than where
// it began.
func TestWindowLongPath(t *testing.T) {
	w := adaptive()
	for range 20 {
		w.full(hop, 400)
	}
	for range 20 {
		w.wentBack()
		w.full(hop+hop/2, 600)
		w.full(hop+hop/2, 600)
	}
	require.EqualValues(t, 500, w.size)
}

// TestWindowRareLoss: a loss after long without one does not shrink the window, however little the
// path seems to hold.
func TestWindowRareLoss(t *testing.T) {
	w := adaptive()
	for range 100 {
		w.full(20*hop, 128)
	}
	w.wentBack()
	require.EqualValues(t, 128, w.size)
}

// TestWindowSameLoss: reports of one loss count once.
func TestWindowSameLoss(t *testing.T) {
	w, v := adaptive(), adaptive()
	for range 10 {
		w.full(hop, 40)
		v.full(hop, 40)
	}
	w.wentBack()
	v.wentBack()
	v.wentBack()
	v.wentBack()
	require.Equal(t, w, v)
}

// TestWindowFloor: nothing known, everything lost.
func TestWindowFloor(t *testing.T) {
	w := adaptive()
	for range 100 {
		w.clean++
		w.wentBack()
	}
	require.EqualValues(t, minWindow, w.size)
	require.Equal(t, 2, w.every)
	w.full(hop, minWindow) // and it finds its way up
	require.Greater(t, w.size, int32(minWindow))
}

// TestPathForgets: the estimate of what the path holds follows it down as well, over some tens of
// rounds.
func TestPathForgets(t *testing.T) {
	w := adaptive()
	w.full(hop, 100)
	w.full(hop, 50)
	require.EqualValues(t, 94, w.path)
	for range 20 {
		w.full(hop, 50)
	}
	require.EqualValues(t, 50, w.path)
	w.full(hop, 400)
	require.EqualValues(t, 400, w.path)
}

// TestWindowSelective: losses of single packets leave the window alone, however they are spread,
// unless so many are lost that a queue must be overflowing; then it is two round trips of the path,
// and comes back when losses are rare again.
func TestWindowSelective(t *testing.T) {
	w := adaptive()
	w.full(hop, 40)
	w.resize(200)
	for range 100 {
		w.clean += 20
		w.repeats(1)
		w.clean += 100
		w.repeats(5)
	}
	require.EqualValues(t, 200, w.size)
	for range 100 {
		w.clean += 100
		w.repeats(60)
	}
	require.EqualValues(t, 2*w.path, w.size)
	for range 30 {
		w.clean += 1000
		w.repeats(1)
	}
	w.full(2*hop, 40)
	require.EqualValues(t, DefaultWindow, w.size)
	w.wentBack()
	require.Less(t, w.size, int32(DefaultWindow), "go-back-N, as for READs, costs a window again")
}
