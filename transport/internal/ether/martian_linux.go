package ether

// Martians: packets whose source nobody outside can have. The kernel's own stack drops them, but
// packet and xdp ports take packets before it looks. A packet from outside that says it is from our
// own address would otherwise reach queue pairs which are connected to queue pairs of the same
// device.
//
//	our own address             what we send to ourselves does not come by the interface
//	                            (self_linux.go), except by lo
//	loopback                    except on lo, where only this machine can put anything
//	a group, broadcast, none    nobody can be answered there
//	IPv4 in an IPv6 header      which would pass for a peer with that IPv4 address

import (
	"net/netip"
	"slices"

	"github.com/goroce/goroce/wire"
)

// Martians tells them for the addresses of a port on one interface. It is made anew when they
// change.
type Martians struct {
	own       []wire.GID
	broadcast []wire.GID // of their subnets
	loopback  bool       // the interface is lo
}

var everybody = wire.GIDFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}))

// martiansOn returns them for those of an interface's addresses that are ours.
func martiansOn(addresses []netip.Prefix, loopback bool, own []wire.GID) *Martians {
	m := &Martians{loopback: loopback}
	for _, g := range own {
		if !g.IsZero() {
			m.own = append(m.own, g)
		}
	}
	for _, p := range addresses {
		// beyond 30 bits, there is no broadcast
		if p.Addr().Is4() && p.Bits() <= 30 && slices.Contains(m.own, wire.GIDFrom(p.Addr())) {
			m.broadcast = append(m.broadcast, broadcastOf(p))
		}
	}
	return m
}

// fromOne tells whether a frame is from one of some addresses.
func fromOne(f *wire.Frame, of []wire.GID) bool {
	for i := range of {
		if f.From(&of[i]) {
			return true
		}
	}
	return false
}

// broadcastOf is the last address of an IPv4 subnet.
func broadcastOf(p netip.Prefix) wire.GID {
	a := p.Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		a[bit/8] |= 0x80 >> (bit % 8)
	}
	return wire.GIDFrom(netip.AddrFrom4(a))
}

// Has tells whether a frame is one.
func (m *Martians) Has(f *wire.Frame) bool {
	if len(f.Head) == wire.Head4Len {
		switch first := f.IPv4()[12]; {
		case first == 0, first>>4 == 0xe, f.From(&everybody), fromOne(f, m.broadcast):
			return true
		case m.loopback:
			return false
		default:
			return first == 127 || fromOne(f, m.own)
		}
	}
	switch first := f.IPv6()[8]; {
	case first == 0xff:
		return true
	case first == 0:
		if src := f.Src(); src.IsZero() || src.Is4() || src.Addr().IsLoopback() && !m.loopback {
			return true
		}
	}
	return !m.loopback && fromOne(f, m.own)
}
