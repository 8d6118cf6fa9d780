package udp

// A port that has all addresses of its interface, while they come and go.

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

// rowsOf prints the rows of a port, "-" for an empty one; addresses that end alike are all there
// is.
func rowsOf(p transport.Port) string {
	var list []string
	for _, g := range p.Info().GIDs {
		text := "-"
		if !g.IsZero() {
			text = g.Addr().String()
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// pass sends a packet from each of a's addresses to each of b's of the same version, which arrives
// with them.
func pass(t *testing.T, a, b transport.Port) {
	t.Helper()
	batch, frames := wire.NewBatch(64, 200), make([]wire.Frame, 64)
	batch.MaxRun(a.Info().MaxRun)
	var want [][2]wire.GID
	for _, src := range a.Info().GIDs {
		for _, dst := range b.Info().GIDs {
			local := func(g wire.GID) bool { return g.Addr().IsLinkLocalUnicast() }
			if src.IsZero() || dst.IsZero() || src.Is4() != dst.Is4() || local(src) != local(dst) {
				continue
			}
			path, err := wire.NewPath(src, dst, a.Info().SrcPort, 0, 64, 0)
			if err != nil {
				t.Fatal(err)
			}
			porttest.Put(t, batch, &path, len(want), 40)
			porttest.Put(t, batch, &path, len(want), 40)
			want = append(want, [2]wire.GID{src, dst}, [2]wire.GID{src, dst})
		}
	}
	porttest.SendAll(t, a, batch)
	var got [][2]wire.GID
	for len(got) < len(want) {
		for _, f := range porttest.RecvSome(t, b, frames) {
			if !wire.Verify(&f) {
				t.Errorf("a bad ICRC from %v to %v", f.Src(), f.Dst())
			}
			got = append(got, [2]wire.GID{f.Src(), f.Dst()})
		}
	}
	order := func(x, y [2]wire.GID) int {
		return strings.Compare(fmt.Sprint(x), fmt.Sprint(y))
	}
	slices.SortFunc(want, order)
	slices.SortFunc(got, order)
	if !slices.Equal(got, want) {
		t.Errorf("%v arrived of %v", got, want)
	}
}

// TestInterface: the rows of an interface, the best address first, each of which receives and
// sends; they stay put while addresses come and go.
func TestInterface(t *testing.T) {
	for _, lanes := range []int{1, 2} {
		t.Run(fmt.Sprint(lanes), func(t *testing.T) {
			w := netns.NewWire(t, 1500)
			for i, own := range []string{"fe80::11", "fe80::22"} {
				w.End(i).IP(t, "link set wire addrgenmode none", "-6 addr flush dev wire scope link", "-6 addr add "+own+"/64 dev wire nodad")
			}
			right := porttest.OpenLanesIn(t, w.Right, Open, "udp:wire", lanes, transport.Options{})
			left := porttest.OpenIn(t, w.Left, Open, "udp:wire", transport.Options{})
			r := right[0]
			events := transport.Events(r)
			start := rowsOf(r)
			if !strings.HasPrefix(start, "10.77.0.2 10.77.0.3 10.77.0.4 fd78::") || !strings.Contains(start, "fe80::22") || strings.Contains(start, "-") {
				t.Fatalf("the rows are %s", start)
			}
			passAll := func() {
				t.Helper()
				for _, p := range right {
					if lanes == 1 { // else the kernel steers to the lane of the queue pair
						pass(t, left, p)
					}
					pass(t, p, left)
				}
			}
			passAll()
			for _, c := range []struct {
				command string
				want    transport.Event
				rows    string
			}{
				{"addr del 10.77.0.3/24 dev wire", transport.AddressGone, strings.Replace(start, "10.77.0.3", "-", 1)},
				{"addr add 10.77.0.7/24 dev wire", transport.AddressBack, strings.Replace(start, "10.77.0.3", "-", 1) + " 10.77.0.7"},
				{"addr add 10.77.0.3/24 dev wire", transport.AddressBack, start + " 10.77.0.7"},
				{"-6 addr del fe80::22/64 dev wire", transport.AddressGone, strings.Replace(start, "fe80::22", "-", 1) + " 10.77.0.7"},
				{"-6 addr add fe80::22/64 dev wire nodad", transport.AddressBack, start + " 10.77.0.7"},
			} {
				w.Right.IP(t, c.command)
				if e := <-events; e != c.want || rowsOf(r) != c.rows {
					t.Fatalf("%s: %v, rows %s, want %s", c.command, e, rowsOf(r), c.rows)
				}
				passAll()
			}
		})
	}
}

// TestRowGone: what is sent from an address that has gone goes nowhere, and is counted; the address
// is free for others at once, and one that another has is an empty row.
func TestRowGone(t *testing.T) {
	w := netns.NewWire(t, 1500)
	r, left := porttest.OpenIn(t, w.Right, Open, "udp:wire", transport.Options{}), porttest.OpenIn(t, w.Left, Open, "udp:10.77.0.1", transport.Options{})
	events := transport.Events(r)
	path, err := wire.NewPath(wire.GIDFrom(netip.MustParseAddr("10.77.0.3")), left.Info().GIDs[0], r.Info().SrcPort, 0, 64, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.Right.IP(t, "addr del 10.77.0.3/24 dev wire")
	if e := <-events; e != transport.AddressGone {
		t.Fatal(e)
	}
	batch := wire.NewBatch(4, 200)
	porttest.Put(t, batch, &path, 1, 40)
	porttest.SendAll(t, r, batch)
	if s := r.Stats(); s.SendUnreachable != 1 || !strings.Contains(s.LastSendError, "source address has gone") {
		t.Errorf("%+v", s)
	}
	w.Right.IP(t, "link add other type veth peer name end", "addr add 10.77.0.3/32 dev other", "link set other up")
	other := porttest.OpenIn(t, w.Right, Open, "udp:10.77.0.3", transport.Options{})
	w.Right.IP(t, "addr add 10.77.0.3/24 dev wire", "addr add 10.77.0.8/24 dev wire")
	if e := <-events; e != transport.AddressBack || strings.Contains(rowsOf(r), "10.77.0.3") || !strings.Contains(rowsOf(r), "10.77.0.8") {
		t.Errorf("%v, rows %s", e, rowsOf(r))
	}
	if d := r.Info().Degraded; !slices.ContainsFunc(d, func(d transport.Degradation) bool { return d.Feature == "address 10.77.0.3" }) {
		t.Errorf("%v", d)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
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
