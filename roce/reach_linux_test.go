package roce

// First messages to neighbours that the kernel does not know yet, on a real Ethernet: two network
// namespaces and a veth pair.

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The main thread must not enter a namespace: it can not end, and /proc/self is its view. So the
// main goroutine keeps it.
func init() { runtime.LockOSThread() }

// netns is a network namespace of the test's own. It lives as long as its thread, on which
// functions are run; devices opened there belong to it for good.
type netns struct {
	work chan func()
	tid  int
}

func newNetns(t *testing.T) *netns {
	t.Helper()
	ns := &netns{work: make(chan func())}
	ready := make(chan error)
	go func() {
		// and never unlocked: the thread ends with the goroutine, and the namespace with it
		runtime.LockOSThread()
		ns.tid = unix.Gettid()
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
	return ns
}

// do runs f in the namespace.
func (ns *netns) do(f func()) {
	done := make(chan struct{})
	ns.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

func (ns *netns) ip(t *testing.T, command string) string {
	t.Helper()
	var out []byte
	var err error
	ns.do(func() { out, err = exec.Command("ip", strings.Fields(command)...).CombinedOutput() })
	if err != nil {
		t.Skipf("ip %s: %v: %s", command, err, out)
	}
	return string(out)
}

// open opens a device in the namespace; a port that does not work here skips the test.
func (ns *netns) open(t *testing.T, name string) (d *Device) {
	t.Helper()
	var err error
	ns.do(func() { d, err = Open(name, nil) })
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// newEthernet joins two namespaces. Both interfaces are up when it returns: the kernel has taken up
// their carrier.
func newEthernet(t *testing.T) (left, right *netns) {
	left, right = newNetns(t), newNetns(t)
	left.ip(t, fmt.Sprintf("link add wire mtu 9000 type veth peer name wire mtu 9000 netns %d", right.tid))
	for i, ns := range []*netns{left, right} {
		ns.ip(t, "link set lo up")
		ns.ip(t, fmt.Sprintf("addr add 10.78.0.%d/24 dev wire", i+1))
		ns.ip(t, fmt.Sprintf("-6 addr add fd79::%d/64 dev wire nodad", i+1))
		ns.ip(t, "link set wire up")
	}
	for _, ns := range []*netns{left, right} {
		for !strings.Contains(ns.ip(t, "-o link show wire"), "state UP") {
		}
	}
	return left, right
}

// overEthernet runs f on each kind of port, IPv4 and IPv6. format is as "packet:10.78.0.%d".
func overEthernet(t *testing.T, f func(t *testing.T, left, right *netns, format string)) {
	for _, format := range []string{"packet:10.78.0.%d", "packet:fd79::%d", "xdp:10.78.0.%d"} {
		t.Run(strings.ReplaceAll(format, "%d", "N"), func(t *testing.T) {
			left, right := newEthernet(t)
			f(t, left, right, format)
		})
	}
}

// first sends one message, which nobody repeats: it must leave the port, and arrive.
func first(t *testing.T, a, b *end, wr SendWR) {
	t.Helper()
	b.recv(0, b.mr.SGE(0, 64))
	a.post(wr)
	a.wait()
	if s := a.dev.Stats().Port; s.SendUnreachable > 0 {
		t.Fatalf("the port has dropped the first message: %+v", s)
	}
	b.wait()
}

func TestFirstMessage(t *testing.T) {
	overEthernet(t, func(t *testing.T, left, right *netns, format string) {
		for _, typ := range []QPType{UC, UD} {
			t.Run(typ.String(), func(t *testing.T) {
				a := newEnd(t, left.open(t, fmt.Sprintf(format, 1)), typ, 64)
				b := newEnd(t, right.open(t, fmt.Sprintf(format, 2)), typ, 64)
				for _, ns := range []*netns{left, right} {
					ns.ip(t, "neigh flush all")
				}
				wr := SendWR{Opcode: WRSend, SGL: []SGE{a.mr.SGE(0, 8)}}
				if typ == UC {
					connect(t, a, b)
				} else {
					must(t, a.qp.Activate(7))
					must(t, b.qp.Activate(7))
					ah, err := a.pd.CreateAH(bg, AHAttr{DGID: b.dev.GIDs()[0]})
					must(t, err)
					defer func() { must(t, a.pd.DestroyAH(ah)) }()
					wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, b.qp.QPN(), 7
				}
				first(t, a, b, wr)
			})
		}
	})
}

// A neighbour that is not there is an error of Connect and CreateAH, which names it; so is a
// destination without a route.
func TestUnreachableNeighbour(t *testing.T) {
	left, _ := newEthernet(t)
	d := left.open(t, "packet:10.78.0.1")
	a, u := newEnd(t, d, RC, 64), newEnd(t, d, UD, 64)
	for address, want := range map[string]string{"10.78.0.99": "10.78.0.99 has not answered ARP", "10.79.0.1": "no route to 10.79.0.1"} {
		remote, err := ParseEndpoint(address + "/77/0")
		must(t, err)
		created := make(chan error)
		go func() { // both at once, for they wait
			_, err := u.pd.CreateAH(bg, AHAttr{DGID: remote.GID})
			created <- err
		}()
		for call, err := range map[string]error{"Connect": a.qp.Connect(bg, remote, nil), "CreateAH": <-created} {
			if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", call, err)
			}
		}
	}
}
