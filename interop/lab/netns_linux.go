package lab

// A network namespace without a name, and the thread that owns it. Stages: a goroutine locks itself
// to an operating system thread and unshares the network; from then on it runs what it is given.
// Sockets opened there stay in the namespace, and children started there are born into it and die
// with the thread (Pdeathsig is bound to the thread that forked).

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// netns is a thread in a network namespace of its own.
type netns struct {
	calls chan func()
	ended chan struct{} // closed by close
	once  sync.Once
}

var errClosed = errors.New("the lab is closed")

func newNetns() (*netns, error) {
	ns := &netns{calls: make(chan func()), ended: make(chan struct{})}
	started := make(chan error)
	go ns.live(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("create a network namespace: %w (root or CAP_SYS_ADMIN is needed)", err)
	}
	return ns, nil
}

// live is the goroutine that owns the thread.
func (ns *netns) live(started chan<- error) {
	// It is never unlocked: the thread must not serve other goroutines, and ends with this one.
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread does not end with its goroutine, and /proc/self/ns shows its namespace as
		// the process's. Another goroutine gets another thread, because this one is taken until
		// that one runs.
		inner := make(chan error)
		go ns.live(inner)
		started <- <-inner
		runtime.UnlockOSThread()
		return
	}
	err := unix.Unshare(unix.CLONE_NEWNET)
	started <- err
	if err == nil {
		// Also when a function that it runs calls runtime.Goexit, as t.FailNow does.
		defer ns.close()
		ns.serve()
	}
}

func (ns *netns) serve() {
	for {
		select {
		case call := <-ns.calls:
			call()
		case <-ns.ended:
			return
		}
	}
}

// do runs f on the thread and waits for it.
func (ns *netns) do(f func() error) error {
	done := make(chan error, 1)
	select {
	case ns.calls <- func() { done <- f() }:
		select {
		case err := <-done:
			return err
		case <-ns.ended:
		}
		select {
		case err := <-done: // f itself closed the lab
			return err
		default:
			return errClosed
		}
	case <-ns.ended:
		return errClosed
	}
}

// close ends the thread; the kernel kills its children.
func (ns *netns) close() { ns.once.Do(func() { close(ns.ended) }) }

// startApart starts cmd in a process group of its own, so that Ctrl-C in a terminal does not reach
// it.
func (ns *netns) startApart(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return ns.start(cmd)
}

// start starts cmd as a child of the thread.
func (ns *netns) start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return ns.do(cmd.Start)
}

// addTap creates the tap device and configures it. The device exists while the returned file, or
// QEMU's copy, is open.
func (ns *netns) addTap(mtu int) (tap *os.File, err error) {
	err = ns.do(func() error {
		tap, err = openTap()
		return err
	})
	if err != nil {
		return nil, err
	}
	batch := strings.Join([]string{
		"link set lo up",
		fmt.Sprintf("link set %s mtu %d address %s up", Tap, mtu, HostMAC),
		fmt.Sprintf("addr add %s%s dev %s", HostIPv4, prefixIPv4, Tap),
		fmt.Sprintf("addr add %s%s dev %s nodad", HostIPv6, prefixIPv6, Tap),
		fmt.Sprintf("neigh replace %s lladdr %s dev %s nud permanent", GuestIPv4, GuestMAC, Tap),
		fmt.Sprintf("neigh replace %s lladdr %s dev %s nud permanent", GuestIPv6, GuestMAC, Tap),
	}, "\n")
	if err = ns.ip(batch); err != nil {
		tap.Close()
		return nil, fmt.Errorf("configure %s: %w", Tap, err)
	}
	return tap, nil
}

// addWire joins two tap devices in a bridge. QEMU opens them by their names, each as often as the
// cards have queues.
func (ns *netns) addWire(mtu, queues int) error {
	kind := "tap"
	if queues > 1 {
		kind = "tap multi_queue"
	}
	batch := []string{"link add wire type bridge mcast_snooping 0", "link set wire up"}
	for _, name := range wireTaps {
		batch = append(batch, fmt.Sprintf("tuntap add dev %s mode %s", name, kind), fmt.Sprintf("link set %s mtu %d master wire up", name, mtu))
	}
	if err := ns.ip(strings.Join(batch, "\n")); err != nil {
		return fmt.Errorf("set up the wire: %w", err)
	}
	return nil
}

// ip runs ip(8) commands in the namespace.
func (ns *netns) ip(batch string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(batch + "\n")
	var complaint strings.Builder
	cmd.Stdout, cmd.Stderr = &complaint, &complaint
	err := ns.start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("ip(8): %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return nil
}

// openTap makes a tap device in the calling thread's namespace, without offloads: what crosses it
// are wire frames.
func openTap() (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq(Tap)
	if err == nil {
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("create %s: %w", Tap, err)
	}
	return os.NewFile(uintptr(fd), Tap), nil
}
