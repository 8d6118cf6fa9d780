package wire

// From an address vector to the head of a packet: everything constant is written once, PutHead adds
// what varies.

import "errors"

// Path is an address vector as bytes: where packets of one connection go, as a ready IP and UDP
// header. Make one with NewPath; the exported fields say what it was made of and are not read
// again. Paths are comparable.
type Path struct {
	Src, Dst     GID
	SrcPort      uint16 // UDP source port: constant per queue pair, or the network reorders packets
	TrafficClass uint8  // DSCP in the upper six bits, ECN in the lower two
	HopLimit     uint8  // IPv4 time to live, IPv6 hop limit
	FlowLabel    uint32 // 20 bits, IPv6 only

	head    [HeadMax]byte // the header with length, identification and checksum 0
	headLen uint8
	sum     uint32 // sum of the 16-bit words of the IPv4 header in head
}

// NewPath returns the path from src to dst, both IPv4 or both IPv6. flow is the 20-bit flow label
// of IPv6; over IPv4 it is kept but not sent.
func NewPath(src, dst GID, srcPort uint16, tclass, hop uint8, flow uint32) (Path, error) {
	p := Path{Src: src, Dst: dst, SrcPort: srcPort, TrafficClass: tclass, HopLimit: hop, FlowLabel: flow}
	switch {
	case src.IsZero() || dst.IsZero():
		return Path{}, errors.New("wire: a path needs a source and a destination GID")
	case src.Is4() != dst.Is4():
		return Path{}, errors.New("wire: path from " + src.String() + " to " + dst.String() +
			": one is IPv4, the other IPv6")
	case flow > 0xfffff:
		return Path{}, errors.New("wire: a flow label has 20 bits")
	}
	if src.Is4() {
		p.make4()
	} else {
		p.make6()
	}
	u := (*UDP)(p.head[p.headLen-udpLen:])
	u.SetSrcPort(srcPort)
	u.SetDstPort(UDPPort)
	return p, nil
}

// WithTrafficClass returns the same path with another traffic class.
func (p *Path) WithTrafficClass(tclass uint8) Path {
	o := *p
	o.TrafficClass = tclass
	switch o.headLen {
	case Head4Len:
		h := (*IPv4)(o.head[:])
		h.SetTOS(tclass)
		o.sum = h.sum()
	case Head6Len:
		(*IPv6)(o.head[:]).SetTrafficClass(tclass)
	}
	return o
}

func (p *Path) make4() {
	p.headLen = Head4Len
	h := (*IPv4)(p.head[:])
	h[0] = 0x45
	h.SetTOS(p.TrafficClass)
	h.SetFragment(DontFragment)
	h.SetTTL(p.HopLimit)
	h[9] = protoUDP
	copy(h[12:16], p.Src[12:])
	copy(h[16:20], p.Dst[12:])
	p.sum = h.sum()
}

func (p *Path) make6() {
	p.headLen = Head6Len
	h := (*IPv6)(p.head[:])
	h[0] = 0x60
	h.SetTrafficClass(p.TrafficClass)
	h.SetFlowLabel(p.FlowLabel)
	h[6] = protoUDP
	h.SetHopLimit(p.HopLimit)
	copy(h[8:24], p.Src[:])
	copy(h[24:40], p.Dst[:])
}

// sameHead says whether packets of two paths have the same head but for lengths, Identification and
// checksum.
func (p *Path) sameHead(o *Path) bool {
	if p.headLen == Head4Len && o.headLen == Head4Len {
		a, b := p.head[:Head4Len], o.head[:Head4Len]
		return le.Uint64(a) == le.Uint64(b) && le.Uint64(a[8:]) == le.Uint64(b[8:]) &&
			le.Uint64(a[16:]) == le.Uint64(b[16:]) && le.Uint32(a[24:]) == le.Uint32(b[24:])
	}
	return p.headLen == o.headLen && p.head == o.head
}

// HeadLen is the length of the path's heads: Head4Len or Head6Len; 0 for a Path that NewPath did
// not make.
func (p *Path) HeadLen() int { return int(p.headLen) }

// PutHead writes the IP and UDP header of a packet with a body of bodyLen bytes (at most MaxBody)
// into dst, which has room for HeadLen bytes, and returns HeadLen. DF is set, the UDP checksum is
// 0. id is the IPv4 Identification; IPv6 has none.
func (p *Path) PutHead(dst []byte, bodyLen int, id uint16) (n int) {
	if p.headLen == Head4Len {
		h := (*[Head4Len]byte)(dst)
		*h = [Head4Len]byte(p.head[:Head4Len])
		be.PutUint16(h[2:], uint16(Head4Len+bodyLen))
		be.PutUint16(h[4:], id)
		be.PutUint16(h[10:], ^fold(p.sum+uint32(Head4Len+bodyLen)+uint32(id)))
		be.PutUint16(h[24:], uint16(udpLen+bodyLen))
		return Head4Len
	}
	if p.headLen == Head6Len {
		h := (*[Head6Len]byte)(dst)
		*h = p.head
		be.PutUint16(h[4:], uint16(udpLen+bodyLen))
		be.PutUint16(h[44:], uint16(udpLen+bodyLen))
		return Head6Len
	}
	return 0
}

// SrcPortFor returns the UDP source port that the kernel's verbs give a connection (section 1.2):
// the flow label folded to 14 bits, or if it is 0 a hash of the two queue pair numbers; always
// 0xc000 or more.
func SrcPortFor(lqpn, rqpn, flowLabel uint32) uint16 {
	f := flowLabel & 0xfffff
	if f == 0 {
		v := uint64(lqpn) * uint64(rqpn)
		v ^= v >> 20
		v ^= v >> 40
		f = uint32(v & 0xfffff)
	}
	return uint16(f&0x3fff^f>>14) | 0xc000
}
