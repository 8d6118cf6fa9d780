package route

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

// TestLoopback: every machine can reach itself.
func TestLoopback(t *testing.T) {
	r, err := To(netip.MustParseAddr("127.0.0.1"), netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", r.Source.String())
	require.True(t, r.Local)
	require.NotZero(t, r.Index)
	require.NotEmpty(t, r.Interface)
	require.Equal(t, wire.MTU4096, r.MTU())
	mapped, err := To(netip.MustParseAddr("::ffff:127.0.0.1"), netip.IPv6Unspecified())
	require.NoError(t, err)
	require.Equal(t, r, mapped)
}

// TestNoRoute: what is wrong is named.
func TestNoRoute(t *testing.T) {
	for _, c := range []struct{ dst, src, says string }{
		{"0.0.0.0", "", "no route to 0.0.0.0: it is not the address of a host"},
		{"::", "", "it is not the address of a host"},
		{"127.0.0.1", "::1", "no route from ::1 to 127.0.0.1: one is IPv4 and one IPv6"},
		{"fe80::1", "", "a link-local address needs its interface, as in fe80::1%eth0"},
		{"fe80::1%none0", "", `no interface "none0"`},
		{"127.0.0.1", "192.0.2.77", "no route from 192.0.2.77 to 127.0.0.1: "},
	} {
		var src netip.Addr
		if c.src != "" {
			src = netip.MustParseAddr(c.src)
		}
		_, err := To(netip.MustParseAddr(c.dst), src)
		require.ErrorIs(t, err, ErrNoRoute)
		require.ErrorContains(t, err, c.says)
	}
	_, err := To(netip.Addr{}, netip.Addr{})
	require.ErrorIs(t, err, ErrNoRoute)
}
