package layers

import (
	"errors"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/goroce/goroce/wire"
)

// The layer types of RoCEv2.
var (
	LayerTypeBTH          = register(0, "BTH", gopacket.DecodeFunc(decodeBTH))
	LayerTypeRETH         = register(1, "RETH", nil)
	LayerTypeAETH         = register(2, "AETH", nil)
	LayerTypeAtomicETH    = register(3, "AtomicETH", nil)
	LayerTypeAtomicAckETH = register(4, "AtomicAckETH", nil)
	LayerTypeImmDt        = register(5, "ImmDt", nil)
	LayerTypeIETH         = register(6, "IETH", nil)
	LayerTypeDETH         = register(7, "DETH", nil)
	LayerTypeRDETH        = register(8, "RDETH", nil)
	LayerTypeXRCETH       = register(9, "XRCETH", nil)
	LayerTypeFETH         = register(10, "FETH", nil)
	LayerTypeCNPReserved  = register(11, "CNPReserved", nil)
	LayerTypeMAD          = register(12, "MAD", nil)
	LayerTypeICRC         = register(13, "ICRC", nil)
)

// firstLayerType is where this package's layer types start; 1000..1999 are for applications.
const firstLayerType = 1791

func register(n int, name string, decoder gopacket.Decoder) gopacket.LayerType {
	// what follows the BTH depends on its opcode: these cannot be decoded on their own
	if decoder == nil {
		decoder = gopacket.DecodeUnknown
	}
	return gopacket.RegisterLayerType(firstLayerType+n, gopacket.LayerTypeMetadata{Name: name, Decoder: decoder})
}

func init() {
	layers.RegisterUDPPortLayerType(wire.UDPPort, LayerTypeBTH)
}

// BTH is the base transport header.
type BTH struct {
	layers.BaseLayer
	Opcode    wire.Opcode
	Solicited bool
	MigReq    bool
	PadCount  uint8
	TVer      uint8
	PKey      uint16
	FECN      bool
	BECN      bool
	DestQP    uint32
	AckReq    bool
	PSN       wire.PSN
}

// LayerType returns LayerTypeBTH.
func (*BTH) LayerType() gopacket.LayerType { return LayerTypeBTH }

// CanDecode returns LayerTypeBTH.
func (*BTH) CanDecode() gopacket.LayerClass { return LayerTypeBTH }

// NextLayerType returns LayerTypePayload: a gopacket.DecodingLayerParser sees what follows the BTH
// as bytes.
func (*BTH) NextLayerType() gopacket.LayerType { return gopacket.LayerTypePayload }

var errShort = errors.New("RoCEv2: too short for the headers of its opcode")

// DecodeFromBytes reads the header; the rest of the body becomes the layer's payload.
func (l *BTH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) < wire.BTHLen {
		df.SetTruncated()
		return errShort
	}
	h := (*wire.BTH)(data)
	*l = BTH{
		BaseLayer: layers.BaseLayer{Contents: data[:wire.BTHLen], Payload: data[wire.BTHLen:]},
		Opcode:    h.Opcode(),
		Solicited: h.Solicited(),
		MigReq:    h.MigReq(),
		PadCount:  h.PadCount(),
		TVer:      h.TVer(),
		PKey:      h.PKey(),
		FECN:      h.FECN(),
		BECN:      h.BECN(),
		DestQP:    h.DestQP(),
		AckReq:    h.AckReq(),
		PSN:       h.PSN(),
	}
	return nil
}

// flags are the single bits as wire.BTH takes them.
func (l *BTH) flags() (f wire.BTHFlags) {
	for _, x := range [...]struct {
		on   bool
		flag wire.BTHFlags
	}{{l.Solicited, wire.BTHSolicited}, {l.MigReq, wire.BTHMigReq}, {l.FECN, wire.BTHFECN}, {l.BECN, wire.BTHBECN},
		{l.AckReq, wire.BTHAckReq}} {
		if x.on {
			f |= x.flag
		}
	}
	return f
}

// SerializeTo puts the header in front of what is in the buffer: extension headers, payload and
// ICRC. With FixLengths the pad is inserted before the ICRC, if it is not there yet, and PadCount
// set.
func (l *BTH) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	if n := wire.Pad(len(b.Bytes())); opts.FixLengths && n != 0 {
		if len(b.Bytes()) < wire.ICRCLen {
			return errors.New("RoCEv2: serialize an ICRC layer behind the payload")
		}
		if _, err := b.AppendBytes(n); err != nil {
			return err
		}
		tail := b.Bytes()[len(b.Bytes())-n-wire.ICRCLen:]
		copy(tail[n:], tail[:wire.ICRCLen])
		clear(tail[:n])
		l.PadCount = uint8(n)
	}
	bytes, err := b.PrependBytes(wire.BTHLen)
	if err != nil {
		return err
	}
	h := (*wire.BTH)(bytes)
	h.Put(l.Opcode, l.flags(), l.PadCount, l.PKey, l.DestQP, l.PSN)
	h.SetTVer(l.TVer)
	return nil
}

// decodeBTH adds all layers of a body at once: only the BTH knows which they are.
func decodeBTH(data []byte, p gopacket.PacketBuilder) error {
	bth := new(BTH)
	if err := bth.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(bth)
	op := bth.Opcode.Info()
	if op.Flags == 0 { // not assigned: no knowing what follows
		return p.NextDecoder(gopacket.LayerTypePayload)
	}
	rest := bth.Payload
	for _, h := range op.Headers {
		if len(rest) < h.Size() {
			p.SetTruncated()
			return errShort
		}
		ext := extensions[h]()
		ext.decode(rest)
		p.AddLayer(ext)
		rest = rest[h.Size():]
	}
	end := len(rest) - wire.ICRCLen - int(bth.PadCount)
	if end < 0 {
		p.SetTruncated()
		return errShort
	}
	addPayload(p, bth, rest[:end], rest)
	p.AddLayer(newICRC(rest[end:]))
	return nil
}

// addPayload adds the payload as bytes, or as a MAD if it is a message of the connection manager.
func addPayload(p gopacket.PacketBuilder, bth *BTH, payload, rest []byte) {
	if bth.Opcode == wire.UDSendOnly && bth.DestQP == wire.GSIQPN && len(payload) == wire.MADLen {
		if mad := newMAD((*wire.MAD)(payload), rest); mad != nil {
			p.AddLayer(mad)
			return
		}
	}
	if len(payload) > 0 {
		application := gopacket.Payload(payload)
		p.AddLayer(application)
		p.SetApplicationLayer(application)
	}
}
