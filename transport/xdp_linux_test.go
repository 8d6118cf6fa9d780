package transport

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/wire"
)

// openXDPOn opens an xdp port in a namespace, attached in one mode only.
func openXDPOn(t testing.TB, ns *netns, rest string, o Options, mode xdpMode) Port {
	t.Helper()
	var p Port
	var err error
	ns.do(func() { p, err = openXDPMode("xdp:"+rest, rest, o.withDefaults(), mode) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func resolve(t testing.TB, p Port, addr string) {
	t.Helper()
	gid, err := wire.ParseGID(addr)
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := p.(Resolver); ok {
		if err := r.Resolve(gid, 3*time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

func TestXDPFirst(t *testing.T) {
	for _, mode := range []xdpMode{{native: true}, {generic: true}} {
		for _, mtu := range []int{9000, 1500} {
			t.Run(fmt.Sprintf("%+v %d", mode, mtu), func(t *testing.T) {
				w := newWire(t, mtu)
				a := openXDPOn(t, w.left, "10.77.0.1", Options{}, mode)
				b := openXDPOn(t, w.right, "10.77.0.2", Options{}, mode)
				resolve(t, a, "10.77.0.2")
				t.Logf("%+v", a.Info())
				batch := wire.NewBatch(64, 4200)
				frames := make([]wire.Frame, 64)
				path := pathTo(t, a, b.Info().GIDs[0], 0, 64)
				for i, n := range []int{0, 1, 2, 3, 4, 63, 256, 1024, 1400, 3700, 3800, 4000, 4095, 4096} {
					if n > mtu {
						break
					}
					put(t, batch, path, i, n)
					sendAll(t, a, batch)
					got := recvSome(t, b, frames)
					if len(got) != 1 || number(t, &got[0]) != i {
						t.Fatalf("%d bytes: %d frames", n, len(got))
					}
				}
				t.Logf("%+v %+v", a.Stats(), b.Stats())
			})
		}
	}
	_ = strings.Cut
}
