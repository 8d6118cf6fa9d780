package lab

// Lab: one guest and its network. Stages of Start: image, agent, namespace with tap device, QEMU,
// the agent's hello. Whatever fails, what was made so far is taken down again.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/interop/lab/link"
)

// A Lab is a running guest with rxe0 ACTIVE, and the network namespace that holds the host's end of
// its wire. Its methods may be called by many goroutines at once.
type Lab struct {
	ns     *netns
	vm     *machine
	socket *os.File // our end of the agent's stream
	conn   *link.Conn
	image  *Image
	hello  chan error     // how the boot went
	guest  link.HelloBody // valid after hello

	mu     sync.Mutex
	nextID uint32
	procs  map[uint32]*Cmd // running commands
	down   error           // why no more commands can run

	closing   sync.Once
	readers   sync.WaitGroup
	timing    Timing
	killGrace time.Duration
}

// Timing tells how long the parts of Start took.
type Timing struct {
	Image  time.Duration // finding or building the image
	Agent  time.Duration // building the agent
	Boot   time.Duration // from power-on to rxe0 ACTIVE
	Stages []string      // the guest's own account of its set-up
}

var labNumber atomic.Int64

// Start boots a guest and returns when its rxe0 is ACTIVE with its addresses in the GID table. The
// caller must Close it.
func Start(ctx context.Context, cfg Config) (*Lab, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if missing := Missing(); len(missing) > 0 {
		return nil, missingError(missing)
	}
	l := newLab()
	agent, err := l.prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.BootTimeout)
	defer cancel()
	began := time.Now()
	if err = l.powerOn(cfg, agent); err == nil {
		cfg.say("booting Linux in QEMU, process %d", l.PID())
		err = l.awaitHello(ctx)
	}
	if err != nil {
		err = fmt.Errorf("boot the rxe guest: %w%s", err, l.consoleTail())
		l.Close()
		return nil, err
	}
	l.timing.Boot = time.Since(began)
	for _, s := range l.guest.Stages {
		l.timing.Stages = append(l.timing.Stages, fmt.Sprintf("%s %d ms", s.Stage, s.Millis))
	}
	cfg.say("%s ACTIVE on Linux %s after %.1f s", Device, l.guest.Kernel, l.timing.Boot.Seconds())
	return l, nil
}

func newLab() *Lab {
	return &Lab{procs: map[uint32]*Cmd{}, hello: make(chan error, 1), killGrace: defaultKillGrace}
}

// prepare finds or builds the image and the agent.
func (l *Lab) prepare(ctx context.Context, cfg Config) (agent []byte, err error) {
	began := time.Now()
	l.image, err = EnsureImage(ctx, ImageOptions{Kernel: cfg.Kernel, Suite: cfg.Suite, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	l.timing.Image = time.Since(began)
	began = time.Now()
	agent, err = buildAgent(ctx)
	l.timing.Agent = time.Since(began)
	return agent, err
}

// powerOn makes the network and starts QEMU on it. What it made before an error, Close takes down.
func (l *Lab) powerOn(cfg Config, agent []byte) error {
	initrd, err := makeInitrd(cfg, l.image, agent)
	if err != nil {
		return err
	}
	defer initrd.Close()
	if l.ns, err = newNetns(); err != nil {
		return err
	}
	tap, err := l.ns.addTap(cfg.MTU)
	if err != nil {
		return err
	}
	defer tap.Close() // QEMU has its own copy: the device goes when QEMU goes
	if cfg.Wire {
		if err := l.ns.addWire(cfg.MTU, cfg.CPUs); err != nil {
			return err
		}
	}
	ours, theirs, err := agentSockets()
	if err != nil {
		return err
	}
	defer theirs.Close()
	l.socket, l.conn = ours, link.NewConn(ours)
	name := fmt.Sprintf("goroce-%d-%d", os.Getpid(), labNumber.Add(1))
	if l.vm, err = startMachine(l.ns, cfg, l.image, initrd, tap, theirs, name); err != nil {
		return err
	}
	l.readers.Add(1)
	go l.receive()
	return nil
}

func (l *Lab) awaitHello(ctx context.Context) error {
	select {
	case err := <-l.hello:
		return err
	case <-l.vm.exited:
		return errors.New("QEMU ended")
	case <-ctx.Done():
		return fmt.Errorf("no word from the guest: %w", ctx.Err())
	}
}

// receive hands the agent's messages to their commands until the stream ends.
func (l *Lab) receive() {
	defer l.readers.Done()
	for {
		f, err := l.conn.Recv()
		if err != nil {
			err = fmt.Errorf("the guest is gone: %w%s", err, l.consoleTail())
			l.fail(err)
			l.welcome(err)
			return
		}
		if f.Kind == link.Hello {
			l.welcome(l.readHello(f))
		} else {
			l.deliver(f)
		}
	}
}

func (l *Lab) readHello(f link.Frame) error {
	if err := json.Unmarshal(f.Data, &l.guest); err != nil {
		return fmt.Errorf("the guest's first message: %w", err)
	}
	if l.guest.Error != "" {
		return fmt.Errorf("set-up in the guest: %s", l.guest.Error)
	}
	return nil
}

// welcome tells awaitHello how the boot went; only the first call counts.
func (l *Lab) welcome(err error) {
	select {
	case l.hello <- err:
	default:
	}
}

func (l *Lab) deliver(f link.Frame) {
	l.mu.Lock()
	c := l.procs[f.ID]
	if f.Kind == link.Exit {
		delete(l.procs, f.ID)
	}
	l.mu.Unlock()
	if c != nil {
		c.deliver(f)
	}
}

// fail ends all running commands with err, and all later ones.
func (l *Lab) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down == nil {
		l.down = err
	}
	for id, c := range l.procs {
		delete(l.procs, id)
		c.lose(l.down)
	}
}

func (l *Lab) consoleTail() string {
	if l.vm == nil {
		return ""
	}
	if text := l.vm.console.tail(); text != "" {
		return "\nthe end of the guest's console:\n" + text
	}
	return ""
}

// Close switches the guest off, kills the host-side processes, and returns when the guest is gone.
// Calling it again is harmless.
func (l *Lab) Close() error {
	l.closing.Do(func() {
		l.fail(errClosed)
		if l.vm != nil {
			l.vm.kill()
		}
		if l.socket != nil {
			l.socket.Close()
		}
		l.readers.Wait()
		if l.ns != nil {
			l.ns.Close()
		}
	})
	return nil
}

// Down is closed when the guest is gone, be it by Close or by a crash.
func (l *Lab) Down() <-chan struct{} { return l.vm.exited }

// PID returns QEMU's process ID: "nsenter --net=/proc/PID/ns/net" joins the host's end of the
// network.
func (l *Lab) PID() int { return l.vm.cmd.Process.Pid }

// Kernel returns the release of the guest's kernel, such as "6.12.100+deb12-amd64".
func (l *Lab) Kernel() string { return l.guest.Kernel }

// Image returns the image that the guest was booted from.
func (l *Lab) Image() *Image { return l.image }

// Timing tells how long the parts of Start took.
func (l *Lab) Timing() Timing { return l.timing }

// ConsoleTail returns the end of the guest's console: kernel messages and the agent's complaints.
func (l *Lab) ConsoleTail() string { return l.vm.console.tail() }

// Panicked says whether the guest's kernel has: after that line comes a stack, of many lines.
func (l *Lab) Panicked() bool { return l.vm.console.has("Kernel panic") }

// GIDs returns the GID table of rxe0 as it was after boot.
func (l *Lab) GIDs() (gids []GID) {
	for _, g := range l.guest.GIDs {
		if addr, err := netip.ParseAddr(g.Addr); err == nil {
			gids = append(gids, GID{Index: g.Index, Addr: addr.Unmap(), Type: g.Type})
		}
	}
	return gids
}

// GIDIndex returns the index of an address in the GID table of rxe0.
func (l *Lab) GIDIndex(addr netip.Addr) (int, error) {
	for _, g := range l.GIDs() {
		if g.Addr == addr.Unmap() {
			return g.Index, nil
		}
	}
	return 0, fmt.Errorf("%s has no GID %s: its table is %v", Device, addr, l.GIDs())
}

// Do runs f on a thread that is in the lab's network namespace, and waits for it. Sockets that f
// opens itself belong to the namespace for as long as they live; those that other goroutines open
// on its behalf do not. f should be short: processes start on the same thread. It must not call
// t.FailNow, which would end the thread and with it the lab.
func (l *Lab) Do(f func() error) error { return l.ns.Do(f) }

// A HostCmd is a process on the host's end of the lab's network: an exec.Cmd that is started in the
// lab's namespace and that the kernel kills when the Lab ends. Use Start, Run, Output and
// CombinedOutput of this type, and everything else of exec.Cmd.
type HostCmd struct {
	*exec.Cmd
	ns *netns
}

// Host prepares a process on the host's end of the lab's network; it is killed when ctx is done.
func (l *Lab) Host(ctx context.Context, name string, args ...string) *HostCmd {
	return &HostCmd{Cmd: exec.CommandContext(ctx, name, args...), ns: l.ns}
}

// Start starts the process.
func (c *HostCmd) Start() error { return c.ns.Start(c.Cmd) }

// Run starts the process and waits for it.
func (c *HostCmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the process and returns what it wrote to its standard output; the end of its standard
// error is in the *exec.ExitError.
func (c *HostCmd) Output() ([]byte, error) {
	var out bytes.Buffer
	complaint := &tailWriter{to: c.Stderr}
	c.Stdout, c.Stderr = &out, complaint
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		exit.Stderr = []byte(complaint.tail())
	}
	return out.Bytes(), err
}

// CombinedOutput runs the process and returns what it wrote to its standard output and standard
// error.
func (c *HostCmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}
