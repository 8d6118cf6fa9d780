package main

// Every file that a command writes packets into: Wireshark opens it, and we read the same from it.

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/tshark"
	"github.com/goroce/goroce/qp/qptest"
	"github.com/goroce/goroce/trace"
)

// writers are all that write such files. Each writes into the folder, and returns the names.
var writers = []struct {
	name  string
	write func(t *testing.T, dir string) []string
}{
	{"demo", func(t *testing.T, dir string) []string { return demoFile(t, dir) }},
	{"demo with records", func(t *testing.T, dir string) []string { return demoFile(t, dir, "--records") }},
	{"perf, both ends", func(t *testing.T, dir string) []string {
		return bothEnds(t, dir, "perf send-lat -R -e -n 20 -p 7501 --dev udp:127.81.1.2",
			"perf send-lat -R -e -n 20 -p 7501 --dev udp:127.81.1.1 127.81.1.2")
	}},
	// the server loses packets: a client that does may leave though the server lacks an ACK of it
	{"rping with losses, both ends", func(t *testing.T, dir string) []string {
		return bothEnds(t, dir, "rping -s -d -p 7502 -a 127.81.1.4 --fault tx:10%:drop",
			"rping -c -p 7502 -I 127.81.1.3 -a 127.81.1.4 -C 20")
	}},
	{"decode --annotate", func(t *testing.T, dir string) []string {
		name := filepath.Join(dir, "annotated.pcapng")
		_, err := execute(t, "trace", "decode", "--annotate", name, demoFile(t, dir, "--records")[0])
		require.NoError(t, err)
		return []string{name}
	}},
	{"capture -w", captureFile},
	{"a simulated world", func(t *testing.T, dir string) []string {
		var c qptest.Capture
		require.NoError(t, qptest.NewPlan(5).Play(&c, nil, nil))
		name, err := c.WriteFile(dir, "world")
		require.NoError(t, err)
		return []string{name}
	}},
}

// TestWiresharkOpens every one of them.
func TestWiresharkOpens(t *testing.T) {
	tshark.Path(t)
	for _, w := range writers {
		t.Run(w.name, func(t *testing.T) {
			for _, name := range w.write(t, t.TempDir()) {
				n := packetsOf(t, name)
				require.Greater(t, n, 2)
				tshark.Opens(t, name, n)
			}
		})
	}
}

func demoFile(t *testing.T, dir string, more ...string) []string {
	name := filepath.Join(dir, "demo.pcapng")
	_, err := execute(t, append([]string{"demo", "--quiet", "--pcap", name}, more...)...)
	require.NoError(t, err)
	return []string{name}
}

// TestRecordsAreShown: what the device did is shown between its packets, from the request to the
// completion, and analyze counts it.
func TestRecordsAreShown(t *testing.T) {
	name := demoFile(t, t.TempDir(), "--records")[0]
	out, err := execute(t, "trace", "timeline", name)
	require.NoError(t, err)
	at := 0
	for _, want := range []string{"state RTS", "request SEND wr 0, 10000 B", "packet 1 ", "RC SEND_FIRST", "ACK msn 1",
		"completion SEND wr 0: success", "request RDMA_READ", "RDMA_READ_RESPONSE_LAST", "completion RDMA_READ wr 0: success"} {
		i := strings.Index(out[at:], want)
		require.GreaterOrEqual(t, i, 0, "%q is not behind the others in\n%s", want, out)
		at += i
	}
	out, err = execute(t, "trace", "analyze", name)
	require.NoError(t, err)
	require.Regexp(t, `as udp:127\.0\.0\.\d+ has recorded: 6 requests began;.* 6 completions: success`, out)
	out, err = execute(t, "trace", "timeline", "--json", name)
	require.NoError(t, err)
	require.Contains(t, out, `"record":"completion"`)
	_, err = execute(t, "trace", "timeline", "-")
	require.ErrorContains(t, err, "name a file")
}

// packetsOf counts the records of a file.
func packetsOf(t *testing.T, name string) (n int) {
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	src, err := trace.NewSource(file)
	require.NoError(t, err)
	for {
		p, err := src.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		require.NoError(t, err)
		require.Empty(t, p.Problem)
		n = p.Number
	}
}

// firstWord is a writer that tells when it is first written to.
type firstWord struct {
	once sync.Once
	said chan struct{}
}

func (f *firstWord) Write(p []byte) (int, error) {
	f.once.Do(func() { close(f.said) })
	return len(p), nil
}

// run runs a command line whose words have no spaces.
func run(ctx context.Context, out io.Writer, line string, more ...string) error {
	root := newRoot()
	root.SetOut(out)
	root.SetErr(out)
	root.SetArgs(append(strings.Fields(line), more...))
	return root.ExecuteContext(ctx)
}

// bothEnds runs a server, and a client when the server has said something, with a file each.
func bothEnds(t *testing.T, dir, server, client string) []string {
	names := []string{filepath.Join(dir, "server.pcapng"), filepath.Join(dir, "client.pcapng")}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, ended := &firstWord{said: make(chan struct{})}, make(chan error, 1)
	go func() { ended <- run(ctx, first, server, "--pcap", names[0], "--records") }()
	select {
	case <-first.said:
		require.NoError(t, run(ctx, io.Discard, client, "--pcap", names[1], "--records"))
		require.NoError(t, <-ended)
	case err := <-ended:
		t.Fatal("the server has ended: ", err)
	}
	return names
}

// captureFile captures the loopback interface while a demo goes on there.
func captureFile(t *testing.T, dir string) []string {
	if _, err := net.ListenPacket("ip4:255", "127.0.0.1"); err != nil {
		t.Skip("needs root (CAP_NET_RAW): ", err)
	}
	name := filepath.Join(dir, "captured.pcapng")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, io.Discard, "trace capture lo -w", name) }()
	for begun := false; !begun; {
		select {
		case err := <-ended:
			t.Fatal("the capture has ended: ", err)
		case <-time.After(time.Millisecond): // between two looks
			info, err := os.Stat(name)
			begun = err == nil && info.Size() > 0
		}
	}
	_, err := execute(t, "demo", "--quiet")
	require.NoError(t, err)
	stop()
	require.NoError(t, <-ended)
	return []string{name}
}
