package roce

// The ports that take packets from an interface are wires of the tests of operations too, over veth
// pairs between namespaces. The kernel takes up to a second to plug one in, so pairs are kept for
// the tests that follow.

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
)

func init() {
	for _, kind := range []string{"packet", "xdp"} {
		wires = append(wires, wire2{kind, overVeth(kind)})
	}
	leaks = append(leaks, goleak.IgnoreAnyFunction("github.com/goroce/goroce/internal/netthread.(*Thread).live"))
}

// veth is two namespaces that are joined: the ends have 10.76.0.1 and 10.76.0.2.
type veth [2]*netns.Namespace

// idle are the pairs that no test uses now.
var idle []veth

// toTheEnd is a test whose cleanups never come.
type toTheEnd struct{ testing.TB }

func (toTheEnd) Cleanup(func()) {}

// takeVeth returns a pair that nobody else uses until the test ends.
func takeVeth(t testing.TB) (v veth) {
	t.Helper()
	if n := len(idle); n > 0 {
		v, idle = idle[n-1], idle[:n-1]
	} else {
		v = veth{netns.New(toTheEnd{t}), netns.New(toTheEnd{t})}
		v[0].IP(t, fmt.Sprintf("link add wire mtu 9000 type veth peer name wire mtu 9000 netns %d", v[1].Thread()))
		for i, ns := range v {
			ns.IP(t, fmt.Sprintf("addr add 10.76.0.%d/24 dev wire", i+1), "link set wire up")
		}
		v[0].Settle()
		v[1].Settle()
	}
	t.Cleanup(func() { idle = append(idle, v) })
	return v
}

func overVeth(kind string) func(testing.TB, func(transport.Port) transport.Port) (a, b *Device) {
	return func(t testing.TB, wrap func(transport.Port) transport.Port) (a, b *Device) {
		t.Helper()
		var devices [2]*Device
		for i, ns := range takeVeth(t) {
			var err error
			ns.Do(func() { devices[i], err = Open(fmt.Sprintf("%s:10.76.0.%d", kind, i+1), &Config{Wrap: wrap}) })
			if err != nil {
				netns.Lacks(t, "%v", err)
			}
			t.Cleanup(func() { must(t, devices[i].Close()) })
		}
		return devices[0], devices[1]
	}
}
