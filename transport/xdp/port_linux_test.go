package xdp

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/ether"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

// Results of the program.
const pass, redirect = 2, 4

// The kernel runs the program on packets that differ from ours in one thing each.
func TestProgram(t *testing.T) {
	w := netns.NewWire(t, 9000)
	p := openOn(t, w.Left, "10.77.0.1/0", transport.Options{}, native).(*port)
	gid6, _ := wire.ParseGID("fd78::1")
	if err := p.hook.admit(gid6, p, true); err != nil { // as a second port would do for its queue
		t.Fatal(err)
	}
	v4, v6 := rocePacket(t, "10.77.0.9", "10.77.0.1"), rocePacket(t, "fd78::9", "fd78::1")
	changed := func(b []byte, at int, to ...byte) []byte {
		b = append([]byte(nil), b...)
		copy(b[at:], to)
		return b
	}
	for _, c := range []struct {
		name   string
		packet []byte
		want   uint32
	}{
		{"ours", porttest.Ether(v4), redirect},
		{"ours, IPv6", porttest.Ether(v6), redirect},
		{"with a priority", porttest.Ether(v4, 5<<13), redirect},
		{"with a priority, IPv6", porttest.Ether(v6, 5<<13), redirect},
		{"of VLAN 7", porttest.Ether(v4, 7), pass},
		{"with two tags", porttest.Ether(v4, 0, 0), pass},
		{"another address", porttest.Ether(rocePacket(t, "10.77.0.9", "10.77.0.2")), pass},
		{"another address, IPv6", porttest.Ether(rocePacket(t, "fd78::9", "fd78::2")), pass},
		{"a group not joined", porttest.Ether(rocePacket(t, "10.77.0.9", "239.1.2.3")), pass},
		{"IPv4 options", porttest.Ether(changed(v4, 0, 0x46)), pass},
		{"first fragment", porttest.Ether(changed(v4, 6, 0x20, 0)), pass},
		{"other fragment", porttest.Ether(changed(v4, 6, 0, 1)), pass},
		{"may not be fragmented", porttest.Ether(changed(v4, 6, 0x40, 0)), redirect},
		{"TCP", porttest.Ether(changed(v4, 9, unix.IPPROTO_TCP)), pass},
		{"another port", porttest.Ether(changed(v4, 22, 0x12, 0xb6)), pass},
		{"TCP, IPv6", porttest.Ether(changed(v6, 6, unix.IPPROTO_TCP)), pass},
		{"another port, IPv6", porttest.Ether(changed(v6, 42, 0x12, 0xb6)), pass},
		{"cut off", porttest.Ether(v4)[:ether.HeaderLen+27], pass},
		{"cut off, IPv6", porttest.Ether(v6)[:ether.HeaderLen+47], pass},
		{"ARP", changed(porttest.Ether(v4), 12, 0x08, 0x06), pass},
	} {
		if got, _, err := p.hook.program.Test(c.packet); err != nil || got != c.want {
			t.Errorf("%s: result %d, %v, want %d", c.name, got, err, c.want)
		}
	}
	if err := p.hook.admit(gid6, p, false); err != nil {
		t.Fatal(err)
	}
	if got, _, err := p.hook.program.Test(porttest.Ether(v6)); err != nil || got != pass {
		t.Errorf("no longer ours: result %d, %v", got, err)
	}
}

// A group's packets are redirected as long as it is joined.
func TestProgramGroup(t *testing.T) {
	p := openOn(t, netns.NewWire(t, 9000).Left, "10.77.0.1/0", transport.Options{}, native).(*port)
	group, _ := wire.ParseGID("239.1.2.3")
	packet := porttest.Ether(rocePacket(t, "10.77.0.9", "239.1.2.3"))
	for _, c := range []struct {
		change func(wire.GID) error
		want   uint32
	}{{p.JoinGroup, redirect}, {p.LeaveGroup, pass}} {
		if err := c.change(group); err != nil {
			t.Fatal(err)
		}
		if got, _, err := p.hook.program.Test(packet); err != nil || got != c.want {
			t.Errorf("result %d, %v, want %d", got, err, c.want)
		}
	}
}

// rocePacket is a whole IP packet.
func rocePacket(t testing.TB, src, dst string) []byte {
	t.Helper()
	batch := wire.NewBatch(1, 100)
	porttest.Put(t, batch, porttest.PathByHand(src, dst, 0xc001), 1, 20)
	return wire.AppendFrame(nil, &batch.Frames()[0])
}

// What stands in the way of a port is said in words.
func TestOpenErrors(t *testing.T) {
	w := netns.NewWire(t, 9000)
	openOn(t, w.Left, "10.77.0.1", transport.Options{}, native)
	w.Left.IP(t, "addr add 10.77.0.5/24 dev wire", "link add lone type bridge", "addr add 10.99.0.1/24 dev lone", "link set lone up",
		"tuntap add mode tun name tun0", "addr add 10.98.0.1/24 dev tun0", "link set tun0 up")
	for _, c := range []struct{ name, want string }{
		{"xdp:10.77.0.1/x", `"x" is not the number of a queue, 0 to 63`},
		{"xdp:10.77.0.1/64", `"64" is not the number of a queue`},
		{"xdp:10.77.0.77", "10.77.0.77 is not an address of this machine"},
		{"xdp:10.77.0.1", "UDP port 4791 of 10.77.0.1 is in use by another device of this process"},
		{"xdp:10.77.0.5", "the queues of interface wire are not all free; xdp:10.77.0.5/QUEUE takes a single one (queue 0 belongs to " +
			"xdp:10.77.0.1)"},
		{"xdp:10.77.0.5/3", "interface wire has no queue 3"},
		{"xdp:127.0.0.1", "interface lo brings what AF_XDP sends to no other program"},
		{"xdp:10.98.0.1", "interface tun0 is not Ethernet"},
	} {
		w.Left.Do(func() {
			list, err := Open(c.name, 1, transport.Options{})
			transport.CloseAll(list)
			var oe *transport.OpenError
			if !errors.As(err, &oe) || oe.Name != c.name || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v (want %q)", c.name, err, c.want)
			}
		})
	}
	w.Left.Do(func() {
		if err := probe("xdp:10.77.0.5", "10.77.0.5", transport.Options{}.WithDefaults()); err == nil ||
			!strings.Contains(err.Error(), `has an XDP program already ("roce", id`) {
			t.Errorf("probe of an interface with a program: %v", err)
		}
		if err := probe("xdp:10.99.0.1", "10.99.0.1", transport.Options{}.WithDefaults()); err != nil {
			t.Errorf("probe of a bridge: %v", err)
		}
	})
}

// Missing capabilities are named, all of them.
func TestCapabilities(t *testing.T) {
	for _, c := range []struct {
		without []int
		want    string
	}{
		{[]int{unix.CAP_NET_RAW}, "missing: CAP_NET_RAW. Run as root"},
		{[]int{unix.CAP_BPF, unix.CAP_SYS_ADMIN}, "missing: CAP_BPF. Run as root"},
		{[]int{unix.CAP_NET_RAW, unix.CAP_NET_ADMIN, unix.CAP_BPF, unix.CAP_SYS_ADMIN},
			"missing: CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF. Run as root"},
		{[]int{unix.CAP_IPC_LOCK}, "MiB of packet memory is more than this process may lock"},
	} {
		var limit unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); c.without[0] == unix.CAP_IPC_LOCK && limit.Cur > maxReceive {
			continue
		}
		err := withoutCapabilities(t, c.without, func() error {
			list, err := Open("xdp:10.99.0.1", 1, transport.Options{})
			transport.CloseAll(list)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v (want %q)", err, c.want)
		}
	}
}

// withoutCapabilities runs f where some are missing: on the thread of a namespace of its own, which
// ends with the test.
func withoutCapabilities(t *testing.T, without []int, f func() error) (err error) {
	t.Helper()
	netns.New(t, "link add lone type bridge", "addr add 10.99.0.1/24 dev lone", "link set lone up").Do(func() {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		err = unix.Capget(&header, &data[0])
		for _, c := range without {
			data[c/32].Effective &^= 1 << (c % 32)
		}
		if err = errors.Join(err, unix.Capset(&header, &data[0])); err == nil {
			err = f()
		}
	})
	return err
}

// What nobody receives in time is lost and counted; what was lent does not change meanwhile.
func TestOverflow(t *testing.T) {
	w := netns.NewWire(t, 9000)
	a, b := openOn(t, w.Left, "10.77.0.1", transport.Options{}, native),
		openOn(t, w.Right, "10.77.0.2", transport.Options{RecvBuffer: 1}, native)
	porttest.Resolve(t, a, "10.77.0.2")
	batch, frames := wire.NewBatch(64, 4400), make([]wire.Frame, 5)
	path := porttest.PathTo(t, a, b.Info().GIDs[0], 0, 64)
	porttest.Put(t, batch, path, 0, 4096)
	porttest.SendAll(t, a, batch)
	lent := porttest.RecvSome(t, b, frames)
	const sent = 1000
	for i := 1; i < sent; i++ {
		porttest.Put(t, batch, path, i, 4096)
		porttest.SendAll(t, a, batch)
	}
	if porttest.Number(t, &lent[0]) != 0 {
		t.Fatal("what was lent has changed")
	}
	got := 1
	for uint64(got)+b.Stats().RecvOverflow < sent { // ends only if each is the one or the other
		n, err := b.Recv(frames)
		if err != nil {
			t.Fatal(err)
		}
		for i := range frames[:n] {
			if porttest.Number(t, &frames[i]) != got {
				t.Fatalf("packet %d instead of %d", porttest.Number(t, &frames[i]), got)
			}
			got++
		}
	}
	if s := b.Stats(); s.RecvOverflow == 0 || s.RecvOverflow+uint64(got) != sent {
		t.Errorf("%d received, %d overflowed", got, s.RecvOverflow)
	}
}

// Frames that can not go are skipped and counted, also all of them while the interface is down;
// later ones go.
func TestUnsendable(t *testing.T) {
	w := netns.NewWire(t, 9000)
	a, b := openOn(t, w.Left, "10.77.0.1", transport.Options{SendBuffer: 1}, native),
		openOn(t, w.Right, "10.77.0.2", transport.Options{}, native)
	porttest.Resolve(t, a, "10.77.0.2")
	batch, frames := wire.NewBatch(64, 20000), make([]wire.Frame, 64)
	to := porttest.PathTo(t, a, b.Info().GIDs[0], 0, 64)
	porttest.Put(t, batch, to, 1, 100)
	porttest.Put(t, batch, to, 2, 9100)
	porttest.Put(t, batch, porttest.PathByHand("10.77.0.1", "10.88.0.1", 0xc001), 3, 100)
	porttest.Put(t, batch, to, 4, 100)
	porttest.SendAll(t, a, batch)
	for _, want := range []int{1, 4} {
		if got := porttest.RecvSome(t, b, frames[:1]); porttest.Number(t, &got[0]) != want {
			t.Fatalf("packet %d instead of %d", porttest.Number(t, &got[0]), want)
		}
	}
	if s := a.Stats(); s.SendFrames != 2 || s.SendTooLong != 1 || s.SendUnreachable != 1 || s.LastSendError == "" {
		t.Errorf("%+v", s)
	}
	w.Left.IP(t, "link set wire down")
	for range 2000 {
		porttest.Put(t, batch, to, 5, 4096)
		porttest.SendAll(t, a, batch)
	}
	w.Left.IP(t, "link set wire up")
	w.Left.Settle()
	w.Right.Settle()
	porttest.Resolve(t, a, "10.77.0.2")
	for deadline := time.Now().Add(porttest.Patience); ; {
		porttest.Put(t, batch, to, 6, 100)
		porttest.SendAll(t, a, batch)
		n, _ := b.Recv(frames)
		if n > 0 && porttest.Number(t, &frames[n-1]) == 6 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing arrives after the interface was down: %+v", a.Stats())
		}
		b.Wait(time.Millisecond)
	}
}

// An interface that goes away is an error of the port, and no obstacle to closing it.
func TestInterfaceGone(t *testing.T) {
	w := netns.NewWire(t, 9000)
	a := openOn(t, w.Left, "10.77.0.1", transport.Options{}, native)
	porttest.Resolve(t, a, "10.77.0.2")
	w.Left.IP(t, "link del wire")
	batch, gid := wire.NewBatch(64, 400), a.(*port).Rows()[0]
	dst, _ := wire.ParseGID("10.77.0.2")
	path, _ := wire.NewPath(gid, dst, 0xc001, 0, 64, 0)
	var err error
	for range 100 {
		porttest.Put(t, batch, &path, 1, 100)
		var n int
		if n, err = a.Send(batch); err != nil {
			break
		}
		batch.Drop(n)
		a.Wait(time.Millisecond)
	}
	if s := a.Stats(); err == nil && s.SendUnreachable+s.SendRefused == 0 {
		t.Errorf("no error: %+v", s)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// Packets of two pieces are sent, received and copied together without allocations too.
func TestPiecesDoNotAllocate(t *testing.T) {
	for _, mode := range []mode{native, {native: true, plain: true}} {
		w := netns.NewWire(t, 9000)
		a, b := openOn(t, w.Left, "10.77.0.1", transport.Options{}, mode), openOn(t, w.Right, "10.77.0.2", transport.Options{}, mode)
		porttest.Resolve(t, a, "10.77.0.2")
		batch, frames := wire.NewBatch(64, 4400), make([]wire.Frame, 64)
		path := porttest.PathTo(t, a, b.Info().GIDs[0], 0, 64)
		turn := func() {
			for i := range 60 {
				porttest.Put(t, batch, path, i, 4096)
			}
			porttest.SendAll(t, a, batch)
			for n := 0; n < 60; {
				n += len(porttest.RecvSome(t, b, frames))
			}
		}
		if n := porttest.LeastAllocs(20, turn); n != 0 {
			t.Errorf("plain=%v: %v allocations", mode.plain, n)
		}
		a.Close()
		b.Close()
	}
}
