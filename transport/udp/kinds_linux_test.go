package udp

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/porttest"
)

// moreKinds is the same port over IPv6, between addresses of a namespace.
func moreKinds(test testing.TB) []porttest.Kind {
	return []porttest.Kind{{Name: "udp6", IPv6: true, Open: func(t testing.TB, i int, o transport.Options) transport.Port {
		t.Helper()
		return porttest.OpenIn(t, netns.NewLoopback(test), Open, fmt.Sprintf("udp:fd77::%d", i+1), o)
	}, Within: func(f func()) { netns.NewLoopback(test).Do(f) }}}
}

func TestWatched(t *testing.T) {
	kinds := kindsUnderTest(t)
	porttest.TestWatched(t, kinds[0], kinds[2])
}

func TestLanes(t *testing.T) {
	porttest.TestLanes(t,
		porttest.Lanes{Name: "udp4", Open: Open, Address: "udp:127.77.0.%d", Group: "239.1.2.3",
			Within: func(t testing.TB, _ int, f func()) { netns.NewLoopback(t).Do(f) }},
		porttest.Lanes{Name: "udp6", Open: Open, Address: "udp:fd78::%d", Group: "ff15::77",
			Within: func(t testing.TB, i int, f func()) { netns.NewWireWithQueues(t, 4).End(i).Do(f) }})
}
