package wire

// The base transport header, laid over the first bytes of a packet's body.
//
// Every header of this package is a view: an array type whose pointer is a conversion of a slice,
// (*BTH)(body), with one bounds check; its methods read and write fields in place and cannot panic.
// Put writes all fields of a header at once, reserved bits zero; a Set method changes one field and
// leaves the rest.

import "encoding/binary"

var be = binary.BigEndian

// Sizes in bytes of what every packet has.
const (
	BTHLen  = 12
	ICRCLen = 4
	PadMax  = 3
	// MinBody is the smallest body: BTH and ICRC, a SEND_ONLY without payload.
	MinBody = BTHLen + ICRCLen
)

// Numbers with a meaning in a BTH or DETH.
const (
	DefaultPKey  uint16 = 0xffff     // full member of the default partition (section 1.10)
	PKeyNumber   uint16 = 0x7fff     // of a P_Key, without the bit of full membership
	MulticastQPN uint32 = 0xffffff   // DestQP of a datagram to a multicast group
	GSIQPN       uint32 = 1          // the queue pair of the connection manager
	GSIQKey      uint32 = 0x80010000 // its Q_Key
	// bit of Q_Keys that only the owner of a queue pair may send (section 1.11)
	PrivilegedQKey uint32 = 1 << 31
	QPNMask        uint32 = 0xffffff // queue pair numbers have 24 bits
)

// BTH is the base transport header (section 1.4).
type BTH [BTHLen]byte

// BTHFlags are the single bits of a BTH, for Put.
type BTHFlags uint8

const (
	BTHSolicited BTHFlags = 0x80 // SE: solicited event
	BTHMigReq    BTHFlags = 0x40 // M: migration state
	BTHFECN      BTHFlags = 0x20 // forward congestion notification
	BTHBECN      BTHFlags = 0x10 // backward congestion notification
	BTHAckReq    BTHFlags = 0x01 // A: acknowledge requested
)

// Put writes all 12 bytes: TVer and reserved bits are 0. pad is 0..3; destQP and psn are 24 bits.
func (h *BTH) Put(op Opcode, flags BTHFlags, pad uint8, pkey uint16, destQP uint32, psn PSN) {
	b1 := uint32(flags)&0xc0 | uint32(pad&3)<<4
	b4 := uint32(flags) << 2 & 0xc0
	be.PutUint32(h[0:], uint32(op)<<24|b1<<16|uint32(pkey))
	be.PutUint32(h[4:], b4<<24|destQP&QPNMask)
	be.PutUint32(h[8:], uint32(flags)<<31|uint32(psn&PSNMask))
}

// Opcode says what the packet is.
func (h *BTH) Opcode() Opcode { return Opcode(h[0]) }

// SetOpcode changes the opcode.
func (h *BTH) SetOpcode(op Opcode) { h[0] = byte(op) }

// Flags returns the single bits as Put takes them.
func (h *BTH) Flags() BTHFlags {
	return BTHFlags(h[1]&0xc0 | h[4]>>2&0x30 | h[8]>>7)
}

// Solicited is SE: the receiver wants an event when this message completes.
func (h *BTH) Solicited() bool { return h[1]&0x80 != 0 }

// SetSolicited changes SE.
func (h *BTH) SetSolicited(on bool) { setBit(&h[1], 0x80, on) }

// MigReq is M, the migration state: 1 = migrated. rxe sends 0, hardware 1; receivers ignore it.
func (h *BTH) MigReq() bool { return h[1]&0x40 != 0 }

// SetMigReq changes M.
func (h *BTH) SetMigReq(on bool) { setBit(&h[1], 0x40, on) }

// PadCount is the number of bytes, 0..3, that follow the payload to make a multiple of four.
func (h *BTH) PadCount() uint8 { return h[1] >> 4 & 3 }

// SetPadCount changes the pad count, 0..3.
func (h *BTH) SetPadCount(n uint8) { h[1] = h[1]&^0x30 | n&3<<4 }

// TVer is the transport version, always 0.
func (h *BTH) TVer() uint8 { return h[1] & 0x0f }

// SetTVer changes the transport version.
func (h *BTH) SetTVer(v uint8) { h[1] = h[1]&^0x0f | v&0x0f }

// PKey is the partition key.
func (h *BTH) PKey() uint16 { return be.Uint16(h[2:]) }

// SetPKey changes the partition key.
func (h *BTH) SetPKey(k uint16) { be.PutUint16(h[2:], k) }

// FECN is forward explicit congestion notification; not used by RoCEv2, which has the ECN bits of
// IP.
func (h *BTH) FECN() bool { return h[4]&0x80 != 0 }

// SetFECN changes FECN. It is not covered by the ICRC.
func (h *BTH) SetFECN(on bool) { setBit(&h[4], 0x80, on) }

// BECN is backward explicit congestion notification; set in a CNP.
func (h *BTH) BECN() bool { return h[4]&0x40 != 0 }

// SetBECN changes BECN. It is not covered by the ICRC.
func (h *BTH) SetBECN(on bool) { setBit(&h[4], 0x40, on) }

// DestQP is the queue pair the packet is for, 24 bits.
func (h *BTH) DestQP() uint32 { return be.Uint32(h[4:]) & QPNMask }

// SetDestQP changes the destination queue pair, 24 bits.
func (h *BTH) SetDestQP(qpn uint32) { put24(h[5:8], qpn) }

// AckReq is A: the responder should acknowledge this packet.
func (h *BTH) AckReq() bool { return h[8]&0x80 != 0 }

// SetAckReq changes A.
func (h *BTH) SetAckReq(on bool) { setBit(&h[8], 0x80, on) }

// PSN is the packet's sequence number.
func (h *BTH) PSN() PSN { return PSN(be.Uint32(h[8:])) & PSNMask }

// SetPSN changes the sequence number.
func (h *BTH) SetPSN(p PSN) { put24(h[9:12], uint32(p)) }

// Pad returns how many bytes must follow n bytes of payload: 0..3.
func Pad(n int) int { return -n & 3 }

func setBit(b *byte, mask byte, on bool) {
	*b &^= mask
	if on {
		*b |= mask
	}
}

// put24 writes the low 24 bits of v into three bytes.
func put24(b []byte, v uint32) {
	_ = b[2]
	b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v)
}
