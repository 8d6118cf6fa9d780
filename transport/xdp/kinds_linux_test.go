package xdp

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

var (
	native  = mode{native: true}
	generic = mode{generic: true}
)

// openOn opens a port in a namespace, attached in one mode only.
func openOn(t testing.TB, ns *netns.Namespace, where string, o transport.Options, mode mode) transport.Port {
	t.Helper()
	return porttest.OpenIn(t, ns, opener(mode), "xdp:"+where, o)
}

// opener opens ports in one mode.
func opener(mode mode) transport.Opener {
	return func(name string, lanes int, o transport.Options) ([]transport.Port, error) {
		where, err := transport.Where(name, lanes)
		if err != nil {
			return nil, err
		}
		return openMode(name, where, lanes, o.WithDefaults(), mode)
	}
}

// kindsUnderTest are ports of hosts on one switch: an interface takes only one port for all its
// queues, so there must be several. They last as long as the test.
func kindsUnderTest(test testing.TB) []porttest.Kind {
	onSwitch := func(format string, mode mode) func(testing.TB, int, transport.Options) transport.Port {
		return func(t testing.TB, i int, o transport.Options) transport.Port {
			t.Helper()
			p := openOn(t, netns.NewSwitch(test, 3, 9000)[i], fmt.Sprintf(format, i+1), o, mode)
			for to := range 3 {
				porttest.Resolve(t, p, fmt.Sprintf(format, to+1))
			}
			return p
		}
	}
	return []porttest.Kind{
		{Name: "xdp4", Open: onSwitch("10.78.0.%d", native)},
		{Name: "xdp6", Open: onSwitch("fd79::%d", native), IPv6: true},
		{Name: "xdp4-generic", Open: onSwitch("10.78.0.%d", generic)},
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
	porttest.TestLanes(t, porttest.Lanes{Name: "xdp4", Open: Open, Address: "xdp:10.77.0.%d", Group: "239.1.2.3", Spread: true,
		Within: func(i int, f func()) { netns.NewWireWithQueues(t, 4).End(i).Do(f) }})
}

// What can not be several lanes says so.
func TestLanesOpenErrors(t *testing.T) {
	w := netns.NewWireWithQueues(t, 2)
	for _, c := range []struct{ name, want string }{
		{"xdp:10.77.0.1/0", "one queue is one lane, not 4"},
		{"xdp:10.77.0.1", "interface wire has fewer than 4 queues"},
	} {
		w.Left.Do(func() {
			list, err := Open(c.name, 4, transport.Options{})
			transport.CloseAll(list)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
}

// TestForged: what comes by the wire from a source that nobody there has is dropped.
func TestRows(t *testing.T) { porttest.TestRows(t, Open, "xdp", 1) }

// TestShareOfRows: a flood to one address leaves the others their share.
func TestShareOfRows(t *testing.T) { porttest.TestShareOfRows(t, Open, "xdp", 16) }

// TestShareOfQueues: the same for a flood by one queue of the card.
func TestShareOfQueues(t *testing.T) { porttest.TestShareOfQueues(t, Open, "xdp") }

func TestForged(t *testing.T) {
	porttest.Forged(t, func(t testing.TB, ns *netns.Namespace, address string) transport.Port {
		return openOn(t, ns, address, transport.Options{}, native)
	})
}

func TestEvents(t *testing.T) {
	porttest.TestEvents(t, func(t testing.TB, ns *netns.Namespace) transport.Port {
		return openOn(t, ns, "10.77.0.2", transport.Options{}, native)
	})
}
