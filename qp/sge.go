package qp

// Scatter and gather: the elements of a work request as one message. Every access goes through the
// memory table, which checks key, protection domain, range and rights of each piece.

import (
	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// checkSGL says whether every element may be accessed as need demands.
func (e *Engine) checkSGL(pd mr.PD, sgl []SGE, need mr.Access) mr.Status {
	for i := range sgl {
		if s := &sgl[i]; s.Length != 0 {
			if _, st := e.cfg.Memory.Local(pd, s.LKey, s.Addr, s.Length, need); st != mr.OK {
				return st
			}
		}
	}
	return mr.OK
}

// gather copies len(dst) bytes of the message at off out of registered memory, except for the last
// piece of them: it returns where that lies, for wire.SealPayload to copy. The engine's turn keeps
// it valid.
func (e *Engine) gather(pd mr.PD, sgl []SGE, off uint32, dst []byte) (rest []byte, st mr.Status) {
	for i := 0; len(dst) > 0; i++ {
		s := &sgl[i]
		if off >= s.Length {
			off -= s.Length
			continue
		}
		n := min(s.Length-off, uint32(len(dst)))
		span, st := e.cfg.Memory.Local(pd, s.LKey, s.Addr+uint64(off), n, 0)
		if st != mr.OK {
			return nil, st
		}
		if n == uint32(len(dst)) && !span.Null() {
			return span.Bytes(), mr.OK
		}
		if st := e.noted(span.Read(dst[:n], 0)); st != mr.OK {
			return nil, st
		}
		dst, off = dst[n:], 0
	}
	return nil, mr.OK
}

// scatter copies src into registered memory as the message's bytes at off, in ascending order.
func (e *Engine) scatter(pd mr.PD, sgl []SGE, off uint32, src []byte) mr.Status {
	for i := 0; len(src) > 0; i++ {
		s := &sgl[i]
		if off >= s.Length {
			off -= s.Length
			continue
		}
		n := min(s.Length-off, uint32(len(src)))
		span, st := e.cfg.Memory.Local(pd, s.LKey, s.Addr+uint64(off), n, mr.LocalWrite)
		if st != mr.OK {
			return st
		}
		if st := e.noted(span.Write(src[:n], 0)); st != mr.OK {
			return st
		}
		src, off = src[n:], 0
	}
	return mr.OK
}

// sealPayload copies payload to offset at of the frame's body and seals the frame. Only registered
// memory may be gone and needs a guard, which costs a small packet some 4 ns.
func (e *Engine) sealPayload(f *wire.Frame, at int, payload []byte, registered bool) (st mr.Status) {
	if !registered {
		wire.SealPayload(f, at, payload)
		return mr.OK
	}
	defer mr.Catch(payload, &st)
	wire.SealPayload(f, at, payload)
	return mr.OK
}

// noted counts an access that has faulted.
func (e *Engine) noted(st mr.Status) mr.Status {
	if st == mr.Faulted {
		e.stats.MemoryFaults++
	}
	return st
}
