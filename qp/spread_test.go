package qp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

// TestSpread: of a long window that opens at once a burst leaves, and the rest over the round trip,
// sooner than it lasts; a window of a short path leaves as it is.
func TestSpread(t *testing.T) {
	const ms, packets = Time(1_000_000), 4096
	for _, c := range []struct {
		trip   Time
		spread bool
	}{{ms / 10, false}, {10 * ms, true}} {
		a, b := pair(t, 256*packets, wire.MTU256)
		a.q.rec.srtt, a.q.rec.base = c.trip, c.trip
		a.q.rec.window.resize(packets)
		a.post(t, SendWR{Opcode: WRWrite, SGL: []SGE{a.sge(0, 256*packets)}, RemoteAddr: b.reg.IOVA(), RKey: b.reg.RKey()})
		a.e.HandlePosted(0)
		sent := func(now Time) (n int) {
			for {
				a.out.Reset()
				k := a.e.PollTransmit(now, a.out)
				if n += k; k == 0 {
					return n
				}
			}
		}
		n, now := sent(0), Time(0)
		if !c.spread {
			require.Equal(t, packets, n)
			continue
		}
		require.LessOrEqual(t, n, spreadBurst+1)
		for n < packets && now < c.trip {
			now = a.e.NextTimeout()
			a.e.HandleTimeout(now)
			k := sent(now)
			require.LessOrEqual(t, k, spreadBurst)
			n += k
		}
		require.Equal(t, packets, n)
		require.Greater(t, now, c.trip/2)
		require.Less(t, now, c.trip)
	}
}
