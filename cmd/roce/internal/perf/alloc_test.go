package perf

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// A message must not cost an allocation, in any loop: counted over runs of two lengths. What meeting the peer costs
// depends on how often it is tried.
func TestLoopsDoNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	const short, long = 100, 5100
	for _, test := range []string{"write-bw", "send-bw", "read-bw", "write-lat", "send-lat", "atomic-lat"} {
		for _, events := range []bool{false, true} {
			if events && test == "write-lat" {
				continue
			}
			run := func(n int) uint64 {
				var before, after runtime.MemStats
				o := base(func(o *Options) { o.Iters, o.Size, o.Events = n, 8, events })
				runtime.ReadMemStats(&before)
				s, c := contest(t, test, o, o)
				runtime.ReadMemStats(&after)
				require.NoError(t, s.err)
				require.NoError(t, c.err)
				return after.Mallocs - before.Mallocs
			}
			run(short)
			few, many := run(short), run(long)
			require.Less(t, float64(many)-float64(few), 0.2*(long-short), "%s: %d allocations for %d messages, %d for %d", test, few, short, many, long)
		}
	}
}
