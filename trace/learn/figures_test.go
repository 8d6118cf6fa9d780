package learn

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
)

// TestFigures: the numbers in texts whose lessons compute them, as somebody has worked them out by
// hand.
func TestFigures(t *testing.T) {
	for name, want := range map[string][]string{
		"timeline":     {"a WRITE of 1024 bytes", "A frame of 1122 bytes", "takes 897 ns", "arrives 2897 ns"},
		"capabilities": {"One packet in 2^80"},
		"registration": {"2280 ns for 4 KiB and 191 us for 4 MiB", "takes 74 ns and 283 us", "is used 31 times"},
		"copies":       {"12.5 GB/s", "50 GB/s of memory traffic", "2.5 cores"},
		"caches":       {"4194304 entries", "32 MiB of table", "64 KiB, which always fit", "are 5.1 MB"},
		"wan":          {"20 ms, a round trip 40", "50 MB must be", "128 KiB each 40 ms are 26 Mbit/s", "1048 us", "code 14, 67 ms"},
		"compared":     {"26 bytes          82 bytes            110 bytes", "99.4 %            98.0 %              92.8 %"},
	} {
		text := strings.Join(strings.Fields(Find(name).Text), " ")
		for _, w := range want {
			require.Contains(t, text, strings.Join(strings.Fields(w), " "), name)
		}
	}
}

// What "wan" says of an ack timeout that is far below the round trip.
func TestTimeoutBelowTheRoundTrip(t *testing.T) {
	p := world.Run(func(w *world.World) {
		w.Delay = wanDelay
		a, b := two(w, qp.RC)
		a.QP.Attr.Timeout = 8
		w.Connect(a.QP, b.QP)
		_ = a.QP.PostSend(a.write(1, 8000, b, 0))
		finish(w, a)
	}, nil)
	require.Equal(t, qp.WCRetryExcErr, p.CompletionsOf("A")[0].Status)
	require.Greater(t, len(p.Packets), 10)
}
