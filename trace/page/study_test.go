package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/filter"
	"github.com/goroce/goroce/trace/timeline"
)

// retries is a capture with losses, and with what the device has recorded.
const retries = "../../testdata/captures/retries.pcapng"

// walk calls f with each packet of a capture until it returns false, and told with each record.
func walk(t testing.TB, name string, f func(p *trace.Packet) bool, told func(x *timeline.Entry)) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	src, err := trace.NewSource(bytes.NewReader(data))
	require.NoError(t, err)
	src.EachNotes(func(text []byte) {
		for line := range bytes.Lines(text) {
			if x, err := timeline.ParseEntry(line); err == nil {
				told(&x)
			}
		}
	})
	for {
		p, err := src.Next()
		if errors.Is(err, io.EOF) || err == nil && !f(p) {
			return
		}
		require.NoError(t, err)
	}
}

func studyOf(t testing.TB, name string) *Study {
	s := NewStudy()
	walk(t, name, func(p *trace.Packet) bool {
		s.Add(p)
		return true
	}, s.Told)
	return s
}

// TestVerdict: findings have what they rest on, problems are packets, and graphs have them.
func TestVerdict(t *testing.T) {
	v := studyOf(t, retries).verdict()
	require.Contains(t, v.Verdict, "signs of loss")
	require.NotEmpty(t, v.Problems)
	found, marked := 0, uint64(0)
	for _, c := range v.Connections {
		for _, w := range c.Ways {
			for _, f := range w.Findings {
				found++
				require.NotEmpty(t, f.Reason, "%+v", f)
				for _, s := range f.Reason {
					require.NotZero(t, s.Packet)
					require.NotEmpty(t, s.Shows)
				}
			}
		}
	}
	require.Equal(t, found, len(v.Problems))
	g := studyOf(t, retries).graph(0)
	require.LessOrEqual(t, len(g.Bins), 512)
	packets := uint64(0)
	for _, b := range g.Bins {
		packets += b.N
		marked += uint64(b.Marks["again"][0])
	}
	require.Equal(t, v.Connections[0].Ways[0].Packets, packets)
	require.EqualValues(t, v.Connections[0].Ways[0].Counts["packets sent again"], marked)
	require.Nil(t, studyOf(t, retries).graph(99))
}

// TestRecords: what the device has recorded is on the line of its host, between the packets that it
// is about.
func TestRecords(t *testing.T) {
	w := &Window{Count: 100}
	walk(t, retries, w.Add, w.Told)
	p := w.play(false)
	require.True(t, p.More)
	kinds := map[string]int{}
	for i, e := range p.Entries {
		kinds[e.Kind]++
		require.Equal(t, "127.0.0.2", p.Hosts[e.Host].Name)
		require.LessOrEqual(t, e.Time, p.Packets[len(p.Packets)-1].Sent)
		require.True(t, i == 0 || e.Time >= p.Entries[i-1].Time)
	}
	require.Equal(t, 3, kinds["state"])
	require.Greater(t, kinds["request"], 4)
	require.Zero(t, kinds["sent"])

	w = &Window{From: 200, Count: 50}
	walk(t, retries, w.Add, w.Told)
	for _, e := range w.play(false).Entries {
		require.GreaterOrEqual(t, e.Time, w.packets[0].Sent)
	}
}

// TestFilter: a window has what the expression leaves, and what is wrong with it, whatever lies
// between.
func TestFilter(t *testing.T) {
	f, err := filter.Parse("infiniband.aeth.syndrome == 0x60")
	require.NoError(t, err)
	w := &Window{Filter: f}
	walk(t, retries, w.Add, w.Told)
	p := w.play(false)
	require.Len(t, p.Packets, 3)
	require.Contains(t, p.Packets[0].Wrong, "was expected")
	require.Empty(t, p.Entries)
	require.True(t, p.Chosen)
}

// TestStudied: the server reads the capture once for its verdict, and says what is wrong with an
// expression.
func TestStudied(t *testing.T) {
	read := 0
	host, token := serve(t, &Site{
		Read: func(_ context.Context, w *Window) error { walk(t, retries, w.Add, w.Told); return nil },
		Study: func(_ context.Context, s *Study) error {
			read++
			*s = *studyOf(t, retries)
			return nil
		},
	})
	var v struct{ Problems []int }
	for range 2 {
		r, text := request(t, "GET", host, "/verdict", token)
		require.Equal(t, 200, r.StatusCode)
		require.NoError(t, json.Unmarshal([]byte(text), &v))
	}
	require.Equal(t, 1, read)
	require.NotEmpty(t, v.Problems)
	r, text := request(t, "GET", host, "/graph?flow=0", token)
	require.Equal(t, 200, r.StatusCode)
	require.Contains(t, text, `"nak"`)
	r, text = request(t, "GET", host, "/play?filter="+url.QueryEscape("ip.src == nobody"), token)
	require.Equal(t, 400, r.StatusCode)
	require.Contains(t, text, `"nobody" is no address`)
	r, text = request(t, "GET", host, "/play?filter="+url.QueryEscape("infiniband.aeth.syndrome == 0x60"), token)
	require.Equal(t, 200, r.StatusCode)
	require.Contains(t, text, `"chosen":true`)
	r, _ = request(t, "GET", host, "/verdict", "")
	require.Equal(t, 403, r.StatusCode)
}

// TestSize: a page that is one file is under 6 MB, with as many packets as there is room for.
func TestSize(t *testing.T) {
	w := &Window{Count: MaxCount, Study: NewStudy()}
	n := 0
	for range 22 {
		walk(t, retries, func(p *trace.Packet) bool {
			n++
			p.Number, p.Time = n, p.Time+int64(n)
			for i := range p.Wire.Payload { // nothing that could be compressed
				p.Wire.Payload[i] = byte(n*i*i>>3 ^ n>>2 ^ i*7919)
			}
			w.Study.Add(p)
			return w.Add(p)
		}, w.Told)
	}
	var b bytes.Buffer
	require.NoError(t, Write(&b, w))
	require.Less(t, b.Len(), maxSize)
	require.Greater(t, b.Len(), maxSize/2)
	t.Logf("%d packets in %d bytes", len(w.packets), b.Len())
}
