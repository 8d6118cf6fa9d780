package udp

// A port that has all addresses of its interface.

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
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

// TestLanesFindAPort: the port that a lane sends from is one that is free at all addresses of the
// interface.
func TestLanesFindAPort(t *testing.T) {
	ns := vethPair(t)
	var taken net.PacketConn
	var err error
	ns.Do(func() {
		if err = os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40001"), 0); err == nil {
			taken, err = net.ListenPacket("udp", "[fd78::1]:40000")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for range 10 {
		ports := porttest.OpenLanesIn(t, ns, Open, "udp:v0", 2, transport.Options{})
		if got, rows := ports[1].Info().SrcPort, len(ports[1].Info().GIDs); got != 40001 || rows < 2 {
			t.Errorf("port %d, %d addresses", got, rows)
		}
		if err := transport.CloseAll(ports); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAddressGoesUnderSend: a run that meets the socket of an address that has gone since Send
// looked is counted as such, and later runs still leave as runs.
func TestAddressGoesUnderSend(t *testing.T) {
	opened := porttest.OpenIn(t, vethPair(t), Open, "udp:v0", transport.Options{})
	p := opened.(*port)
	dst, _ := wire.ParseGID("10.9.0.2")
	path := porttest.PathTo(t, p, dst, 0, 64)
	batch, longest := wire.NewBatch(64, 1100), p.Info().MaxRun
	batch.MaxRun(longest)
	for i := range 8 {
		porttest.Put(t, batch, path, i, 100)
	}
	s, frames := &p.send, batch.Frames()
	s.from = p.sockets.list.Load().sender(&frames[0], true)
	n := s.lay(batch, frames, 0, true)
	p.setRow(slices.Index(p.sockets.rows, s.from), nil)

	done, errno := s.sendmmsg(n)
	if done != 0 || errno == 0 {
		t.Fatalf("%d messages left by a socket that is blank: %v", done, errno)
	}
	if skip, err := s.refused(errno, frames[:s.runs[0]]); skip != s.runs[0] || skip < 2 || err != nil {
		t.Errorf("%v: %d of %d skipped, %v", errno, skip, s.runs[0], err)
	}
	if got := p.Stats(); got.SendUnreachable != uint64(s.runs[0]) || got.SendRefused != 0 || got.LastSendError != errNoAddress.Error() {
		t.Errorf("%+v", got)
	}
	if i := p.Info(); i.MaxRun != longest || len(i.Degraded) > 0 {
		t.Errorf("runs of %d, before %d: %v", i.MaxRun, longest, i.Degraded)
	}
}

// TestAddressOfSlotGoes: its row is empty until it is back, as a plain port's is, and the other row
// stays.
func TestAddressOfSlotGoes(t *testing.T) {
	w := netns.NewWire(t, 1500)
	var list []Slot
	var ports []transport.Port
	var err error
	w.Right.Do(func() {
		list, err = MakeSlots([]netip.Addr{netip.MustParseAddr("10.77.0.3"), netip.MustParseAddr("fd78::2")}, 2, 1,
			transport.Options{})
		if err == nil {
			ports, err = OpenSlot("slot", list[1], transport.Options{})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseAll(ports)
	for _, s := range list {
		defer s.Close()
	}
	ports[0].(transport.Notifier).Events() // a device listens
	for _, rows := range []struct{ change, want string }{
		{"addr del 10.77.0.3/24 dev wire", "- fd78::2"},
		{"addr add 10.77.0.3/24 dev wire", "10.77.0.3 fd78::2"},
		{"-6 addr del fd78::2/64 dev wire", "10.77.0.3 -"},
	} {
		w.Right.IP(t, rows.change)
		porttest.Until(t, rows.want, func() bool { return porttest.RowsOf(ports[0]) == rows.want })
	}
}

// TestOverflowStays: what was lost at an address or in a group stays counted when that goes, and
// when the port is closed.
func TestOverflowStays(t *testing.T) {
	w := netns.NewWire(t, 1500)
	a := porttest.OpenIn(t, w.Left, Open, "udp:wire", transport.Options{})
	b := porttest.OpenIn(t, w.Right, Open, "udp:wire", transport.Options{RecvBuffer: 4096})
	group, _ := wire.ParseGID("239.7.7.7")
	address, _ := wire.ParseGID("10.77.0.3")
	if err := b.(transport.Multicaster).JoinGroup(group); err != nil {
		t.Fatal(err)
	}
	lost := uint64(0)
	flood := func(dst wire.GID) {
		t.Helper()
		porttest.Until(t, "an overflow", func() bool {
			batch := wire.NewBatch(64, 1100)
			for i := range 64 {
				porttest.Put(t, batch, porttest.PathTo(t, a, dst, 0, 64), i, 1024)
			}
			porttest.SendAll(t, a, batch)
			return b.Stats().RecvOverflow > lost
		})
		lost = b.Stats().RecvOverflow
	}
	stays := func(when string) {
		t.Helper()
		if n := b.Stats().RecvOverflow; n != lost {
			t.Errorf("%s: %d packets were lost, before that %d", when, n, lost)
		}
	}
	events := transport.Events(b)
	flood(address)
	w.Right.IP(t, "addr del 10.77.0.3/24 dev wire")
	if e := <-events; e != transport.AddressGone {
		t.Fatal(e)
	}
	stays("without the address")
	flood(group)
	if err := b.(transport.Multicaster).LeaveGroup(group); err != nil {
		t.Fatal(err)
	}
	stays("without the group")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	stays("closed")
}

// TestGroupBurst: a group's packets have as much room between two turns as an address'.
func TestGroupBurst(t *testing.T) {
	w := netns.NewWire(t, 1500)
	a := porttest.OpenIn(t, w.Left, Open, "udp:wire", transport.Options{})
	b := porttest.OpenIn(t, w.Right, Open, "udp:wire", transport.Options{})
	group, _ := wire.ParseGID("239.7.7.7")
	if err := b.(transport.Multicaster).JoinGroup(group); err != nil {
		t.Fatal(err)
	}
	const bursts, burst = 8, 64
	for range bursts {
		batch := wire.NewBatch(burst, 1100)
		for i := range burst {
			porttest.Put(t, batch, porttest.PathTo(t, a, group, 0, 64), i, 1024)
		}
		porttest.SendAll(t, a, batch)
	}
	got, frames := 0, make([]wire.Frame, burst)
	porttest.Until(t, "all packets, or a loss", func() bool {
		n, err := b.Recv(frames)
		if got += n; err != nil {
			t.Fatal(err)
		}
		return got == bursts*burst || b.Stats().RecvOverflow > 0
	})
	if lost := b.Stats().RecvOverflow; lost > 0 {
		t.Errorf("%d packets were lost", lost)
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
