package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

// ether makes an Ethernet packet around an IP packet, with the VLAN tags given.
func ether(ip []byte, tags ...uint16) []byte {
	b := make([]byte, 12, len(ip)+22)
	for _, tag := range tags {
		b = binary.BigEndian.AppendUint16(b, unix.ETH_P_8021Q)
		b = binary.BigEndian.AppendUint16(b, tag)
	}
	if ip[0]>>4 == 6 {
		b = binary.BigEndian.AppendUint16(b, unix.ETH_P_IPV6)
	} else {
		b = binary.BigEndian.AppendUint16(b, unix.ETH_P_IP)
	}
	return append(b, ip...)
}

// The kernel runs the program on packets that differ from ours in one thing each.
func TestXDPProgram(t *testing.T) {
	const pass, redirect = 2, 4
	w := newWire(t, 9000)
	p := openXDPOn(t, w.left, "10.77.0.1/0", Options{}, native).(*xdpPort)
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
	group, _ := wire.ParseGID("239.1.2.3")
	for _, c := range []struct {
		name   string
		packet []byte
		want   uint32
	}{
		{"ours", ether(v4), redirect},
		{"ours, IPv6", ether(v6), redirect},
		{"with a priority", ether(v4, 5<<13), redirect},
		{"with a priority, IPv6", ether(v6, 5<<13), redirect},
		{"of VLAN 7", ether(v4, 7), pass},
		{"with two tags", ether(v4, 0, 0), pass},
		{"another address", ether(rocePacket(t, "10.77.0.9", "10.77.0.2")), pass},
		{"another address, IPv6", ether(rocePacket(t, "fd78::9", "fd78::2")), pass},
		{"a group not joined", ether(rocePacket(t, "10.77.0.9", "239.1.2.3")), pass},
		{"IPv4 options", ether(changed(v4, 0, 0x46)), pass},
		{"first fragment", ether(changed(v4, 6, 0x20, 0)), pass},
		{"other fragment", ether(changed(v4, 6, 0, 1)), pass},
		{"may not be fragmented", ether(changed(v4, 6, 0x40, 0)), redirect},
		{"TCP", ether(changed(v4, 9, unix.IPPROTO_TCP)), pass},
		{"another port", ether(changed(v4, 22, 0x12, 0xb6)), pass},
		{"TCP, IPv6", ether(changed(v6, 6, unix.IPPROTO_TCP)), pass},
		{"another port, IPv6", ether(changed(v6, 42, 0x12, 0xb6)), pass},
		{"cut off", ether(v4)[:etherLen+27], pass},
		{"cut off, IPv6", ether(v6)[:etherLen+47], pass},
		{"ARP", changed(ether(v4), 12, 0x08, 0x06), pass},
	} {
		if got, _, err := p.hook.program.Test(c.packet); err != nil || got != c.want {
			t.Errorf("%s: result %d, %v, want %d", c.name, got, err, c.want)
		}
	}
	packet := ether(rocePacket(t, "10.77.0.9", "239.1.2.3"))
	for _, want := range []uint32{redirect, pass} {
		change := p.JoinGroup
		if want == pass {
			change = p.LeaveGroup
		}
		if err := change(group); err != nil {
			t.Fatal(err)
		}
		if got, _, err := p.hook.program.Test(packet); err != nil || got != want {
			t.Errorf("group: result %d, %v, want %d", got, err, want)
		}
	}
	if err := p.hook.admit(gid6, p, false); err != nil {
		t.Fatal(err)
	}
	if got, _, err := p.hook.program.Test(ether(v6)); err != nil || got != pass {
		t.Errorf("no longer ours: result %d, %v", got, err)
	}
}

// rocePacket is a whole IP packet.
func rocePacket(t testing.TB, src, dst string) []byte {
	t.Helper()
	batch := wire.NewBatch(1, 100)
	put(t, batch, pathByHand(src, dst, 0xc001), 1, 20)
	return wire.AppendFrame(nil, &batch.Frames()[0])
}

// What stands in the way of a port is said in words.
func TestXDPOpenErrors(t *testing.T) {
	w := newWire(t, 9000)
	openXDPOn(t, w.left, "10.77.0.1", Options{}, native)
	w.left.ip(t, "addr add 10.77.0.5/24 dev wire", "link add lone type bridge", "addr add 10.99.0.1/24 dev lone", "link set lone up",
		"tuntap add mode tun name tun0", "addr add 10.98.0.1/24 dev tun0", "link set tun0 up")
	for _, c := range []struct{ name, want string }{
		{"xdp:10.77.0.1/x", `"x" is not the number of a queue, 0 to 63`},
		{"xdp:10.77.0.1/64", `"64" is not the number of a queue`},
		{"xdp:10.77.0.77", "10.77.0.77 is not an address of this machine"},
		{"xdp:10.77.0.1", "UDP port 4791 of 10.77.0.1 is in use by another device of this process"},
		{"xdp:10.77.0.5", "the queues of interface wire are not all free; xdp:10.77.0.5/QUEUE takes a single one (queue 0 belongs to xdp:10.77.0.1)"},
		{"xdp:10.77.0.5/3", "interface wire has no queue 3"},
		{"xdp:127.0.0.1", "interface lo brings what AF_XDP sends to no other program"},
		{"xdp:10.98.0.1", "interface tun0 is not Ethernet"},
	} {
		w.left.do(func() {
			p, err := Open(c.name, Options{})
			if err == nil {
				p.Close()
			}
			var oe *OpenError
			if !errors.As(err, &oe) || oe.Name != c.name || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v (want %q)", c.name, err, c.want)
			}
		})
	}
	w.left.do(func() {
		if err := probeXDP("xdp:10.77.0.5", "10.77.0.5", Options{}.withDefaults()); err == nil || !strings.Contains(err.Error(), `has an XDP program already ("roce", id`) {
			t.Errorf("probe of an interface with a program: %v", err)
		}
		if err := probeXDP("xdp:10.99.0.1", "10.99.0.1", Options{}.withDefaults()); err != nil {
			t.Errorf("probe of a bridge: %v", err)
		}
	})
}

// Missing capabilities are named, all of them.
func TestXDPCapabilities(t *testing.T) {
	ns := newNetns(t, "link add lone type bridge", "addr add 10.99.0.1/24 dev lone", "link set lone up")
	for _, c := range []struct {
		without []int
		want    string
	}{
		{[]int{unix.CAP_NET_RAW}, "missing: CAP_NET_RAW. Run as root"},
		{[]int{unix.CAP_BPF, unix.CAP_SYS_ADMIN}, "missing: CAP_BPF. Run as root"},
		{[]int{unix.CAP_NET_RAW, unix.CAP_NET_ADMIN, unix.CAP_BPF, unix.CAP_SYS_ADMIN}, "missing: CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF. Run as root"},
		{[]int{unix.CAP_IPC_LOCK}, "MiB of packet memory is more than this process may lock"},
	} {
		var limit unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); c.without[0] == unix.CAP_IPC_LOCK && limit.Cur > maxXDPReceive {
			continue
		}
		err := withoutCapabilities(t, ns, c.without, func() error {
			p, err := Open("xdp:10.99.0.1", Options{})
			if err == nil {
				p.Close()
			}
			return err
		})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v (want %q)", err, c.want)
		}
	}
}

// withoutCapabilities runs f on a thread that lacks some, in a namespace.
func withoutCapabilities(t *testing.T, ns *netns, without []int, f func() error) error {
	t.Helper()
	var fd int
	var err error
	ns.do(func() { fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		err := errors.Join(unix.Setns(fd, unix.CLONE_NEWNET), unix.Capget(&header, &data[0]))
		for _, c := range without {
			data[c/32].Effective &^= 1 << (c % 32)
		}
		if err := errors.Join(err, unix.Capset(&header, &data[0])); err != nil {
			result <- fmt.Errorf("the test itself: %w", err)
			return
		}
		result <- f()
	}()
	return <-result
}

// What nobody receives in time is lost and counted; what was lent does not change meanwhile.
func TestXDPOverflow(t *testing.T) {
	w := newWire(t, 9000)
	a, b := openXDPOn(t, w.left, "10.77.0.1", Options{}, native), openXDPOn(t, w.right, "10.77.0.2", Options{RecvBuffer: 1}, native)
	resolve(t, a, "10.77.0.2")
	batch, frames := wire.NewBatch(64, 4400), make([]wire.Frame, 5)
	path := pathTo(t, a, b.Info().GIDs[0], 0, 64)
	put(t, batch, path, 0, 4096)
	sendAll(t, a, batch)
	lent := recvSome(t, b, frames)
	const sent = 1000
	for i := 1; i < sent; i++ {
		put(t, batch, path, i, 4096)
		sendAll(t, a, batch)
	}
	if number(t, &lent[0]) != 0 {
		t.Fatal("what was lent has changed")
	}
	got := 1
	for uint64(got)+b.Stats().RecvOverflow < sent { // ends only if each is the one or the other
		n, err := b.Recv(frames)
		if err != nil {
			t.Fatal(err)
		}
		for i := range frames[:n] {
			if number(t, &frames[i]) != got {
				t.Fatalf("packet %d instead of %d", number(t, &frames[i]), got)
			}
			got++
		}
	}
	if s := b.Stats(); s.RecvOverflow == 0 || s.RecvOverflow+uint64(got) != sent {
		t.Errorf("%d received, %d overflowed", got, s.RecvOverflow)
	}
}

// Frames that can not go are skipped and counted, also all of them while the interface is down; later ones go.
func TestXDPUnsendable(t *testing.T) {
	w := newWire(t, 9000)
	a, b := openXDPOn(t, w.left, "10.77.0.1", Options{SendBuffer: 1}, native), openXDPOn(t, w.right, "10.77.0.2", Options{}, native)
	resolve(t, a, "10.77.0.2")
	batch, frames := wire.NewBatch(64, 20000), make([]wire.Frame, 64)
	to := pathTo(t, a, b.Info().GIDs[0], 0, 64)
	put(t, batch, to, 1, 100)
	put(t, batch, to, 2, 9100)
	put(t, batch, pathByHand("10.77.0.1", "10.88.0.1", 0xc001), 3, 100)
	put(t, batch, to, 4, 100)
	sendAll(t, a, batch)
	for _, want := range []int{1, 4} {
		if got := recvSome(t, b, frames[:1]); number(t, &got[0]) != want {
			t.Fatalf("packet %d instead of %d", number(t, &got[0]), want)
		}
	}
	if s := a.Stats(); s.SendFrames != 2 || s.SendTooLong != 1 || s.SendUnreachable != 1 || s.LastSendError == "" {
		t.Errorf("%+v", s)
	}
	w.left.ip(t, "link set wire down")
	for range 2000 {
		put(t, batch, to, 5, 4096)
		sendAll(t, a, batch)
	}
	w.left.ip(t, "link set wire up")
	w.left.settle()
	w.right.settle()
	resolve(t, a, "10.77.0.2")
	for deadline := time.Now().Add(patience); ; {
		put(t, batch, to, 6, 100)
		sendAll(t, a, batch)
		n, _ := b.Recv(frames)
		if n > 0 && number(t, &frames[n-1]) == 6 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing arrives after the interface was down: %+v", a.Stats())
		}
		b.Wait(time.Millisecond)
	}
}

// An interface that goes away is an error of the port, and no obstacle to closing it.
func TestXDPInterfaceGone(t *testing.T) {
	w := newWire(t, 9000)
	a := openXDPOn(t, w.left, "10.77.0.1", Options{}, native)
	resolve(t, a, "10.77.0.2")
	w.left.ip(t, "link del wire")
	batch, gid := wire.NewBatch(64, 400), a.(*xdpPort).gid
	dst, _ := wire.ParseGID("10.77.0.2")
	path, _ := wire.NewPath(gid, dst, 0xc001, 0, 64, 0)
	var err error
	for range 100 {
		put(t, batch, &path, 1, 100)
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
func TestXDPPiecesDoNotAllocate(t *testing.T) {
	for _, mode := range []xdpMode{native, {native: true, plain: true}} {
		w := newWire(t, 9000)
		a, b := openXDPOn(t, w.left, "10.77.0.1", Options{}, mode), openXDPOn(t, w.right, "10.77.0.2", Options{}, mode)
		resolve(t, a, "10.77.0.2")
		batch, frames := wire.NewBatch(64, 4400), make([]wire.Frame, 64)
		path := pathTo(t, a, b.Info().GIDs[0], 0, 64)
		turn := func() {
			for i := range 60 {
				put(t, batch, path, i, 4096)
			}
			sendAll(t, a, batch)
			for n := 0; n < 60; {
				n += len(recvSome(t, b, frames))
			}
		}
		if n := leastAllocs(20, turn); n != 0 {
			t.Errorf("plain=%v: %v allocations", mode.plain, n)
		}
		a.Close()
		b.Close()
	}
}
