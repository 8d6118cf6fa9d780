package porttest

// A port that has all addresses of its interface, while they come and go.

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// RowsOf prints the rows of a port, "-" for an empty one.
func RowsOf(p transport.Port) string {
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
			if err := transport.Resolve(context.Background(), a, dst, Patience); err != nil {
				t.Fatal(err)
			}
			path, err := wire.NewPath(src, dst, a.Info().SrcPort, 0, 64, 0)
			if err != nil {
				t.Fatal(err)
			}
			Put(t, batch, &path, len(want), 40)
			Put(t, batch, &path, len(want), 40)
			want = append(want, [2]wire.GID{src, dst}, [2]wire.GID{src, dst})
		}
	}
	SendAll(t, a, batch)
	var got [][2]wire.GID
	for len(got) < len(want) {
		for _, f := range RecvSome(t, b, frames) {
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

// TestRows: the rows of an interface, the best address first, each of which receives and sends;
// they stay put while addresses come and go. kind is as "udp", lanes is for one end.
func TestRows(t *testing.T, open transport.Opener, kind string, lanes int) {
	w := netns.NewWire(t, 1500)
	for i, own := range []string{"fe80::11", "fe80::22"} {
		w.End(i).IP(t, "link set wire addrgenmode none", "-6 addr flush dev wire scope link",
			"-6 addr add "+own+"/64 dev wire nodad")
	}
	right := OpenLanesIn(t, w.Right, open, kind+":wire", lanes, transport.Options{})
	left := OpenIn(t, w.Left, open, kind+":wire", transport.Options{})
	events := transport.Events(right[0])
	start := RowsOf(right[0])
	if !strings.HasPrefix(start, "10.77.0.2 10.77.0.3 10.77.0.4 fd78::") || !strings.Contains(start, "fe80::22") ||
		strings.Contains(start, "-") {
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
		{"addr add 10.77.0.7/24 dev wire", transport.AddressBack, strings.Replace(start, "10.77.0.3", "-", 1) +
			" 10.77.0.7"},
		{"addr add 10.77.0.3/24 dev wire", transport.AddressBack, start + " 10.77.0.7"},
		{"-6 addr del fe80::22/64 dev wire", transport.AddressGone, strings.Replace(start, "fe80::22", "-", 1) +
			" 10.77.0.7"},
		{"-6 addr add fe80::22/64 dev wire nodad", transport.AddressBack, start + " 10.77.0.7"},
	} {
		w.Right.IP(t, c.command)
		if e := <-events; e != c.want || RowsOf(right[0]) != c.rows {
			t.Fatalf("%s: %v, rows %s, want %s", c.command, e, RowsOf(right[0]), c.rows)
		}
		passAll()
	}
	testRowGone(t, w, left, right[0], start)
}

// testRowGone: what is sent from an address that has gone goes nowhere, and is counted; the address
// is free for others at once, and one that another has is an empty row.
func testRowGone(t *testing.T, w *netns.Wire, left, right transport.Port, start string) {
	events := transport.Events(right)
	path, err := wire.NewPath(wire.GIDFrom(netip.MustParseAddr("10.77.0.3")), left.Info().GIDs[0],
		right.Info().SrcPort, 0, 64, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.Right.IP(t, "addr del 10.77.0.3/24 dev wire")
	if e := <-events; e != transport.AddressGone {
		t.Fatal(e)
	}
	batch := wire.NewBatch(4, 200)
	Put(t, batch, &path, 1, 40)
	before := right.Stats().SendUnreachable
	SendAll(t, right, batch)
	if s := right.Stats(); s.SendUnreachable != before+1 ||
		!strings.Contains(s.LastSendError, "source address has gone") {
		t.Errorf("%+v", s)
	}
	w.Right.IP(t, "link add other type veth peer name end", "addr add 10.77.0.3/32 dev other", "link set other up")
	var fd int
	w.Right.Do(func() {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet4{Port: wire.UDPPort, Addr: [4]byte{10, 77, 0, 3}})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	w.Right.IP(t, "addr add 10.77.0.3/24 dev wire", "addr add 10.77.0.8/24 dev wire")
	want := strings.Replace(start, "10.77.0.3", "-", 1) + " 10.77.0.7 10.77.0.8"
	if e := <-events; e != transport.AddressBack || RowsOf(right) != want {
		t.Errorf("%v, rows %s, want %s", e, RowsOf(right), want)
	}
	if d := right.Info().Degraded; !slices.ContainsFunc(d, func(d transport.Degradation) bool {
		return d.Feature == "address 10.77.0.3"
	}) {
		t.Errorf("%v", d)
	}
}
