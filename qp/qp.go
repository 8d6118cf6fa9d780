package qp

// The queue pair: two rings, the attributes, and one part for each role of the protocol.
// Stages: the object, creation and destruction, then the states that every role shares: error,
// reset, drained.

import (
	"fmt"
	"sync/atomic"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// QP is a queue pair. PostSend and PostRecv belong to the application, everything else to the lane.
type QP struct {
	// Posts and packets look at these, which are together for their sake: where there are thousands
	// of queue pairs, each cache line comes from memory.

	qpn        uint32        // fixed at creation, but for ...
	state      atomic.Uint32 // ... a QPState; the lane writes
	typ        QPType
	traits     // of typ
	sigAll     bool
	even       bool // Config.EvenPackets applies
	pd         mr.PD
	maxMessage atomic.Uint32 // bytes; the lane writes
	rung       atomic.Bool   // on the doorbell list
	rungNext   *QP           // next on it; written by who lists, read by who takes
	sq         sendQueue

	// lane only
	away      bool // the source address has gone from the GID table (SetGIDs)
	due       due  // what waits to be sent
	ready     bool
	paused    bool   // a packet waits for rate.sendAt
	mtu       uint32 // path MTU in bytes
	readyNext *QP
	source    *source // the peer, by its address
	path      wire.Path

	resp           responder
	srq            *SRQ       // where receives come from (XRC: for the last request), or nil:
	rq             *recvQueue // from a queue of its own
	sharer         *sharer    // of srq: the peer
	sendCQ, recvCQ *CQ
	attr           QPAttr
	peerAt         uint32 // who of those at its address is the peer: see heardFrom

	deadline Time // see setDeadline
	timerAt  Time // where the timer heap has it
	timerPos int  // 1 + index there; 0: not in the heap
	req      requester
	rate     rate
	rec      recovery
	sent     departures

	start   atomic.Uint32 // StartPSN; the lane writes
	lost    bool          // a completion of it found no room since Publish
	whole   bool          // QPInit.WholeMessages
	xrcd    XRCD          // XRC_RECV: of the shared receive queues that requests may name
	context any
	mem     *mr.Table  // of the device, which it tells from other devices
	ended   []wire.PSN // one past the newest packet of each earlier life; the latest last
}

// due is the set of things that a queue pair wants to send. A queue pair that has something due is
// on the ready list. One whose due things were taken back stays on it until its turn comes.
type due uint8

const (
	dueReply   due = 1 << iota // ACK, NAK, READ response, atomic response
	dueRequest                 // send work requests, first time or again
	dueCNP                     // a congestion notification
)

// QPN returns the queue pair's number, 24 bits.
func (q *QP) QPN() uint32 { return q.qpn }

// Type returns the transport service.
func (q *QP) Type() QPType { return q.typ }

// Context returns QPInit.Context.
func (q *QP) Context() any { return q.context }

// State returns the present state; any goroutine.
func (q *QP) State() QPState { return QPState(q.state.Load()) }

func (q *QP) setState(s QPState) { q.state.Store(uint32(s)) }

func (q *QP) setMTU(m wire.MTU) {
	q.mtu = uint32(m.Bytes())
	q.maxMessage.Store(maxMessageFor(m))
}

// CreateQP makes a queue pair in RESET (ibv_create_qp). Queue sizes are rounded up to powers of
// two; QueryQP tells them. The type GSI makes queue pair 1, once per engine. ErrInvalid, ErrLimit
// and ErrBusy say which value or object is wrong.
func (e *Engine) CreateQP(init QPInit) (*QP, error) {
	q := new(QP)
	if err := e.CreateQPIn(q, init); err != nil {
		return nil, err
	}
	return q, nil
}

// CreateQPIn is CreateQP in q, which is the zero value and stays where it is: for an owner that
// looks at an object of its own with each post, and wants the queue pair to lie beside it.
func (e *Engine) CreateQPIn(q *QP, init QPInit) error {
	if err := e.checkInit(&init); err != nil {
		return err
	}
	*q = QP{typ: init.Type, traits: services[init.Type].traits, mem: e.cfg.Memory, pd: init.PD, sigAll: init.SQSigAll,
		even:   e.cfg.EvenPackets && services[init.Type].reliable && !init.WholeMessages,
		sendCQ: init.SendCQ, recvCQ: init.RecvCQ, source: &e.own, deadline: Never,
		whole: init.WholeMessages, xrcd: init.XRCD, context: init.Context}
	c := init.Cap
	sge := max(c.MaxSendSGE, 1)
	q.sq.init(c.MaxSendWR, sge, c.MaxInlineData)
	if c.MaxSendWR == 0 {
		q.sq.slots = q.sq.slots[:0]
	}
	init.Cap = Cap{MaxSendWR: uint32(len(q.sq.slots)), MaxSendSGE: q.sq.maxSGE, MaxInlineData: q.sq.maxInline}
	if q.srq = init.SRQ; q.srq == nil && q.column < xrcColumns {
		q.rq = newRecvQueue(c.MaxRecvWR, max(c.MaxRecvSGE, 1))
		if c.MaxRecvWR == 0 {
			q.rq.slots = q.rq.slots[:0]
		}
		init.Cap.MaxRecvWR, init.Cap.MaxRecvSGE = uint32(len(q.rq.slots)), q.rq.maxSGE
	}
	q.attr.Cap = init.Cap
	q.req.wqes = make([]wqe, len(q.sq.slots))
	q.rec.start(&q.attr, &e.stats, e.cfg.Window)
	var err error
	if q.qpn, err = e.pickQPN(init.Type); err != nil {
		return err
	}
	e.drawStart(q)
	if q.datagram {
		q.attr.PathMTU = e.cfg.MaxMTU
		q.setMTU(e.cfg.MaxMTU)
		q.maxMessage.Store(MaxMessage) // longer ones fail later, as in hardware (section 6.1)
	}
	e.qps.insert(q)
	if cap(e.timers) < e.qps.n { // so that arming never allocates
		e.timers = append(make(timers, 0, 2*e.qps.n), e.timers...)
	}
	q.use(+1)
	return nil
}

// use counts the queue pair as a user of its queues.
func (q *QP) use(n int) {
	if q.noSends { // its requests name queues that are others'
		return
	}
	if q.sendCQ != nil {
		q.sendCQ.users += n
	}
	if q.recvCQ != nil {
		q.recvCQ.users += n
	}
	if q.srq != nil {
		q.srq.users.Add(int32(n))
	}
}

// ownSRQ is the shared receive queue that it was made with, or nil: those of an XRC_RECV queue pair
// are named by requests.
func (q *QP) ownSRQ() *SRQ {
	if q.noSends {
		return nil
	}
	return q.srq
}

// checkQueues says whether there are the queues that a type needs, and no others.
func (e *Engine) checkQueues(init *QPInit) error {
	s := &services[init.Type]
	for _, c := range []struct {
		cq     *CQ
		absent bool
		name   string
	}{{init.SendCQ, s.noSends, "send"}, {init.RecvCQ, s.noSends || s.noRecvs, "receive"}} {
		switch {
		case (c.cq == nil) != c.absent && c.absent:
			return invalid("%v queue pairs have no %s completion queue", init.Type, c.name)
		case (c.cq == nil) != c.absent:
			return invalid("a queue pair needs a %s completion queue", c.name)
		case c.cq != nil && !e.owns(c.cq):
			return fmt.Errorf("completion queue: %w", ErrUnknown)
		}
	}
	switch {
	case init.SRQ != nil && (s.noSends || s.noRecvs):
		return invalid("%v queue pairs have no receive queue", init.Type)
	case (init.XRCD != 0) != s.noSends:
		return invalid("XRC domain %d of a %v queue pair: XRC_RECV needs one, others have none", init.XRCD, init.Type)
	}
	return nil
}

func (e *Engine) checkInit(init *QPInit) error {
	c := &init.Cap
	if !init.Type.exists() {
		return invalid("qp_type %d: this stack has RC (2), UC (3), UD (4), XRC_SEND (9), XRC_RECV (10) and GSI (1)",
			init.Type)
	}
	if err := e.checkQueues(init); err != nil {
		return err
	}
	switch {
	case init.PD == 0:
		return invalid("no protection domain")
	case init.SRQ != nil && init.SRQ.xrcd != 0:
		return invalid("an XRC shared receive queue: XRC_RECV queue pairs find it by its number")
	case init.SRQ != nil && init.SRQ.mem != e.cfg.Memory:
		return invalid("the shared receive queue is of another device")
	case c.MaxSendWR > MaxQPWR || c.MaxRecvWR > MaxQPWR:
		return invalid("%d send and %d receive work requests, at most %d each", c.MaxSendWR, c.MaxRecvWR, MaxQPWR)
	case c.MaxSendSGE > MaxSGE || c.MaxRecvSGE > MaxSGE:
		return invalid("%d send and %d receive elements a request, at most %d each", c.MaxSendSGE, c.MaxRecvSGE, MaxSGE)
	case c.MaxInlineData > MaxInline:
		return invalid("max_inline_data %d, at most %d", c.MaxInlineData, MaxInline)
	case e.qps.n >= MaxQP:
		return fmt.Errorf("%w: %d queue pairs", ErrLimit, MaxQP)
	case init.Type == GSI && e.qps.find(wire.GSIQPN) != nil:
		return fmt.Errorf("%w: QP 1 exists already", ErrBusy)
	}
	return nil
}

// pickQPN takes the next number that is free. ErrLimit if none is: a space may be smaller than
// MaxQP.
func (e *Engine) pickQPN(t QPType) (uint32, error) {
	if t == GSI {
		if e.cfg.QPNs.Value>>wire.OwnerShift != 0 {
			return 0, invalid("queue pair 1 belongs to the first owner of the address, and this one has the numbers "+
				"0x%06x/0x%06x", e.cfg.QPNs.Value, e.cfg.QPNs.Mask)
		}
		return wire.GSIQPN, nil
	}
	if e.numbers == nil {
		e.numbers = newQPNDeck(e.cfg.QPNs, e.cfg.Dealt, e.cfg.Rand)
	}
	for range 1 << e.cfg.QPNs.Bits() {
		qpn := e.numbers.deal()
		if qpn >= firstQPN && qpn != wire.MulticastQPN && e.qps.find(qpn) == nil {
			return qpn, nil
		}
	}
	return 0, fmt.Errorf("%w: all queue pair numbers of 0x%06x/0x%06x are taken",
		ErrLimit, e.cfg.QPNs.Value, e.cfg.QPNs.Mask)
}

// StartPSN is where this side should start counting (IBV_QP_SQ_PSN) in the queue pair's present
// life. The RESET that ends a life in which something could be sent draws another. It is
// unpredictable, and lies past all that earlier lives have used: after RESET and a new connection
// between the same two queue pairs, a request or an acknowledgement that is still on its way from
// before means nothing, because its PSN is an old one to the new connection. That is not true of
// UC, whose responder takes the first packet of a message whatever its PSN is. Any goroutine may
// call it.
func (q *QP) StartPSN() wire.PSN { return wire.PSN(q.start.Load()) }

// drawStart draws StartPSN for the life that begins.
func (e *Engine) drawStart(q *QP) {
	for {
		psn := wire.PSN(e.cfg.Rand()) & wire.PSNMask
		if q.isPast(psn) {
			q.start.Store(uint32(psn))
			return
		}
	}
}

// isPast says whether what may be on its way from earlier lives is old to one that begins with psn.
// The start must lie behind the end of the last life, by less than maxAhead: then that life's PSNs
// are old to the new one even beside a READ that takes half the PSN circle. PSNs of the lives
// before it may lie ahead, but the new life must have staleSpan packets to send before it gets
// there.
func (q *QP) isPast(psn wire.PSN) bool {
	for i, end := range q.ended {
		ahead := end.Sub(psn)
		if i == len(q.ended)-1 && (ahead > 0 || ahead <= -maxAhead) || ahead > 0 && ahead < staleSpan+staleLag {
			return false
		}
	}
	return true
}

// endLife notes where the life that RESET ends has come to.
func (q *QP) endLife() {
	if len(q.ended) == maxEnded {
		q.ended = append(q.ended[:0], q.ended[1:]...)
	}
	q.ended = append(q.ended, q.rec.top)
}

// DestroyQP ends the queue pair. Outstanding work requests yield no completions; completions that
// are in their queues already stay there.
func (e *Engine) DestroyQP(q *QP) error {
	if e.qps.find(q.qpn) != q {
		return fmt.Errorf("QP 0x%06x: %w", q.qpn, ErrUnknown)
	}
	e.detachAll(q)
	e.dropKept(q)
	q.putBack()
	e.unschedule(q)
	e.belong(q, wire.GID{})
	e.timers.remove(q)
	q.resp.dropReplies() // one may still wait for storage
	e.cfg.Memory.InvalidateAll(q.qpn)
	e.qps.remove(q.qpn)
	q.use(-1)
	q.setState(StateReset)
	return nil
}

// QueryQP returns the present attributes, with the real sizes of the queues.
func (e *Engine) QueryQP(q *QP) QPAttr {
	a := q.attr
	a.State, a.CurState = q.State(), q.State()
	if q.State() >= StateRTS && !q.datagram {
		a.SQPSN = q.rec.psn
	}
	if q.State() >= StateRTR && !q.datagram {
		a.RQPSN = q.resp.epsn
	}
	return a
}

// fail moves the queue pair to ERR and flushes both queues (section 5.3). It drops the replies that
// wait, unless the failure is the responder's own: that ends with a NAK to the peer.
func (e *Engine) fail(q *QP) {
	if q.State() == StateErr {
		return
	}
	q.setState(StateErr)
	e.recordState(q)
	q.attr.SQDraining, q.paused = false, false
	q.rec.clear()
	e.timers.disarm(q)
	e.dropKept(q)
	if !q.resp.parting {
		q.resp.dropReplies()
	}
	e.flushSends(q)
	e.flushRecvs(q)
	if q.ownSRQ() != nil { // nothing of the queue completes here any more (section 5.3)
		e.raise(Event{Type: EventQPLastWQE, QP: q})
	}
}

// flushSends completes every send work request there is with WCWRFlushErr, signaled or not.
func (e *Engine) flushSends(q *QP) {
	tail := q.sq.tail.Load()
	for i := q.sq.head.Load(); i != tail; i++ {
		e.complete(q.sendCQ, &WC{WRID: q.sq.at(i).wrid, Status: WCWRFlushErr, QPN: q.qpn}, false)
	}
	q.sq.head.Store(tail)
	q.req.next, q.req.started = tail, tail
	q.req.readsOut, q.req.doomed = 0, 0
}

// sendError is what happens when a UC or UD request has failed locally: in SQE the send queue is
// flushed, while the receive queue works on.
func (e *Engine) sendError(q *QP) {
	q.setState(StateSQE)
	e.recordState(q)
	q.attr.SQDraining = false
	q.due &^= dueRequest
	e.flushSends(q)
}

// reset empties the queue pair without completions (section 5.3), and begins another life.
func (e *Engine) reset(q *QP) {
	if q.State() >= StateRTS { // else it has sent nothing, and its peer may know the PSN already
		q.endLife()
		e.drawStart(q)
	}
	q.setState(StateReset)
	e.recordState(q)
	e.cfg.Memory.InvalidateAll(q.qpn) // what was opened to this peer is not for the next
	e.unschedule(q)
	e.timers.remove(q)
	q.sq.reset()
	q.putBack()
	if q.rq != nil {
		q.rq.reset()
	}
	wqes := q.req.wqes
	q.req = requester{wqes: wqes, next: q.sq.tail.Load(), started: q.sq.tail.Load()}
	q.rec.sequence = sequence{}
	q.rec.start(&q.attr, &e.stats, e.cfg.Window)
	e.dropKept(q)
	e.belong(q, wire.GID{})
	q.rate, q.paused = rate{}, false
	q.sent = departures{}
	q.resp.dropReplies()
	q.resp = responder{syncs: q.resp.syncs}
	keep := QPAttr{Cap: q.attr.Cap}
	if q.datagram {
		keep.PathMTU = e.cfg.MaxMTU
	}
	q.attr = keep
}

// checkDrained ends the draining, and raises the event, when nothing that was started in SQD is
// incomplete any more.
func (e *Engine) checkDrained(q *QP) {
	if q.State() != StateSQD || !q.attr.SQDraining || q.sq.head.Load() != q.req.started {
		return
	}
	q.attr.SQDraining = false
	if q.attr.EnSQDAsyncNotify {
		e.raise(Event{Type: EventSQDrained, QP: q})
	}
}
