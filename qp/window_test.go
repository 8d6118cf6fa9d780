package qp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The rules of the window, one by one. What they do to goodput stands in qptest's table.

const hop = Time(100_000) // the least round trip of these tests

// path is a window, and the time.
type path struct {
	window
	now Time
}

func adaptive() *path {
	w := &path{now: recoveryNow}
	w.start(0)
	return w
}

// full is a round trip in which the window was what held the requester back.
func (w *path) full(rtt Time, delivered int32) {
	w.limited = true
	w.acked(delivered)
	w.now += rtt
	w.round(w.now, rtt, hop, delivered)
}

// lost is a loss.
func (w *path) lost() bool { return w.overflowed(w.now, hop) }

func TestFixedWindowStays(t *testing.T) {
	for _, n := range []int{1, 2, 8, 128, 5000} {
		w := adaptive()
		w.start(n)
		for range 100 {
			w.full(hop, 1)
			w.full(10*hop, int32(n))
			w.wentBack()
		}
		require.EqualValues(t, n, w.size)
		require.EqualValues(t, min(max(n/4, 1), 64), w.every)
	}
}

// TestWindowGrows: only while it is the window that limits and nothing queues, up to its maximum.
func TestWindowGrows(t *testing.T) {
	w := adaptive()
	require.EqualValues(t, DefaultWindow, w.size)
	require.EqualValues(t, DefaultWindow/4, w.every)
	w.round(w.now, hop, hop, 128)
	require.EqualValues(t, 128, w.size, "the window did not limit")
	w.full(hop+hop/2, 128)
	require.EqualValues(t, 128, w.size, "a third queues")
	w.full(hop+hop/4, 128)
	require.EqualValues(t, 160, w.size)
	for range 20 {
		w.full(hop, w.size)
	}
	require.EqualValues(t, MaxWindow, w.size)
	require.EqualValues(t, 64, w.every)
}

// TestWindowYields: what it has grown by, it gives up when as much stands in queues as on the path;
// but a round trip that is long because processors are busy never takes it below where it began.
func TestWindowYields(t *testing.T) {
	w := adaptive()
	w.resize(1000)
	w.full(2*hop, 1000)
	require.EqualValues(t, 1000, w.size)
	for range 200 {
		w.full(2*hop+1, 1000) // no more arrives of a larger window
	}
	require.LessOrEqual(t, w.size, int32(DefaultWindow+DefaultWindow/4))
	for range 200 {
		w.full(50*hop, 128)
	}
	require.LessOrEqual(t, w.size, int32(DefaultWindow+DefaultWindow/4))
	require.GreaterOrEqual(t, w.size, int32(DefaultWindow))
}

// TestWindowTries: in a queue that others keep full, a larger window is a larger share, and is
// kept; in one's own it is not, and is not tried again at once.
func TestWindowTries(t *testing.T) {
	others, own := adaptive(), adaptive()
	for range 2*trialRounds + 2 {
		others.full(8*hop, others.size)
		own.full(8*hop, 128)
	}
	require.EqualValues(t, 200, others.size, "tried, and tried again")
	require.EqualValues(t, 150, own.size, "tried, and on its way back")
	for range trialPause {
		others.full(8*hop, others.size)
		own.full(8*hop, 128)
	}
	require.EqualValues(t, 312, others.size)
	require.EqualValues(t, DefaultWindow, own.size)
}

// TestWindowCubic: a share is cut to 0.7, and grows by a packet a window; after seconds as CUBIC
// does, to what it was when it is time, and beyond.
func TestWindowCubic(t *testing.T) {
	w := adaptive()
	w.single, w.spacing = true, lossShare*1000
	w.resize(2000)
	for range 2 {
		w.full(5*hop, 2000)
	}
	w.resize(2000)
	require.True(t, w.lost())
	require.EqualValues(t, 1400, w.size)
	require.InDelta(t, 10, float64(w.plateau)/1e9, 0.01, "the cube root of 0.3 * 2000 / 0.6")
	for range 20 {
		w.full(5*hop, w.size)
	}
	require.EqualValues(t, 1420, w.size, "0.01 s later")
	grow := func(until Time) int32 {
		w.now = w.cutAt + until
		w.full(5*hop, 1)
		return w.size
	}
	require.InDelta(t, 1925, grow(5*w.plateau/10), 5)
	require.InDelta(t, 2000, grow(w.plateau), 1)
	require.InDelta(t, 2075, grow(15*w.plateau/10), 5)
	w.full(5*hop, 1)
	require.True(t, w.lost())
	w.resize(1000)
	require.True(t, w.lost())
	require.EqualValues(t, 850, w.most, "less than before: there is somebody new")
}

// TestWindowOfSmallMessages: many of them may be on their way from the first round trip on, unless
// packets get lost.
func TestWindowOfSmallMessages(t *testing.T) {
	w := adaptive()
	w.small = true
	w.full(3*hop, 128)
	require.EqualValues(t, smallWindow, w.size)
	for range 200 {
		w.full(50*hop, smallWindow)
	}
	require.GreaterOrEqual(t, w.size, int32(smallWindow), "slow processors are no reason for less")
	w.resize(smallWindow)
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
	require.LessOrEqual(t, w.size, int32(DefaultWindow+DefaultWindow/4), "large ones again")
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
	require.EqualValues(t, 6, w.every)
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
	require.EqualValues(t, 2, w.every)
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

// TestWindowSelective: losses of single packets while nothing queues leave the window alone,
// however they are spread, unless so many are lost that somebody throws away what is above a rate.
func TestWindowSelective(t *testing.T) {
	w := adaptive()
	w.full(hop, 40)
	w.resize(200)
	for range 100 {
		w.clean += 20
		w.repeats(1)
		require.False(t, w.lost())
		w.clean += 100
		w.repeats(5)
		require.False(t, w.lost())
	}
	require.EqualValues(t, 200, w.size)
	for range 100 {
		w.clean += 100
		w.repeats(60)
		require.Equal(t, w.spacing < lossShare*crowded, w.lost())
	}
	require.EqualValues(t, leastShare, w.size)
	w.wentBack()
	require.EqualValues(t, leastShare, w.size, "go-back-N, as for READs, takes nothing more")
}

// TestWindowShares walks the rows of the table in window.go.
func TestWindowShares(t *testing.T) {
	const queue = 4 * hop // in time, when it overflows
	free := func() *path {
		w := adaptive()
		w.single, w.spacing = true, lossShare*1000 // losses are rare
		w.resize(400)
		return w
	}
	sharing := func() *path {
		w := free()
		w.full(hop+queue, 400)
		w.full(hop+queue, 400)
		w.resize(400)
		require.True(t, w.lost())
		require.EqualValues(t, queue, w.overfull)
		w.resize(400)
		w.clean = 0
		return w
	}
	for _, row := range []struct {
		what    string
		from    func() *path
		rounds  int
		queued  Time
		loss    bool
		size    int32
		sharing bool
	}{
		{"free, nothing queues", free, 1, 0, false, 500, false},
		{"free, a quarter queues", free, 1, hop / 4, false, 500, false},
		{"free, a third queues", free, 1, hop / 3, false, 400, false},
		{"free, more queues than travels", free, 2, hop + 1, false, 400, false},
		{"free, more queues for some rounds", free, trialRounds + 1, hop + 1, false, 500, false},
		{"free, and no more arrives", free, 2*trialRounds + 2, hop + 1, false, 469, false},
		{"free, a loss, nothing queues", free, 2, 0, true, 625, false},
		{"free, a loss, and a queue", free, 2, hop, true, 280, true},
		{"sharing", sharing, 2, queue, false, 401, true},
		{"sharing, the queue has been short for long", sharing, calmRounds + 1, queue / 8, false, 457, true},
		{"sharing, a loss, and a queue", sharing, 2, queue, true, 280, true},
		{"sharing, a loss, nothing queues", sharing, 2, 0, true, 401, true},
	} {
		t.Run(row.what, func(t *testing.T) {
			w := row.from()
			for range row.rounds {
				w.full(hop+row.queued, 400)
			}
			if row.loss {
				w.lost()
			}
			require.Equal(t, row.size, w.size)
			require.Equal(t, row.sharing, w.sharing)
		})
	}
	w := sharing()
	w.clean = forgotten*400 + 1
	w.full(hop+queue, 0)
	require.False(t, w.sharing, "nothing was lost for long")
	require.EqualValues(t, 400, w.size)
}

// TestFewPackets: a share of few packets grows by three quarters of one a window.
func TestFewPackets(t *testing.T) {
	for _, c := range []struct{ size, after int32 }{{8, 11}, {minWindow, minWindow + 4}} {
		w := adaptive()
		w.sharing, w.single, w.overfull = true, true, 0
		w.most, w.cutAt, w.plateau = c.size, w.now, 1<<40
		w.resize(c.size)
		for range 4 {
			w.full(2*hop, w.size)
		}
		require.Equal(t, c.after, w.size)
	}
}

// TestPieces: how a READ is asked for, by what the path holds and whether anything was lost lately.
func TestPieces(t *testing.T) {
	for _, c := range []struct {
		what         string
		depth        uint8
		even, smooth bool
		window, path int32
		packets      uint32
		want         uint16
	}{
		{"few outstanding", pieceDepth - 1, false, true, 128, 1000, 64, 0},
		{"even, a short path", 128, true, true, 128, 100, 64, 2},
		{"even, a longer one, nothing lost", 128, true, true, 512, 400, 64, 64},
		{"even, a longer one, losses", 128, true, false, 512, 400, 64, 7},
		{"nothing lost: half of the window", 32, false, true, 128, 50, 64, 64},
		{"nothing lost: no more than that", 32, false, true, 128, 50, 127, 64},
		{"nothing lost, a larger window: a burst", 32, false, true, 400, 50, 1000, 63},
		{"losses: what the path needs", 32, false, false, 128, 50, 64, 16},
		{"losses, a longer path", 32, false, false, 1000, 640, 80, 40},
		{"no more than it can carry", 32, false, true, MaxLongWindow, 60000, 1 << 20, 3745},
	} {
		q := &QP{even: c.even}
		q.attr.MaxRdAtomic = c.depth
		w := &q.rec.window
		w.start(0)
		w.size, w.path = c.window, c.path
		if c.smooth {
			w.clean = smooth * int64(c.window)
		}
		require.Equal(t, c.want, q.piece(c.packets), c.what)
	}
}

// TestSmallShareGrows: a share of two packets grows too when others have left, also where a loss
// costs a window.
func TestSmallShareGrows(t *testing.T) {
	w := adaptive()
	w.sharing, w.overfull = true, 4*hop
	w.most, w.cutAt = leastShare, w.now
	w.resize(leastShare)
	for range 3 * calmRounds {
		w.full(hop, w.size)
	}
	require.Greater(t, w.size, int32(calmRounds))
}
