package layers

import (
	"encoding/binary"
	"errors"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/goroce/goroce/wire"
)

// MAD is a management datagram with a message of the connection manager.
type MAD struct {
	layers.BaseLayer
	TransactionID     uint64
	AttributeModifier uint32
	Message           wire.CMMessage
}

// newMAD reads the MAD at the start of rest; nil if it is not the connection manager's.
func newMAD(m *wire.MAD, rest []byte) *MAD {
	msg, err := wire.ParseCM(m)
	if err != nil {
		return nil
	}
	return &MAD{base(rest, wire.MADLen), m.TransactionID(), m.AttributeModifier(), msg}
}

// LayerType returns LayerTypeMAD.
func (*MAD) LayerType() gopacket.LayerType { return LayerTypeMAD }

// SerializeTo puts the datagram in front of what is in the buffer.
func (l *MAD) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	if l.Message == nil {
		return errors.New("RoCEv2: a MAD layer needs a Message")
	}
	bytes, err := b.PrependBytes(wire.MADLen)
	if err == nil {
		m := (*wire.MAD)(bytes)
		wire.PutCM(m, l.TransactionID, l.Message)
		m.SetAttributeModifier(l.AttributeModifier)
	}
	return err
}

// ICRC is the end of a packet: the pad and the invariant CRC. Its value is only checked by Verify:
// a layer does not see the IP header.
type ICRC struct {
	layers.BaseLayer
	Pad   uint8 // bytes of pad
	Value uint32
}

// newICRC reads pad and ICRC.
func newICRC(b []byte) *ICRC {
	n := len(b) - wire.ICRCLen
	return &ICRC{base(b, len(b)), uint8(n), binary.LittleEndian.Uint32(b[n:])}
}

// LayerType returns LayerTypeICRC.
func (*ICRC) LayerType() gopacket.LayerType { return LayerTypeICRC }

// SerializeTo puts pad and value in front of what is in the buffer, which is nothing. Seal computes
// the value later.
func (l *ICRC) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	n := int(l.Pad)
	if n > wire.PadMax {
		return errors.New("RoCEv2: a pad of more than 3 bytes")
	}
	bytes, err := b.PrependBytes(n + wire.ICRCLen)
	if err == nil {
		clear(bytes)
		binary.LittleEndian.PutUint32(bytes[n:], l.Value)
	}
	return err
}

// Seal computes the ICRC of a packet whose bytes start at the IP header and writes it into the last
// four bytes. The UDP checksum becomes 0, as RoCEv2 senders have it: one that was computed before
// would now be wrong.
func Seal(ipPacket []byte) error {
	f, err := frame(ipPacket)
	if err != nil {
		return err
	}
	wire.Seal(&f)
	f.UDP().SetChecksum(0)
	return nil
}

// Verify says whether the ICRC of a packet whose bytes start at the IP header is right.
func Verify(ipPacket []byte) (bool, error) {
	f, err := frame(ipPacket)
	return err == nil && wire.Verify(&f), err
}

func frame(ipPacket []byte) (wire.Frame, error) {
	f, drop := wire.SplitFrame(ipPacket)
	if drop == wire.DropNone && len(f.Body) < wire.MinBody {
		drop = wire.DropShort
	}
	if drop != wire.DropNone {
		return f, errors.New("RoCEv2: " + drop.Explain())
	}
	return f, nil
}
