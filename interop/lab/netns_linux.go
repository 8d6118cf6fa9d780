package lab

// The network namespace of the host's end: its thread, its devices.

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netthread"
)

// netns is a thread in a network namespace of its own.
type netns struct{ *netthread.Thread }

var errClosed = netthread.ErrClosed

func newNetns() (*netns, error) {
	thread, err := netthread.New(nil)
	if err != nil {
		return nil, fmt.Errorf("create a network namespace: %w (root or CAP_SYS_ADMIN is needed)", err)
	}
	return &netns{thread}, nil
}

// startApart starts cmd in a process group of its own, so that Ctrl-C in a terminal does not reach
// it.
func (ns *netns) startApart(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return ns.Start(cmd)
}

// addTap creates the tap device and configures it. The device exists while the returned file, or
// QEMU's copy, is open.
func (ns *netns) addTap(mtu int) (tap *os.File, err error) {
	err = ns.Do(func() error {
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
		batch = append(batch, fmt.Sprintf("tuntap add dev %s mode %s",
			name, kind), fmt.Sprintf("link set %s mtu %d master wire up", name, mtu))
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
	err := ns.Start(cmd)
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
