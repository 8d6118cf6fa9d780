package rdmacm

import (
	"errors"
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
)

// many is how many connections TestMany opens, and in a short run TestTwoProcesses.
var many = flag.Int("many", 500, "connections of TestMany, and with -short of TestTwoProcesses")

// perConnection is what both ends of a connection with small queues may cost: 32 KiB each.
const perConnection = 2 * 32 << 10

// resident is the process's anonymous memory in bytes.
func resident(t *testing.T) int {
	n, err := anonymous()
	if err != nil {
		t.Skip(err)
	}
	return n
}

func anonymous() (int, error) {
	runtime.GC()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == "RssAnon:" {
			n, err := strconv.Atoi(f[1])
			return n << 10, err
		}
	}
	return 0, errors.New("the system does not say RssAnon")
}

// TestMany opens connections between two devices of this process, of which each end has a queue
// pair, a completion queue and a protection domain of its own, and looks at the memory that they
// cost while they are open, and at what is left when they are closed.
func TestMany(t *testing.T) {
	_, name := wires["udp"]()
	nb, _ := wires["udp"]()
	a, b := newHost(t, name, nil), newHost(t, nb, nil)
	cfg := func(h *host) ConnConfig {
		return ConnConfig{Config: Config{Devices: []*roce.Device{h.dev}},
			Cap: roce.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}}
	}
	l, err := Listen(bg, b.at(0).String(), &ListenConfig{ConnConfig: cfg(b)})
	require.NoError(t, err)
	dial := cfg(a)
	before := resident(t)
	began := time.Now()
	conns := make([]*Conn, 2**many)
	open := func(i int) {
		c, err := Dial(bg, l.Addr().String(), &dial)
		require.NoError(t, err)
		s, err := l.Accept(bg)
		require.NoError(t, err)
		conns[2*i], conns[2*i+1] = c, s
	}
	inParallel(*many, open)
	opened := time.Since(began)
	each := (resident(t) - before) / *many
	began = time.Now()
	inParallel(*many, func(i int) {
		require.NoError(t, conns[2*i].Close(bg))
	})
	inParallel(*many, func(i int) { conns[2*i+1].Close(bg) })
	closed := time.Since(began)
	clear(conns)
	t.Logf("%d connections: %.0f opened and %.0f closed a second, %d bytes for both ends of one, %d bytes of one left",
		*many, float64(*many)/opened.Seconds(), float64(*many)/closed.Seconds(), each, (resident(t)-before) / *many)
	if each > perConnection && !testing.Short() && *many >= 1000 {
		t.Errorf("%d bytes for both ends of a connection, at most %d are wanted", each, perConnection)
	}
	require.NoError(t, l.Close())
}

// inParallel calls f with each number below n, a few at a time.
func inParallel(n int, f func(i int)) {
	var all sync.WaitGroup
	const workers = 8
	for w := range workers {
		all.Go(func() {
			for i := w; i < n; i += workers {
				f(i)
			}
		})
	}
	all.Wait()
}
