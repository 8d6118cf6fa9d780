package transport

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

// wirePair is two network namespaces joined by a veth pair, called wire in both. The left one has 10.77.0.1 and fd78::1, the right
// one 10.77.0.2 to .4 and fd78::2 to ::4.
type wirePair struct{ left, right *netns }

var wirePairs = map[testing.TB]*wirePair{}

// newWire returns the test's pair of namespaces.
func newWire(t testing.TB, mtu int) *wirePair {
	t.Helper()
	return newWireWith(t, mtu, "")
}

// newWireWith takes more arguments for ip link add.
func newWireWith(t testing.TB, mtu int, args string) *wirePair {
	t.Helper()
	if w := wirePairs[t]; w != nil {
		return w
	}
	w := &wirePair{newNetns(t), newNetns(t)}
	var tid int
	w.right.do(func() { tid = unix.Gettid() })
	w.left.ip(t, fmt.Sprintf("link add wire mtu %d %s type veth peer name wire mtu %d %s netns %d", mtu, args, mtu, args, tid),
		"addr add 10.77.0.1/24 dev wire", "-6 addr add fd78::1/64 dev wire nodad", "link set wire up")
	w.right.ip(t, "addr add 10.77.0.2/24 dev wire", "addr add 10.77.0.3/24 dev wire", "addr add 10.77.0.4/24 dev wire",
		"-6 addr add fd78::2/64 dev wire nodad", "-6 addr add fd78::3/64 dev wire nodad", "-6 addr add fd78::4/64 dev wire nodad", "link set wire up")
	w.left.settle()
	w.right.settle()
	wirePairs[t] = w
	t.Cleanup(func() { delete(wirePairs, t) })
	return w
}

// open opens port i of the pair: 0 on the left, the others on the right. format is as "packet:10.77.0.%d".
func (w *wirePair) open(t testing.TB, format string, i int, o Options) Port {
	t.Helper()
	ns := w.left
	if i > 0 {
		ns = w.right
	}
	return ns.open(t, fmt.Sprintf(format, i+1), o).Port // knows its namespace without help
}

// ip runs ip(8) commands in the namespace.
func (ns *netns) ip(t testing.TB, commands ...string) {
	t.Helper()
	for _, c := range commands {
		var out []byte
		var err error
		ns.do(func() { out, err = exec.Command("ip", strings.Fields(c)...).CombinedOutput() })
		if err != nil {
			t.Fatalf("ip %s: %v: %s", c, err, out)
		}
	}
}

// Packet ports pass what every kind of port has to pass: between two namespaces and on loopback.
func init() {
	onWire := func(format string) func(testing.TB, int, Options) Port {
		return func(t testing.TB, i int, o Options) Port {
			t.Helper()
			p := newWire(t, 9000).open(t, format, i, o)
			for to := range 4 { // as a connection does before it sends
				if (to == 0) == (i == 0) {
					continue
				}
				_, dst, _ := strings.Cut(fmt.Sprintf(format, to+1), ":")
				gid, _ := wire.ParseGID(dst)
				if err := p.(Resolver).Resolve(context.Background(), gid, patience); err != nil {
					t.Fatal(err)
				}
			}
			return p
		}
	}
	onLoopback := func(format string) func(testing.TB, int, Options) Port {
		return func(t testing.TB, i int, o Options) Port {
			t.Helper()
			return namespaceOf(t).open(t, fmt.Sprintf(format, i+1), o).Port
		}
	}
	moreKinds = append(moreKinds,
		kindUnderTest{"packet4", onWire("packet:10.77.0.%d")}, kindUnderTest{"packet6", onWire("packet:fd78::%d")},
		kindUnderTest{"packet4-lo", onLoopback("packet:127.77.0.%d")}, kindUnderTest{"packet6-lo", onLoopback("packet:fd77::%d")})
}
