package transport

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

// hosts are network namespaces with an interface each, called wire, all on one switch: host i has 10.78.0.(i+1) and
// fd79::(i+1). An interface takes only one xdp port for all its queues, so tests with several need several interfaces.
type hosts []*netns

var hostsOf = map[testing.TB]hosts{}

func newHosts(t testing.TB, n, mtu int) hosts {
	t.Helper()
	if h := hostsOf[t]; h != nil {
		return h
	}
	middle := newNetns(t, fmt.Sprintf("link add switch mtu %d type bridge", mtu), "link set switch up")
	h := make(hosts, n)
	for i := range h {
		h[i] = newNetns(t)
		middle.ip(t, fmt.Sprintf("link add port%d mtu %d type veth peer name wire mtu %d netns %d", i, mtu, mtu, h[i].tid()),
			fmt.Sprintf("link set port%d master switch up", i))
		h[i].ip(t, fmt.Sprintf("addr add 10.78.0.%d/24 dev wire", i+1), fmt.Sprintf("-6 addr add fd79::%d/64 dev wire nodad", i+1), "link set wire up")
	}
	for _, ns := range append(h, middle) {
		ns.settle()
	}
	hostsOf[t] = h
	t.Cleanup(func() { delete(hostsOf, t) })
	return h
}

// tid is the thread whose network namespace this is, which is how ip(8) can name it.
func (ns *netns) tid() (tid int) {
	ns.do(func() { tid = unix.Gettid() })
	return tid
}

// openXDPOn opens an xdp port in a namespace, attached in one mode only.
func openXDPOn(t testing.TB, ns *netns, rest string, o Options, mode xdpMode) Port {
	t.Helper()
	return openXDPLanes(t, ns, rest, 1, o, mode)[0]
}

func openXDPLanes(t testing.TB, ns *netns, rest string, lanes int, o Options, mode xdpMode) (ports []Port) {
	t.Helper()
	var err error
	ns.do(func() { ports, err = openXDPMode("xdp:"+rest, rest, lanes, o.withDefaults(), mode) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(ports) })
	return ports
}

// resolve has a port find out a neighbour's address, as a connection does before it sends.
func resolve(t testing.TB, p Port, addr string) {
	t.Helper()
	gid, err := wire.ParseGID(addr)
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := p.(Resolver); ok {
		if err := r.Resolve(context.Background(), gid, patience); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	native  = xdpMode{native: true}
	generic = xdpMode{generic: true}
)

// AF_XDP ports pass what every kind of port has to pass.
func init() {
	onSwitch := func(format string, mode xdpMode) func(testing.TB, int, Options) Port {
		return func(t testing.TB, i int, o Options) Port {
			t.Helper()
			p := openXDPOn(t, newHosts(t, 3, 9000)[i], fmt.Sprintf(format, i+1), o, mode)
			for to := range 3 {
				resolve(t, p, fmt.Sprintf(format, to+1))
			}
			return p
		}
	}
	moreKinds = append(moreKinds,
		kindUnderTest{"xdp4", onSwitch("10.78.0.%d", native)}, kindUnderTest{"xdp6", onSwitch("fd79::%d", native)},
		kindUnderTest{"xdp4-generic", onSwitch("10.78.0.%d", generic)})
	benchPorts = append(benchPorts, struct{ name, format string }{"xdp", "xdp:10.77.0.%d"})
}
