package rstream

import (
	"cmp"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goroce/goroce/internal/netns"
)

func TestMain(m *testing.M) {
	netns.Own()
	goleak.VerifyTestMain(m)
}

// TestRun: both programs, with every byte compared, over the stream and over TCP.
func TestRun(t *testing.T) {
	for _, ways := range [][]string{{"verify"}, {"v", "async"}, {"v", "socket"}} {
		t.Run(strings.Join(ways, ","), func(t *testing.T) {
			o := Options{Bind: "127.77.1.1", Port: freePort(t), Count: 20, Iters: 3, Size: "70000", Tests: ways, KeepAlive: 1}
			server, client := &run{Options: o, out: io.Discard}, o
			client.Server, client.Bind = o.Bind, "127.77.1.2"
			own, err := server.parse()
			require.NoError(t, err)
			s, err := server.meet(t.Context()) // from here on it listens
			require.NoError(t, err)
			if s != nil {
				defer s.Close()
			}
			defer server.listener.Close()
			done := make(chan error)
			go func() { done <- server.play(t.Context(), s, []test{*own}) }()
			var out strings.Builder
			require.NoError(t, Run(t.Context(), &out, client))
			require.NoError(t, <-done)
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			require.Len(t, lines, 2)
			require.Equal(t, "name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer", lines[0])
			require.Regexp(t, `^custom    68k     20      3       8m  +\d+\.\d\ds +\d+\.\d\d +\d+\.\d\d$`, lines[1])
		})
	}
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.77.1.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestInterrupted: who is interrupted while it waits says so.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrUnexpectedEOF)
	require.ErrorIs(t, Run(ctx, io.Discard, Options{Bind: "127.77.1.3", Port: DefaultPort}), io.ErrUnexpectedEOF)
}

// TestSeries: sizes and counts are those of rstream, which are not exchanged.
func TestSeries(t *testing.T) {
	r := &run{}
	require.Equal(t, []test{{"64_lat", 64, 1, 100_000}, {"4k_lat", 4096, 1, 10_000}, {"64k_lat", 65536, 1, 1000},
		{"1m_lat", 1 << 20, 1, 100}}, r.series(latency))
	require.Equal(t, test{"1m_bw", 1 << 20, 100, 1}, r.series(bandwidth)[3])
	r.all = true
	all := r.series(bandwidth)
	require.Len(t, all, 33)
	require.Equal(t, test{"1.5k_bw", 1536, 10_000, 1}, all[8])
	require.Equal(t, test{"6m_bw", 6 << 20, 100, 1}, all[32])
}

// TestOptions: what is wrong is named.
func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"-T x":              {Tests: []string{"x"}},
		"-S many":           {Size: "many"},
		"-S 0":              {Size: "0"},
		"-I -1":             {Iters: -1},
		"-C -1":             {Count: -1},
		"-B":                {Buffer: -1},
		"-T socket is TCP":  {Tests: []string{"socket"}, Dev: "udp:lo"},
		"Config.SendBuffer": {Buffer: 100, Bind: "127.77.1.4", Port: DefaultPort},
		"nowhere":           {Dev: "udp:nowhere"},
		"-p 65536":          {Port: 1 << 16},
	} {
		o.Port = cmp.Or(o.Port, DefaultPort)
		err := Run(t.Context(), io.Discard, o)
		require.ErrorContains(t, err, want)
	}
}
