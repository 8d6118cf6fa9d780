// Package netns gives tests network namespaces of their own, in which they may do with interfaces
// and addresses as they like, and UDP port 4791 is free.
//
//	netns_linux.go   a namespace (this file)
//	wires_linux.go   namespaces that are joined: by a cable, or by a switch
//	own_linux.go     one for a whole test program
//
// A namespace takes root. Where GOROCE_REQUIRE_LAB is set, as in CI, what can not be had fails the
// test; otherwise it skips.
package netns

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netthread"
)

// RequireEnv is the environment variable that turns skips into failures when it is set.
const RequireEnv = "GOROCE_REQUIRE_LAB"

// Lacks ends the test for want of what format and args say: it fails where GOROCE_REQUIRE_LAB is
// set, and skips otherwise.
func Lacks(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(RequireEnv) != "" {
		t.Fatalf(RequireEnv+" is set, but "+format, args...)
	}
	t.Skipf(format+" ("+RequireEnv+"=1 makes this a failure)", args...)
}

// Need ends the test if there are no network namespaces. A subtest calls it before it asks for
// namespaces of the test above it, which it must not end.
func Need(t testing.TB) {
	t.Helper()
	if err := allowed(); err != nil {
		lacksNamespace(t, err)
	}
}

// allowed tries once, on a thread that ends with that.
var allowed = sync.OnceValue(func() error {
	thread, err := netthread.New(nil)
	if err == nil {
		thread.Close()
	}
	return err
})

func lacksNamespace(t testing.TB, err error) {
	t.Helper()
	Lacks(t, "there is no network namespace of our own, which takes root: %v", err)
}

// Namespace is a network namespace of the test's own. Functions are run on its thread, and sockets
// opened there belong to it for good.
type Namespace struct{ thread *netthread.Thread }

// New makes a namespace whose lo is up, and runs ip(8) commands in it. It ends with the test.
func New(t testing.TB, commands ...string) *Namespace {
	t.Helper()
	thread, err := netthread.New(nil)
	if err != nil {
		lacksNamespace(t, err)
	}
	t.Cleanup(thread.Close)
	ns := &Namespace{thread}
	for _, c := range append([]string{"link set lo up"}, commands...) {
		if out, err := ns.run(c); err != nil {
			Lacks(t, "ip %s: %v: %s", c, err, out)
		}
	}
	return ns
}

// Do runs f in the namespace. f does not fail or skip the test: that is for the test's own
// goroutine.
func (ns *Namespace) Do(f func()) {
	_ = ns.thread.Do(func() error { f(); return nil }) // the thread lives as long as the test
}

func (ns *Namespace) run(command string) (out []byte, err error) {
	ns.Do(func() { out, err = exec.Command("ip", strings.Fields(command)...).CombinedOutput() })
	return out, err
}

// IP runs ip(8) commands in the namespace, which must work.
func (ns *Namespace) IP(t testing.TB, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if out, err := ns.run(c); err != nil {
			t.Fatalf("ip %s: %v: %s", c, err, out)
		}
	}
}

// Thread is the thread whose network namespace this is, which is how ip(8) can name it.
func (ns *Namespace) Thread() (tid int) {
	ns.Do(func() { tid = unix.Gettid() })
	return tid
}

// Settle waits until the kernel has noticed what was set up: an interface whose cable is plugged in
// (LOWER_UP) drops what it is given until a worker of the kernel has taken it up. One that the
// worker has not looked at yet is UNKNOWN; those without cables, such as lo, always are.
func (ns *Namespace) Settle() {
	const plugged = unix.IFF_UP | unix.IFF_LOWER_UP
	waits := func(l netlink.Link) bool {
		unseen := l.Attrs().OperState == netlink.OperUnknown && slices.Contains([]string{"veth", "bridge"}, l.Type())
		return l.Attrs().RawFlags&plugged == plugged && (unseen || l.Attrs().OperState == netlink.OperDown)
	}
	for settled := false; !settled; {
		ns.Do(func() {
			links, err := netlink.LinkList()
			settled = err == nil && !slices.ContainsFunc(links, waits)
		})
		if !settled {
			// The worker wants the processor, and the lock that a look takes.
			time.Sleep(time.Millisecond)
		}
	}
}
