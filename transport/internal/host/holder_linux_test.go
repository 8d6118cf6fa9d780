package host

import (
	"encoding/binary"
	"testing"

	"github.com/goroce/goroce/wire"
)

// The kernel's layout of /proc/net/udp.
func TestParseProcAddr(t *testing.T) {
	native := func(words ...uint32) (s string) {
		const digits = "0123456789ABCDEF"
		for _, w := range words { // %08X of each word as the machine reads the address bytes
			var b [4]byte
			binary.BigEndian.PutUint32(b[:], w)
			v := binary.NativeEndian.Uint32(b[:])
			for shift := 28; shift >= 0; shift -= 4 {
				s += string(digits[v>>shift&15])
			}
		}
		return s
	}
	for _, c := range []struct{ in, addr string }{
		{native(0x7f000001) + ":12B7", "127.0.0.1"},
		{native(0, 0, 0, 1) + ":12B7", "::1"},
		{native(0xfe800000, 0, 0x00fc00ff, 0xfe000001) + ":12B7", "fe80::fc:ff:fe00:1"},
	} {
		if addr, port, ok := parseProcAddr(c.in); !ok || addr.String() != c.addr || port != wire.UDPPort {
			t.Errorf("%s: %v %d %v", c.in, addr, port, ok)
		}
	}
	for _, bad := range []string{"", "x:1", "0100007F", "01:0001", "0100007F:zz"} {
		if _, _, ok := parseProcAddr(bad); ok {
			t.Errorf("%q parsed", bad)
		}
	}
}
