package wire

// From bytes to a Frame: one packet as the ports lend it, cut in two between UDP and BTH.

// Frame is one packet, lent for the duration of a call: nobody keeps it or its slices. Head is the
// IP and UDP header, Head4Len or Head6Len bytes; Body is BTH to ICRC. They are two slices so that
// the bodies of many packets can lie back to back in one buffer and leave with one system call.
type Frame struct {
	Head  []byte
	Body  []byte
	Flags FrameFlags
}

// FrameFlags says how a frame came to be.
type FrameFlags uint32

// FrameSynthHead marks a Head that a UDP port made up from what the kernel told it: addresses,
// ports, lengths, TOS and TTL are right, Identification and flags of an IPv4 header are a guess.
// Verify tries the guess and then solves for it.
const FrameSynthHead FrameFlags = 1 << 0

// IPv4 returns the IP header if the frame has an IPv4 one, otherwise nil.
func (f *Frame) IPv4() *IPv4 {
	if len(f.Head) != Head4Len {
		return nil
	}
	return (*IPv4)(f.Head)
}

// IPv6 returns the IP header if the frame has an IPv6 one, otherwise nil.
func (f *Frame) IPv6() *IPv6 {
	if len(f.Head) != Head6Len {
		return nil
	}
	return (*IPv6)(f.Head)
}

// UDP returns the UDP header, nil if Head has no valid length.
func (f *Frame) UDP() *UDP {
	if n := len(f.Head); n == Head4Len || n == Head6Len {
		return (*UDP)(f.Head[n-udpLen:])
	}
	return nil
}

// Src is the sender's address.
func (f *Frame) Src() GID {
	if h := f.IPv4(); h != nil {
		return h.Src()
	}
	if h := f.IPv6(); h != nil {
		return h.Src()
	}
	return GID{}
}

// Dst is the receiver's address.
func (f *Frame) Dst() GID {
	if h := f.IPv4(); h != nil {
		return h.Dst()
	}
	if h := f.IPv6(); h != nil {
		return h.Dst()
	}
	return GID{}
}

// From says whether the source is g. It costs a tenth of making a GID of the header to compare it.
func (f *Frame) From(g *GID) bool { return f.address(12, 8, g) }

// To says whether the destination is g.
func (f *Frame) To(g *GID) bool { return f.address(16, 24, g) }

// address compares the address at one offset of an IPv4 header and another of an IPv6 header.
func (f *Frame) address(at4, at6 int, g *GID) bool {
	switch len(f.Head) {
	case Head4Len:
		return le.Uint32(f.Head[at4:]) == le.Uint32(g[12:]) && le.Uint32(g[8:]) == 0xffff0000 && le.Uint64(g[:]) == 0
	case Head6Len:
		h := f.Head[at6:][:16]
		return le.Uint64(h) == le.Uint64(g[:]) && le.Uint64(h[8:]) == le.Uint64(g[8:])
	}
	return false
}

// TOS is the IPv4 type of service or IPv6 traffic class: DSCP in the upper six bits, ECN in the
// lower two.
func (f *Frame) TOS() uint8 {
	if h := f.IPv4(); h != nil {
		return h.TOS()
	}
	if h := f.IPv6(); h != nil {
		return h.TrafficClass()
	}
	return 0
}

// Values of ECN.
const (
	ECNNotCapable uint8 = 0
	ECNCapable1   uint8 = 1
	ECNCapable0   uint8 = 2
	ECNCongestion uint8 = 3 // CE: a switch on the way is congested
)

// ECN is the congestion notification field of the IP header.
func (f *Frame) ECN() uint8 { return f.TOS() & 3 }

// MarkCongestion sets the field to ECNCongestion, as a switch does; the ICRC does not cover it.
func (f *Frame) MarkCongestion() {
	if h := f.IPv4(); h != nil {
		f.Head[1] |= ECNCongestion
		h.UpdateChecksum()
	} else if f.IPv6() != nil {
		f.Head[1] |= ECNCongestion << 4
	}
}

// TTL is the IPv4 time to live or IPv6 hop limit.
func (f *Frame) TTL() uint8 {
	if h := f.IPv4(); h != nil {
		return h.TTL()
	}
	if h := f.IPv6(); h != nil {
		return h.HopLimit()
	}
	return 0
}

// SrcPort is the UDP source port.
func (f *Frame) SrcPort() uint16 {
	if u := f.UDP(); u != nil {
		return u.SrcPort()
	}
	return 0
}

// Len is the length of the IP packet in bytes.
func (f *Frame) Len() int { return len(f.Head) + len(f.Body) }

// AppendFrame appends the whole IP packet to dst: what a capture file of raw IP packets holds.
func AppendFrame(dst []byte, f *Frame) []byte {
	return append(append(dst, f.Head...), f.Body...)
}

// SplitFrame finds the frame in bytes that start at an IP header. What follows the UDP datagram
// (Ethernet padding) is left out. The slices of the frame have no spare capacity.
//
// Refused are: IP versions other than 4 and 6, IPv4 options, fragments and wrong header checksums,
// IPv6 extension headers, protocols other than UDP, other destination ports than 4791, lengths that
// exceed the bytes that are there. The UDP checksum is not looked at: the ICRC is the stronger
// check. On refusal the frame is zero.
func SplitFrame(pkt []byte) (Frame, DropReason) {
	if len(pkt) < 1 {
		return Frame{}, DropShort
	}
	switch pkt[0] >> 4 {
	case 4:
		return split4(pkt)
	case 6:
		return split6(pkt)
	}
	return Frame{}, DropIPVersion
}

func split4(pkt []byte) (Frame, DropReason) {
	if len(pkt) < Head4Len {
		return Frame{}, DropShort
	}
	h := (*IPv4)(pkt)
	total := int(h.TotalLength())
	switch {
	// 3fff: more fragments, and the offset
	case h.IHL() != 5, h.Fragment()&0x3fff != 0, !h.checksumOK():
		return Frame{}, DropIPHeader
	case h.Protocol() != protoUDP:
		return Frame{}, DropNotUDP
	case total < Head4Len || total > len(pkt):
		return Frame{}, DropLength
	}
	return splitUDP(pkt[:total], ipv4Len)
}

func split6(pkt []byte) (Frame, DropReason) {
	if len(pkt) < Head6Len {
		return Frame{}, DropShort
	}
	h := (*IPv6)(pkt)
	total := ipv6Len + int(h.PayloadLength())
	switch {
	case h.NextHeader() != protoUDP:
		return Frame{}, DropNotUDP
	case total < Head6Len || total > len(pkt):
		return Frame{}, DropLength
	}
	return splitUDP(pkt[:total], ipv6Len)
}

// splitUDP cuts an IP packet of a known length, whose UDP header is at offset at and complete.
func splitUDP(pkt []byte, at int) (Frame, DropReason) {
	u := (*UDP)(pkt[at:])
	body := at + udpLen
	end := at + int(u.Length())
	switch {
	case u.DstPort() != UDPPort:
		return Frame{}, DropPort
	case end < body || end > len(pkt):
		return Frame{}, DropLength
	}
	return Frame{Head: pkt[:body:body], Body: pkt[body:end:end]}, DropNone
}
