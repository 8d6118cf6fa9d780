//go:build linux

package hub

// Processes that share an address: each serves and calls all others, while they are killed one
// after the other, and the hub too.
//
// Stages: what each of them does; starting and killing them; what must hold.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/hub"
	"github.com/goroce/goroce/roce/rsocket"
)

var (
	processes = flag.Int("processes", 8, "TestProcesses: how many share the address")
	lasting   = flag.Duration("lasting", 4*time.Second, "TestProcesses: for how long they are killed")
)

// partVar is the environment variable that makes the test's program another process of it: what it
// is, and its numbers.
const partVar = "GOROCE_HUB_TEST"

// firstPort is the port of process 0.
const firstPort = 7300

// init keeps the process's first thread, which a "leader" has end.
func init() {
	if os.Getenv(partVar) == "leader" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	part, rest, _ := strings.Cut(os.Getenv(partVar), " ")
	var err error
	switch part {
	case "":
		os.Exit(m.Run())
	case "hub":
		err = beHub()
	case "leader": // whose first thread ends
		fmt.Println("begins")
		go time.Sleep(time.Hour)
		syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
	case "another": // and then it becomes another program, which sleeps
		if _, err = roce.Open(rest, nil); err == nil {
			fmt.Println("begins")
			err = syscall.Exec("/bin/sleep", []string{"sleep", "1000"}, nil)
		}
	case "member":
		var m member
		if err = json.Unmarshal([]byte(rest), &m); err == nil {
			err = m.be()
		}
	case "stranger":
		var path, where string
		if _, err = fmt.Sscan(rest, &path, &where); err == nil {
			err = beStranger(path, where)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "***", part, rest, err)
		os.Exit(1)
	}
}

// beHub is the command "roce hub", as a process that needs one starts it.
func beHub() error {
	h, err := New(Config{})
	if errors.Is(err, ErrRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Println("hub")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return h.Serve(ctx)
}

// member is one of some processes: what it opens, and where it and the others serve.
type member struct {
	Device  string
	Lanes   int
	UDPPort int
	Number  int
	At      []netip.AddrPort
}

// String is what the environment variable says to such a process.
func (m member) String() string {
	b, _ := json.Marshal(m)
	return "member " + string(b)
}

// lone is one that calls itself alone.
func lone(where string, port int) string {
	at := netip.AddrPortFrom(netip.MustParseAddr(where), uint16(port))
	return member{Device: "hub:" + where, Lanes: 1, At: []netip.AddrPort{at}}.String()
}

// be serves what it is told as an echo, and calls the others, one after the other, with data of its
// own. It says how often that went well; one that is killed may refuse or vanish, but what comes
// back is right.
func (m *member) be() error {
	cfg := &roce.Config{Lanes: m.Lanes}
	cfg.Transport.UDPPort = m.UDPPort
	d, err := roce.Open(m.Device, cfg)
	if err != nil {
		return err
	}
	opt := &rsocket.Options{Devices: []*roce.Device{d}}
	l, err := rsocket.Listen(context.Background(), m.At[m.Number].String(), opt)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(20 * time.Second))
				io.Copy(c, c)
			}()
		}
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("begins")
	for n, good := 0, 0; ctx.Err() == nil; n++ {
		peer := rand.IntN(len(m.At))
		switch err := call(ctx, m.At[peer], opt, uint64(m.Number)<<32|uint64(n)); {
		case errors.Is(err, errWrong):
			return err
		case err == nil:
			good++
			fmt.Println("good", good, peer)
		}
	}
	return nil
}

var errWrong = errors.New("what came back is not what was sent")

// call sends some data to a process and compares what comes back.
func call(ctx context.Context, peer netip.AddrPort, opt *rsocket.Options, seed uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := (&rsocket.Dialer{Options: *opt}).Dial(ctx, peer.String())
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	sent := make([]byte, 8*(1+rand.IntN(8000)))
	for at := 0; at < len(sent); at += 8 {
		binary.BigEndian.PutUint64(sent[at:], seed*0x9e3779b97f4a7c15+uint64(at))
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.Write(sent)
		done <- err
	}()
	back := make([]byte, len(sent))
	_, err = io.ReadFull(c, back)
	if err = errors.Join(err, <-done); err != nil {
		return err
	}
	if !bytes.Equal(sent, back) {
		return errWrong
	}
	return nil
}

// part is one of the other processes.
type part struct {
	*exec.Cmd
	what  string
	lines chan string // closed when it has ended
}

// start starts one.
func start(t *testing.T, what string) *part {
	t.Helper()
	p := &part{Cmd: exec.Command(os.Args[0]), what: what, lines: make(chan string, 1<<16)}
	p.Env = append(os.Environ(), partVar+"="+what)
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case p.lines <- s.Text():
			default:
			}
		}
		close(p.lines)
	}()
	return p
}

// says waits for a line.
func (p *part) says(t *testing.T, what string) {
	t.Helper()
	for line := range p.lines {
		if line == what {
			return
		}
	}
	t.Fatalf("%s ended before it said %q", p.what, what)
}

// kill kills it, and waits until the kernel has taken it apart.
func (p *part) kill() {
	p.Process.Kill()
	p.Wait()
}

// good counts the calls that went well, until all of some peers have answered or the process ends.
func (p *part) good(of map[int]bool) (n int) {
	for line := range p.lines {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "good" {
			n++
			peer, _ := strconv.Atoi(f[2])
			if delete(of, peer); len(of) == 0 {
				return n
			}
		}
	}
	return n
}

// TestProcesses: processes that share addresses call each other, while one after the other is
// killed and begun anew, and now and then the hub. No byte is wrong, nobody is disturbed by
// another's end, and afterwards all reach all.
func TestProcesses(t *testing.T) {
	own := func(i byte) string {
		return netip.AddrFrom4([4]byte{127, i, byte(os.Getpid() >> 8), byte(os.Getpid())}).String()
	}
	for _, c := range []struct {
		name    string
		devices []string // in turn
		at      []string // where they serve
		lanes   int
		port    int
	}{
		{"one address", []string{"hub:" + own(81)}, []string{own(81)}, 1, 0},
		{"two addresses", []string{"hub:" + own(85), "hub:" + own(86)}, []string{own(85), own(86)}, 1, 0},
		{"an address of IPv6, two lanes", []string{"hub:::1"}, []string{"::1"}, 2, ownPort},
		{"an interface", []string{"hub:lo"}, []string{"127.0.0.1", "::1"}, 1, ownPort},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := make([]member, *processes)
			var at []netip.AddrPort
			for i := range list {
				at = append(at, netip.AddrPortFrom(netip.MustParseAddr(c.at[i%len(c.at)]), uint16(firstPort+i)))
			}
			for i := range list {
				list[i] = member{c.devices[i%len(c.devices)], c.lanes, c.port, i, at}
			}
			playProcesses(t, list, len(c.devices))
		})
	}
}

func playProcesses(t *testing.T, members []member, addresses int) {
	t.Setenv(hub.FolderVar, filepath.Join(t.TempDir(), "hub"))
	t.Setenv(hub.ProgramVar, "none")
	h := start(t, "hub")
	h.says(t, "hub")
	all := make([]*part, len(members))
	begin := func(i int) {
		all[i] = start(t, members[i].String())
		all[i].says(t, "begins")
	}
	for i := range all {
		begin(i)
	}
	killed, hubs := 0, 0
	for over := time.Now().Add(*lasting); time.Now().Before(over); killed++ {
		i := rand.IntN(len(all))
		if killed%8 == 7 {
			h.kill()
			all[i].kill() // while there is none
			h = start(t, "hub")
			h.says(t, "hub")
			hubs++
		} else {
			all[i].kill()
		}
		begin(i)
		all[(i+1)%len(all)].good(map[int]bool{i: true}) // a neighbour reaches it
	}
	s, here, err := Ask(t.Context())
	require.NoError(t, err)
	require.Len(t, s.Addresses, addresses)
	require.Len(t, here, len(all), "each has its slot, and nobody else")
	for i, p := range all {
		peers := map[int]bool{}
		for j := range all {
			peers[j] = true
		}
		p.good(peers)
		require.Empty(t, peers, "process %d has not reached these", i)
	}
	for _, p := range all {
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		require.NoError(t, p.Wait(), p.what)
	}
	require.NoError(t, h.Process.Signal(syscall.SIGTERM))
	require.NoError(t, h.Wait())
	t.Logf("%d processes were killed, and %d hubs; of the last one: %+v", killed, hubs, s.Addresses)
}
