package layers

import (
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/goroce/goroce/wire"
)

// extension is an extension header as a layer.
type extension interface {
	gopacket.Layer
	gopacket.SerializableLayer
	decode(b []byte) // at least as long as the header
}

// extensions makes an empty layer for each extension header.
var extensions = [wire.NumHeaders]func() extension{
	wire.HdrRETH:         func() extension { return new(RETH) },
	wire.HdrAETH:         func() extension { return new(AETH) },
	wire.HdrAtomicETH:    func() extension { return new(AtomicETH) },
	wire.HdrAtomicAckETH: func() extension { return new(AtomicAckETH) },
	wire.HdrImmDt:        func() extension { return new(ImmDt) },
	wire.HdrIETH:         func() extension { return new(IETH) },
	wire.HdrDETH:         func() extension { return new(DETH) },
	wire.HdrRDETH:        func() extension { return new(RDETH) },
	wire.HdrXRCETH:       func() extension { return new(XRCETH) },
	wire.HdrFETH:         func() extension { return new(FETH) },
	wire.HdrCNPReserved:  func() extension { return new(CNPReserved) },
}

// base cuts n bytes of header from what follows.
func base(b []byte, n int) layers.BaseLayer {
	return layers.BaseLayer{Contents: b[:n], Payload: b[n:]}
}

// RETH is the RDMA extended transport header.
type RETH struct {
	layers.BaseLayer
	VA     uint64
	RKey   uint32
	DMALen uint32
}

// LayerType returns LayerTypeRETH.
func (*RETH) LayerType() gopacket.LayerType { return LayerTypeRETH }

func (l *RETH) decode(b []byte) {
	h := (*wire.RETH)(b)
	*l = RETH{base(b, len(h)), h.VA(), h.RKey(), h.DMALen()}
}

// SerializeTo puts the header in front of what is in the buffer; so do the others.
func (l *RETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	bytes, err := b.PrependBytes(len(wire.RETH{}))
	if err == nil {
		(*wire.RETH)(bytes).Put(l.VA, l.RKey, l.DMALen)
	}
	return err
}

// AETH is the acknowledge extended transport header.
type AETH struct {
	layers.BaseLayer
	Syndrome wire.Syndrome
	MSN      wire.PSN
}

// LayerType returns LayerTypeAETH.
func (*AETH) LayerType() gopacket.LayerType { return LayerTypeAETH }

func (l *AETH) decode(b []byte) {
	h := (*wire.AETH)(b)
	*l = AETH{base(b, len(h)), h.Syndrome(), h.MSN()}
}

// SerializeTo puts the header in front of what is in the buffer.
func (l *AETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	bytes, err := b.PrependBytes(len(wire.AETH{}))
	if err == nil {
		(*wire.AETH)(bytes).Put(l.Syndrome, l.MSN)
	}
	return err
}

// AtomicETH is the atomic extended transport header.
type AtomicETH struct {
	layers.BaseLayer
	VA      uint64
	RKey    uint32
	SwapAdd uint64
	Compare uint64
}

// LayerType returns LayerTypeAtomicETH.
func (*AtomicETH) LayerType() gopacket.LayerType { return LayerTypeAtomicETH }

func (l *AtomicETH) decode(b []byte) {
	h := (*wire.AtomicETH)(b)
	*l = AtomicETH{base(b, len(h)), h.VA(), h.RKey(), h.SwapAdd(), h.Compare()}
}

// SerializeTo puts the header in front of what is in the buffer.
func (l *AtomicETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	bytes, err := b.PrependBytes(len(wire.AtomicETH{}))
	if err == nil {
		(*wire.AtomicETH)(bytes).Put(l.VA, l.RKey, l.SwapAdd, l.Compare)
	}
	return err
}

// AtomicAckETH is the atomic acknowledge extended transport header.
type AtomicAckETH struct {
	layers.BaseLayer
	Orig uint64
}

// LayerType returns LayerTypeAtomicAckETH.
func (*AtomicAckETH) LayerType() gopacket.LayerType { return LayerTypeAtomicAckETH }

func (l *AtomicAckETH) decode(b []byte) {
	h := (*wire.AtomicAckETH)(b)
	*l = AtomicAckETH{base(b, len(h)), h.Orig()}
}

// SerializeTo puts the header in front of what is in the buffer.
func (l *AtomicAckETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	bytes, err := b.PrependBytes(len(wire.AtomicAckETH{}))
	if err == nil {
		(*wire.AtomicAckETH)(bytes).Put(l.Orig)
	}
	return err
}

// ImmDt is immediate data.
type ImmDt struct {
	layers.BaseLayer
	Imm uint32
}

// LayerType returns LayerTypeImmDt.
func (*ImmDt) LayerType() gopacket.LayerType { return LayerTypeImmDt }

func (l *ImmDt) decode(b []byte) {
	h := (*wire.ImmDt)(b)
	*l = ImmDt{base(b, len(h)), h.Imm()}
}

// SerializeTo puts the header in front of what is in the buffer.
func (l *ImmDt) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	bytes, err := b.PrependBytes(len(wire.ImmDt{}))
	if err == nil {
		(*wire.ImmDt)(bytes).Put(l.Imm)
	}
	return err
}

// IETH is the invalidate extended transport header.
type IETH struct {
	layers.BaseLayer
	RKey uint32
}

// LayerType returns LayerTypeIETH.
func (*IETH) LayerType() gopacket.LayerType { return LayerTypeIETH }

func (l *IETH) decode(b []byte) {
	h := (*wire.IETH)(b)
	*l = IETH{base(b, len(h)), h.RKey()}
}

// SerializeTo puts the header in front of what is in the buffer.
func (l *IETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	bytes, err := b.PrependBytes(len(wire.IETH{}))
	if err == nil {
		(*wire.IETH)(bytes).Put(l.RKey)
	}
	return err
}

// DETH is the datagram extended transport header.
type DETH struct {
	layers.BaseLayer
	QKey  uint32
	SrcQP uint32
}

// LayerType returns LayerTypeDETH.
func (*DETH) LayerType() gopacket.LayerType { return LayerTypeDETH }

func (l *DETH) decode(b []byte) {
	h := (*wire.DETH)(b)
	*l = DETH{base(b, len(h)), h.QKey(), h.SrcQP()}
}

// SerializeTo puts the header in front of what is in the buffer.
func (l *DETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	bytes, err := b.PrependBytes(len(wire.DETH{}))
	if err == nil {
		(*wire.DETH)(bytes).Put(l.QKey, l.SrcQP)
	}
	return err
}

// RDETH is the reliable datagram extended transport header.
type RDETH struct {
	layers.BaseLayer
	EEContext uint32
}

// LayerType returns LayerTypeRDETH.
func (*RDETH) LayerType() gopacket.LayerType { return LayerTypeRDETH }

func (l *RDETH) decode(b []byte) {
	h := (*wire.RDETH)(b)
	*l = RDETH{base(b, len(h)), h.EEContext()}
}

// SerializeTo puts the header in front of what is in the buffer.
func (l *RDETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	bytes, err := b.PrependBytes(len(wire.RDETH{}))
	if err == nil {
		(*wire.RDETH)(bytes).Put(l.EEContext)
	}
	return err
}

// XRCETH is the XRC extended transport header.
type XRCETH struct {
	layers.BaseLayer
	SRQN uint32
}

// LayerType returns LayerTypeXRCETH.
func (*XRCETH) LayerType() gopacket.LayerType { return LayerTypeXRCETH }

func (l *XRCETH) decode(b []byte) {
	h := (*wire.XRCETH)(b)
	*l = XRCETH{base(b, len(h)), h.SRQN()}
}

// SerializeTo puts the header in front of what is in the buffer.
func (l *XRCETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	bytes, err := b.PrependBytes(len(wire.XRCETH{}))
	if err == nil {
		(*wire.XRCETH)(bytes).Put(l.SRQN)
	}
	return err
}

// FETH is the flush extended transport header.
type FETH struct {
	layers.BaseLayer
	Placement   uint8
	Selectivity uint8
}

// LayerType returns LayerTypeFETH.
func (*FETH) LayerType() gopacket.LayerType { return LayerTypeFETH }

func (l *FETH) decode(b []byte) {
	h := (*wire.FETH)(b)
	*l = FETH{base(b, len(h)), h.Placement(), h.Selectivity()}
}

// SerializeTo puts the header in front of what is in the buffer.
func (l *FETH) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	bytes, err := b.PrependBytes(len(wire.FETH{}))
	if err == nil {
		(*wire.FETH)(bytes).Put(l.Placement, l.Selectivity)
	}
	return err
}

// CNPReserved is the 16 bytes that follow the BTH of a congestion notification packet.
type CNPReserved struct {
	layers.BaseLayer
	Reserved [16]byte
}

// LayerType returns LayerTypeCNPReserved.
func (*CNPReserved) LayerType() gopacket.LayerType { return LayerTypeCNPReserved }

func (l *CNPReserved) decode(b []byte) {
	*l = CNPReserved{base(b, 16), [16]byte(b)}
}

// SerializeTo puts the bytes in front of what is in the buffer.
func (l *CNPReserved) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	bytes, err := b.PrependBytes(len(l.Reserved))
	if err == nil {
		copy(bytes, l.Reserved[:])
	}
	return err
}
