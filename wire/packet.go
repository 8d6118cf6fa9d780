package wire

// From a Frame to a Packet: which opcode it is, where its headers are, where the payload starts and
// ends.

// Packet is a parsed frame: views into it, valid as long as the frame is. One Packet is used for
// many frames.
type Packet struct {
	Op      *OpInfo // the opcode's row
	Opcode  Opcode
	BTH     *BTH
	Body    []byte // BTH to ICRC, as in the frame
	Payload []byte // between the last extension header and the pad
	Frame   *Frame
}

// Parse fills p from a frame and returns DropNone, or says what is wrong with the frame. It checks
// that the opcode is assigned, that TVer is 0, that the body has room for the opcode's headers and
// ICRC, and that the pad is not longer than what follows the headers. It does not check the ICRC
// (Verify does), nor whether the payload's length suits the opcode (PayloadRule), which takes a
// path MTU. It never panics and never allocates.
func Parse(f *Frame, p *Packet) DropReason {
	body := f.Body
	if len(body) < MinBody {
		return DropShort
	}
	bth := (*BTH)(body)
	opcode := bth.Opcode()
	op := opcode.Info()
	if op.Flags == 0 {
		return DropOpcode
	}
	if bth.TVer() != 0 {
		return DropTVer
	}
	start, end := int(op.HdrLen), len(body)-ICRCLen
	if end < start {
		return DropShort
	}
	if end -= int(bth.PadCount()); end < start {
		return DropPad
	}
	// Field by field: a literal is built on the stack and copied, which waits for its own stores.
	p.Op, p.Opcode, p.BTH, p.Frame = op, opcode, bth, f
	p.Body, p.Payload = body, body[start:end:end]
	return DropNone
}

// at returns the body from where an extension header starts, nil if the packet has none. The
// header's length was checked by Parse.
func (p *Packet) at(h Header) []byte {
	if off := p.Op.Off[h]; off != 0 {
		return p.Body[off:]
	}
	return nil
}

// RETH returns the RDMA header, nil if the opcode has none; so do the other accessors.
func (p *Packet) RETH() *RETH {
	if b := p.at(HdrRETH); b != nil {
		return (*RETH)(b)
	}
	return nil
}

// AETH returns the acknowledge header or nil.
func (p *Packet) AETH() *AETH {
	if b := p.at(HdrAETH); b != nil {
		return (*AETH)(b)
	}
	return nil
}

// AtomicETH returns the atomic header or nil.
func (p *Packet) AtomicETH() *AtomicETH {
	if b := p.at(HdrAtomicETH); b != nil {
		return (*AtomicETH)(b)
	}
	return nil
}

// AtomicAckETH returns the atomic acknowledge header or nil.
func (p *Packet) AtomicAckETH() *AtomicAckETH {
	if b := p.at(HdrAtomicAckETH); b != nil {
		return (*AtomicAckETH)(b)
	}
	return nil
}

// ImmDt returns the immediate data or nil.
func (p *Packet) ImmDt() *ImmDt {
	if b := p.at(HdrImmDt); b != nil {
		return (*ImmDt)(b)
	}
	return nil
}

// IETH returns the invalidate header or nil.
func (p *Packet) IETH() *IETH {
	if b := p.at(HdrIETH); b != nil {
		return (*IETH)(b)
	}
	return nil
}

// DETH returns the datagram header or nil.
func (p *Packet) DETH() *DETH {
	if b := p.at(HdrDETH); b != nil {
		return (*DETH)(b)
	}
	return nil
}

// RDETH returns the reliable datagram header or nil.
func (p *Packet) RDETH() *RDETH {
	if b := p.at(HdrRDETH); b != nil {
		return (*RDETH)(b)
	}
	return nil
}

// XRCETH returns the XRC header or nil.
func (p *Packet) XRCETH() *XRCETH {
	if b := p.at(HdrXRCETH); b != nil {
		return (*XRCETH)(b)
	}
	return nil
}

// FETH returns the flush header or nil.
func (p *Packet) FETH() *FETH {
	if b := p.at(HdrFETH); b != nil {
		return (*FETH)(b)
	}
	return nil
}

// ICRC returns the invariant CRC as it stands in the packet, unchecked.
func (p *Packet) ICRC() uint32 { return le.Uint32(p.Body[len(p.Body)-ICRCLen:]) }

// Lay is Parse for building: it points p into the still empty body of a frame that is to become
// this opcode with n bytes of payload, and zeroes the pad. The caller fills BTH, extension headers
// and payload through p, then seals the frame. It returns false if the opcode is not assigned or
// the body's length is not BodyLen(op, n).
func (p *Packet) Lay(f *Frame, op Opcode, n int) bool {
	info := op.Info()
	start := int(info.HdrLen)
	if info.Flags == 0 || len(f.Body) != BodyLen(op, n) {
		return false
	}
	for i := start + n; i < len(f.Body)-ICRCLen; i++ {
		f.Body[i] = 0
	}
	*p = Packet{
		Op:      info,
		Opcode:  op,
		BTH:     (*BTH)(f.Body),
		Body:    f.Body,
		Payload: f.Body[start : start+n : start+n],
		Frame:   f,
	}
	return true
}

// BodyLen returns the length of a body with this opcode and n bytes of payload: headers, payload,
// pad and ICRC.
func BodyLen(op Opcode, n int) int {
	return int(Opcodes[op].HdrLen) + n + Pad(n) + ICRCLen
}
