package route

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/wire"
)

// TestWire: the cases on a wire with a gateway, routes with an MTU, and addresses of both versions.
func TestWire(t *testing.T) {
	left := netns.NewWire(t, 1500).Left
	left.IP(t, "route add 10.99.0.0/16 via 10.77.0.2", "route add 10.98.0.0/16 via 10.77.0.3 mtu 1100",
		"route add 10.97.0.0/16 via inet6 fd78::3 dev wire", "route add unreachable 10.96.0.0/16",
		"addr add 10.77.0.9/24 dev wire", "-6 addr add fe80::77/64 dev wire nodad")
	for _, c := range []struct {
		dst, src       string
		source, nextTo string
		mtu            wire.MTU
		local          bool
	}{
		{"10.77.0.2", "", "10.77.0.1", "10.77.0.2", wire.MTU1024, false},
		{"10.77.0.2", "10.77.0.9", "10.77.0.9", "10.77.0.2", wire.MTU1024, false},
		{"10.99.1.1", "", "10.77.0.1", "10.77.0.2", wire.MTU1024, false},
		{"10.98.1.1", "", "10.77.0.1", "10.77.0.3", wire.MTU512, false},
		{"10.97.1.1", "", "10.77.0.1", "fd78::3", wire.MTU1024, false},
		{"10.77.0.9", "", "10.77.0.1", "10.77.0.9", wire.MTU1024, true},
		{"10.77.0.9", "10.77.0.1", "10.77.0.1", "10.77.0.9", wire.MTU1024, true},
		{"fd78::2", "", "fd78::1", "fd78::2", wire.MTU1024, false},
		{"ff02::77%wire", "", "fe80::77%wire", "ff02::77", wire.MTU1024, false},
		{"fe80::5%wire", "fe80::77", "fe80::77%wire", "fe80::5%wire", wire.MTU1024, false},
		{"fe80::5", "fe80::77%wire", "fe80::77%wire", "fe80::5%wire", wire.MTU1024, false},
		{"224.0.0.77", "10.77.0.1", "10.77.0.1", "224.0.0.77", wire.MTU1024, false},
		{"ff12::77%wire", "fd78::1", "fd78::1", "ff12::77", wire.MTU1024, false},
	} {
		var src netip.Addr
		if c.src != "" {
			src = netip.MustParseAddr(c.src)
		}
		var r Route
		var err error
		left.Do(func() { r, err = To(netip.MustParseAddr(c.dst), src) })
		require.NoError(t, err, "%+v", c)
		require.Equal(t, "wire", r.Interface, "%+v", c)
		require.Equal(t, [2]string{c.source, c.nextTo}, [2]string{r.Source.String(), r.NextHop.String()}, "%+v", c)
		require.Equal(t, c.mtu, r.MTU(), "%+v", c)
		require.Equal(t, c.local, r.Local, "%+v", c)
		if !src.IsValid() {
			var own netip.Addr
			left.Do(func() { own, err = Source(netip.MustParseAddr(c.dst)) })
			require.NoError(t, err, "%+v", c)
			require.Equal(t, r.Source, own, "%+v", c)
			continue
		}
		var known Route
		left.Do(func() { known, err = From(src, Link{r.Interface, r.Index, 1500}, netip.MustParseAddr(c.dst)) })
		require.NoError(t, err, "%+v", c)
		require.Equal(t, r, known, "%+v", c)
	}
	for dst, errno := range map[string]unix.Errno{"10.96.0.1": unix.EHOSTUNREACH, "192.0.2.1": unix.ENETUNREACH} {
		var err error
		left.Do(func() { _, err = To(netip.MustParseAddr(dst), netip.Addr{}) })
		require.ErrorIs(t, err, ErrNoRoute)
		require.ErrorIs(t, err, errno)
	}
}

// TestFromOtherInterface: what is known of the interface of the source does not count where the
// route is by another one.
func TestFromOtherInterface(t *testing.T) {
	left := netns.NewWire(t, 1500).Left
	left.IP(t, "addr add 10.66.0.1/32 dev lo")
	left.Do(func() {
		r, err := From(netip.MustParseAddr("10.66.0.1"), Link{"lo", 1, 65536}, netip.MustParseAddr("10.77.0.2"))
		require.NoError(t, err)
		require.Equal(t, "wire", r.Interface)
		require.Equal(t, 1500, r.NetMTU)
	})
}
