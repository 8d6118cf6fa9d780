package rdmacm

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/roce"
)

// TestWire: devices that are interfaces, between two hosts, of ports that know their neighbours and
// of ports that must find them out; IPv4, IPv6 and link-local addresses; and a neighbour that does
// not answer.
func TestWire(t *testing.T) {
	for _, kind := range []string{"udp", "packet"} {
		t.Run(kind, func(t *testing.T) {
			w := netns.NewWire(t, 1500)
			w.Left.IP(t, "-6 addr add fe80::77/64 dev wire nodad")
			w.Right.IP(t, "-6 addr add fe80::78/64 dev wire nodad")
			a, b := newHostIn(t, w.Left, kind+":wire"), newHostIn(t, w.Right, kind+":wire")
			l := b.id(PSTCP)
			require.NoError(t, l.BindAddr(netip.AddrPortFrom(netip.IPv6Unspecified(), 7471)))
			require.NoError(t, l.Listen(0))
			for _, dst := range []string{"10.77.0.2", "10.77.0.3", "fd78::2", "fe80::78%wire"} {
				id := a.id(PSTCP)
				var err error
				to := netip.AddrPortFrom(netip.MustParseAddr(dst), 7471)
				w.Left.Do(func() { err = id.ResolveAddr(netip.AddrPort{}, to, 0) })
				require.NoError(t, err)
				a.next(EventAddrResolved)
				require.NoError(t, id.ResolveRoute(0))
				a.next(EventRouteResolved)
				_, mtu, err := id.AddressVector()
				require.NoError(t, err)
				require.Equal(t, roce.MTU1024, mtu)
				qa := a.pair(id)
				require.NoError(t, id.Connect(nil))
				passive := b.next(EventConnectRequest).ID
				require.Equal(t, dst, passive.LocalAddr().Addr().String())
				require.Equal(t, id.LocalAddr(), passive.PeerAddr())
				qb := b.pair(passive)
				require.NoError(t, passive.Accept(nil))
				a.next(EventEstablished)
				b.next(EventEstablished)
				message(t, a, b, qa, qb, "over "+kind)
				require.NoError(t, passive.Close())
				a.next(EventDisconnected)
				require.NoError(t, id.Close())
			}
			if kind == "packet" {
				id := a.id(PSTCP)
				var err error
				nobody := netip.MustParseAddrPort("10.77.0.99:7471")
				w.Left.Do(func() { err = id.ResolveAddr(netip.AddrPort{}, nobody, 1) })
				require.NoError(t, err)
				require.Error(t, a.next(EventAddrError).Err)
			}
		})
	}
}

// newHostIn is newHost in a namespace.
func newHostIn(t *testing.T, ns *netns.Namespace, name string) *host {
	t.Helper()
	var dev *roce.Device
	var err error
	ns.Do(func() { dev, err = roce.Open(name, nil) })
	require.NoError(t, err)
	return hostOn(t, dev)
}
