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
	"net"
	"net/netip"

	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// Martians tells them for one address on one interface.
type Martians struct {
	own       wire.GID
	broadcast wire.GID // of its subnet; zero if there is none
	loopback  bool     // the interface is lo
}

var everybody = wire.GIDFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}))

func martiansOn(iface *net.Interface, own wire.GID) Martians {
	m := Martians{own: own, loopback: iface.Flags&net.FlagLoopback != 0}
	for _, p := range host.PrefixesOf(iface) {
		if p.Addr() == own.Addr() && own.Is4() && p.Bits() <= 30 { // beyond, there is no broadcast
			m.broadcast = broadcastOf(p)
		}
	}
	return m
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
		case first == 0, first>>4 == 0xe, f.From(&everybody), f.From(&m.broadcast):
			return true
		case m.loopback:
			return false
		default:
			return first == 127 || f.From(&m.own)
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
	return !m.loopback && f.From(&m.own)
}
