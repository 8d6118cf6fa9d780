package udp

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/capture"
	"github.com/goroce/goroce/transport/fault"
	"github.com/goroce/goroce/transport/internal/porttest"
)

// moreKinds is the same port over IPv6, between addresses of a namespace.
func moreKinds(test testing.TB) []porttest.Kind {
	return []porttest.Kind{{Name: "udp6", IPv6: true, Open: func(t testing.TB, i int, o transport.Options) transport.Port {
		t.Helper()
		netns.Need(t)
		return porttest.OpenIn(t, netns.NewLoopback(test), Open, fmt.Sprintf("udp:fd77::%d", i+1), o)
	}}}
}

func TestWatched(t *testing.T) {
	kinds := kindsUnderTest(t)
	captured, faulty := kinds[0], kinds[0]
	captured.Name, captured.Around = "captured", func(p transport.Port) transport.Port { return capture.Wrap(p, nil) }
	faulty.Name, faulty.Around = "faulty", func(p transport.Port) transport.Port {
		return capture.Wrap(fault.Wrap(p, fault.Config{On: fault.Send | fault.Recv}), nil)
	}
	porttest.TestWatched(t, kinds[0], kinds[2], captured, faulty)
}

func TestLanes(t *testing.T) {
	netns.Need(t)
	porttest.TestLanes(t,
		porttest.Lanes{Name: "udp4", Open: Open, Address: "udp:127.77.0.%d", Group: "239.1.2.3",
			Within: func(_ int, f func()) { netns.NewLoopback(t).Do(f) }},
		porttest.Lanes{Name: "udp6", Open: Open, Address: "udp:fd78::%d", Group: "ff15::77",
			Within: func(i int, f func()) { netns.NewWireWithQueues(t, 4).End(i).Do(f) }})
}

// TestShareOfRows: a flood to one address leaves the others their share, also those whose packets
// come one by one, of which a Recv asks the kernel for fewer than it has places.
func TestShareOfRows(t *testing.T) {
	for _, places := range []int{16, 2 * recvMsgs} {
		t.Run(fmt.Sprint(places), func(t *testing.T) { porttest.TestShareOfRows(t, Open, "udp", places) })
	}
}

func TestEvents(t *testing.T) {
	porttest.TestEvents(t, func(t testing.TB, ns *netns.Namespace) transport.Port {
		return porttest.OpenIn(t, ns, Open, "udp:10.77.0.2", transport.Options{})
	})
}

// Of several lanes the first tells of events, and that ends with it; the others do without.
func TestEventsOfLanes(t *testing.T) {
	w := netns.NewWire(t, 1500)
	lanes := porttest.OpenLanesIn(t, w.Right, Open, "udp:10.77.0.2", 2, transport.Options{})
	first, second := transport.Events(lanes[0]), transport.Events(lanes[1])
	if first == nil || second != nil {
		t.Fatalf("events of lane 0: %v, of lane 1: %v", first, second)
	}
	w.Right.IP(t, "link set wire mtu 1400")
	if got := <-first; got != transport.MTUChanged {
		t.Error(got)
	}
	if err := lanes[0].Close(); err != nil {
		t.Error(err)
	}
	if got, open := <-first; open {
		t.Errorf("%v after Close", got)
	}
	w.Right.IP(t, "link set wire mtu 1300")
	porttest.Until(t, "the MTU of the lane that is left", func() bool { return lanes[1].Info().NetMTU == 1300 })
}
