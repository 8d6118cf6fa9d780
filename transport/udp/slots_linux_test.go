package udp

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

// slotAddr is an address that no other test has, in this process or another.
func slotAddr(i byte) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, 180 + byte(pid>>8%60), byte(pid), i})
}

// rocePacket has only what the kernel steers by.
func rocePacket(qpn uint32) []byte {
	b := make([]byte, 16)
	b[5], b[6], b[7] = byte(qpn>>16), byte(qpn>>8), byte(qpn)
	return b
}

// received waits for a packet, and returns its destination.
func received(t *testing.T, p transport.Port) (at wire.GID, qpn uint32) {
	t.Helper()
	frames := make([]wire.Frame, 1)
	for {
		n, err := p.Recv(frames)
		require.NoError(t, err)
		if n == 1 {
			b := frames[0].Body
			return frames[0].Dst(), uint32(b[5])<<16 | uint32(b[6])<<8 | uint32(b[7])
		}
		require.NoError(t, p.Wait(-1))
	}
}

// makeSlots makes slots whose sockets are kept until the test is over.
func makeSlots(t *testing.T, addrs []netip.Addr, slots, lanes int) []Slot {
	t.Helper()
	list, err := MakeSlots(addrs, slots, lanes, transport.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		for i := range list {
			require.NoError(t, list[i].Close())
		}
	})
	return list
}

// TestSlotEnds: the ports of a slot are closed, and nobody opens it again; the others get what is
// for them all the same, and nothing else.
func TestSlotEnds(t *testing.T) {
	list := makeSlots(t, []netip.Addr{slotAddr(12)}, 4, 1)
	var ports [4][]transport.Port
	for i, s := range list {
		var err error
		ports[i], err = OpenSlot("slot", s, transport.Options{})
		require.NoError(t, err)
	}
	require.NoError(t, transport.CloseAll(ports[1]))
	c, err := net.Dial("udp", netip.AddrPortFrom(slotAddr(12), wire.UDPPort).String())
	require.NoError(t, err)
	defer c.Close()
	for _, i := range []uint32{3, 0, 2} {
		for _, qpn := range []uint32{0x40, i << wire.OwnerShift} { // the closed slot's, its own
			_, err = c.Write(rocePacket(qpn))
			require.NoError(t, err)
		}
		_, qpn := received(t, ports[i][0])
		require.Equal(t, i<<wire.OwnerShift, qpn)
		require.NoError(t, transport.CloseAll(ports[i]))
	}
}

// TestSlotsOfAnyKind: IPv6, and one slot with one lane, which is steered by nobody.
func TestSlotsOfAnyKind(t *testing.T) {
	for _, a := range []netip.Addr{netip.IPv6Loopback(), slotAddr(13)} {
		for slots := 1; slots <= 2; slots++ {
			t.Run(a.String(), func(t *testing.T) {
				if a.Is6() {
					c, err := net.ListenUDP("udp6", &net.UDPAddr{IP: a.AsSlice()})
					if err != nil {
						t.Skip("no IPv6 here: ", err)
					}
					c.Close()
				}
				list := makeSlots(t, []netip.Addr{a}, slots, 1)
				p, err := OpenSlot("slot", list[slots-1], transport.Options{})
				require.NoError(t, err)
				defer p[0].Close()
				c, err := net.Dial("udp", netip.AddrPortFrom(a, wire.UDPPort).String())
				require.NoError(t, err)
				defer c.Close()
				want := uint32(slots-1) << wire.OwnerShift
				_, err = c.Write(rocePacket(want))
				require.NoError(t, err)
				_, qpn := received(t, p[0])
				require.Equal(t, want, qpn)
			})
		}
	}
}

// TestSlotInheritsNoDrops: what the kernel had no room for when nobody had the slot, or another,
// does not count.
func TestSlotInheritsNoDrops(t *testing.T) {
	list := makeSlots(t, []netip.Addr{slotAddr(14)}, 2, 1)
	c, err := net.Dial("udp", netip.AddrPortFrom(slotAddr(14), wire.UDPPort).String())
	require.NoError(t, err)
	defer c.Close()
	for range 5000 { // nobody reads: the socket overflows
		_, err = c.Write(rocePacket(0x40))
		require.NoError(t, err)
	}
	p, err := OpenSlot("next", list[1], transport.Options{})
	require.NoError(t, err)
	_, err = c.Write(rocePacket(0x40))
	require.NoError(t, err)
	received(t, p[0])
	require.Zero(t, p[0].Stats().RecvOverflow)
	require.NoError(t, p[0].Close())
	require.Zero(t, p[0].Stats().RecvOverflow)
}

// TestSlotsAreSteered: what comes to either address goes to the slot and the lane that the number
// of its queue pair names.
func TestSlotsAreSteered(t *testing.T) {
	const slots, lanes = 4, 2
	addrs := []netip.Addr{slotAddr(1), slotAddr(2)}
	list := makeSlots(t, addrs, slots, lanes)
	var err error
	var ports [slots][]transport.Port
	for i, s := range list {
		ports[i], err = OpenSlot("slot", s, transport.Options{})
		require.NoError(t, err)
		defer transport.CloseAll(ports[i])
		require.Equal(t, []wire.GID{wire.GIDFrom(addrs[0]), wire.GIDFrom(addrs[1])}, ports[i][0].Info().GIDs)
	}
	for _, a := range addrs {
		c, err := net.Dial("udp", netip.AddrPortFrom(a, wire.UDPPort).String())
		require.NoError(t, err)
		for _, qpn := range []uint32{1, 0x000040, 0x123481, 0xfffffe, 0xabcd3e, 0x0000bf, 0x7700c0} {
			_, err = c.Write(rocePacket(qpn))
			require.NoError(t, err)
			p := ports[qpn>>wire.OwnerShift%slots][qpn%lanes]
			at, got := received(t, p)
			require.Equal(t, qpn, got)
			require.Equal(t, wire.GIDFrom(a), at)
			require.Equal(t, qpn > 0x3f || qpn%64 < lanes, p.Info().QPNs.Owns(qpn))
		}
		require.NoError(t, c.Close())
	}
	from := map[uint16]bool{}
	for _, p := range ports {
		for _, p := range p {
			from[p.Info().SrcPort] = true
		}
	}
	require.Len(t, from, slots*lanes, "a network tells owners and lanes apart by the port that they send from")
}

// TestSlotSendsFromEachAddress: packets of several addresses that leave in one batch each have the
// source that they were sealed for.
func TestSlotSendsFromEachAddress(t *testing.T) {
	addrs := []netip.Addr{slotAddr(6), slotAddr(7)}
	p, err := OpenSlot("slot", makeSlots(t, addrs, 2, 1)[1], transport.Options{})
	require.NoError(t, err)
	defer p[0].Close()
	peer, err := Open("udp:"+slotAddr(8).String(), 1, transport.Options{})
	require.NoError(t, err)
	defer peer[0].Close()
	batch := wire.NewBatch(64, 200)
	batch.MaxRun(p[0].Info().MaxRun)
	from := func(i int) wire.GID { return wire.GIDFrom(addrs[i%5/3]) } // AAABBAAA
	for i := range 8 {
		path, err := wire.NewPath(from(i), wire.GIDFrom(slotAddr(8)), p[0].Info().SrcPort, 0, 64, 0)
		require.NoError(t, err)
		porttest.Put(t, batch, &path, i, 100)
	}
	porttest.SendAll(t, p[0], batch)
	frames := make([]wire.Frame, 8)
	for got := 0; got < 8; {
		n, err := peer[0].Recv(frames)
		require.NoError(t, err)
		for i := range frames[:n] {
			require.Equal(t, from(porttest.Number(t, &frames[i])), frames[i].Src())
		}
		if got += n; n == 0 {
			require.NoError(t, peer[0].Wait(-1))
		}
	}
}

// TestSlotsOfSeveralInterfaces: a link-local address of a slot is one of its own interface, also
// where a peer on another interface has the same address.
func TestSlotsOfSeveralInterfaces(t *testing.T) {
	here, there := netns.New(t), netns.New(t)
	for i := range 2 {
		here.IP(t, fmt.Sprintf("link add s%d type veth peer name s%d netns %d", i, i, there.Thread()),
			fmt.Sprintf("-6 addr add fe80::1:%d/64 dev s%d nodad", i, i), fmt.Sprintf("link set s%d up", i))
		there.IP(t, fmt.Sprintf("-6 addr add fe80::2/64 dev s%d nodad", i), fmt.Sprintf("link set s%d up", i))
	}
	var peers []transport.Port
	for i := range 2 {
		peers = append(peers, porttest.OpenIn(t, there, Open, fmt.Sprintf("udp:fe80::2%%s%d", i), transport.Options{}))
	}
	here.Settle()
	addrs := []netip.Addr{netip.MustParseAddr("fe80::1:0%s0"), netip.MustParseAddr("fe80::1:1%s1")}
	var list []Slot
	var ports []transport.Port
	var err error
	here.Do(func() {
		if list, err = MakeSlots(addrs, 2, 1, transport.Options{}); err == nil {
			ports, err = OpenSlot("slot", list[1], transport.Options{})
		}
	})
	require.NoError(t, err)
	defer transport.CloseAll(ports)
	for _, s := range list {
		defer s.Close()
	}
	batch := wire.NewBatch(64, 200)
	for i := range 8 {
		path, err := wire.NewPath(wire.GIDFrom(addrs[i%2]), wire.GIDFrom(netip.MustParseAddr("fe80::2")),
			ports[0].Info().SrcPort, 0, 64, 0)
		require.NoError(t, err)
		porttest.Put(t, batch, &path, i, 100)
	}
	porttest.SendAll(t, ports[0], batch)
	for i, p := range peers {
		for got := 0; got < 4; {
			for _, f := range porttest.RecvSome(t, p, make([]wire.Frame, 8)) {
				require.Equal(t, wire.GIDFrom(addrs[i]), f.Src())
				require.Equal(t, i, porttest.Number(t, &f)%2)
				got++
			}
		}
	}
}

// TestSlotsOfATentativeAddress: an interface has slots as soon as it is up, also while the kernel
// asks the neighbours whether an address is one of theirs.
func TestSlotsOfATentativeAddress(t *testing.T) {
	ns := netns.New(t)
	ns.IP(t, "link add wire type veth peer name end")
	ns.Do(func() {
		require.NoError(t, os.WriteFile("/proc/sys/net/ipv6/conf/wire/dad_transmits", []byte("1000"), 0))
	})
	ns.IP(t, "link set end up", "link set wire up", "addr add 10.77.0.1/24 dev wire")
	var addrs []netip.Addr
	var list []Slot
	var ports []transport.Port
	var err error
	ns.Do(func() {
		for len(addrs) < 2 && err == nil { // the kernel gives it a link-local one at some moment
			addrs, err = Addresses("wire")
		}
		if err == nil {
			list, err = MakeSlots(addrs, 2, 1, transport.Options{})
		}
		if err == nil {
			ports, err = OpenSlot("slot", list[1], transport.Options{})
		}
	})
	require.NoError(t, err)
	require.NoError(t, transport.CloseAll(ports))
	for _, s := range list {
		s.Close()
	}
}

// TestSlotFindsAPort: the port that a slot sends from is one that is free at all of its addresses.
func TestSlotFindsAPort(t *testing.T) {
	ns := netns.New(t)
	var err error
	ns.Do(func() { err = os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40001"), 0) })
	if err != nil {
		netns.Lacks(t, "ports to choose from cannot be set: %v", err)
	}
	addrs := []netip.Addr{slotAddr(9), slotAddr(10)}
	var list []Slot
	var taken net.PacketConn
	ns.Do(func() {
		if list, err = MakeSlots(addrs, 2, 1, transport.Options{}); err == nil {
			taken, err = net.ListenPacket("udp", netip.AddrPortFrom(addrs[1], 40000).String())
		}
	})
	require.NoError(t, err)
	defer taken.Close()
	for _, s := range list {
		defer s.Close()
	}
	for range 10 {
		var ports []transport.Port
		ns.Do(func() { ports, err = OpenSlot("slot", list[1], transport.Options{}) })
		require.NoError(t, err)
		require.EqualValues(t, 40001, ports[0].Info().SrcPort)
		require.NoError(t, transport.CloseAll(ports))
	}
}

// TestSlotOpenTwice: a slot that somebody has open is nobody else's, in this process or another,
// until the ports are closed or the process is gone.
func TestSlotOpenTwice(t *testing.T) {
	list := makeSlots(t, []netip.Addr{slotAddr(11)}, 2, 1)
	open := func() ([]transport.Port, error) { return OpenSlot("slot", list[1], transport.Options{}) }
	first, err := open()
	require.NoError(t, err)
	_, err = open()
	require.ErrorContains(t, err, fmt.Sprintf("process %d has the slot open", os.Getpid()))
	require.NoError(t, transport.CloseAll(first))

	other := exec.Command("cat")
	ends, err := other.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	own(list[1].FDs[0][0], other.Process.Pid) // as if it had
	_, err = open()
	require.ErrorContains(t, err, fmt.Sprintf("process %d has the slot open", other.Process.Pid))
	require.NoError(t, ends.Close())
	require.NoError(t, other.Wait())
	second, err := open()
	require.NoError(t, err)
	require.NoError(t, transport.CloseAll(second))
}

// TestSlotInheritsNothing: who opens a slot receives nothing that came for who had it before, and
// neither its options.
func TestSlotInheritsNothing(t *testing.T) {
	list := makeSlots(t, []netip.Addr{slotAddr(3)}, 2, 1)
	c, err := net.Dial("udp", netip.AddrPortFrom(slotAddr(3), wire.UDPPort).String())
	require.NoError(t, err)
	defer c.Close()
	first, err := OpenSlot("first", list[1], transport.Options{})
	require.NoError(t, err)
	for range 100 {
		_, err = c.Write(rocePacket(0x40))
		require.NoError(t, err)
	}
	received(t, first[0])
	require.NoError(t, first[0].Close())
	for range 100 {
		_, err = c.Write(rocePacket(0x40))
		require.NoError(t, err)
	}
	second, err := OpenSlot("second", list[1], transport.Options{MaxRun: 1})
	require.NoError(t, err)
	defer second[0].Close()
	_, err = c.Write(rocePacket(0x1240))
	require.NoError(t, err)
	_, qpn := received(t, second[0])
	require.EqualValues(t, 0x1240, qpn)
	require.EqualValues(t, 1, second[0].Stats().RecvFrames)
}

// TestSlotsRefused: what cannot be says what it should be, and leaves no socket.
func TestSlotsRefused(t *testing.T) {
	a, taken := slotAddr(4), slotAddr(5)
	p, err := Open("udp:"+taken.String(), 1, transport.Options{})
	require.NoError(t, err)
	defer p[0].Close()
	for want, make := range map[string]func() ([]Slot, error){
		"0 addresses":                    func() ([]Slot, error) { return MakeSlots(nil, 2, 1, transport.Options{}) },
		"3 slots":                        func() ([]Slot, error) { return MakeSlots([]netip.Addr{a}, 3, 1, transport.Options{}) },
		"512 slots":                      func() ([]Slot, error) { return MakeSlots([]netip.Addr{a}, 512, 1, transport.Options{}) },
		"3 lanes":                        func() ([]Slot, error) { return MakeSlots([]netip.Addr{a}, 2, 3, transport.Options{}) },
		taken.String() + " is in use by": func() ([]Slot, error) { return MakeSlots([]netip.Addr{a, taken}, 2, 1, transport.Options{}) },
	} {
		_, err := make()
		require.ErrorContains(t, err, want)
	}
	for _, no := range []netip.Addr{{}, netip.IPv4Unspecified(), netip.IPv6Unspecified(), netip.IPv6LinkLocalAllNodes()} {
		_, err := MakeSlots([]netip.Addr{a, no}, 2, 1, transport.Options{})
		require.ErrorContains(t, err, "not all of them, and no group", "%v", no)
	}
	for want, spoil := range map[string]func(s *Slot){
		"1 addresses with sockets of 0": func(s *Slot) { s.Close(); s.FDs = nil },
		"3 lanes":                       func(s *Slot) { s.FDs[0] = s.FDs[0][:3] },
		"row 1 has 2":                   func(s *Slot) { s.Addrs, s.FDs = append(s.Addrs, a), append(s.FDs, s.FDs[0][:2]) },
		"the bits 0x1 of 0x1":           func(s *Slot) { s.QPNs = wire.QPNSpace{Mask: 1, Value: 1} },
		"want 127.0.0.1:4791":           func(s *Slot) { s.Addrs[0] = netip.MustParseAddr("127.0.0.1") },
		"bad file descriptor":           func(s *Slot) { s.FDs[0][2] = 1 << 20 },
		"lane 1 is not the one":         func(s *Slot) { s.FDs[0][1] = s.FDs[0][2] },
		"lane 0 is not the one":         func(s *Slot) { s.QPNs = wire.QPNSpace{}.Owner(1, 2) },
	} {
		list, err := MakeSlots([]netip.Addr{a}, 1, 4, transport.Options{})
		require.NoError(t, err, "before %q: sockets are left", want)
		all := slices.Clone(list[0].FDs[0])
		spoil(&list[0])
		_, err = OpenSlot("slot", list[0], transport.Options{})
		require.ErrorContains(t, err, want)
		for _, fd := range all {
			unix.Close(fd) // those that were taken out above
		}
	}
}
