package packet

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/porttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openOn opens port i of a wire: 0 on the left, the others on the right. format is as
// "packet:10.77.0.%d".
func openOn(t testing.TB, w *netns.Wire, format string, i int, o transport.Options) transport.Port {
	t.Helper()
	return porttest.OpenIn(t, w.End(i), Open, fmt.Sprintf(format, i+1), o)
}

// kindsUnderTest are packet ports between two namespaces, and on loopback. The namespaces last as
// long as the test.
func kindsUnderTest(test testing.TB) []porttest.Kind {
	onWire := func(format string) func(testing.TB, int, transport.Options) transport.Port {
		return func(t testing.TB, i int, o transport.Options) transport.Port {
			t.Helper()
			p := openOn(t, netns.NewWire(test, 9000), format, i, o)
			for to := range 4 { // as a connection does before it sends
				if (to == 0) != (i == 0) {
					_, dst, _ := strings.Cut(fmt.Sprintf(format, to+1), ":")
					porttest.Resolve(t, p, dst)
				}
			}
			return p
		}
	}
	onLoopback := func(format string) func(testing.TB, int, transport.Options) transport.Port {
		return func(t testing.TB, i int, o transport.Options) transport.Port {
			t.Helper()
			return porttest.OpenIn(t, netns.NewLoopback(test), Open, fmt.Sprintf(format, i+1), o)
		}
	}
	return []porttest.Kind{
		{Name: "packet4", Open: onWire("packet:10.77.0.%d")},
		{Name: "packet6", Open: onWire("packet:fd78::%d"), IPv6: true},
		{Name: "packet4-lo", Open: onLoopback("packet:127.77.0.%d")},
		{Name: "packet6-lo", Open: onLoopback("packet:fd77::%d"), IPv6: true},
	}
}

func TestPort(t *testing.T) {
	netns.Need(t)
	porttest.Test(t, kindsUnderTest(t)...)
}

func TestWatched(t *testing.T) {
	netns.Need(t)
	porttest.TestWatched(t, kindsUnderTest(t)...)
}

func TestLanes(t *testing.T) {
	netns.Need(t)
	onWire := func(i int, f func()) { netns.NewWireWithQueues(t, 4).End(i).Do(f) }
	porttest.TestLanes(t,
		porttest.Lanes{Name: "packet4", Open: Open, Address: "packet:10.77.0.%d", Group: "239.1.2.3", Within: onWire},
		porttest.Lanes{Name: "packet6", Open: Open, Address: "packet:fd78::%d", Group: "ff15::77", Within: onWire})
}

// TestForged: what comes by the wire from a source that nobody there has is dropped.
func TestRows(t *testing.T) {
	for _, lanes := range []int{1, 2} {
		t.Run(fmt.Sprint(lanes), func(t *testing.T) { porttest.TestRows(t, Open, "packet", lanes) })
	}
}

// TestShareOfRows: a flood to one address leaves the others their share.
func TestShareOfRows(t *testing.T) { porttest.TestShareOfRows(t, Open, "packet", 16) }

func TestForged(t *testing.T) {
	porttest.Forged(t, func(t testing.TB, ns *netns.Namespace, address string) transport.Port {
		return porttest.OpenIn(t, ns, Open, "packet:"+address, transport.Options{})
	})
}

func TestEvents(t *testing.T) {
	porttest.TestEvents(t, func(t testing.TB, ns *netns.Namespace) transport.Port {
		return porttest.OpenIn(t, ns, Open, "packet:10.77.0.2", transport.Options{})
	})
}
