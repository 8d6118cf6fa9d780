package qptest

// The oracle as responder: what an arriving request does (sections 4.5, 6.2, 6.4). RC executes a
// packet if and only if it is the expected one and nothing is wrong with it; UC drops the message
// that a packet is missing from.

import (
	"encoding/binary"
	"slices"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// arrived tells the oracle that an honest packet has reached a node.
func (w *World) arrived(n *Node, f *Flight) {
	fr, p, ok := f.packet()
	if !ok || w.byGID[fr.Src()] == nil {
		return
	}
	p.Frame = &fr
	if p.Opcode.Service() == wire.ServiceUD {
		n.datagramArrived(&p)
		return
	}
	q := n.qps[p.BTH.DestQP()]
	there := slices.Contains(n.GIDs, fr.Dst()) // else the address has gone
	if q == nil || !there || !q.modelled() || q.dest.gid != fr.Src() || q.Peer.Node != f.from {
		return
	}
	switch {
	case p.Opcode == wire.CNP:
	case p.Op.Has(wire.OpResponse):
		q.out.responded(&p)
		if n.habits != nil {
			w.askAgain(q, &p)
		}
	default:
		q.in.arrive(&p)
	}
}

// arrive is a request at the responder.
func (s *stream) arrive(p *wire.Packet) {
	if s.to.down != "" {
		return
	}
	n := s.number(p.BTH.PSN(), s.epsn)
	if n < 0 {
		return
	}
	if s.to.Type() == qp.UC {
		s.arriveUC(uint64(n))
		return
	}
	switch {
	case uint64(n) > s.epsn && s.early != nil:
		s.keep(uint64(n), len(p.Body))
	case uint64(n) > s.epsn:
		// One NAK for each gap; but when the packet behind the gap comes round again, what fills it
		// has been lost once more.
		if uint64(n) == s.epsn+1 {
			s.naked = s.naked && !s.behind
			s.behind = true
		}
		s.gap = true
	case uint64(n) == s.epsn:
		if s.execute(s.epsn) {
			s.gap, s.naked, s.behind = false, false, false
			if s.early != nil {
				s.catchUp()
			}
		}
	}
}

// arriveUC resynchronises at every packet that is not the expected one.
func (s *stream) arriveUC(n uint64) {
	o, k := s.locate(n)
	if o == nil {
		return
	}
	if n != s.epsn || k == 0 {
		s.putBack()
	}
	if n != s.epsn {
		s.skip = true
	}
	s.epsn = n
	if k == 0 {
		s.skip = false
	}
	if s.skip || !s.execute(n) {
		s.skip = true
		s.putBack()
	}
	s.epsn = n + 1
}

// execute does what packet n asks for. It returns false if that is refused or has to wait.
func (s *stream) execute(n uint64) bool {
	o, k := s.locate(n)
	if o == nil {
		return false
	}
	if !s.aim(o) {
		return s.refuse(wire.SynNAKInvReq, 0)
	}
	last := k == o.packets-1
	ok := false
	switch {
	case o.send():
		ok = s.executeSend(o, k, last)
	case o.write():
		ok = s.executeWrite(o, k, last)
	case o.read():
		ok, last = s.executeRead(o, k), s.pieceEnd(o, k) == o.packets
	case o.atomic():
		ok = s.executeAtomic(o)
	case o.atomicWrite():
		ok = s.executeAtomicWrite(o)
	case o.flush():
		ok = s.executeFlush(o)
	}
	if !ok {
		return false
	}
	s.epsn++
	s.away = false
	if o.read() {
		s.epsn = o.first + s.pieceEnd(o, k)
	}
	if last || s.piece(o) < o.packets {
		s.msn++
	}
	if last {
		o.executed = true
	}
	return true
}

// head returns the receive that a message uses, of which there is more to come or not: the one it
// has, or the next.
func (s *stream) head(more bool) *recvOp {
	if s.slot == nil {
		s.slot = s.to.takeRecv(more)
	}
	s.starved = s.slot == nil
	return s.slot
}

func (s *stream) executeSend(o *op, k uint64, last bool) bool {
	if s.head(!last) == nil {
		return false
	}
	if k == 0 {
		s.got = 0
	}
	part := o.part(k, s.mtu)
	if s.got+len(part) > s.slot.room {
		return s.refuse(wire.SynNAKInvReq, 1<<qp.WCRemInvReqErr|1<<qp.WCLocQPOpErr|1<<qp.WCLocLenErr)
	}
	if !s.to.Node.scatter(s.to.Cfg.PD, s.slot.wr.SGL, s.got, part) {
		s.to.loosen(s.slot.wr.SGL)
		if s.to.Type() == qp.UC { // the receive ends, and the queue pair goes on
			wc := qp.WC{WRID: s.slot.wr.WRID, QPN: s.to.QPN(), Opcode: qp.WCRecv}
			s.to.wantRecv = append(s.to.wantRecv, want{wc, 1 << qp.WCLocProtErr})
			s.slot = nil
		}
		return s.refuse(wire.SynNAKOp, 1<<qp.WCLocQPOpErr|1<<qp.WCLocProtErr)
	}
	s.got += len(part)
	if last {
		s.receive(o, qp.WC{Opcode: qp.WCRecv, ByteLen: uint32(o.length)})
	}
	return true
}

func (s *stream) executeWrite(o *op, k uint64, last bool) bool {
	q, imm := s.to, o.is(qp.WRWriteWithImm)
	if q.Cfg.Access&mr.RemoteWrite == 0 {
		if last && imm && s.slot == nil && q.reliable() {
			s.slot = q.takeRecv(false) // it ends with the connection
		}
		return s.refuse(wire.SynNAKInvReq, 1<<qp.WCRemInvReqErr|1<<qp.WCLocQPOpErr)
	}
	if last && imm && s.head(false) == nil {
		return false
	}
	if o.length > 0 {
		part, at := o.part(k, s.mtu), int(k)*s.mtu
		from, n := 0, o.length // what the RETH says
		if s.piece(o) == 1 {
			from, n = at, len(part)
		}
		mem := q.Node.span(q.Cfg.PD, o.wr.RKey, o.wr.RemoteAddr+uint64(from), n, mr.RemoteWrite)
		if mem == nil {
			return s.refuse(wire.SynNAKAccess, 1<<qp.WCRemAccessErr)
		}
		copy(mem[at-from:], part)
	}
	if last && imm {
		s.receive(o, qp.WC{Opcode: qp.WCRecvRDMAWithImm, ByteLen: uint32(o.length)})
	}
	return true
}

// executeRead snapshots the piece of a READ that begins with reply k.
func (s *stream) executeRead(o *op, k uint64) bool {
	q := s.to
	if q.Cfg.Access&mr.RemoteRead == 0 || q.Cfg.DestRdAtomic == 0 {
		return s.refuse(wire.SynNAKInvReq, 0)
	}
	from, end := int(k)*s.mtu, s.pieceEnd(o, k)
	if n := min(int(end)*s.mtu, o.length) - from; n > 0 {
		mem := q.Node.span(q.Cfg.PD, o.wr.RKey, o.wr.RemoteAddr+uint64(from), n, mr.RemoteRead)
		if mem == nil {
			return s.refuse(wire.SynNAKAccess, 0)
		}
		o.result = append(o.result, mem...)
	}
	o.asked = end
	s.owed = append(s.owed, owed{o, k, end})
	return true
}

// behindFlush says that an atomic or ATOMIC WRITE has to come again when storage is done with a
// FLUSH before it. The responder may say when.
func (s *stream) behindFlush() bool {
	if len(s.syncing) == 0 {
		return false
	}
	s.away = true
	return true
}

func (s *stream) executeAtomicWrite(o *op) bool {
	if s.behindFlush() {
		return false
	}
	q := s.to
	if q.Cfg.Access&mr.RemoteWrite == 0 || q.Cfg.DestRdAtomic == 0 {
		return s.refuse(wire.SynNAKInvReq, 0)
	}
	mem := q.Node.span(q.Cfg.PD, o.wr.RKey, o.wr.RemoteAddr, 8, mr.RemoteWrite)
	if mem == nil {
		return s.refuse(wire.SynNAKAccess, 0)
	}
	binary.NativeEndian.PutUint64(mem, o.wr.Swap)
	o.asked = 1
	s.owed = append(s.owed, owed{o, 0, 1})
	return true
}

// flushes returns the memory that a FLUSH is about, nil if it is refused.
func (s *stream) flushes(o *op) []byte {
	var need mr.Access
	if o.wr.Flush.Placement&qp.PlacementGlobal != 0 {
		need |= mr.FlushGlobal
	}
	if o.wr.Flush.Placement&qp.PlacementPersistent != 0 {
		need |= mr.FlushPersistent
	}
	at, n := o.wr.RemoteAddr, int(o.wr.Flush.Length)
	if o.wr.Flush.Selectivity == qp.SelectivityMR {
		r := s.to.Node.find(o.wr.RKey)
		if r == nil {
			return nil
		}
		at, n = r.IOVA(), len(r.Bytes)
	}
	return s.to.Node.span(s.to.Cfg.PD, o.wr.RKey, at, n, need)
}

func (s *stream) executeFlush(o *op) bool {
	q, f := s.to, &o.wr.Flush
	if f.Placement&qp.PlacementGlobal != 0 && q.Cfg.Access&mr.FlushGlobal == 0 ||
		f.Placement&qp.PlacementPersistent != 0 && q.Cfg.Access&mr.FlushPersistent == 0 || q.Cfg.DestRdAtomic == 0 {
		return s.refuse(wire.SynNAKInvReq, 0)
	}
	mem := s.flushes(o)
	if mem == nil {
		return s.refuse(wire.SynNAKAccess, 0)
	}
	if f.Placement&qp.PlacementPersistent != 0 && len(mem) > 0 {
		o.syncing = true
		s.syncing = append(s.syncing, o)
	}
	o.asked = 1
	s.owed = append(s.owed, owed{o, 0, 1})
	return true
}

// syncs holds memory that the responder wants on storage against the FLUSHes that wait for it.
func (s *stream) syncs(mem []byte) {
	for _, o := range s.syncing {
		if want := s.flushes(o); len(want) == len(mem) && o.at(s.to.Node, mem) && !o.begun {
			o.begun = true
			return
		}
	}
	s.to.Node.W.Fail("%s: %d bytes are to be synced, which no FLUSH asks for", s.to, len(mem))
}

// at says whether a FLUSH is about this memory.
func (o *op) at(n *Node, mem []byte) bool {
	r, off := n.find(o.wr.RKey), 0
	if o.wr.Flush.Selectivity == qp.SelectivityRange {
		off = int(o.wr.RemoteAddr - r.IOVA())
	}
	return &mem[0] == &r.Bytes[off]
}

// synced is the end of a sync of that memory: the oldest FLUSH that has begun it is done.
func (s *stream) synced(mem []byte) {
	for i, o := range s.syncing {
		if o.begun && o.at(s.to.Node, mem) && len(s.flushes(o)) == len(mem) {
			o.syncing = false
			s.syncing = append(s.syncing[:i:i], s.syncing[i+1:]...)
			return
		}
	}
}

func (s *stream) executeAtomic(o *op) bool {
	if s.behindFlush() {
		return false
	}
	q := s.to
	if q.Cfg.Access&mr.RemoteAtomic == 0 || q.Cfg.DestRdAtomic == 0 || o.wr.RemoteAddr%8 != 0 {
		return s.refuse(wire.SynNAKInvReq, 0)
	}
	mem := q.Node.span(q.Cfg.PD, o.wr.RKey, o.wr.RemoteAddr, 8, mr.RemoteAtomic)
	if mem == nil {
		return s.refuse(wire.SynNAKAccess, 0)
	}
	orig := binary.NativeEndian.Uint64(mem)
	o.result = binary.NativeEndian.AppendUint64(nil, orig)
	switch {
	case o.is(qp.WRAtomicFetchAndAdd):
		binary.NativeEndian.PutUint64(mem, orig+o.wr.CompareAdd)
	case orig == o.wr.CompareAdd:
		binary.NativeEndian.PutUint64(mem, o.wr.Swap)
	}
	o.asked = 1
	s.owed = append(s.owed, owed{o, 0, 1})
	return true
}

// receive completes the receive in use.
func (s *stream) receive(o *op, wc qp.WC) {
	wc.WRID, wc.QPN = s.slot.wr.WRID, s.to.QPN()
	switch o.wr.Opcode {
	case qp.WRSendWithImm, qp.WRWriteWithImm:
		wc.Flags, wc.Imm = qp.WCWithImm, o.wr.Imm
	case qp.WRSendWithInv:
		wc.Flags, wc.InvalidatedRKey = qp.WCWithInv, o.wr.InvalidateKey
	}
	s.to.wantRecv = append(s.to.wantRecv, want{wc, 1 << qp.WCSuccess})
	s.slot = nil
}

// refuse ends an RC connection with a NAK. statuses are what the receive in use may end with
// besides a flush.
func (s *stream) refuse(syn wire.Syndrome, statuses uint32) bool {
	if s.to.reliable() {
		s.refused = syn
		s.to.failWith("it answered a request with "+syn.String(), statuses)
	}
	return false
}

// loosen makes the memory behind a receive that failed half-way unknown.
func (q *QP) loosen(sgl []qp.SGE) {
	for _, e := range sgl {
		if r := q.Node.find(e.LKey); r != nil {
			r.loose = true
		}
	}
}
