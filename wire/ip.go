package wire

// The headers below the transport: IPv4 without options, IPv6 without extension headers, UDP
// (section 1.1).

// UDPPort is the UDP destination port of RoCEv2.
const UDPPort = 4791

const (
	ipv4Len = 20
	ipv6Len = 40
	udpLen  = 8
	// Head4Len is the length of a Frame's Head over IPv4.
	Head4Len = ipv4Len + udpLen
	// Head6Len is the length of a Frame's Head over IPv6.
	Head6Len = ipv6Len + udpLen
	// HeadMax is the longest Head.
	HeadMax = Head6Len
	// MaxBody is the longest body of one packet: what a UDP datagram over IPv4 can hold.
	MaxBody = 65535 - Head4Len
)

const protoUDP = 17

// IPv4 is an IPv4 header of 20 bytes. Its ICRC-masked fields are TOS, TTL and Checksum.
type IPv4 [ipv4Len]byte

// Version is 4.
func (h *IPv4) Version() uint8 { return h[0] >> 4 }

// IHL is the header's length in units of four bytes; 5 in every RoCEv2 packet.
func (h *IPv4) IHL() uint8 { return h[0] & 0xf }

// TOS is DSCP (upper six bits) and ECN.
func (h *IPv4) TOS() uint8 { return h[1] }

// SetTOS changes DSCP and ECN. The header checksum changes with it: call UpdateChecksum.
func (h *IPv4) SetTOS(v uint8) { h[1] = v }

// TotalLength counts this header and all that follows it.
func (h *IPv4) TotalLength() uint16 { return be.Uint16(h[2:]) }

// SetTotalLength changes the length: call UpdateChecksum afterwards.
func (h *IPv4) SetTotalLength(n uint16) { be.PutUint16(h[2:], n) }

// Identification is covered by the ICRC although a UDP socket hides it.
func (h *IPv4) Identification() uint16 { return be.Uint16(h[4:]) }

// SetIdentification changes the identification: call UpdateChecksum afterwards.
func (h *IPv4) SetIdentification(id uint16) { be.PutUint16(h[4:], id) }

// Fragment is the word of flags and fragment offset: 0x4000 is "don't fragment".
func (h *IPv4) Fragment() uint16 { return be.Uint16(h[6:]) }

// SetFragment changes flags and fragment offset: call UpdateChecksum afterwards.
func (h *IPv4) SetFragment(v uint16) { be.PutUint16(h[6:], v) }

// DontFragment is the DF flag of Fragment; every RoCEv2 sender sets it.
const DontFragment uint16 = 0x4000

// TTL is the time to live.
func (h *IPv4) TTL() uint8 { return h[8] }

// SetTTL changes the time to live: call UpdateChecksum afterwards.
func (h *IPv4) SetTTL(v uint8) { h[8] = v }

// Protocol is 17 for UDP.
func (h *IPv4) Protocol() uint8 { return h[9] }

// Checksum is the header checksum as it stands in the header.
func (h *IPv4) Checksum() uint16 { return be.Uint16(h[10:]) }

// Src is the source address.
func (h *IPv4) Src() GID { return gid4((*[4]byte)(h[12:16])) }

// Dst is the destination address.
func (h *IPv4) Dst() GID { return gid4((*[4]byte)(h[16:20])) }

// UpdateChecksum computes the header checksum and writes it.
func (h *IPv4) UpdateChecksum() {
	h[10], h[11] = 0, 0
	be.PutUint16(h[10:], ^fold(h.sum()))
}

// checksumOK says whether the header, its checksum included, adds up.
func (h *IPv4) checksumOK() bool { return fold(h.sum()) == 0xffff }

// sum is a sum of the header's 16-bit words in ones' complement arithmetic, in which it is all the
// same to add two at a time.
func (h *IPv4) sum() uint32 {
	s := uint64(be.Uint32(h[0:])) + uint64(be.Uint32(h[4:])) + uint64(be.Uint32(h[8:])) + uint64(be.Uint32(h[12:])) +
		uint64(be.Uint32(h[16:]))
	return uint32(s>>32 + s>>16&0xffff + s&0xffff)
}

// fold reduces a sum of 16-bit words to 16 bits in ones' complement arithmetic.
func fold(s uint32) uint16 {
	s = s>>16 + s&0xffff
	s = s>>16 + s&0xffff
	return uint16(s)
}

// IPv6 is an IPv6 header of 40 bytes. Its ICRC-masked fields are TrafficClass, FlowLabel and
// HopLimit.
type IPv6 [ipv6Len]byte

// Version is 6.
func (h *IPv6) Version() uint8 { return h[0] >> 4 }

// TrafficClass is DSCP (upper six bits) and ECN.
func (h *IPv6) TrafficClass() uint8 { return uint8(be.Uint16(h[0:]) >> 4) }

// SetTrafficClass changes DSCP and ECN.
func (h *IPv6) SetTrafficClass(v uint8) {
	be.PutUint16(h[0:], be.Uint16(h[0:])&0xf00f|uint16(v)<<4)
}

// FlowLabel has 20 bits.
func (h *IPv6) FlowLabel() uint32 { return be.Uint32(h[0:]) & 0xfffff }

// SetFlowLabel changes the flow label, 20 bits.
func (h *IPv6) SetFlowLabel(v uint32) { be.PutUint32(h[0:], be.Uint32(h[0:])&^0xfffff|v&0xfffff) }

// PayloadLength counts what follows this header.
func (h *IPv6) PayloadLength() uint16 { return be.Uint16(h[4:]) }

// SetPayloadLength changes the length.
func (h *IPv6) SetPayloadLength(n uint16) { be.PutUint16(h[4:], n) }

// NextHeader is 17 for UDP.
func (h *IPv6) NextHeader() uint8 { return h[6] }

// HopLimit is the hop limit.
func (h *IPv6) HopLimit() uint8 { return h[7] }

// SetHopLimit changes the hop limit.
func (h *IPv6) SetHopLimit(v uint8) { h[7] = v }

// Src is the source address.
func (h *IPv6) Src() GID { return GID(h[8:24]) }

// Dst is the destination address.
func (h *IPv6) Dst() GID { return GID(h[24:40]) }

// UDP is a UDP header. Its ICRC-masked field is Checksum.
type UDP [udpLen]byte

// SrcPort carries entropy for load balancing; receivers accept any (section 1.2).
func (h *UDP) SrcPort() uint16 { return be.Uint16(h[0:]) }

// SetSrcPort changes the source port.
func (h *UDP) SetSrcPort(p uint16) { be.PutUint16(h[0:], p) }

// DstPort is 4791.
func (h *UDP) DstPort() uint16 { return be.Uint16(h[2:]) }

// SetDstPort changes the destination port.
func (h *UDP) SetDstPort(p uint16) { be.PutUint16(h[2:], p) }

// Length counts this header and the body.
func (h *UDP) Length() uint16 { return be.Uint16(h[4:]) }

// SetLength changes the length.
func (h *UDP) SetLength(n uint16) { be.PutUint16(h[4:], n) }

// Checksum is 0 in what RoCEv2 senders make (section 1.3).
func (h *UDP) Checksum() uint16 { return be.Uint16(h[6:]) }

// SetChecksum changes the checksum.
func (h *UDP) SetChecksum(c uint16) { be.PutUint16(h[6:], c) }
