package perf

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/step"
)

// A message must not cost an allocation, in any loop. What opening devices and meeting the peer
// cost depends on what else goes on on the machine (addresses that are taken, attempts to connect),
// so a long run is compared with a short one, and the best of some tries counts.
func TestLoopsDoNotAllocate(t *testing.T) {
	if step.Raced {
		t.Skip("the race detector allocates")
	}
	const short, long, tries = 100, 2100, 5
	for _, test := range []string{"write-bw", "send-bw", "read-bw", "write-lat", "send-lat", "atomic-lat"} {
		for _, events := range []bool{false, true} {
			if events && test == "write-lat" {
				continue
			}
			run := func(n int) int {
				var before, after runtime.MemStats
				o := base(func(o *Options) { o.Iters, o.Size, o.Events = n, 8, events })
				runtime.ReadMemStats(&before)
				s, c := contest(t, test, o, o)
				runtime.ReadMemStats(&after)
				require.NoError(t, s.err)
				require.NoError(t, c.err)
				return int(after.Mallocs - before.Mallocs)
			}
			more := long
			for i := 0; i < tries && more > long/5; i++ {
				more = run(long) - run(short)
			}
			require.LessOrEqual(t, more, long/5, "%s: allocations that %d more messages cost", test, long-short)
		}
	}
}
