package interop

// Duels: a program of ours on the host against one of the verbs' in the guest with rxe0, over the
// lab's network.
//
// Stages of the suite: build roce once, boot the lab once (by the first test that wants it), and
// again where a test has left its guest dead. Stages of a duel: start the end that serves, wait
// until it listens, start the other, wait for both, look at what they printed. When a duel is lost,
// both ends' output is shown and the packets that the host saw are kept in a file. A guest whose
// kernel panics has judged nothing: another plays the duel once more, and the suite's end says so.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/nobody"
	"github.com/goroce/goroce/interop/lab"
)

// arena is where duels take place.
type arena struct {
	*lab.Lab
	dir  string
	roce string   // our program
	more []string // others, in dir
	gid  string   // row of rxe0's GID table with the guest's IPv4 address
	port atomic.Int32

	panics []string // the tests in which a guest's kernel panicked

	// What another guest gets too: files, by their places there, and how its network is spoiled.
	carried map[string]string
	weather string
}

var shared struct {
	once sync.Once
	*arena
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if a := shared.arena; a != nil {
		a.close()
		for _, test := range a.panics {
			fmt.Println("the guest's kernel panicked, and another guest played on:", test)
		}
	}
	os.RemoveAll(replaced.folder)
	os.Exit(code)
}

// arenaKernel is the kernel whose rxe is the peer: the lab's usual one, or what the environment
// says, such as GOROCE_LAB_KERNEL=newest GOROCE_LAB_SUITE=trixie-backports.
var arenaKernel = lab.Config{Kernel: os.Getenv("GOROCE_LAB_KERNEL"), Suite: os.Getenv("GOROCE_LAB_SUITE")}

// theArena returns the arena of all tests with a guest that lives, or skips.
func theArena(t *testing.T) *arena {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a virtual machine")
	}
	lab.Require(t)
	shared.once.Do(func() { shared.arena, shared.err = newArena() })
	require.NoError(t, shared.err)
	if shared.arena.dead() {
		shared.err = shared.arena.boot()
		require.NoError(t, shared.err)
	}
	return shared.arena
}

func newArena() (*arena, error) {
	a := &arena{}
	a.port.Store(20000)
	var err error
	if a.dir, err = os.MkdirTemp("", "goroce-interop-"); err != nil {
		return nil, err
	}
	if err := a.build(); err != nil {
		return nil, err
	}
	return a, a.boot()
}

// boot begins with a guest, or goes on with another one.
func (a *arena) boot() error {
	if a.Lab != nil {
		a.Lab.Close()
	}
	var err error
	if a.Lab, err = lab.Start(context.Background(), arenaKernel); err != nil {
		return err
	}
	index, err := a.GIDIndex(netip.MustParseAddr(lab.GuestIPv4))
	if err != nil {
		return err
	}
	a.gid = strconv.Itoa(index)
	return a.furnish(context.Background())
}

// furnish gives a guest what the one before it had, but for files of tests that are over.
func (a *arena) furnish(ctx context.Context) error {
	for there, here := range a.carried {
		if err := a.Lab.CopyFile(ctx, here, there); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if a.weather == "" {
		return nil
	}
	return a.Netem(ctx, lab.Both, a.weather)
}

// CopyFile copies a file into the guest, and into another one that takes its place.
func (a *arena) CopyFile(ctx context.Context, here, there string) error {
	if a.carried == nil {
		a.carried = map[string]string{}
	}
	a.carried[there] = here
	return a.Lab.CopyFile(ctx, here, there)
}

// dead says whether the guest is gone, or there is none, as it could not be booted.
func (a *arena) dead() bool {
	if a.Lab == nil {
		return true
	}
	select {
	case <-a.Down():
		return true
	default:
		return false
	}
}

// panicked says, after a failure, whether the guest's kernel has panicked, by which QEMU ends.
func (a *arena) panicked() bool {
	select {
	case <-a.Down():
		return a.Panicked()
	case <-time.After(leaveTime):
		return false
	}
}

// build builds our program, without its profile: with it all packages would be compiled anew.
func (a *arena) build() error {
	a.roce = filepath.Join(a.dir, "roce")
	const program = "github.com/goroce/goroce/cmd/roce"
	out, err := exec.Command("go", "build", "-pgo=off", "-o", a.roce, program).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build roce: %w: %s", err, out)
	}
	return nil
}

func (a *arena) close() {
	if a.Lab != nil {
		a.Lab.Close()
	}
	for _, file := range append(a.more, a.roce) {
		os.Remove(file)
	}
	os.Remove(a.dir) // stays if packets of a lost duel are in it
}

// duel is one pair of processes.
type duel struct {
	guest   []string // program and options in the guest; port and server's address are added
	host    []string // subcommand and options of roce, likewise
	serving bool     // the host's end is the server
	// the server's port is one of RDMA_PS_TCP or UDP, and its address is among the options
	rdma    bool
	program string // in place of roce, with all options but the port in host; "" is roce
	over    string // not "": libraries that program, Debian's and an ordinary user's, is over
	fixed   int    // the port that both ends have by themselves; 0: they are told one
	says    string // what ours says when it listens on such a port; "" is "listening on"
	again   string // an end that fails with such words has played a bout that says nothing of it
	limit   time.Duration
}

// bouts is how many of a duel may say nothing.
const bouts = 10

// duelLimit only ends what would hang: an emulated processor on a busy machine may be very slow.
const duelLimit = 2 * time.Minute

// patience is the code of our ack timeout, 0.5 s. The guest's processor is emulated and may stand
// still for longer than the usual eight times 67 ms when its host is busy.
const patience = "17"

// result is what both ends printed.
type result struct{ guest, host string }

// process is either end.
type process interface {
	Start() error
	Wait() error
}

// end is a process with what it prints.
type end struct {
	process
	name string
	out  *output
	err  error
	done chan struct{}
}

// output is what a process prints; it may be looked at while the process goes on.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (e *end) start() error {
	if err := e.Start(); err != nil {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	e.done = make(chan struct{})
	go func() {
		e.err = e.Wait()
		close(e.done)
	}()
	return nil
}

// wait waits for the end of a process that may not have been started.
func (e *end) wait() {
	if e.done != nil {
		<-e.done
	}
}

func (e *end) ended() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// leaveTime is how long an end may go on when the other has failed, to say what it thinks of that.
const leaveTime = 2 * time.Second

// fight runs a duel to its end and fails the test unless both ends succeed.
func (a *arena) fight(t *testing.T, d duel) result {
	t.Helper()
	r, err := a.bout(t, d)
	for n := 1; err != nil && d.again != "" && strings.Contains(err.Error(), d.again) && n < bouts; n++ {
		t.Logf("%s: once more", d.again)
		r, err = a.bout(t, d)
	}
	if err != nil && a.panicked() {
		t.Log("the guest's kernel panicked:", err)
		a.panics = append(a.panics, t.Name())
		require.NoError(t, a.boot())
		r, err = a.bout(t, d)
	}
	require.NoError(t, err)
	return r
}

// bout runs a duel to its end. Its error holds what both ends printed.
func (a *arena) bout(t *testing.T, d duel) (result, error) {
	if d.limit == 0 {
		d.limit = duelLimit
	}
	ctx, cancel := context.WithTimeout(t.Context(), d.limit)
	defer cancel()
	// Its own, so that no duel meets what an earlier one left behind.
	port := cmp.Or(d.fixed, int(a.port.Add(1)))
	pcap := filepath.Join(t.TempDir(), "host.pcapng")
	guest, host := a.ends(t, ctx, d, port, pcap)
	server, client, listening := guest, host, a.WaitListening
	switch {
	case d.serving && d.rdma:
		server, client, listening = host, guest, host.waitSaying(cmp.Or(d.says, "listening on"))
	case d.serving:
		server, client, listening = host, guest, a.waitListeningHere
	case d.rdma:
		listening = a.waitRDMA
	}
	err := both(ctx, server, client, func() error { return listening(ctx, port) })
	if err != nil {
		cancel()
		server.wait()
		client.wait()
		err = fmt.Errorf("%w\n--- guest: %s\n%s\n--- host: %s %s\n%s\n--- packets: %s", err, strings.Join(d.guest, " "),
			guest.out, cmp.Or(d.program, "roce"), strings.Join(d.host, " "), host.out, a.keep(t, pcap))
	}
	return result{guest.out.String(), host.out.String()}, err
}

// ends prepares both processes.
func (a *arena) ends(t *testing.T, ctx context.Context, d duel, port int, pcap string) (guest, host *end) {
	number := strconv.Itoa(port)
	here := append(append([]string{}, d.host...), "--pcap", pcap, "-p", number)
	if d.program != "" {
		here = append([]string{"-p", number}, d.host...)
	}
	there := append(append([]string{}, d.guest...), "-p", number)
	if d.fixed != 0 {
		here, there = d.host, d.guest
	}
	switch {
	case d.rdma:
	case d.serving:
		there = append(there, lab.HostIPv4)
	default:
		here = append(here, lab.GuestIPv4)
	}
	g := a.Command(ctx, there[0], there[1:]...)
	h := a.Host(ctx, cmp.Or(d.program, a.roce), here...)
	if d.over != "" {
		h.Env = append(os.Environ(), "LD_LIBRARY_PATH="+d.over, "GOROCE_DEVICES=udp:"+lab.HostIPv4, "GOROCE_DEBUG=1")
		nobody.Runs(t, h.Cmd)
	}
	// The program ends by itself, so that the capture is written to its end.
	h.Cancel = func() error { return h.Process.Signal(syscall.SIGTERM) }
	h.WaitDelay = leaveTime
	guest, host = &end{process: g, name: "guest", out: &output{}}, &end{process: h, name: "host", out: &output{}}
	g.Stdout, g.Stderr = guest.out, guest.out
	h.Stdout, h.Stderr = host.out, host.out
	return guest, host
}

// both starts the server, then the client, and waits for the two or for the first failure.
func both(ctx context.Context, server, client *end, listening func() error) error {
	if err := server.start(); err != nil {
		return err
	}
	up := make(chan error, 1)
	go func() { up <- listening() }()
	select {
	case err := <-up:
		if err != nil {
			return fmt.Errorf("wait for the server: %w", err)
		}
	case <-server.done:
		return fmt.Errorf("%s ended before it listened: %v", server.name, server.err)
	}
	if err := client.start(); err != nil {
		return err
	}
	first, second := server, client
	select {
	case <-server.done:
	case <-client.done:
		first, second = client, server
	}
	if first.err != nil {
		select {
		case <-second.done:
		case <-time.After(leaveTime):
		}
	} else {
		<-second.done
	}
	for _, e := range []*end{first, second} {
		if e.ended() && e.err != nil {
			return fmt.Errorf("%s: %w (%v)", e.name, e.err, context.Cause(ctx))
		}
	}
	return nil
}

// waitListeningHere waits until a TCP socket listens on a port of the host's end of the network.
func (a *arena) waitListeningHere(ctx context.Context, port int) error {
	const listening = "0A"
	suffix := fmt.Sprintf(":%04X", port)
	for {
		var tables []byte
		err := a.Do(func() error {
			for _, name := range []string{"tcp", "tcp6"} {
				table, err := os.ReadFile("/proc/thread-self/net/" + name)
				if err != nil {
					return err
				}
				tables = append(tables, table...)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(tables)) {
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], suffix) && f[3] == listening {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nothing listens on port %d: %w", port, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond): // between two looks at the table
		}
	}
}

// keep moves a capture to where the test's end does not delete it.
func (a *arena) keep(t *testing.T, pcap string) string {
	kept := filepath.Join(a.dir, strings.NewReplacer("/", "-", " ", "_").Replace(t.Name())+".pcapng")
	data, err := os.ReadFile(pcap)
	if err == nil {
		err = os.WriteFile(kept, data, 0o644)
	}
	if err != nil {
		return err.Error()
	}
	return kept
}
