package qptest

// Work requests of scripts, in short.

import "github.com/goroce/goroce/qp"

// Send is a signaled SEND of n bytes from offset off of the end's local memory.
func (e *End) Send(off, n int) qp.SendWR {
	wr := qp.SendWR{Opcode: qp.WRSend, Flags: qp.SendSignaled}
	if n > 0 {
		wr.SGL = []qp.SGE{e.Local.SGE(off, n)}
	}
	return wr
}

// Write is a signaled WRITE of n bytes from offset off of the end's local memory to offset at of
// the peer's remote memory.
func (e *End) Write(off, n int, to *Region, at int) qp.SendWR {
	wr := e.Send(off, n)
	wr.Opcode, wr.RKey, wr.RemoteAddr = qp.WRWrite, to.RKey(), to.Addr(at)
	return wr
}

// Read is a signaled READ of n bytes at offset at of the peer's remote memory to offset off of the
// end's local memory.
func (e *End) Read(off, n int, from *Region, at int) qp.SendWR {
	wr := e.Write(off, n, from, at)
	wr.Opcode = qp.WRRead
	return wr
}

// FetchAdd adds to the 8 bytes at offset at of the peer's remote memory.
func (e *End) FetchAdd(off int, to *Region, at int, add uint64) qp.SendWR {
	wr := e.Write(off, 8, to, at)
	wr.Opcode, wr.CompareAdd = qp.WRAtomicFetchAndAdd, add
	return wr
}

// CompareSwap replaces the 8 bytes at offset at of the peer's remote memory if they equal compare.
func (e *End) CompareSwap(off int, to *Region, at int, compare, swap uint64) qp.SendWR {
	wr := e.Write(off, 8, to, at)
	wr.Opcode, wr.CompareAdd, wr.Swap = qp.WRAtomicCmpAndSwp, compare, swap
	return wr
}

// With changes a work request's opcode, immediate data or flags.
func With(wr qp.SendWR, change ...func(*qp.SendWR)) qp.SendWR {
	for _, c := range change {
		c(&wr)
	}
	return wr
}

// Immediate turns a SEND or WRITE into one with immediate data.
func Immediate(v uint32) func(*qp.SendWR) {
	return func(wr *qp.SendWR) {
		wr.Imm = v
		switch wr.Opcode {
		case qp.WRSend:
			wr.Opcode = qp.WRSendWithImm
		case qp.WRWrite:
			wr.Opcode = qp.WRWriteWithImm
		}
	}
}

// Unsignaled takes the signal away.
func Unsignaled(wr *qp.SendWR) { wr.Flags &^= qp.SendSignaled }

// Fenced adds the fence.
func Fenced(wr *qp.SendWR) { wr.Flags |= qp.SendFence }

// SolicitedEvent adds the solicited event.
func SolicitedEvent(wr *qp.SendWR) { wr.Flags |= qp.SendSolicited }

// Invalidating turns a SEND into one that invalidates a key.
func Invalidating(key uint32) func(*qp.SendWR) {
	return func(wr *qp.SendWR) { wr.Opcode, wr.InvalidateKey = qp.WRSendWithInv, key }
}

// InlineData replaces the elements by data that is copied when posting.
func InlineData(b []byte) func(*qp.SendWR) {
	return func(wr *qp.SendWR) { wr.SGL, wr.Inline, wr.Flags = nil, b, wr.Flags|qp.SendInline }
}
