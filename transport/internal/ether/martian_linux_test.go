package ether

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

func TestMartians(t *testing.T) {
	for _, loopback := range []bool{false, true} {
		check := func(src string, want bool) {
			t.Helper()
			m := Martians{loopback: loopback}
			dst := "10.77.0.2"
			if strings.Contains(src, ":") {
				dst = "fd78::2"
			}
			own, _ := wire.ParseGID(dst)
			broadcast, _ := wire.ParseGID("10.77.0.255")
			m.own, m.broadcast = []wire.GID{{0: 0xfd, 15: 9}, own}, []wire.GID{broadcast}
			frame, drop := wire.SplitFrame(porttest.Forge(t, src, dst, 1))
			if drop != wire.DropNone {
				t.Fatal(drop)
			}
			if got := m.Has(&frame); got != want {
				t.Errorf("from %s, on lo %v: %v, want %v", src, loopback, got, want)
			}
		}
		for _, c := range porttest.ForgedSources {
			check(c.Source, !loopback || !c.OnLo)
		}
		for _, src := range []string{"10.77.0.1", "10.77.0.3", "10.77.0.254", "1.0.0.1", "126.0.0.1", "128.0.0.1", "223.255.255.255",
			"240.0.0.1", "fd78::1", "fd78::3", "fe80::1", "2001:db8::1", "64:ff9b::a4d:2"} {
			check(src, false)
		}
	}
}

func TestBroadcastOf(t *testing.T) {
	for prefix, want := range map[string]string{"10.77.8.2/21": "10.77.15.255", "10.77.0.2/24": "10.77.0.255", "10.0.0.1/30": "10.0.0.3"} {
		if got := broadcastOf(netip.MustParsePrefix(prefix)); got.Addr().String() != want {
			t.Errorf("%s: broadcast %v, want %s", prefix, got, want)
		}
	}
}
