package conformance

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/roce"
)

// TestVeth plays the suite on the ports of an interface with all its addresses, over a veth pair
// between two namespaces.
func TestVeth(t *testing.T) {
	for _, kind := range []string{"udp", "packet", "xdp"} {
		t.Run(kind, func(t *testing.T) {
			a, b := netns.New(t), netns.New(t)
			a.IP(t, fmt.Sprintf("link add wire mtu 9000 type veth peer name wire mtu 9000 netns %d", b.Thread()))
			var devices [2]*roce.Device
			for i, ns := range []*netns.Namespace{a, b} {
				ns.IP(t, "link set wire addrgenmode none", fmt.Sprintf("addr add 10.77.0.%d/24 dev wire",
					i+1), fmt.Sprintf("addr add 10.77.0.%d/24 dev wire", i+3),
					fmt.Sprintf("-6 addr add fe80::%d/64 dev wire nodad", i+1), fmt.Sprintf("-6 addr add fd78::%d/64 dev wire nodad",
						i+1), "link set wire up")
			}
			for i, ns := range []*netns.Namespace{a, b} {
				ns.Settle()
				var err error
				ns.Do(func() { devices[i], err = roce.Open(kind+":wire", nil) })
				if err != nil {
					netns.Lacks(t, "%v", err)
				}
				t.Cleanup(func() { must(t, devices[i].Close()) })
			}
			within(t, devices[0], devices[1], true)
		})
	}
}
