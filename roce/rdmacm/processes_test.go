package rdmacm

// Many connections between two processes: the test's, which dials, and another run of the same
// program, which listens and answers what it is asked on its standard input.

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goroce/goroce/roce"
)

// otherProcess is the environment variable that makes this program the one that listens, on the
// address that it has.
const otherProcess = "GOROCE_RDMACM_ANSWERS"

// small is a connection with small queues.
var small = roce.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}

// answer is the process that listens. It prints its address, and to "open" and "closed", with a
// number of connections, its memory when there are so many, and when they are over. At the end of
// its input it looks whether anything is left.
func answer(at string) {
	l, err := Listen(bg, at+":0", &ListenConfig{ConnConfig: ConnConfig{Cap: small}})
	check(err)
	fmt.Println(l.Addr())
	var conns []*Conn
	asks := bufio.NewReader(os.Stdin)
	for {
		var what string
		var n int
		if _, err := fmt.Fscanln(asks, &what, &n); err == io.EOF {
			break
		} else {
			check(err)
		}
		switch what {
		case "open":
			for len(conns) < n {
				c, err := l.Accept(bg)
				check(err)
				conns = append(conns, c)
			}
		case "closed":
			inParallel(len(conns), func(i int) {
				<-conns[i].Done()
				check(conns[i].Close(bg))
			})
			conns = nil
		}
		memory, err := anonymous()
		check(err)
		fmt.Println(memory)
	}
	check(l.Close())
	check(goleak.Find())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// connections is how many TestTwoProcesses opens: 10,000, or few in a short run.
func connections() int {
	if testing.Short() {
		return *many
	}
	return 10_000
}

// TestTwoProcesses opens connections to another process, and closes them: how many a second, what
// one costs in memory at either end, and that nothing is left at either.
func TestTwoProcesses(t *testing.T) {
	resident(t) // or skip
	pid := os.Getpid()
	at := func(i int) string { return fmt.Sprintf("127.%d.%d.%d", 130+pid>>8%120, pid%256, i) }
	ctx, cancel := context.WithTimeout(bg, 5*time.Minute) // only ends what would hang
	defer cancel()
	other := exec.CommandContext(ctx, os.Args[0])
	other.Env = append(os.Environ(), otherProcess+"="+at(245))
	other.Stderr = os.Stderr
	in, err := other.StdinPipe()
	require.NoError(t, err)
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	addr := strings.TrimSpace(line)
	ask := func(what string, n int) (memory int) {
		_, err := fmt.Fprintln(in, what, n)
		require.NoError(t, err)
		_, err = fmt.Fscanln(lines, &memory)
		require.NoError(t, err)
		return memory
	}

	cfg := &ConnConfig{Local: netip.MustParseAddr(at(246)), Cap: small}
	warm, err := Dial(ctx, addr, cfg)
	require.NoError(t, err)
	theirs, ours := ask("open", 1), resident(t)
	many := connections()
	conns := make([]*Conn, many)
	began := time.Now()
	opening := make(chan int, 1)
	go func() { opening <- ask("open", 1+many) }()
	inParallel(many, func(i int) {
		c, err := Dial(ctx, addr, cfg)
		require.NoError(t, err)
		conns[i] = c
	})
	opened := time.Since(began)
	theirs, ours = (<-opening-theirs)/many, (resident(t)-ours)/many
	began = time.Now()
	closing := make(chan int, 1)
	go func() { closing <- ask("closed", 1+many) }()
	var all sync.WaitGroup
	all.Go(func() { require.NoError(t, warm.Close(ctx)) })
	inParallel(many, func(i int) { require.NoError(t, conns[i].Close(ctx)) })
	all.Wait()
	<-closing
	closed := time.Since(began)
	clear(conns)
	require.NoError(t, in.Close())
	require.NoError(t, other.Wait())
	t.Logf("%d connections: %.0f opened and %.0f closed a second; %d bytes of memory for one here, %d there",
		many, float64(many)/opened.Seconds(), float64(many)/closed.Seconds(), ours, theirs)
	if max(ours, theirs) > perConnection/2 && !testing.Short() && many >= 1000 {
		t.Errorf("%d and %d bytes for the ends of a connection, at most %d are wanted", ours, theirs, perConnection/2)
	}
}
