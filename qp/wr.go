package qp

// Posting: work requests are checked against the table of operations and written into the ring.
// Stages of PostSend: state → room → operation and flags (wrTable) → elements and length → slot →
// publish once.

import (
	"fmt"
	"math"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// PostSend writes wrs into the send queue and returns how many were accepted; err is about wrs[n].
// The engine looks at them after Engine.Ring, or after Engine.Posted by whoever drives it. The
// error is ErrState below RTS, ErrFull when the queue has no slot; ErrInvalid names the value and
// the rule. One caller at a time; concurrent with PostRecv and with the engine.
func (q *QP) PostSend(wrs []SendWR) (n int, err error) { return q.post(wrs, false) }

// PostSendAll is PostSend of all or nothing: if one of wrs is refused, n says which, and none is
// accepted.
func (q *QP) PostSendAll(wrs []SendWR) (n int, err error) { return q.post(wrs, true) }

func (q *QP) post(wrs []SendWR, all bool) (n int, err error) {
	if s := q.State(); s < StateRTS {
		return 0, fmt.Errorf("%w: PostSend needs RTS, QP 0x%06x is in %v", ErrState, q.qpn, s)
	}
	if q.noSends {
		return 0, invalid("QP 0x%06x of type %v sends nothing", q.qpn, q.typ)
	}
	tail := q.sq.tail.Load()
	free := uint32(len(q.sq.slots)) - (tail - q.sq.head.Load())
	for n = range wrs {
		if uint32(n) == free {
			err = fmt.Errorf("%w: all %d send work requests of QP 0x%06x are outstanding",
				ErrFull, len(q.sq.slots), q.qpn)
			break
		}
		if err = q.writeSend(tail+uint32(n), &wrs[n]); err != nil {
			break
		}
	}
	if err == nil {
		n = len(wrs)
	}
	if n > 0 && (err == nil || !all) {
		q.sq.tail.Store(tail + uint32(n))
	}
	return n, err
}

// writeSend checks wr and writes it into slot i, which is not published yet.
func (q *QP) writeSend(i uint32, wr *SendWR) error {
	if int(wr.Opcode) >= len(wrTable) || wrTable[wr.Opcode].types&(1<<q.typ) == 0 {
		return invalid("%v is no operation of a %v queue pair", wr.Opcode, q.typ)
	}
	rule := &wrTable[wr.Opcode]
	length, err := q.checkData(wr, rule)
	if err != nil {
		return err
	}
	// Field by field: a literal is built on the stack and copied, which waits for its own stores.
	s := q.sq.at(i)
	s.wrid, s.opcode, s.flags, s.numSGE = wr.WRID, wr.Opcode, wr.Flags, uint8(len(wr.SGL))
	s.remoteAddr, s.rkey, s.length, s.imm = wr.RemoteAddr, wr.RKey, length, wr.Imm
	s.compareAdd, s.swap = wr.CompareAdd, wr.Swap
	s.ah, s.remoteQPN, s.remoteQKey, s.mwType = 0, 0, 0, 0
	switch {
	case wr.Opcode == WRSendWithInv || wr.Opcode == WRLocalInv:
		s.imm = wr.InvalidateKey
	case wr.Opcode == WRBindMW:
		if err := writeBind(s, wr.Bind); err != nil {
			return err
		}
	case wr.Opcode == WRFlush:
		if err := writeFlush(s, &wr.Flush); err != nil {
			return err
		}
	case q.datagram:
		if err := q.writeDatagram(s, wr); err != nil {
			return err
		}
	case wr.RemoteSRQN > wire.QPNMask:
		return invalid("remote SRQ number 0x%x is wider than 24 bits", wr.RemoteSRQN)
	}
	if q.noRecvs {
		s.remoteQPN = wr.RemoteSRQN
	}
	if wr.Flags&SendInline != 0 {
		if q.sq.inline == nil { // nobody has asked for it
			q.sq.makeInline()
		}
		copy(q.sq.inlineRoom(i), wr.Inline)
		s.numSGE = 0
		return ReadInline(q.sq.inlineRoom(i), wr.SGL)
	}
	copySGL(q.sq.sgl(i), wr.SGL)
	return nil
}

// ReadInline copies the elements of a request with SendInline, by their addresses in the process,
// one behind the other. There is room for them.
func ReadInline(room []byte, sgl []SGE) error {
	for i := range sgl {
		n := sgl[i].Length
		if n == 0 {
			continue
		}
		if st := mr.ReadProcess(room[:n], sgl[i].Addr); st != mr.OK {
			return invalid("inline element %d, %d bytes at 0x%x of the process: %v", i, n, sgl[i].Addr, st)
		}
		room = room[n:]
	}
	return nil
}

// copySGL copies elements to as many. Most requests have one, and need no call for it.
func copySGL(to, from []SGE) {
	if len(to) == 1 {
		to[0] = from[0]
		return
	}
	copy(to, from)
}

// checkData returns the length of the message, or what is wrong with its elements.
func (q *QP) checkData(wr *SendWR, rule *wrRule) (uint32, error) {
	if wr.Flags&SendInline != 0 {
		if !rule.inline {
			return 0, invalid("%v cannot be inline: only SENDs and WRITEs carry data in the request", wr.Opcode)
		}
		length, err := InlineLength(wr, q.sq.maxSGE)
		if err == nil && length > q.sq.maxInline {
			err = invalid("%d bytes inline, QP 0x%06x takes at most %d (QPInit.Cap.MaxInlineData)",
				length, q.qpn, q.sq.maxInline)
		}
		return length, err
	}
	if len(wr.Inline) != 0 {
		return 0, invalid("SendWR.Inline holds %d bytes but SendFlags lacks SendInline", len(wr.Inline))
	}
	if rule.bare && len(wr.SGL) != 0 {
		return 0, invalid("%v takes no elements, got %d", wr.Opcode, len(wr.SGL))
	}
	length, err := sglLength(wr.SGL, q.sq.maxSGE)
	if err != nil {
		return 0, err
	}
	switch {
	case rule.atomic && length != 8:
		return 0, invalid("%v needs 8 local bytes for the original value, got %d", wr.Opcode, length)
	case (rule.atomic || wr.Opcode == WRAtomicWrite) && wr.RemoteAddr%8 != 0:
		return 0, invalid("%v at remote address 0x%x: not aligned to 8 bytes", wr.Opcode, wr.RemoteAddr)
	case length > q.maxMessage.Load():
		return 0, invalid("message of %d bytes, this path carries at most %d", length, q.maxMessage.Load())
	}
	return length, nil
}

// InlineLength is how many bytes a request with SendInline has. Its data is in one place.
func InlineLength(wr *SendWR, maxSGE uint32) (uint32, error) {
	if len(wr.SGL) == 0 {
		return uint32(min(uint64(len(wr.Inline)), MaxMessage)), nil
	}
	if len(wr.Inline) != 0 {
		return 0, invalid("inline request with %d elements and %d bytes in SendWR.Inline: want one of them",
			len(wr.SGL), len(wr.Inline))
	}
	return sglLength(wr.SGL, maxSGE)
}

// sglLength adds up the lengths of sgl.
func sglLength(sgl []SGE, maxSGE uint32) (uint32, error) {
	if len(sgl) > int(maxSGE) {
		return 0, invalid("%d scatter/gather elements, the queue takes at most %d", len(sgl), maxSGE)
	}
	var sum uint64
	for i := range sgl {
		sum += uint64(sgl[i].Length)
	}
	if sum > MaxMessage {
		return 0, invalid("elements add up to %d bytes, a message has at most %d", sum, uint32(MaxMessage))
	}
	return uint32(sum), nil
}

func writeBind(s *sendSlot, b *BindInfo) error {
	if b == nil {
		return invalid("BIND_MW without SendWR.Bind")
	}
	if b.WindowKey>>8 != b.NewKey>>8 {
		return invalid("BIND_MW from key 0x%08x to 0x%08x: only the low byte may change", b.WindowKey, b.NewKey)
	}
	s.remoteAddr, s.compareAdd, s.swap = b.Addr, b.Length, uint64(b.WindowKey)<<32|uint64(b.NewKey)
	s.rkey, s.imm, s.mwType, s.remoteQKey = b.LKey, uint32(b.Access), mr.Window2, b.serial
	if b.type1 {
		s.mwType = mr.Window1
	}
	return nil
}

func writeFlush(s *sendSlot, f *FlushInfo) error {
	switch {
	case f.Placement == 0 || f.Placement&^(PlacementGlobal|PlacementPersistent) != 0:
		return invalid("FLUSH with placement %d: want PlacementGlobal (1), PlacementPersistent (2) or both",
			f.Placement)
	case f.Selectivity > SelectivityMR:
		return invalid("FLUSH with selectivity %d: want SelectivityRange (0) or SelectivityMR (1)", f.Selectivity)
	}
	s.compareAdd, s.imm = uint64(f.Length), uint32(f.Placement)|uint32(f.Selectivity)<<8
	return nil
}

// BindMW posts the bind of a window of type 1 (ibv_bind_mw), which is a work request like others.
// serial counts the binds of the window (mr.Bind). Rules and errors are those of PostSend.
func (q *QP) BindMW(wrid uint64, flags SendFlags, b BindInfo, serial uint32) error {
	b.type1, b.serial = true, serial
	_, err := q.PostSend([]SendWR{{WRID: wrid, Opcode: WRBindMW, Flags: flags, Bind: &b}})
	return err
}

func (q *QP) writeDatagram(s *sendSlot, wr *SendWR) error {
	switch {
	case wr.AH == nil:
		return invalid("datagram without address handle (SendWR.AH)")
	case wr.AH.dead.Load():
		return invalid("address handle to %v was destroyed", wr.AH.attr.DGID)
	case wr.AH.mem != q.mem: // other devices have the same numbers of PDs and rows
		return invalid("address handle to %v of another device than QP 0x%06x", wr.AH.attr.DGID, q.qpn)
	case wr.AH.pd != q.pd:
		return invalid("address handle of PD %d on QP 0x%06x of PD %d", wr.AH.pd, q.qpn, q.pd)
	case wr.RemoteQPN > wire.QPNMask:
		return invalid("remote QPN 0x%x is wider than 24 bits", wr.RemoteQPN)
	}
	s.ah, s.remoteQPN, s.remoteQKey = wr.AH.row, wr.RemoteQPN, wr.RemoteQKey
	return nil
}

// PostRecv writes wrs into the receive queue and returns how many were accepted; err is about
// wrs[n]. The error is ErrState in RESET; ErrFull and ErrInvalid are as with PostSend. ErrInvalid
// is also that the queue is a shared one (QPInit.SRQ). A queue pair in ERR flushes them after
// Engine.Ring or Engine.Posted; in any other state neither is needed. One caller at a time;
// concurrent with PostSend and with the engine.
func (q *QP) PostRecv(wrs []RecvWR) (n int, err error) {
	if s := q.State(); s < StateInit {
		return 0, fmt.Errorf("%w: PostRecv needs INIT, QP 0x%06x is in %v", ErrState, q.qpn, s)
	}
	if q.noRecvs || q.noSends {
		return 0, invalid("QP 0x%06x of type %v has no receive queue", q.qpn, q.typ)
	}
	if q.srq != nil {
		return 0, invalid("QP 0x%06x takes its receive requests from a shared receive queue: post them there", q.qpn)
	}
	tail := q.rq.tail.Load()
	free := uint32(len(q.rq.slots)) - (tail - q.rq.head.Load())
	for n = range wrs {
		if uint32(n) == free {
			err = fmt.Errorf("%w: all %d receive work requests of QP 0x%06x are outstanding",
				ErrFull, len(q.rq.slots), q.qpn)
			break
		}
		length, lerr := sglLength(wrs[n].SGL, q.rq.maxSGE)
		if lerr != nil {
			err = lerr
			break
		}
		i := tail + uint32(n)
		q.rq.at(i).fill(&wrs[n], length)
		copySGL(q.rq.sgl(i), wrs[n].SGL)
	}
	if err == nil {
		n = len(wrs)
	}
	if n > 0 {
		q.rq.tail.Store(tail + uint32(n))
	}
	return n, err
}

// maxMessageFor is the longest message at a path MTU: its packets must not span half the PSN
// circle.
func maxMessageFor(mtu wire.MTU) uint32 {
	return uint32(min(uint64(MaxMessage), uint64(mtu.Bytes())*psnSpan, math.MaxUint32))
}
