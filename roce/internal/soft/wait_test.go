package soft

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/qp"
)

// waiting is an end that waits for the other, and whether it slept the last time.
type waiting struct {
	sleepers
	asleep bool
}

func (w *waiting) wait(d time.Duration) {
	spin := time.Duration(w.spin.Load())
	w.asleep = d > spin
	switch {
	case w.asleep:
		w.adapt(d - spin)
	case spin > maxSpin:
		w.tried(d)
	}
}

// TestTries: two who wait for each other, and whose sleeps are longer than maxSpin only because
// each has to be woken, find out that they need not sleep. Who waits for one that comes seldom
// polls in few of its waits.
func TestTries(t *testing.T) {
	const wire, wakes = 5 * time.Microsecond, 45 * time.Microsecond
	var d Device
	exchange := func(a, b *waiting, pause time.Duration) (took time.Duration) {
		waits := func(w, peer *waiting) time.Duration {
			d := 2 * wire
			if w.asleep {
				d += wakes
			}
			if peer.asleep {
				d += wakes
			}
			return d
		}
		took = waits(a, b)
		b.wait(took + pause)
		a.wait(took)
		return took
	}
	ends := func(behind int) (a, b *waiting) {
		a, b = &waiting{}, &waiting{}
		for _, w := range []*waiting{a, b} {
			w.init(&d)
			w.spin.Store(0)
			w.asleep = true
		}
		b.tries.short.Add(int32(behind))
		return a, b
	}
	for behind := range tryWaits - tryQuick { // else their tries miss each other
		a, b := ends(behind)
		for range 100 {
			exchange(a, b, 0)
		}
		require.Less(t, exchange(a, b, 0), maxSpin, "%d", behind)
	}
	a, b := ends(0)
	polls := 0
	for range 10_000 {
		if exchange(a, b, time.Millisecond); a.spin.Load() > 0 {
			polls++
		}
	}
	require.Less(t, polls, 300)
	require.Zero(t, b.spin.Load())
}

// TestLingersLonger: a poll that stays while nothing comes stays the longer the longer polls have
// paid before, never longer than longest; one in vain ends that.
func TestLingersLonger(t *testing.T) {
	const most = 50 * qp.Time(time.Microsecond)
	var l linger
	var now qp.Time
	l.most.Store(int64(most))
	require.Equal(t, most, l.end(0), "at first")
	pays := func(n int, each qp.Time) {
		for range n {
			now += each
			l.pays(now)
		}
	}
	pays(100, most/25)
	require.Equal(t, now+most+100*(most/25)/savedPart, l.end(now), "a part of what it took")
	pays(1, qp.Time(time.Hour))
	require.LessOrEqual(t, l.end(now), now+most+most/savedPart+now/savedPart, "a pause is no conversation")
	pays(100*savedPart, most)
	require.Equal(t, now+longest, l.end(now), "long")
	l.inVain()
	require.Equal(t, now+most, l.end(now), "one in vain")
}
