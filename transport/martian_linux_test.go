package transport

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/goroce/goroce/wire"
)

// forgedSources is what no packet to 10.77.0.2/24 or fd78::2 comes from; on lo some of it may.
var forgedSources = []struct {
	src  string
	onLo bool
}{
	{"10.77.0.2", true}, {"127.0.0.1", true}, {"127.255.0.9", true}, {"224.0.0.1", false}, {"239.9.9.9", false},
	{"255.255.255.255", false}, {"10.77.0.255", false}, {"0.0.0.0", false}, {"0.1.2.3", false},
	{"fd78::2", true}, {"::1", true}, {"::", false}, {"ff02::1", false}, {"::ffff:10.77.0.1", false},
}

// forge makes an IP packet whose source is any address of the version of dst, right or wrong.
func forge(t testing.TB, src, dst string, number int) []byte {
	t.Helper()
	batch := wire.NewBatch(1, 100)
	from := "10.77.0.1"
	if strings.Contains(dst, ":") {
		from = "fd78::1"
	}
	put(t, batch, pathByHand(from, dst, 0xc001), number, 20)
	ip := wire.AppendFrame(nil, &batch.Frames()[0])
	gid, err := wire.ParseGID(src)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(dst, ":") {
		copy(ip[8:], gid[:])
	} else {
		copy(ip[12:], gid[12:])
		(*wire.IPv4)(ip).UpdateChecksum()
	}
	frame, drop := wire.SplitFrame(ip)
	if drop != wire.DropNone {
		t.Fatal(drop)
	}
	wire.Seal(&frame)
	return ip
}

func TestMartians(t *testing.T) {
	for _, loopback := range []bool{false, true} {
		check := func(src string, want bool) {
			t.Helper()
			m := martians{loopback: loopback}
			dst := "10.77.0.2"
			if strings.Contains(src, ":") {
				dst = "fd78::2"
			}
			m.own, _ = wire.ParseGID(dst)
			m.broadcast, _ = wire.ParseGID("10.77.0.255")
			frame, drop := wire.SplitFrame(forge(t, src, dst, 1))
			if drop != wire.DropNone {
				t.Fatal(drop)
			}
			if got := m.has(&frame); got != want {
				t.Errorf("from %s, on lo %v: %v, want %v", src, loopback, got, want)
			}
		}
		for _, c := range forgedSources {
			check(c.src, !loopback || !c.onLo)
		}
		for _, src := range []string{"10.77.0.1", "10.77.0.3", "10.77.0.254", "1.0.0.1", "126.0.0.1", "128.0.0.1", "223.255.255.255", "240.0.0.1",
			"fd78::1", "fd78::3", "fe80::1", "2001:db8::1", "64:ff9b::a4d:2"} {
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

// TestForgedPackets: what comes by the wire from a source that nobody there has is dropped and
// counted. What a port sends to itself arrives as before.
func TestForgedPackets(t *testing.T) {
	for _, kind := range []string{"packet", "xdp"} {
		for _, format := range []string{"10.77.0.%d", "fd78::%d"} {
			t.Run(kind+"/"+fmt.Sprintf(format, 2), func(t *testing.T) {
				w := newWire(t, 1500)
				var p Port
				if kind == "xdp" {
					p = openXDPOn(t, w.right, fmt.Sprintf(format, 2), Options{}, native)
				} else {
					p = w.open(t, "packet:"+format, 1, Options{})
				}
				send := w.rawSender(t)
				from := func(src string, number int) {
					frame := ether(forge(t, src, fmt.Sprintf(format, 2), number))
					copy(frame, p.Info().MAC)
					send(frame)
				}
				forged := uint64(0)
				for _, c := range forgedSources {
					if strings.Contains(c.src, ":") != strings.Contains(format, ":") {
						continue
					}
					from(c.src, 9)
					from(fmt.Sprintf(format, 1), 0) // what comes after it shows that it does not come
					drain(t, p, 4, 1)
					if forged++; p.Stats().RecvForged != forged || p.Stats().RecvBad != 0 {
						t.Errorf("from %s: %+v", c.src, p.Stats())
					}
				}
				batch := wire.NewBatch(1, 200)
				put(t, batch, pathBetween(t, p, p, 0, 64), 0, 64)
				sendAll(t, p, batch)
				drain(t, p, 4, 1)
			})
		}
	}
}
