package trace

// Captures of a million packets: seconds, and memory that does not grow with them.

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/filter"
	"github.com/goroce/goroce/trace/page"
	"github.com/goroce/goroce/wire"
)

var packets = flag.Int("packets", 30_000, "how many packets the capture of TestLarge has; the figures of a million need -v")

// large writes a capture of n packets: WRITEs of 4 KiB at path MTU 1024 over 16 connections, each
// acknowledged, every hundredth packet sent again after a NAK.
func large(t testing.TB, n int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "large.pcapng")
	file, err := os.Create(name)
	require.NoError(t, err)
	buffered := bufio.NewWriterSize(file, 1<<20)
	w := trace.NewWriter(buffered)
	var psn [16]wire.PSN
	now := int64(1_700_000_000_000_000_000)
	rec := trace.Record{Link: trace.LinkRaw}
	put := func(from, qp uint32, op wire.Opcode, p wire.PSN, n int, syndrome wire.Syndrome) {
		rec.Data = packet(t, rec.Data[:0], from, qp, op, p, n, syndrome)
		now += 700
		rec.Time = now
		require.NoError(t, w.Write(&rec))
	}
	for i := 0; i < n; i += 5 {
		c := uint32(i / 5 % 16)
		first := psn[c]
		for k, op := range [...]wire.Opcode{wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteMiddle, wire.RCWriteLast} {
			put(1, 0x100+c, op, first.Add(uint32(k)), 1024, 0)
		}
		psn[c] = first.Add(4)
		if i%100 == 0 {
			put(2, 0x200+c, wire.RCAcknowledge, first.Add(3), 0, wire.SynNAKSeq)
			put(1, 0x100+c, wire.RCWriteLast, first.Add(3), 1024, 0)
		}
		put(2, 0x200+c, wire.RCAcknowledge, first.Add(3), 0, wire.SynACK)
	}
	require.NoError(t, w.Flush())
	require.NoError(t, buffered.Flush())
	require.NoError(t, file.Close())
	return name
}

// packet makes an IP packet.
func packet(t testing.TB, dst []byte, from, qp uint32, op wire.Opcode, psn wire.PSN, n int, syndrome wire.Syndrome) []byte {
	ends := [2]wire.GID{{10: 0xff, 11: 0xff, 12: 10, 15: 1}, {10: 0xff, 11: 0xff, 12: 10, 15: 2}}
	path, err := wire.NewPath(ends[from-1], ends[2-from], uint16(0xc000+qp), 2, 64, 0)
	require.NoError(t, err)
	size := wire.Head4Len + wire.BodyLen(op, n)
	dst = append(dst, make([]byte, size)...)
	f := wire.Frame{Head: dst[:wire.Head4Len], Body: dst[wire.Head4Len:]}
	path.PutHead(f.Head, len(f.Body), 0)
	var p wire.Packet
	p.Lay(&f, op, n)
	p.BTH.Put(op, 0, 0, wire.DefaultPKey, qp, psn)
	if h := p.RETH(); h != nil {
		h.Put(0x10000, 7, 4096)
	}
	if h := p.AETH(); h != nil {
		h.Put(syndrome, psn)
	}
	wire.Seal(&f)
	return dst
}

// TestLarge: decode, analyze, ladder --html and a window of serve keep what memory they have.
func TestLarge(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as users have it, whatever GOGC says
	name := large(t, *packets)
	ctx := context.Background()
	html := filepath.Join(t.TempDir(), "large.html")
	for _, c := range []struct {
		what string
		run  func(out io.Writer) error
	}{
		{"decode", func(out io.Writer) error { return Decode(ctx, out, name, DecodeOptions{}) }},
		{"decode --json", func(out io.Writer) error { return Decode(ctx, out, name, DecodeOptions{JSON: true}) }},
		{"analyze", func(out io.Writer) error { return Analyze(ctx, out, name, Choice{}, false) }},
		{"serve, the end", func(io.Writer) error {
			w := &page.Window{From: *packets - 100, Count: page.MaxCount}
			return readWindow(ctx, name, Choice{}, w)
		}},
		{"serve, the verdict", func(io.Writer) error { return readStudy(ctx, name, page.NewStudy()) }},
		{"serve, filtered", func(io.Writer) error {
			f, err := filter.Parse("infiniband.aeth.syndrome == 0x60 && frame.number > 100")
			require.NoError(t, err)
			return readWindow(ctx, name, Choice{}, &page.Window{Count: page.MaxCount, Filter: f})
		}},
		{"ladder --html", func(out io.Writer) error {
			return Ladder(ctx, out, name, LadderOptions{HTML: html, Rows: page.MaxCount})
		}},
	} {
		var out counter
		most, stop := watchHeap()
		began := time.Now()
		require.NoError(t, c.run(&out), c.what)
		took := time.Since(began)
		stop()
		t.Logf("%-14s %d packets in %v, %d MB of heap at most, %d MB of output",
			c.what, *packets, took.Round(time.Millisecond), most()>>20, out.n>>20)
		require.Less(t, most(), uint64(200<<20), c.what)
	}
	info, err := os.Stat(html)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(6<<20))
	var report bytes.Buffer
	require.NoError(t, Analyze(ctx, &report, name, Choice{}, false))
	require.Contains(t, report.String(), "went back")
}

// counter counts what is written.
type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) { c.n += int64(len(b)); return len(b), nil }

// watchHeap looks at the heap until it is stopped.
func watchHeap() (most func() uint64, stop func()) {
	runtime.GC()
	done, gone := make(chan struct{}), make(chan struct{})
	var top uint64
	go func() {
		defer close(gone)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			top = max(top, m.HeapAlloc)
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return func() uint64 { return top }, func() { close(done); <-gone }
}
