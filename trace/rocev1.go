package trace

// RoCEv1, a global route header (GRH) behind EtherType 0x8915, and InfiniBand itself, a local route
// header (LRH) before that. What follows the BTH is the same as in RoCEv2. So is the ICRC, but for
// what precedes the BTH (section 3.1): the GRH behind eight bytes of ones, or the LRH alone.

import (
	"bytes"
	"hash/crc32"

	"github.com/goroce/goroce/wire"
)

const (
	grhLen  = 40
	lrhLen  = 8
	vcrcLen = 2
	grhNext = 0x1b // "a transport header of InfiniBand follows"
)

// grh reads a global route header: its fields lie as those of IPv6 do.
func (p *Packet) grh(at int) string {
	if !p.layer("GRH", at, grhLen) {
		return tooShort
	}
	if p.Kind == Other {
		p.Kind = RoCEv1
	}
	n := int(be.Uint16(p.Data[at+4:]))
	p.head, p.body = at, at+grhLen
	if n > len(p.Data)-p.body && !p.restore() || n > len(p.Data)-p.body {
		p.Problem = "the GRH's payload length exceeds the bytes that are there"
		return ""
	}
	if next := p.Data[at+6]; next != grhNext {
		p.Problem = "the GRH's next header is not 0x1b"
		return ""
	}
	p.Frame = wire.Frame{Body: p.Data[p.body : p.body+n]}
	return ""
}

// infiniband reads a local route header, and the GRH that may follow.
func (p *Packet) infiniband(at int) string {
	if !p.layer("LRH", at, lrhLen) {
		return tooShort
	}
	p.lrh = at
	n := 4*int(be.Uint16(p.Data[at+4:])&0x7ff) - lrhLen // without the VCRC
	at += lrhLen
	if n > len(p.Data)-at {
		p.restore()
	}
	switch next := p.Data[p.lrh+1] & 3; {
	case next < 2:
		return "an InfiniBand packet of another transport"
	case next == 3:
		p.Kind = InfiniBand
		return p.grh(at)
	case n < 0 || n > len(p.Data)-at:
		p.Kind, p.Problem = InfiniBand, "the LRH's packet length exceeds the bytes that are there"
		return ""
	}
	p.Kind, p.head, p.body = InfiniBand, at, at
	p.Frame = wire.Frame{Body: p.Data[at : at+n]}
	return ""
}

// invariantCRC is what the last four bytes of a RoCEv1 or InfiniBand packet should be.
func (p *Packet) invariantCRC() uint32 {
	var head [8 + grhLen + wire.BTHLen]byte
	b := head[:0]
	if p.body-p.head == grhLen { // a router writes another LRH
		b = append(b, bytes.Repeat([]byte{0xff}, lrhLen)...)
		b = append(b, p.Data[p.head:p.body]...)
		g := b[lrhLen:]
		g[0] |= 0x0f
		g[1], g[2], g[3], g[7] = 0xff, 0xff, 0xff, 0xff
	} else {
		b = append(b, p.Data[p.lrh:p.lrh+lrhLen]...)
		b[0] |= 0xf0
	}
	b = append(b, p.Frame.Body[:wire.BTHLen]...)
	b[len(b)-8] = 0xff
	body := p.Frame.Body
	return crc32.Update(crc32.ChecksumIEEE(b), crc32.IEEETable, body[wire.BTHLen:len(body)-wire.ICRCLen])
}

// GIDs are the packet's addresses: of IP, or of a GRH. Of InfiniBand without one their last two
// bytes are the LIDs.
func (p *Packet) GIDs() (src, dst wire.GID) {
	if p.Kind == RoCEv2 {
		return p.Frame.Src(), p.Frame.Dst()
	}
	if p.body-p.head == grhLen {
		copy(src[:], p.Data[p.head+8:])
		copy(dst[:], p.Data[p.head+24:])
	} else if p.Kind == InfiniBand {
		copy(src[14:], p.Data[p.lrh+6:p.lrh+8])
		copy(dst[14:], p.Data[p.lrh+2:p.lrh+4])
	}
	return src, dst
}
