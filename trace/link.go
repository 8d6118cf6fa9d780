package trace

// What is below the transport. Stages: the link type's header → EtherType or its like, behind any
// VLAN tags → IP and UDP, a global route header (RoCEv1), or a local route header (InfiniBand).
// Each header found is noted as a Layer, so that it can be shown field by field.

import (
	"encoding/binary"

	"github.com/goroce/goroce/wire"
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

// EtherTypes.
const (
	etherIPv4   = 0x0800
	etherIPv6   = 0x86dd
	etherVLAN   = 0x8100
	etherQinQ   = 0x88a8
	etherRoCEv1 = 0x8915
)

// links is what a record of each link type begins with. Each returns why it is nothing for us, or
// "".
var links = map[LinkType]func(p *Packet) string{
	LinkNull:       (*Packet).null,
	LinkLoop:       (*Packet).null,
	LinkEthernet:   func(p *Packet) string { return p.ethernet(0) },
	LinkRaw:        func(p *Packet) string { return p.ip(0) },
	linkRawBSD:     func(p *Packet) string { return p.ip(0) },
	linkRawOpenBSD: func(p *Packet) string { return p.ip(0) },
	LinkIPv4:       func(p *Packet) string { return p.ip(0) },
	LinkIPv6:       func(p *Packet) string { return p.ip(0) },
	LinkCooked:     (*Packet).cooked,
	LinkCooked2:    (*Packet).cooked2,
	LinkERF:        (*Packet).erf,
	LinkInfiniBand: func(p *Packet) string { return p.infiniband(0) },
}

// layer notes a header of n bytes and says whether they are there.
func (p *Packet) layer(proto string, at, n int) bool {
	if at+n > len(p.Data) {
		return false
	}
	p.Layers = append(p.Layers, Layer{proto, at, n})
	return true
}

const tooShort = "too short for its headers"

func (p *Packet) null() string {
	if len(p.Data) < 4 {
		return tooShort
	}
	return p.ip(4)
}

func (p *Packet) ethernet(at int) string {
	if !p.layer("Ethernet", at, 14) {
		return tooShort
	}
	return p.ether(be.Uint16(p.Data[at+12:]), at+14)
}

// ether goes on behind an EtherType.
func (p *Packet) ether(kind uint16, at int) string {
	for range 4 { // more tags than two has nobody
		if kind != etherVLAN && kind != etherQinQ {
			break
		}
		if !p.layer("VLAN", at, 4) {
			return tooShort
		}
		kind = be.Uint16(p.Data[at+2:])
		at += 4
	}
	switch kind {
	case etherIPv4, etherIPv6:
		return p.ip(at)
	case etherRoCEv1:
		return p.grh(at)
	}
	return "neither IP nor RoCEv1"
}

// cooked has a header of 16 bytes, the EtherType at its end.
func (p *Packet) cooked() string {
	if !p.layer("SLL", 0, 16) {
		return tooShort
	}
	p.cookedDirection(p.Data[1])
	return p.ether(be.Uint16(p.Data[14:]), 16)
}

// cooked2 has a header of 20 bytes, the EtherType at its beginning.
func (p *Packet) cooked2() string {
	if !p.layer("SLL2", 0, 20) {
		return tooShort
	}
	p.cookedDirection(p.Data[10])
	return p.ether(be.Uint16(p.Data), 20)
}

// cookedDirection reads a packet's type: 4 is sent by us.
func (p *Packet) cookedDirection(kind byte) {
	p.Direction = DirReceived
	if kind == 4 {
		p.Direction = DirSent
	}
}

// Types of ERF records that carry what we know.
const (
	erfEthernet   = 2
	erfInfiniBand = 21
	erfMore       = 0x80 // an extension header of 8 bytes follows
)

func (p *Packet) erf() string {
	if !p.layer("ERF", 0, 16) {
		return tooShort
	}
	at := 16
	for more := p.Data[8]; more&erfMore != 0; at += 8 {
		if at+8 > len(p.Data) {
			return tooShort
		}
		more = p.Data[at]
	}
	switch p.Data[8] &^ erfMore {
	case erfInfiniBand:
		return p.infiniband(at)
	case erfEthernet:
		return p.ethernet(at + 2)
	}
	return "an ERF record of neither InfiniBand nor Ethernet"
}

// ip looks for a RoCEv2 packet. What a capture has cut off is put back as zeros, so that lengths
// and headers can be read.
func (p *Packet) ip(at int) string {
	if at > len(p.Data) {
		return tooShort
	}
	f, drop := wire.SplitFrame(p.Data[at:])
	if drop == wire.DropLength && p.restore() {
		f, drop = wire.SplitFrame(p.Data[at:])
	}
	switch {
	case drop == wire.DropNone:
	case p.toRoCE(at):
		p.Problem = "IP or UDP: " + drop.Explain()
		p.Kind = RoCEv2
		return ""
	default:
		return drop.Explain()
	}
	if len(f.Head) == wire.Head4Len {
		p.layer("IPv4", at, 20)
	} else {
		p.layer("IPv6", at, 40)
	}
	p.layer("UDP", at+len(f.Head)-8, 8)
	p.Kind, p.Frame, p.head, p.body = RoCEv2, f, at, at+len(f.Head)
	return ""
}

// toRoCE says whether what begins as an IP packet with something wrong is meant for port 4791.
func (p *Packet) toRoCE(at int) bool {
	d := p.Data[at:]
	n := 0
	switch {
	case len(d) >= 20 && d[0]>>4 == 4 && d[9] == 17 && be.Uint16(d[6:])&0x1fff == 0:
		n = 4 * int(d[0]&15)
	case len(d) >= 40 && d[0]>>4 == 6 && d[6] == 17:
		n = 40
	}
	return n > 0 && len(d) >= n+4 && be.Uint16(d[n+2:]) == wire.UDPPort
}
