package pingpong

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

func TestAddressIsThatOfTheOriginal(t *testing.T) {
	for _, c := range []struct {
		msg  string
		want address
	}{
		{"0000:000011:5b3a2c:00000000000000000000ffff0a000001\x00",
			address{QPN: 0x11, PSN: 0x5b3a2c, GID: wire.GIDFrom(netip.MustParseAddr("10.0.0.1"))}},
		{"0001:ffffff:000000:fe800000000000005054fffe00123456\x00",
			address{LID: 1, QPN: 0xffffff, GID: wire.GIDFrom(netip.MustParseAddr("fe80::5054:fffe:12:3456"))}},
	} {
		require.Equal(t, c.msg, string(c.want.append(nil)))
		require.Len(t, c.msg, addressLen)
		got, err := parseAddress([]byte(c.msg))
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func TestAddressThatIsNone(t *testing.T) {
	for msg, why := range map[string]string{
		"0000:000011:5b3a2c:00000000000000000000000000000000\x00": "start it with -g",
		"0000:0000zz:5b3a2c:00000000000000000000ffff0a000001\x00": "invalid syntax",
		"0000:000011:5b3a2c:0000000000000000000xffff0a000001\x00": "invalid byte",
		"6.06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00":    "not lid:qpn:psn:gid",
		"0000-000011:5b3a2c:00000000000000000000ffff0a000001\x00": "not lid:qpn:psn:gid",
	} {
		_, err := parseAddress([]byte(msg))
		require.ErrorContains(t, err, why)
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add([]byte("0000:000011:5b3a2c:00000000000000000000ffff0a000001\x00"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		if a, err := parseAddress(msg); err == nil {
			again, err := parseAddress(a.append(nil))
			require.NoError(t, err)
			require.Equal(t, a, again)
		}
	})
}
