package netns

// Namespaces that are joined: by a cable, by a switch, or that are alone with their lo. A test asks
// for one as often as it likes, and gets the same.

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Wire is two namespaces joined by a veth pair, called wire in both. The left one has 10.77.0.1 and
// fd78::1, the right one 10.77.0.2 to .4 and fd78::2 to ::4.
type Wire struct{ Left, Right *Namespace }

var wires = map[testing.TB]*Wire{}

// NewWire returns the wire of the test, whose interfaces have an MTU: it makes one for each test,
// the first time. args are more arguments for ip link add.
func NewWire(t testing.TB, mtu int, args ...string) *Wire {
	t.Helper()
	if w := wires[t]; w != nil {
		return w
	}
	w := &Wire{New(t), New(t)}
	more := strings.Join(args, " ")
	w.Left.IP(t, fmt.Sprintf("link add wire mtu %d %s type veth peer name wire mtu %d %s netns %d",
		mtu, more, mtu, more, w.Right.Thread()),
		"addr add 10.77.0.1/24 dev wire", "-6 addr add fd78::1/64 dev wire nodad", "link set wire up")
	w.Right.IP(t, "addr add 10.77.0.2/24 dev wire", "addr add 10.77.0.3/24 dev wire", "addr add 10.77.0.4/24 dev wire",
		"-6 addr add fd78::2/64 dev wire nodad", "-6 addr add fd78::3/64 dev wire nodad",
		"-6 addr add fd78::4/64 dev wire nodad", "link set wire up")
	w.Left.Settle()
	w.Right.Settle()
	wires[t] = w
	t.Cleanup(func() { delete(wires, t) })
	return w
}

// End is the namespace of address i+1 of the wire.
func (w *Wire) End(i int) *Namespace {
	if i > 0 {
		return w.Right
	}
	return w.Left
}

// NewWireWithQueues returns a wire of MTU 9000 whose interfaces have n queues.
func NewWireWithQueues(t testing.TB, n int) *Wire {
	t.Helper()
	return NewWire(t, 9000, fmt.Sprintf("numtxqueues %d numrxqueues %d", n, n))
}

var switches = map[testing.TB][]*Namespace{}

// NewSwitch returns the n hosts of the test: namespaces with an interface each, called wire, all on
// one switch. Host i has 10.78.0.(i+1) and fd79::(i+1).
func NewSwitch(t testing.TB, n, mtu int) []*Namespace {
	t.Helper()
	if hosts := switches[t]; hosts != nil {
		return hosts
	}
	middle := New(t, fmt.Sprintf("link add switch mtu %d type bridge", mtu), "link set switch up")
	hosts := make([]*Namespace, n)
	for i := range hosts {
		hosts[i] = New(t)
		middle.IP(t, fmt.Sprintf("link add port%d mtu %d type veth peer name wire mtu %d netns %d",
			i, mtu, mtu, hosts[i].Thread()),
			fmt.Sprintf("link set port%d master switch up", i))
		hosts[i].IP(t, fmt.Sprintf("addr add 10.78.0.%d/24 dev wire", i+1),
			fmt.Sprintf("-6 addr add fd79::%d/64 dev wire nodad", i+1), "link set wire up")
	}
	for _, ns := range append(hosts, middle) {
		ns.Settle()
	}
	switches[t] = hosts
	t.Cleanup(func() { delete(switches, t) })
	return hosts
}

var loopbacks = map[testing.TB]*Namespace{}

// NewLoopback returns the namespace of the test whose lo has fd77::1 to fd77::3 beside 127.0.0.0/8.
func NewLoopback(t testing.TB) *Namespace {
	t.Helper()
	if ns := loopbacks[t]; ns != nil {
		return ns
	}
	ns := New(t, "-6 addr add fd77::1/64 dev lo nodad", "-6 addr add fd77::2/64 dev lo nodad",
		"-6 addr add fd77::3/64 dev lo nodad")
	// The kernel adds the routes in its own time.
	for routes := ""; strings.Count(routes, "local fd77::") < 3; {
		ns.Do(func() {
			out, _ := exec.Command("ip", "-6", "route", "show", "table", "local").Output()
			routes = string(out)
		})
	}
	loopbacks[t] = ns
	t.Cleanup(func() { delete(loopbacks, t) })
	return ns
}

// SegmentationOff has the kernel cut up large packets before they reach the interface, as ethtool
// -K does with tso, gso and tx-udp-segmentation.
func (ns *Namespace) SegmentationOff(t testing.TB, iface string) {
	t.Helper()
	const (
		siocEthtool  = 0x8946
		ethtoolSGSO  = 0x24
		ethtoolSTSO  = 0x1f
		ethtoolSTXCS = 0x17
	)
	var fd int
	var err error
	ns.Do(func() { fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) })
	if err != nil {
		t.Fatal(err)
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
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), siocEthtool,
			uintptr(unsafe.Pointer(&req))); errno != 0 {
			Lacks(t, "segmentation offload of %s can not be switched off: %v", iface, errno)
		}
	}
}
