package transport

import (
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The main thread must not enter a namespace: it can not end, and /proc/self is its view. So the main goroutine keeps it.
func init() { runtime.LockOSThread() }

// netns is a network namespace of the test's own, in which addresses can be added and port 4791 is free. It exists as
// long as its thread: functions are run on that, and sockets opened there belong to it for good.
type netns struct{ work chan func() }

// newNetns makes a namespace and runs ip(8) commands in it. Without the privilege the test is skipped.
func newNetns(t testing.TB, commands ...string) *netns {
	t.Helper()
	ns := &netns{work: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine, and the namespace with it
		err := unix.Unshare(unix.CLONE_NEWNET)
		ready <- err
		if err != nil {
			return
		}
		for f := range ns.work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		t.Skipf("no network namespace of our own (needs root): %v", err)
	}
	t.Cleanup(func() { close(ns.work) })
	for _, c := range append([]string{"link set lo up"}, commands...) {
		var out []byte
		var err error
		ns.do(func() { out, err = exec.Command("ip", strings.Fields(c)...).CombinedOutput() })
		if err != nil {
			t.Skipf("ip %s: %v: %s", c, err, out)
		}
	}
	return ns
}

// settle waits until the kernel has noticed what was set up: an interface whose cable is plugged in (LOWER_UP) drops what it
// is given until a worker of the kernel has taken it up.
func (ns *netns) settle() {
	const plugged = unix.IFF_UP | unix.IFF_LOWER_UP
	waits := func(l netlink.Link) bool {
		return l.Attrs().RawFlags&plugged == plugged && l.Attrs().OperState == netlink.OperDown
	}
	for settled := false; !settled; {
		ns.do(func() {
			links, err := netlink.LinkList()
			settled = err == nil && !slices.ContainsFunc(links, waits)
		})
		if !settled {
			time.Sleep(time.Millisecond) // the worker wants the processor, and the lock that a look takes
		}
	}
}

// do runs f in the namespace. f does not fail or skip the test: that is for the test's own goroutine.
func (ns *netns) do(f func()) {
	done := make(chan struct{})
	ns.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

// nsPort is a port whose Info looks at the interfaces of its namespace.
type nsPort struct {
	Port
	ns *netns
}

func (p nsPort) Info() (i Info) {
	p.ns.do(func() { i = p.Port.Info() })
	return i
}

func (ns *netns) open(t testing.TB, name string, o Options) nsPort {
	t.Helper()
	ns.settle()
	var p Port
	var err error
	ns.do(func() { p, err = Open(name, o) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return nsPort{p, ns}
}

// The same port over IPv6, between addresses of a namespace.
func init() {
	moreKinds = append(moreKinds, kindUnderTest{"udp6", func(t testing.TB, i int, o Options) Port {
		t.Helper()
		ns := namespaceOf(t)
		return ns.open(t, fmt.Sprintf("udp:fd77::%d", i+1), o)
	}})
}

var namespaces = map[testing.TB]*netns{}

// namespaceOf is the namespace with IPv6 addresses that belongs to a test.
func namespaceOf(t testing.TB) *netns {
	if ns := namespaces[t]; ns != nil {
		return ns
	}
	ns := newNetns(t, "-6 addr add fd77::1/64 dev lo nodad", "-6 addr add fd77::2/64 dev lo nodad", "-6 addr add fd77::3/64 dev lo nodad")
	for routes := ""; strings.Count(routes, "local fd77::") < 3; { // the kernel adds them in its own time
		ns.do(func() {
			out, _ := exec.Command("ip", "-6", "route", "show", "table", "local").Output()
			routes = string(out)
		})
	}
	namespaces[t] = ns
	t.Cleanup(func() { delete(namespaces, t) })
	return ns
}

func interfaceByName(name string) (index int, err error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	return i.Index, nil
}

// segmentationOff has the kernel cut up large packets before they reach the interface, as ethtool -K does with tso, gso
// and tx-udp-segmentation.
func segmentationOff(iface string) error {
	const (
		siocEthtool  = 0x8946
		ethtoolSGSO  = 0x24
		ethtoolSTSO  = 0x1f
		ethtoolSTXCS = 0x17
	)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, cmd := range []uint32{ethtoolSGSO, ethtoolSTSO, ethtoolSTXCS} {
		value := [2]uint32{cmd, 0}
		var req struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte
		}
		copy(req.name[:], iface)
		req.data = unsafe.Pointer(&value)
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), siocEthtool, uintptr(unsafe.Pointer(&req))); errno != 0 {
			return errno
		}
	}
	return nil
}
