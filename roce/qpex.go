package roce

// Work requests built piece by piece (struct ibv_qp_ex), for programs and libraries that do not
// have them as records: begin, for each request its operation and then its data, end.
//
// What is built lies in slices that the queue pair keeps, so that it costs no garbage, and goes to
// the send queue as one list.

import "fmt"

// QPEx builds lists of send work requests of a queue pair (ibv_qp_ex); QP.Ex returns it. One
// goroutine at a time uses it; others may post with QP.PostSend meanwhile.
//
//	x := q.Ex()
//	x.WRStart()
//	x.WRID, x.WRFlags = 1, roce.SendSignaled
//	x.WRRDMAWrite(rkey, addr)
//	x.WRSetSGE(mr.SGE(0, 8))
//	err := x.WRComplete()
//
// Between WRStart and WRComplete nothing fails: what is wrong is the error of WRComplete, and then
// nothing of the list is posted.
type QPEx struct {
	WRID    uint64    // of the requests that follow (wr_id)
	WRFlags SendFlags // of the requests that follow (wr_flags); WRSetInlineData adds SendInline

	qp      *QP
	started bool
	wrs     []SendWR
	// what wrs refer to; of those that have grown too small the older part is elsewhere
	sges   []SGE
	inline []byte
	binds  []BindInfo
	err    error // the first mistake
	errAt  int   // and which request it is about
}

// Ex returns the builder of the queue pair's requests (ibv_qp_to_qp_ex), always the same one.
func (q *QP) Ex() *QPEx {
	if x := q.ex.Load(); x != nil {
		return x
	}
	q.ex.CompareAndSwap(nil, &QPEx{qp: q})
	return q.ex.Load()
}

// WRStart begins a list (ibv_wr_start). A list that was begun and not ended is dropped.
func (x *QPEx) WRStart() {
	x.WRAbort()
	x.started = true
}

// WRAbort drops the list (ibv_wr_abort).
func (x *QPEx) WRAbort() {
	clear(x.wrs) // what they refer to
	x.wrs, x.sges, x.inline, x.binds = x.wrs[:0], x.sges[:0], x.inline[:0], x.binds[:0]
	x.err, x.started = nil, false
}

// WRComplete posts the list (ibv_wr_complete), as PostSend does, and ends it. If a request is
// refused, the error is a *PostError with its index, and none is posted. (A device of the kernel
// may have posted those before it if it has no slot for all.)
func (x *QPEx) WRComplete() error {
	defer x.WRAbort()
	q := x.qp
	if !x.started {
		x.wrong("WRComplete without WRStart")
	}
	n, err := x.errAt, x.err
	if err == nil {
		n, err = 0, q.faults.verb("PostSend")
	}
	switch {
	case err != nil:
	case withHW && q.hw != nil:
		n, err = q.hw.PostSendAll(x.wrs)
	default:
		n, err = q.soft.PostSendAll(x.wrs)
	}
	if err != nil {
		return &PostError{"WRComplete", q.QPN(), n, err}
	}
	return nil
}

// wrong notes a mistake in the newest request.
func (x *QPEx) wrong(text string) {
	if x.err == nil {
		x.err, x.errAt = fmt.Errorf("%w: %s", ErrInvalid, text), max(len(x.wrs)-1, 0)
	}
}

// add begins a request.
func (x *QPEx) add(op WROpcode) *SendWR {
	if !x.started {
		x.wrong("a work request without WRStart")
	}
	x.wrs = append(x.wrs, SendWR{WRID: x.WRID, Opcode: op, Flags: x.WRFlags})
	return x.last()
}

// last is the newest request.
func (x *QPEx) last() *SendWR { return &x.wrs[len(x.wrs)-1] }

// WRSend is a SEND (ibv_wr_send).
func (x *QPEx) WRSend() { x.add(WRSend) }

// WRSendImm is a SEND with immediate data (ibv_wr_send_imm).
func (x *QPEx) WRSendImm(imm uint32) { x.add(WRSendWithImm).Imm = imm }

// WRSendInv is a SEND that invalidates a key of the peer (ibv_wr_send_inv).
func (x *QPEx) WRSendInv(rkey uint32) { x.add(WRSendWithInv).InvalidateKey = rkey }

// WRRDMAWrite is a WRITE to the peer's memory at addr (ibv_wr_rdma_write).
func (x *QPEx) WRRDMAWrite(rkey uint32, addr uint64) { x.addRDMA(WRWrite, rkey, addr) }

// WRRDMAWriteImm is a WRITE with immediate data (ibv_wr_rdma_write_imm).
func (x *QPEx) WRRDMAWriteImm(rkey uint32, addr uint64, imm uint32) {
	x.addRDMA(WRWriteWithImm, rkey, addr).Imm = imm
}

// WRRDMARead is a READ of the peer's memory at addr (ibv_wr_rdma_read).
func (x *QPEx) WRRDMARead(rkey uint32, addr uint64) { x.addRDMA(WRRead, rkey, addr) }

// WRAtomicCmpSwp compares 8 bytes of the peer's memory and swaps them if they are equal
// (ibv_wr_atomic_cmp_swp).
func (x *QPEx) WRAtomicCmpSwp(rkey uint32, addr, compare, swap uint64) {
	wr := x.addRDMA(WRAtomicCmpAndSwp, rkey, addr)
	wr.CompareAdd, wr.Swap = compare, swap
}

// WRAtomicFetchAdd adds to 8 bytes of the peer's memory (ibv_wr_atomic_fetch_add).
func (x *QPEx) WRAtomicFetchAdd(rkey uint32, addr, add uint64) {
	x.addRDMA(WRAtomicFetchAndAdd, rkey, addr).CompareAdd = add
}

// WRAtomicWrite writes 8 bytes of the peer's memory at once (ibv_wr_atomic_write), in this
// machine's byte order.
func (x *QPEx) WRAtomicWrite(rkey uint32, addr, value uint64) {
	x.addRDMA(WRAtomicWrite, rkey, addr).Swap = value
}

// WRFlush makes what was written to the peer's memory visible there, or puts it on storage
// (ibv_wr_flush).
func (x *QPEx) WRFlush(rkey uint32, addr uint64, flush FlushInfo) {
	x.addRDMA(WRFlush, rkey, addr).Flush = flush
}

func (x *QPEx) addRDMA(op WROpcode, rkey uint32, addr uint64) *SendWR {
	wr := x.add(op)
	wr.RKey, wr.RemoteAddr = rkey, addr
	return wr
}

// WRLocalInv invalidates a key of this side (ibv_wr_local_inv).
func (x *QPEx) WRLocalInv(rkey uint32) { x.add(WRLocalInv).InvalidateKey = rkey }

// WRBindMW binds a memory window of type 2 (ibv_wr_bind_mw).
func (x *QPEx) WRBindMW(bind BindInfo) {
	x.binds = append(x.binds, bind)
	x.add(WRBindMW).Bind = &x.binds[len(x.binds)-1]
}

// WRSetUDAddr says where a datagram goes (ibv_wr_set_ud_addr).
func (x *QPEx) WRSetUDAddr(ah *AH, remoteQPN, remoteQKey uint32) {
	if x.begun("WRSetUDAddr") {
		wr := x.last()
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, remoteQPN, remoteQKey
	}
}

// WRSetXRCSRQN says which shared receive queue of the peer a message is for (ibv_wr_set_xrc_srqn).
func (x *QPEx) WRSetXRCSRQN(remoteSRQN uint32) {
	if x.begun("WRSetXRCSRQN") {
		x.last().RemoteSRQN = remoteSRQN
	}
}

// WRSetSGE gives the request one piece of registered memory (ibv_wr_set_sge).
func (x *QPEx) WRSetSGE(sge SGE) {
	if x.begun("WRSetSGE") {
		x.sges = append(x.sges, sge)
		x.last().SGL = x.sges[len(x.sges)-1:]
	}
}

// WRSetSGEList gives the request several pieces (ibv_wr_set_sge_list). The slice is read during the
// call only.
func (x *QPEx) WRSetSGEList(sgl []SGE) {
	if x.begun("WRSetSGEList") {
		x.sges = append(x.sges, sgl...)
		x.last().SGL = x.sges[len(x.sges)-len(sgl):]
	}
}

// WRSetInlineData gives the request bytes instead of registered memory (ibv_wr_set_inline_data).
// They are copied before it returns.
func (x *QPEx) WRSetInlineData(data []byte) {
	if x.begun("WRSetInlineData") {
		x.inline = append(x.inline, data...)
		x.setInline(len(data))
	}
}

// WRSetInlineDataList gives the request bytes from several places, one behind the other
// (ibv_wr_set_inline_data_list). They are copied before it returns.
func (x *QPEx) WRSetInlineDataList(list [][]byte) {
	if x.begun("WRSetInlineDataList") {
		n := 0
		for _, data := range list {
			x.inline = append(x.inline, data...)
			n += len(data)
		}
		x.setInline(n)
	}
}

func (x *QPEx) setInline(n int) {
	wr := x.last()
	wr.Flags |= SendInline
	wr.Inline = x.inline[len(x.inline)-n:]
}

// begun says whether there is a request to add to.
func (x *QPEx) begun(call string) bool {
	if len(x.wrs) == 0 {
		x.wrong(call + " before an operation")
		return false
	}
	return true
}
