package qptest

// What an engine may put into completion queues: sends in posting order and only when they are
// done, receives as the oracle as responder has foretold, after an error one completion with the
// reason and flushes for the rest.

import (
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// done says whether a send work request may complete with success.
func (q *QP) done(o *op) bool {
	switch {
	case q.gram != nil:
		return o.packets > 0 && q.gram.nxt >= o.end()
	case o.local():
		return true
	case q.Type() == qp.UC:
		return o.good && q.out.nxt >= o.end()
	case o.fetches():
		return o.executed && o.progress == o.packets && q.out.ackable >= o.end()
	}
	return o.executed && q.out.ackable >= o.end()
}

// mustBeDone says whether it has to.
func (q *QP) mustBeDone(o *op) bool {
	if !q.done(o) || o.local() {
		return false
	}
	return q.gram != nil || !q.reliable() || o.fetches() || q.out.acked >= o.end()
}

// completion checks one completion of the queue pair.
func (q *QP) completion(wc *qp.WC) {
	if !q.modelled() {
		return
	}
	if wc.WRID&recvBit != 0 {
		q.receiveCompletion(wc)
	} else {
		q.sendCompletion(wc)
	}
}

func (q *QP) receiveCompletion(wc *qp.WC) {
	w := q.Node.W
	if len(q.wantRecv) == 0 {
		w.Fail("%s: receive completion that nothing explains: %+v", q, *wc)
		return
	}
	want := &q.wantRecv[0]
	q.wantRecv = q.wantRecv[1:]
	switch {
	case wc.WRID != want.wc.WRID:
		w.Fail("%s: receive completions out of order: WRID %#x, should be %#x", q, wc.WRID, want.wc.WRID)
	case want.statuses&(1<<wc.Status) == 0:
		w.Fail("%s: receive completed with %v, should be one of %#x", q, wc.Status, want.statuses)
	case wc.Status == qp.WCSuccess && *wc != want.wc:
		w.Fail("%s: receive completion\n  is        %+v\n  should be %+v", q, *wc, want.wc)
	}
}

func (q *QP) sendCompletion(wc *qp.WC) {
	w := q.Node.W
	for q.nextSend < len(q.sends) && q.sends[q.nextSend].wr.WRID != wc.WRID {
		o := q.sends[q.nextSend]
		if o.signaled || !q.done(o) {
			w.Fail("%s: send completions out of order: %#x (%v) came while %#x (%v) has none",
				q, wc.WRID, wc.Status, o.wr.WRID, o.wr.Opcode)
			return
		}
		q.retire(o)
	}
	if q.nextSend == len(q.sends) {
		w.Fail("%s: completion for WRID %#x, which is not outstanding: %+v", q, wc.WRID, *wc)
		return
	}
	o := q.sends[q.nextSend]
	switch wc.Status {
	case qp.WCSuccess:
		q.succeeded(o, wc)
	case qp.WCWRFlushErr:
		q.flushed(o)
	default:
		q.failed(o, wc.Status)
	}
	q.retire(o)
}

// retire moves past an operation that is over.
func (q *QP) retire(o *op) {
	q.nextSend++
	if o.fetches() { // also of a flushed one a part may have arrived
		o.landedAll(q.Node)
	}
	for i, f := range q.fetching {
		if f == o {
			q.fetching = append(q.fetching[:i:i], q.fetching[i+1:]...)
			break
		}
	}
}

func (q *QP) downOrSquelched() bool { return q.down != "" || q.squelched }

func (q *QP) succeeded(o *op, wc *qp.WC) {
	w := q.Node.W
	code := map[qp.WROpcode]qp.WCOpcode{qp.WRWrite: qp.WCRDMAWrite, qp.WRWriteWithImm: qp.WCRDMAWrite,
		qp.WRSend: qp.WCSend, qp.WRSendWithImm: qp.WCSend, qp.WRSendWithInv: qp.WCSend, qp.WRRead: qp.WCRDMARead,
		qp.WRAtomicCmpAndSwp: qp.WCCompSwap, qp.WRAtomicFetchAndAdd: qp.WCFetchAdd, qp.WRFlush: qp.WCFlush,
		qp.WRAtomicWrite: qp.WCAtomicWrite, qp.WRLocalInv: qp.WCLocalInv, qp.WRBindMW: qp.WCBindMW}[o.wr.Opcode]
	switch {
	case !q.done(o):
		w.Fail("%s: %v %#x completed before it was done", q, o.wr.Opcode, o.wr.WRID)
	case !o.signaled:
		w.Fail("%s: %v %#x completed although it was not signaled", q, o.wr.Opcode, o.wr.WRID)
	case wc.Opcode != code:
		w.Fail("%s: completion opcode %v, should be %v", q, wc.Opcode, code)
	case o.fetches() && int(wc.ByteLen) != o.length:
		w.Fail("%s: completion of %d bytes, should be %d", q, wc.ByteLen, o.length)
	case o.fetches() && !o.fetched(q.Node):
		w.Fail("%s: %v %#x completed but its data is not in memory", q, o.wr.Opcode, o.wr.WRID)
	}
}

func (q *QP) flushed(o *op) {
	if !q.downOrSquelched() {
		q.Node.W.Fail("%s: %v %#x was flushed without a reason", q, o.wr.Opcode, o.wr.WRID)
	} else if q.mustBeDone(o) {
		q.Node.W.Fail("%s: %v %#x was flushed although it was done", q, o.wr.Opcode, o.wr.WRID)
	} else if q.fatal != nil {
		q.Node.W.Fail("%s: %v %#x was flushed but the failed request comes first", q, o.wr.Opcode, o.wr.WRID)
	}
}

// failed is a completion with the error that ends a connection.
func (q *QP) failed(o *op, status qp.WCStatus) {
	w := q.Node.W
	allowed := false
	for _, f := range q.mayFail {
		allowed = allowed || f.op == o && f.status == status
	}
	switch {
	case !o.good:
		allowed = allowed || status == qp.WCLocProtErr || status == qp.WCLocQPOpErr || status == qp.WCLocLenErr &&
			q.gram != nil
	case status == qp.WCLocLenErr && q.gram != nil: // the MTU has changed since it was posted
		allowed = o.length > q.gramMTU()
	case status == qp.WCRetryExcErr:
		allowed = allowed || q.silent != "" || w.Hopeless || q.heardNothing()
	case status == qp.WCRNRRetryExcErr:
		allowed = allowed || q.out.rnrs > int(q.Cfg.RNRRetry) && q.Cfg.RNRRetry < 7
	}
	if !allowed || q.downOrSquelched() {
		w.Fail("%s: %v %#x failed with %q without a reason", q, o.wr.Opcode, o.wr.WRID, status)
		return
	}
	if q.fatal != nil && (q.fatal.op != o || q.fatal.status != status) {
		w.Fail("%s: %v %#x failed with %q, should be %#x with %q",
			q, o.wr.Opcode, o.wr.WRID, status, q.fatal.op.wr.WRID, q.fatal.status)
	}
	q.fatal = nil
	if q.reliable() {
		q.fail("a request failed: " + status.String())
	} else {
		q.squelched = true
	}
}

// heardNothing says that no answer has acknowledged anything for as long as all retries take,
// because the links have lost it, or what it would have answered: that happens with burst losses
// and partitions, and no requester can do better. A report that the packet is lost uses up a retry,
// too.
func (q *QP) heardNothing() bool {
	t, s := qp.Time(wire.AckTimeout(q.Cfg.Timeout)), q.out
	return s != nil && t > 0 && q.Node.W.Now-s.since >= t*qp.Time(int(q.Cfg.RetryCnt)+1-s.reports)
}

// checkCompleted is called after every turn when all queues have been emptied: what must have
// completed has.
func (q *QP) checkCompleted() {
	w := q.Node.W
	if !q.modelled() || w.err != nil {
		return
	}
	if len(q.wantRecv) > 0 {
		want := q.wantRecv[0]
		w.Fail("%s: no completion for receive %#x (statuses %#x)", q, want.wc.WRID, want.statuses)
		return
	}
	if q.fatal != nil {
		w.Fail("%s: a NAK has arrived for %#x, but no completion with %q came", q, q.fatal.op.wr.WRID, q.fatal.status)
		return
	}
	if dead := q.State() == qp.StateErr; dead != (q.down != "") && q.down != "destroyed" {
		w.Fail("%s is in %v; the oracle's reason for ERR: %q", q, q.State(), q.down)
		return
	}
	q.checkLastWQE()
	if q.downOrSquelched() {
		for q.nextSend < len(q.sends) && q.mustBeDone(q.sends[q.nextSend]) && !q.sends[q.nextSend].signaled {
			q.retire(q.sends[q.nextSend]) // it was done when the error came
		}
		if q.nextSend < len(q.sends) {
			w.Fail("%s: %#x was not flushed", q, q.sends[q.nextSend].wr.WRID)
		}
		return
	}
	for q.nextSend < len(q.sends) && q.mustBeDone(q.sends[q.nextSend]) {
		o := q.sends[q.nextSend]
		if o.signaled {
			w.Fail("%s: %v %#x is done but has no completion", q, o.wr.Opcode, o.wr.WRID)
			return
		}
		if o.fetches() && !o.fetched(q.Node) {
			w.Fail("%s: %v %#x is done but its data is not in memory", q, o.wr.Opcode, o.wr.WRID)
			return
		}
		q.retire(o)
	}
}

// AtRest checks a world that has come to rest: everything that was posted is over, but for receives
// nobody sent to.
func (w *World) AtRest() error {
	for _, n := range w.Nodes {
		n.unchecked = n.memory
		n.checkMemory()
		if n.Engine != nil && n.pool.gaveWay != n.Engine.Stats().GivenUp {
			w.Fail("%s: %d kept packets gave way, should be %d", n, n.Engine.Stats().GivenUp, n.pool.gaveWay)
		}
		for _, s := range n.srqs {
			s.checkKept()
		}
		for _, q := range n.list {
			if q.modelled() && q.nextSend < len(q.sends) && !n.cfg.Mute {
				o := q.sends[q.nextSend]
				w.Fail("%s: %v %#x never completed; %d of %d requests are outstanding",
					q, o.wr.Opcode, o.wr.WRID, len(q.sends)-q.nextSend, len(q.sends))
			}
		}
	}
	return w.err
}
