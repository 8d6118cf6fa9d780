package trace

// Packets of which the capture has the beginning only (a snapshot length). Stages: zeros take the
// place of what is missing, so that lengths can be read → were the headers cut too? → was it a run,
// of which all but the first packet is gone?

import (
	"fmt"

	"github.com/goroce/goroce/wire"
)

// restore gives a packet that the capture has cut its length again. It says whether it was cut.
func (p *Packet) restore() bool {
	if p.Length <= len(p.Data) {
		return false
	}
	p.Cut = p.Length - len(p.Data)
	p.whole = append(p.whole[:0], p.Data...)
	p.whole = append(p.whole, make([]byte, p.Cut)...)
	p.Data = p.whole
	return true
}

// headersCut says in words that not all headers of the transport were captured, and what is known
// all the same; "" if they were.
func (p *Packet) headersCut() string {
	have := len(p.Data) - p.Cut - p.body
	if have < wire.BTHLen {
		return fmt.Sprintf("the capture has cut off its headers: %d bytes of the BTH's %d are there",
			max(have, 0), wire.BTHLen)
	}
	if len(p.Frame.Body) < wire.MinBody {
		return "" // wire.Parse says what is wrong
	}
	h := (*wire.BTH)(p.Frame.Body)
	op := h.Opcode().Info()
	if op.Flags == 0 || have >= int(op.HdrLen) {
		return ""
	}
	return fmt.Sprintf("the capture has cut off its headers: %d bytes of %d are there, of %v qp 0x%06x psn %v",
		have, op.HdrLen, h.Opcode(), h.DestQP(), h.PSN())
}

// firstOfRun looks whether the packet is longer than one with its headers can be: then it was the
// first of a run. It shortens it to that if it can tell how long that was.
func (p *Packet) firstOfRun() {
	body := p.Frame.Body
	if len(body) < wire.MinBody || len(body) < wire.BodyLen(wire.Opcode(body[0]), 0) {
		return
	}
	opcode := wire.Opcode(body[0])
	op := opcode.Info()
	longest, known := wire.BodyLen(opcode, 0), true
	switch {
	case op.Payload == wire.PayloadNone:
	case op.Payload == wire.PayloadEight:
		longest = wire.BodyLen(opcode, 8)
	default:
		longest, known = wire.BodyLen(opcode, wire.MTU4096.Bytes()), false
		if _, err := wire.MTUFromBytes(len(body) - wire.BodyLen(opcode, 0)); op.Payload == wire.PayloadFull &&
			err != nil {
			longest = 0
		}
		if op.Has(wire.OpWrite | wire.OpRETH | wire.OpEnd) { // it says how much it writes
			if n := (*wire.RETH)(body[op.Off[wire.HdrRETH]:]).DMALen(); n <= uint32(wire.MTU4096.Bytes()) {
				longest, known = wire.BodyLen(opcode, int(n)), true
			}
		}
	}
	if p.RunCut = op.Flags != 0 && len(body) > longest; p.RunCut && known {
		head := p.made[:copy(p.made[:], p.Frame.Head)]
		putHead(head, longest, 0)
		p.Frame = wire.Frame{Head: head, Body: body[:longest]}
	}
}
