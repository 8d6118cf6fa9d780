package qp

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

// TestStartPSN: whatever numbers are drawn and wherever lives end, around the wrap too, the PSNs of
// the last life are behind the next one's start, by less than half the circle less what a READ may
// be ahead; and it takes staleSpan packets to come to those of the two before.
func TestStartPSN(t *testing.T) {
	a, b := newEnd(t, "10.0.0.1", 1, 1<<10), newEnd(t, "10.0.0.2", 2, 1<<10)
	rnd := rand.New(rand.NewPCG(1, 2))
	var near wire.PSN // draws fall near here as often as not
	a.e.cfg.Rand = func() uint64 {
		if rnd.IntN(2) == 0 {
			return uint64(near) + rnd.Uint64N(1<<18) - 1<<17
		}
		return rnd.Uint64()
	}
	var ends []wire.PSN
	for life := range 2000 {
		start := a.q.StartPSN()
		for i, end := range ends[max(0, len(ends)-maxEnded):] {
			ahead := end.Sub(start)
			if i == min(len(ends), maxEnded)-1 {
				require.LessOrEqual(t, ahead, int32(0), "life %d", life)
				require.Greater(t, ahead, int32(-maxAhead), "life %d", life)
			} else {
				require.False(t, ahead > 0 && ahead < staleSpan, "life %d: %d", life, ahead)
			}
		}
		a.connect(t, b, wire.MTU256)
		a.q.rec.top = start.Add(uint32(rnd.IntN(1 << uint(rnd.IntN(24)))))
		near = a.q.rec.top
		ends = append(ends, a.q.rec.top)
		require.NoError(t, a.e.ModifyQP(0, a.q, &QPAttr{State: StateReset}, AttrState))
		before := a.q.StartPSN()
		require.NoError(t, a.e.ModifyQP(0, a.q, &QPAttr{State: StateReset}, AttrState))
		require.Equal(t, before, a.q.StartPSN(), "RESET of what has not lived draws no other")
	}
}
