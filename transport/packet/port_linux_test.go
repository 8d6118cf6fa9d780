package packet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/ether"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/transport/udp"
	"github.com/goroce/goroce/wire"
)

// A run leaves as one packet, arrives as one, and is lent as the frames that it was made of, also
// over several Recvs.
func TestRuns(t *testing.T) {
	for _, format := range []string{"packet:10.77.0.%d", "packet:fd78::%d"} {
		for _, mtu := range []int{9000, 1500} {
			t.Run(fmt.Sprintf(format+"/%d", 1, mtu), func(t *testing.T) {
				w := netns.NewWire(t, mtu)
				a, b := openOn(t, w, format, 0, transport.Options{}), openOn(t, w, format, 1, transport.Options{})
				porttest.Reach(t, a, b)
				size, most := 4096, 15
				if mtu == 1500 {
					size, most = 1024, 62
				}
				batch := wire.NewBatch(64, 4200)
				batch.MaxRun(a.Info().MaxRun)
				path := porttest.PathBetween(t, a, b, 0, 64)
				for i := range most - 1 {
					porttest.Put(t, batch, path, i, size)
				}
				porttest.Put(t, batch, path, most-1, 333) // a shorter one ends it
				porttest.SendAll(t, a, batch)
				heads := porttest.Drain(t, b, 4, most)
				if h := heads[most-1]; len(h) == wire.Head4Len && binary.BigEndian.Uint16(h[4:]) != uint16(most-1) {
					t.Errorf("the last one has Identification %d", binary.BigEndian.Uint16(h[4:]))
				}
				if s, r := a.Stats(), b.Stats(); s.SendRuns != 1 || r.RecvRuns != 1 || r.RecvFrames != uint64(most) ||
					r.RecvOverflow+r.RecvBad != 0 {
					t.Errorf("sent %+v\nreceived %+v", s, r)
				}
			})
		}
	}
}

// Single packets have UDP checksum 0 as from hardware, until a run has left: a receiver that merges
// packets would let them pass by those of runs, which have one. (Linux 7.3 does so behind
// virtio_net: interop/wire_test.go.)
func TestSinglesAfterARunHaveChecksums(t *testing.T) {
	for _, format := range []string{"packet:10.77.0.%d", "packet:fd78::%d"} {
		w := netns.NewWire(t, 9000)
		a, b := openOn(t, w, format, 0, transport.Options{}), openOn(t, w, format, 1, transport.Options{})
		porttest.Reach(t, a, b)
		seen := porttest.Sniffer(t, w.Right, "wire")
		batch := wire.NewBatch(8, 200)
		batch.MaxRun(a.Info().MaxRun)
		path := porttest.PathBetween(t, a, b, 0, 64)
		var sums []bool
		for _, run := range []int{1, 1, 3, 1} {
			for range run {
				porttest.Put(t, batch, path, 0, 64)
			}
			porttest.SendAll(t, a, batch)
			sums = append(sums, nextChecksum(t, seen) != 0)
		}
		if want := []bool{false, false, true, true}; !slices.Equal(sums, want) {
			t.Errorf("%s: packets with checksums: %v, want %v", format, sums, want)
		}
	}
}

// nextChecksum is the UDP checksum of the next packet to port 4791 that a packet socket sees.
func nextChecksum(t *testing.T, fd int) uint16 {
	t.Helper()
	for buf := make([]byte, 1<<16); ; {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			t.Fatal(err)
		}
		head := wire.Head4Len
		if buf[0]>>4 == 6 {
			head = wire.Head6Len
		}
		if udp := buf[head-udpLen : head]; n > head && binary.BigEndian.Uint16(udp[2:]) == wire.UDPPort {
			return binary.BigEndian.Uint16(udp[6:])
		}
	}
}

// Packet and UDP ports reach each other, with runs, in both directions.
func TestReachesUDP(t *testing.T) {
	for _, format := range []string{"10.77.0.%d", "fd78::%d"} {
		for _, kinds := range [][2]string{{"packet:", "udp:"}, {"udp:", "packet:"}} {
			t.Run(kinds[0]+fmt.Sprintf(format, 1), func(t *testing.T) {
				w := netns.NewWire(t, 9000)
				open := func(i int, kind string) transport.Port {
					opener := map[string]transport.Opener{"packet:": Open, "udp:": udp.Open}[kind]
					return porttest.OpenIn(t, w.End(i), opener, fmt.Sprintf(kind+format, i+1), transport.Options{})
				}
				a, b := open(0, kinds[0]), open(1, kinds[1])
				porttest.Reach(t, a, b)
				porttest.Reach(t, b, a)
				ap := wire.NewBatch(64, 4200)
				for _, run := range []int{1, 64} {
					for _, d := range [][2]transport.Port{{a, b}, {b, a}} {
						ap.MaxRun(run)
						path := porttest.PathByHand(fmt.Sprintf(format, 1), fmt.Sprintf(format, 2), wire.UDPPort)
						if d[0] == b {
							path = porttest.PathByHand(fmt.Sprintf(format, 2), fmt.Sprintf(format, 1), wire.UDPPort)
						}
						for i := range 60 {
							porttest.Put(t, ap, path, i, []int{64, 4096, 1024}[i/20])
						}
						porttest.SendAll(t, d[0], ap)
						porttest.Drain(t, d[1], 64, 60)
					}
				}
			})
		}
	}
}

// The kernel says nothing to the senders of our packets, because the port holds the UDP port;
// without a port it does.
func TestNoICMP(t *testing.T) {
	w := netns.NewWire(t, 1500)
	a, b := openOn(t, w, "packet:10.77.0.%d", 0, transport.Options{}), openOn(t, w, "packet:10.77.0.%d", 1, transport.Options{})
	porttest.Reach(t, a, b)
	var icmp int
	w.Left.Do(func() { icmp, _ = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP) })
	defer unix.Close(icmp)
	unix.SetsockoptTimeval(icmp, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})

	batch := wire.NewBatch(4, 200)
	porttest.Put(t, batch, porttest.PathBetween(t, a, b, 0, 64), 0, 64)
	nobody, _ := wire.ParseGID("10.77.0.3")
	if err := transport.Resolve(context.Background(), a, nobody, porttest.Patience); err != nil {
		t.Fatal(err)
	}
	porttest.Put(t, batch, porttest.PathTo(t, a, nobody, 0, 64), 1, 64)
	porttest.SendAll(t, a, batch)
	porttest.Drain(t, b, 4, 1)
	// An answer about the first would come before that about the second.
	for about := ""; about != "10.77.0.3"; {
		buf := make([]byte, 1500)
		n, _, err := unix.Recvfrom(icmp, buf, 0)
		switch err {
		case nil:
		// The kernel sends only so many a second: nobody holds the port of 10.77.0.3, so it will
		// say so one day.
		case unix.EAGAIN, unix.EINTR:
			porttest.Put(t, batch, porttest.PathTo(t, a, nobody, 0, 64), 2, 64)
			porttest.SendAll(t, a, batch)
			continue
		default:
			t.Fatal(err)
		}
		if n < 56 || buf[20] != 3 || binary.BigEndian.Uint16(buf[50:]) != wire.UDPPort {
			continue // about something else: the neighbours were looked for by datagrams to port 9
		}
		if about = net.IP(buf[44:48]).String(); about != "10.77.0.3" {
			t.Fatalf("ICMP unreachable about %s", about)
		}
	}
}

// roceFrame is an Ethernet frame from 10.77.0.1 to 10.77.0.2, with a change to its IP packet.
func roceFrame(t *testing.T, mac []byte, number int, change func(ip []byte)) []byte {
	t.Helper()
	batch := wire.NewBatch(1, 200)
	porttest.Put(t, batch, porttest.PathByHand("10.77.0.1", "10.77.0.2", 0xc000), number, 64)
	ip := wire.AppendFrame(nil, &batch.Frames()[0])
	if change != nil {
		change(ip)
		(*wire.IPv4)(ip).UpdateChecksum()
	}
	eth := append(append([]byte(nil), mac...), 2, 0, 0, 0, 0, 1, 8, 0)
	return append(eth, ip...)
}

// tagged puts a VLAN tag into a frame.
func tagged(f []byte, tci uint16) []byte {
	tag := []byte{0x81, 0, byte(tci >> 8), byte(tci)}
	return append(append(append([]byte(nil), f[:12]...), tag...), f[12:]...)
}

// What the filter lets pass, and what not: one change at a time to a frame that is right.
func TestFilter(t *testing.T) {
	w := netns.NewWire(t, 1500)
	b := openOn(t, w, "packet:10.77.0.%d", 1, transport.Options{})
	send := porttest.RawSender(t, w.Left, "wire")
	mac := b.Info().MAC
	frame := func(number int, change func(ip []byte)) []byte { return roceFrame(t, mac, number, change) }
	stranger := func(f []byte) []byte {
		f[5] ^= 1
		return f
	}
	for _, c := range []struct {
		name  string
		frame []byte
	}{
		{"another VLAN", tagged(frame(100, nil), 5)},
		{"another Ethernet address", stranger(frame(101, nil))},
		{"another address", frame(102, func(ip []byte) { ip[19] = 3 })},
		{"a group not joined", frame(103, func(ip []byte) { copy(ip[16:], []byte{239, 1, 1, 1}) })},
		{"another UDP port", frame(104, func(ip []byte) { ip[23]++ })},
		{"TCP", frame(105, func(ip []byte) { ip[9] = 6 })},
		{"a first fragment", frame(106, func(ip []byte) { ip[6] = 0x20 })},
		{"a later fragment", frame(107, func(ip []byte) { ip[6], ip[7] = 0, 8 })},
		{"IP options", frame(108, func(ip []byte) { ip[0] = 0x46 })},
	} {
		send(c.frame)
		send(frame(0, nil)) // what comes after it shows that it does not come
		frames := make([]wire.Frame, 4)
		if got := porttest.RecvSome(t, b, frames); len(got) != 1 || porttest.Number(t, &got[0]) != 0 {
			t.Errorf("%s was let through", c.name)
		}
	}
	for i, f := range [][]byte{
		frame(0, nil),
		tagged(frame(1, nil), 0x6000),              // VLAN 0, with priority 3
		append(frame(2, nil), make([]byte, 30)...), // padded
		frame(3, func(ip []byte) { ip[1] = 0xff }), // marked by a switch
	} {
		send(f)
		frames := make([]wire.Frame, 4)
		if got := porttest.RecvSome(t, b, frames); len(got) != 1 || porttest.Number(t, &got[0]) != i {
			t.Errorf("frame %d", i)
		}
	}
	if s := b.Stats(); s.RecvBad != 0 {
		t.Errorf("%+v: the kernel should have refused them", s)
	}
	short := frame(9, nil)
	send(short[:len(short)-8])
	for b.Stats().RecvBad == 0 {
		b.Recv(make([]wire.Frame, 1))
	}
}

// attached is the filter that the kernel has for a socket.
func attached(t *testing.T, fd int) []unix.SockFilter {
	t.Helper()
	code := make([]unix.SockFilter, 4096)
	n := uint32(len(code))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_GET_FILTER,
		uintptr(unsafe.Pointer(&code[0])), uintptr(unsafe.Pointer(&n)), 0); errno != 0 {
		t.Fatal(errno)
	}
	return code[:n]
}

// Of addresses that go at once, as those of a subnet do with its first one, the filter keeps none.
func TestFilterOfAddressesGone(t *testing.T) {
	w := netns.NewWire(t, 1500)
	w.Left.IP(t, "addr add 10.77.0.5/24 dev wire", "addr add 10.77.0.6/24 dev wire")
	p := porttest.OpenIn(t, w.Left, Open, "packet:wire", transport.Options{}).(*port)
	events := transport.Events(p)
	if rows := porttest.RowsOf(p); strings.Count(rows, "10.77.0.") != 3 {
		t.Fatalf("the rows are %s", rows)
	}
	w.Left.IP(t, "addr del 10.77.0.1/24 dev wire")
	for strings.Contains(porttest.RowsOf(p), "10.77.0.") {
		<-events
	}
	have := slices.DeleteFunc(slices.Clone(p.Rows()), wire.GID.IsZero)
	if got, want := attached(t, p.rx[0]), filter(have, nil); !slices.Equal(got, want) {
		t.Errorf("the filter has %d instructions, that of %v has %d", len(got), have, len(want))
	}
}

// A join that fails leaves nothing behind: the next one is a first one.
func TestJoinFails(t *testing.T) {
	w := netns.NewWire(t, 1500)
	a, b := openOn(t, w, "packet:10.77.0.%d", 0, transport.Options{}), openOn(t, w, "packet:10.77.0.%d", 1, transport.Options{}).(*port)
	group, _ := wire.ParseGID("239.1.2.3")
	admit, noRoom := b.Admit, errors.New("no room")
	b.Admit = func(wire.GID, bool) error { return noRoom }
	if err := b.JoinGroup(group); !errors.Is(err, noRoom) || len(b.Groups()) > 0 {
		t.Errorf("%v, the groups are %v", err, b.Groups())
	}
	if err := b.LeaveGroup(group); !errors.Is(err, transport.ErrNotJoined) {
		t.Errorf("left a group that was not joined: %v", err)
	}
	b.Admit = admit
	if err := b.JoinGroup(group); err != nil {
		t.Fatal(err)
	}
	batch := wire.NewBatch(4, 200)
	porttest.Put(t, batch, porttest.PathTo(t, a, group, 0, 1), 0, 64)
	porttest.SendAll(t, a, batch)
	porttest.Drain(t, b, 64, 1)
}

// With more groups than the filter tells apart it lets all of them pass.
func TestManyGroups(t *testing.T) {
	w := netns.NewWire(t, 1500)
	a, b := openOn(t, w, "packet:10.77.0.%d", 0, transport.Options{}), openOn(t, w, "packet:10.77.0.%d", 1, transport.Options{})
	groups := make([]wire.GID, maxFilter+2)
	batch := wire.NewBatch(64, 200)
	for i := range groups {
		groups[i], _ = wire.ParseGID(fmt.Sprintf("239.0.0.%d", i))
		if err := b.(transport.Multicaster).JoinGroup(groups[i]); err != nil {
			t.Fatal(err)
		}
		porttest.Put(t, batch, porttest.PathTo(t, a, groups[i], 0, 1), i, 64)
	}
	porttest.SendAll(t, a, batch)
	porttest.Drain(t, b, 64, len(groups))
	var addrs []wire.GID
	for i := range maxFilter {
		addrs = append(addrs, wire.GID{0: 0xfd, 15: byte(i)}, wire.GID{10: 0xff, 11: 0xff, 15: byte(i)})
	}
	if longest := filter(addrs, groups); len(longest) > 255 {
		t.Errorf("a filter of %d instructions: jumps reach 255", len(longest))
	}
}

// Frames to the port's own address come back, and fill a bounded queue.
func TestSelf(t *testing.T) {
	w := netns.NewWire(t, 1500)
	a := openOn(t, w, "packet:10.77.0.%d", 0, transport.Options{})
	path := porttest.PathBetween(t, a, a, 0, 64)
	batch := wire.NewBatch(2*ether.SelfFrames, 200)
	for i := range 2 * ether.SelfFrames {
		porttest.Put(t, batch, path, i, 64)
	}
	n, err := a.Send(batch)
	if n != ether.SelfFrames || err != nil {
		t.Fatalf("%d frames sent, %v", n, err)
	}
	batch.Drop(n)
	frames := make([]wire.Frame, 64)
	for next := 0; next < 2*ether.SelfFrames; {
		for _, f := range porttest.RecvSome(t, a, frames) {
			if got := porttest.Number(t, &f); got != next {
				t.Fatalf("%d instead of %d", got, next)
			}
			next++
		}
		if n, err = a.Send(batch); err != nil {
			t.Fatal(err)
		}
		batch.Drop(n)
	}
	if s := a.Stats(); s.SendFrames != 2*ether.SelfFrames || s.RecvFrames != 2*ether.SelfFrames || s.SendBlocked == 0 {
		t.Errorf("%+v", s)
	}
}

// Rings that nobody empties lose packets and count them; a frame that is too long is not sent.
func TestCountsLosses(t *testing.T) {
	w := netns.NewWire(t, 1500)
	a, b := openOn(t, w, "packet:10.77.0.%d", 0, transport.Options{}),
		openOn(t, w, "packet:10.77.0.%d", 1, transport.Options{RecvBuffer: ringBlock})
	porttest.Reach(t, a, b)
	short, long, more := ringBlock/shortSlot(1500), ringBlock/longSlot, 5
	path := porttest.PathBetween(t, a, b, 0, 64)
	batch := wire.NewBatch(64, 4200)
	sent := 0
	for range short + more {
		porttest.Put(t, batch, path, sent, 64)
		porttest.SendAll(t, a, batch)
		sent++
	}
	batch.MaxRun(2)
	for range long + more {
		porttest.Put(t, batch, path, sent, 1024)
		porttest.Put(t, batch, path, sent+1, 1024)
		porttest.SendAll(t, a, batch)
		sent += 2
	}
	batch.MaxRun(1)
	porttest.Put(t, batch, path, sent, 2048)
	porttest.SendAll(t, a, batch)
	// What is on its way when somebody begins to empty the rings would not be lost.
	porttest.Until(t, "all that is lost", func() bool { return b.Stats().RecvOverflow >= uint64(2*more) })
	var got []int
	for frames := make([]wire.Frame, 64); len(got) < short+2*long; {
		for _, f := range porttest.RecvSome(t, b, frames) {
			got = append(got, porttest.Number(t, &f))
		}
	}
	if !slices.IsSorted(got) || got[short-1] != short-1 || got[len(got)-1] != short+more+2*long-1 {
		t.Errorf("the packets %v", got)
	}
	if s := b.Stats(); s.RecvOverflow != uint64(2*more) {
		t.Errorf("%+v", s)
	}
	if s := a.Stats(); s.SendFrames != uint64(sent) || s.SendTooLong != 1 || s.LastSendError != unix.EMSGSIZE.Error() {
		t.Errorf("%+v", s)
	}
}

// An interface that can not cut up runs gets them through its queue, where the kernel does it.
func TestWithoutSegmentation(t *testing.T) {
	w := netns.NewWire(t, 9000)
	w.Left.SegmentationOff(t, "wire")
	a, b := openOn(t, w, "packet:10.77.0.%d", 0, transport.Options{}), openOn(t, w, "packet:10.77.0.%d", 1, transport.Options{})
	porttest.Reach(t, a, b)
	batch := wire.NewBatch(64, 4200)
	batch.MaxRun(a.Info().MaxRun)
	for i := range 30 {
		porttest.Put(t, batch, porttest.PathBetween(t, a, b, 0, 64), i, 4096)
	}
	porttest.SendAll(t, a, batch)
	porttest.Drain(t, b, 64, 30)
	if s := b.Stats(); s.RecvRuns != 0 {
		t.Errorf("%+v", s)
	}
	if d := a.Info().Degraded; len(d) != 1 || d[0].Feature != "PACKET_QDISC_BYPASS" {
		t.Errorf("%+v", d)
	}
}

func TestOpenErrors(t *testing.T) {
	w := netns.NewWire(t, 1500)
	w.Left.IP(t, "tuntap add dev tun0 mode tun", "addr add 10.78.0.1/24 dev tun0")
	openOn(t, w, "packet:10.77.0.%d", 0, transport.Options{})
	for _, c := range []struct {
		name string
		port int
		want string
	}{
		{"packet:wire", 4791, "UDP port 4791 of 10.77.0.1 is in use by another device of this process"},
		{"packet:10.77.0.1", 4792, "packet ports send to UDP port 4791 only"},
		{"packet:10.77.0.9", 0, "10.77.0.9 is not an address of this machine"},
		{"packet:eth7", 0, "neither an IP address nor an interface"},
		{"packet:10.78.0.1", 0, "interface tun0 is not Ethernet (none): use udp:10.78.0.1"},
	} {
		var err error
		w.Left.Do(func() { _, err = Open(c.name, 1, transport.Options{UDPPort: c.port}) })
		var oe *transport.OpenError
		if !errors.As(err, &oe) || oe.Name != c.name || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (want %q)", c.name, err, c.want)
		}
	}
	var err error
	netns.New(t).Do(func() { // on a thread of its own, which ends with the test
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		none := [2]unix.CapUserData{}
		if unix.Capset(&header, &none[0]) == nil {
			_, err = Open("packet:127.0.0.1", 1, transport.Options{})
		}
	})
	if err == nil || !strings.Contains(err.Error(), "CAP_NET_RAW") {
		t.Errorf("without privilege: %v", err)
	}
}
