package udp

// A port that has all addresses of its interface.

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

func TestRows(t *testing.T) {
	for _, lanes := range []int{1, 2} {
		t.Run(fmt.Sprint(lanes), func(t *testing.T) { porttest.TestRows(t, Open, "udp", lanes) })
	}
}

// BenchmarkEmptyRecv is a Recv in vain: of one address, of three of one IP version (one system call
// that looks at all), and of an interface with both versions (two).
func BenchmarkEmptyRecv(b *testing.B) {
	w := netns.NewWire(b, 1500)
	w.Left.IP(b, "addr add 10.77.0.5/24 dev wire", "addr add 10.77.0.6/24 dev wire", "-6 addr flush dev wire")
	for _, c := range []struct {
		name string
		ns   *netns.Namespace
		port string
	}{{"address", w.Right, "udp:10.77.0.2"}, {"addresses", w.Left, "udp:wire"}, {"both", w.Right, "udp:wire"}} {
		b.Run(c.name, func(b *testing.B) {
			p := porttest.OpenIn(b, c.ns, Open, c.port, transport.Options{})
			defer p.Close()
			frames := make([]wire.Frame, 128)
			for b.Loop() {
				if n, err := p.Recv(frames); n != 0 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
