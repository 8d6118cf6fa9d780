package porttest

// Ports in network namespaces, and what they are sent there.

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// OpenIn opens one port in a namespace, whose interfaces work when it returns, and closes it with
// the test.
func OpenIn(t testing.TB, ns *netns.Namespace, open transport.Opener, name string, o transport.Options) transport.Port {
	t.Helper()
	return OpenLanesIn(t, ns, open, name, 1, o)[0]
}

// OpenLanesIn opens the ports of several lanes.
func OpenLanesIn(t testing.TB, ns *netns.Namespace, open transport.Opener, name string, lanes int,
	o transport.Options) (ports []transport.Port) {
	t.Helper()
	ns.Settle()
	var err error
	ns.Do(func() { ports, err = open(name, lanes, o) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { transport.CloseAll(ports) })
	return ports
}

// RawSender sends Ethernet frames as they are by an interface of a namespace.
func RawSender(t testing.TB, ns *netns.Namespace, iface string) (send func(frame []byte)) {
	t.Helper()
	fd, err := -1, error(nil)
	ns.Do(func() {
		var i *net.Interface
		if i, err = net.InterfaceByName(iface); err != nil {
			return
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err == nil {
			err = unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: i.Index})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return func(frame []byte) {
		t.Helper()
		if _, err := unix.Write(fd, frame); err != nil {
			t.Fatal(err)
		}
	}
}

// Sniffer is a socket that receives all that passes an interface of a namespace, as IP packets: the
// rules that ICRCs rely on are checked against the kernel, and not against our own idea of it.
func Sniffer(t testing.TB, ns *netns.Namespace, iface string) (fd int) {
	t.Helper()
	fd, err := -1, error(nil)
	ns.Do(func() {
		var i *net.Interface
		if i, err = net.InterfaceByName(iface); err != nil {
			return
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC,
			int(host.Htons(unix.ETH_P_ALL))); err == nil {
			err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: host.Htons(unix.ETH_P_ALL), Ifindex: i.Index})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// Ether makes an Ethernet packet around an IP packet, with the VLAN tags given.
func Ether(ip []byte, tags ...uint16) []byte {
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

// ForgedSources is what no packet to 10.77.0.2/24 or fd78::2 comes from; on lo some of it may.
var ForgedSources = []struct {
	Source string
	OnLo   bool
}{
	{"10.77.0.2", true}, {"127.0.0.1", true}, {"127.255.0.9", true}, {"224.0.0.1", false}, {"239.9.9.9", false},
	{"255.255.255.255", false}, {"10.77.0.255", false}, {"0.0.0.0", false}, {"0.1.2.3", false},
	{"fd78::2", true}, {"::1", true}, {"::", false}, {"ff02::1", false}, {"::ffff:10.77.0.1", false},
}

// Forge makes an IP packet whose source is any address of the version of dst, right or wrong.
func Forge(t testing.TB, src, dst string, number int) []byte {
	t.Helper()
	batch := wire.NewBatch(1, 100)
	from := "10.77.0.1"
	if strings.Contains(dst, ":") {
		from = "fd78::1"
	}
	Put(t, batch, PathByHand(from, dst, 0xc001), number, 20)
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

// Forged: what comes by the wire from a source that nobody there has is dropped and counted. What a
// port sends to itself arrives as before. open opens a port on an address of a namespace.
func Forged(t *testing.T, open func(t testing.TB, ns *netns.Namespace, address string) transport.Port) {
	for _, format := range []string{"10.77.0.%d", "fd78::%d"} {
		t.Run(fmt.Sprintf(format, 2), func(t *testing.T) {
			w := netns.NewWire(t, 1500)
			p := open(t, w.Right, fmt.Sprintf(format, 2))
			send := RawSender(t, w.Left, "wire")
			from := func(src string, number int) {
				frame := Ether(Forge(t, src, fmt.Sprintf(format, 2), number))
				copy(frame, p.Info().MAC)
				send(frame)
			}
			forged := uint64(0)
			for _, c := range ForgedSources {
				if strings.Contains(c.Source, ":") != strings.Contains(format, ":") {
					continue
				}
				from(c.Source, 9)
				from(fmt.Sprintf(format, 1), 0) // what comes after it shows that it does not come
				Drain(t, p, 4, 1)
				if forged++; p.Stats().RecvForged != forged || p.Stats().RecvBad != 0 {
					t.Errorf("from %s: %+v", c.Source, p.Stats())
				}
			}
			batch := wire.NewBatch(1, 200)
			Put(t, batch, PathBetween(t, p, p, 0, 64), 0, 64)
			SendAll(t, p, batch)
			Drain(t, p, 4, 1)
		})
	}
}

// TestEvents: a port tells of its cable, its MTU and its address, Info has each change, and the
// channel ends with the port. open opens a port on 10.77.0.2 in a namespace.
func TestEvents(t *testing.T, open func(t testing.TB, ns *netns.Namespace) transport.Port) {
	w := netns.NewWire(t, 1500)
	p := open(t, w.Right)
	events := transport.Events(p)
	down := func(i transport.Info) bool { return !i.Up }
	up := func(i transport.Info) bool { return i.Up }
	for _, c := range []struct {
		ns      *netns.Namespace
		command string
		want    transport.Event
		so      func(i transport.Info) bool
	}{
		{w.Left, "link set wire down", transport.LinkDown, down},
		{w.Left, "link set wire up", transport.LinkUp, up},
		{w.Right, "link set wire down", transport.LinkDown, down},
		{w.Right, "link set wire up", transport.LinkUp, up},
		{w.Right, "link set wire mtu 1400", transport.MTUChanged, func(i transport.Info) bool {
			return i.NetMTU == 1400
		}},
		{w.Right, "addr add 10.77.0.9/24 dev wire", 0, nil}, // of others, which nobody tells
		{w.Right, "addr add 10.77.0.8/32 dev wire", 0, nil},
		{w.Right, "addr del 10.77.0.2/24 dev wire", transport.AddressGone, func(i transport.Info) bool {
			return gone(i) && i.GIDs[0].IsZero()
		}},
		{w.Right, "addr add 10.77.0.2/24 dev wire", transport.AddressBack, func(i transport.Info) bool {
			return !gone(i) && !i.GIDs[0].IsZero()
		}},
		{w.Right, "link del wire", transport.LinkDown, down},
	} {
		c.ns.IP(t, c.command)
		if c.want == 0 {
			continue
		}
		if got := <-events; got != c.want || !c.so(p.Info()) { // for ever, if nobody tells
			t.Fatalf("%s: %v, %+v", c.command, got, p.Info())
		}
	}
	for _, want := range []transport.Event{transport.AddressGone, transport.InterfaceGone} {
		if got := <-events; got != want {
			t.Errorf("the interface has gone: %v, want %v", got, want)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if got, open := <-events; open {
		t.Errorf("%v after Close", got)
	}
}

// gone tells whether the interface no longer has 10.77.0.2.
func gone(i transport.Info) bool {
	address := netip.MustParseAddr("10.77.0.2")
	return !slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr() == address })
}
