package perf

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"
)

// The lines must be perftest's to the byte: scripts cut columns out of them.
func TestLinesArePerftests(t *testing.T) {
	f := figures{Size: 65536, Iters: 5000, Peak: 12410.60, Avg: 8155.54, Rate: 0.130489}
	require.Equal(t, " 65536      5000             12410.60            8155.54\t\t   0.130489\n", f.line(false))
	f = figures{Size: 8, Iters: 1000, Peak: 0.01, Avg: 0.005, Rate: 0.000078}
	require.Equal(t, " 8          1000           0.010000            0.005000            0.000078\n", f.line(true))

	k, err := parseKey([]byte(keyExample))
	require.NoError(t, err)
	write, _ := Find("ib_write_bw")
	require.Equal(t, " local address: LID 0000 QPN 0x0011 PSN 0x5b3a2c RKey 0x0002b4 VAddr 0x007f1c2a5d1000\n"+
		" GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:00:00:01\n", k.line("local", write))
	read, _ := Find("read-lat")
	require.Contains(t, k.line("remote", read), " remote address: LID 0000 QPN 0x0011 PSN 0x5b3a2c OUT 0x01 RKey 0x0002b4 ")
	send, _ := Find("send-bw")
	require.Contains(t, k.line("local", send), "PSN 0x5b3a2c\n GID:")
}

func TestLatencyLine(t *testing.T) {
	h := hdrhistogram.New(1, longest, 3)
	for range 99 {
		require.NoError(t, h.RecordValue(8000))
	}
	require.NoError(t, h.RecordValue(20000))
	// The histogram keeps three digits, so the largest is 10.01.
	of := tally{size: 8, iters: 101, times: h, each: 2, spent: cost{CPU: 2 * time.Second, Elapsed: time.Second, Messages: 202, Bytes: 1616}}
	l := of.result()
	const ours = " \t\t4.00    \t\t10.01  \n"
	require.Equal(t, " 8       101          4.00           10.01        4.00     \t       4.06        \t0.60   \t\t4.00    \t\t10.01  "+
		ours, l.line(false))
	require.Equal(t, " 8             101            4950.50        101.00 "+ours, l.line(true))
	of.gaps = true
	l = of.result()
	require.Equal(t, " 8             101            4.06           101.00 "+ours, l.line(true))
	require.Equal(t, []bar{{4.0015, 99, 99}, {10.0075, 1, 100}}, of.bars())
}

// The peak is the best part of a run, which need not be all of it.
func TestPeak(t *testing.T) {
	ms := time.Millisecond
	s := stream{posts: []time.Duration{0, 0, 10 * ms, 10 * ms}, dones: []time.Duration{0, 10 * ms, 0, 12 * ms}}
	require.InDelta(t, 1000, s.peak(), 0.001) // the last two messages took 2 ms
}

// What comes before and after the window does not count.
func TestTheMarginsAreNotMeasured(t *testing.T) {
	o := Options{Duration: 4 * time.Second, Margin: time.Second}
	q := &queue{}
	s := stream{rig: &rig{o: o, queues: []*queue{q}}, size: 1 << 20, sends: true}
	s.sample.from, s.sample.to = o.window()
	for _, at := range []struct {
		ms   time.Duration
		done int
	}{{500, 100}, {1000, 1000}, {2000, 1500}, {2900, 2900}, {3100, 5000}} {
		s.now, q.done = at.ms*time.Millisecond, at.done
		s.mark()
	}
	f := s.figures()
	require.Equal(t, uint64(1900), f.Iters)
	require.InEpsilon(t, 1000, f.Avg, 1e-9, "MiB/s: 1900 MiB in 1.9 s")

	from, to := (&Options{Duration: 4 * time.Second}).window()
	require.Equal(t, []time.Duration{time.Second, 3 * time.Second}, []time.Duration{from, to})
}

// Programs read --json, so every field of it is explained.
func TestTheDocsHaveEveryField(t *testing.T) {
	measuring, err := os.ReadFile("../../../../docs/measuring.md")
	require.NoError(t, err)
	for _, of := range []any{report{}, bwResult{}, latResult{}, costResult{}, bar{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() {
				require.Contains(t, string(measuring), "`"+name+"`")
			}
		}
	}
}
