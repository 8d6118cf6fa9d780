package qptest

// Queue pairs of the world: creation, the verbs' state walk, connecting two of them, posting. A
// post goes to the oracle and to the engine, and the node takes a turn at once.

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// recvBit marks the WRIDs of receives, as one completion queue may serve both directions.
const recvBit = 1 << 63

// QPConfig describes a queue pair and its connection. Zero values are replaced by those of
// DefaultQP.
type QPConfig struct {
	Type          qp.QPType
	MTU           wire.MTU
	PSN           wire.PSN // first PSN this side sends
	Access        mr.Access
	NoAccess      bool // Access stays 0
	RdAtomic      int  // outstanding READs and atomics as initiator; negative: 0
	DestRdAtomic  int  // and as responder
	Timeout       uint8
	NoTimeout     bool // Timeout stays 0
	RetryCnt      uint8
	NoRetry       bool // RetryCnt stays 0
	RNRRetry      uint8
	NoRNRRetry    bool
	MinRNRTimer   uint8
	Cap           qp.Cap
	SQSigAll      bool
	Selective     bool // RC: selective repeat; both ends must agree
	LongWindow    bool // and that it reaches far
	FlowControl   bool // RC: credits are obeyed
	RateLimit     uint32
	CQE           int
	SharedCQ      bool // send and receive completions in one queue
	QKey          uint32
	Row           uint8 // of the GID table: where it sends from
	TrafficClass  uint8
	HopLimit      uint8
	FlowLabel     uint32
	SendCQ        *qp.CQ
	RecvCQ        *qp.CQ
	PD            mr.PD
	SRQ           *SRQ // where its receives come from, if shared; XRC_RECV: now
	DontConnect   bool // stay in RESET
	WithoutSender bool // stop in RTR
	WholeMessages bool // see qp.QPInit
}

func (c QPConfig) withDefaults() QPConfig {
	or := func(v *uint8, off bool, d uint8) {
		if *v == 0 && !off {
			*v = d
		}
	}
	or((*uint8)(&c.Type), false, uint8(qp.RC))
	or((*uint8)(&c.MTU), false, uint8(wire.MTU1024))
	or(&c.Timeout, c.NoTimeout, 8) // 1.049 ms
	or(&c.RetryCnt, c.NoRetry, 7)
	or(&c.RNRRetry, c.NoRNRRetry, 7)
	or(&c.MinRNRTimer, false, 1) // 10 us
	if c.Access == 0 && !c.NoAccess {
		c.Access = mr.RemoteAny
	}
	if c.RdAtomic == 0 {
		c.RdAtomic = 16
	}
	if c.DestRdAtomic == 0 {
		c.DestRdAtomic = 16
	}
	c.RdAtomic, c.DestRdAtomic = max(c.RdAtomic, 0), max(c.DestRdAtomic, 0)
	if c.Cap == (qp.Cap{}) {
		c.Cap = qp.Cap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64}
	}
	if c.CQE == 0 {
		c.CQE = 256
	}
	if c.QKey == 0 {
		c.QKey = 0x11223344
	}
	return c
}

// QP is a queue pair of a node with what the oracle knows of it.
type QP struct {
	*qp.QP
	Node *Node
	Cfg  QPConfig
	Peer *QP // connected to, if that is in the world

	SendWCs, RecvWCs []qp.WC // completions not looked at yet

	// OnReceive runs after a receive completion, OnSend after a send completion.
	OnReceive, OnSend func()

	sendCQ, recvCQ *qp.CQ
	dest           remote
	port           uint16  // UDP source port of its packets
	out, in        *stream // as requester, as responder
	gram           *datagrams

	sends    []*op // posted in this life of the queue pair, oldest first
	nextSend int   // the first one without completion
	fetching []*op // READs and atomics whose data may still arrive

	recvs    []*recvOp
	taken    int // receives consumed by messages
	wantRecv []want
	lastWQEs int // events EventQPLastWQE

	mayAt qp.Time // rate limit: when the next payload may leave that is in time

	down      string // why the queue pair is in ERR; empty if it is not
	mute      bool   // the application has moved it there: it says nothing more
	squelched bool   // SQE: the send queue is flushed, receives go on
	fatal     *failure
	silent    string // why no answer may come any more
	mayFail   []failure

	// Groups holds the multicast groups that the queue pair is attached to.
	Groups map[wire.GID]bool
}

// failure is a send work request that must end with an error now.
type failure struct {
	op     *op
	status qp.WCStatus
}

// String names the queue pair.
func (q *QP) String() string { return fmt.Sprintf("%s.QP%06x", q.Node, q.QPN()) }

// order returns the node's queue pairs in order of creation.
func (n *Node) order() []*QP { return n.list }

// CreateQP makes a queue pair in RESET.
func (n *Node) CreateQP(cfg QPConfig) *QP {
	cfg = cfg.withDefaults()
	q := &QP{Node: n, Cfg: cfg, sendCQ: cfg.SendCQ, recvCQ: cfg.RecvCQ}
	if q.sendCQ == nil {
		q.sendCQ = n.CreateCQ(cfg.CQE)
	}
	if q.recvCQ == nil && cfg.SharedCQ {
		q.recvCQ = q.sendCQ
	} else if q.recvCQ == nil {
		q.recvCQ = n.CreateCQ(cfg.CQE)
	}
	pd := cfg.PD
	if pd == 0 {
		pd = n.PD
	}
	q.Cfg.PD = pd
	var err error
	init := qp.QPInit{Type: cfg.Type, PD: pd, SendCQ: q.sendCQ, RecvCQ: q.recvCQ, Cap: cfg.Cap,
		SQSigAll: cfg.SQSigAll, WholeMessages: cfg.WholeMessages, Context: q}
	switch {
	case cfg.Type == qp.XRCSend:
		init.RecvCQ = nil
	case cfg.Type == qp.XRCRecv:
		init.SendCQ, init.RecvCQ, init.XRCD = nil, nil, xrcDomain
	case cfg.SRQ != nil:
		init.SRQ = cfg.SRQ.SRQ
	}
	q.QP, err = n.Engine.CreateQP(init)
	if err != nil {
		panic(fmt.Sprintf("qptest: %v", err))
	}
	n.qps[q.QPN()] = q
	n.list = append(n.list, q)
	return q
}

// SendCQ returns the completion queue of the sends, RecvCQ that of the receives.
func (q *QP) SendCQ() *qp.CQ { return q.sendCQ }

// RecvCQ returns the completion queue of the receives.
func (q *QP) RecvCQ() *qp.CQ { return q.recvCQ }

// Modify calls ModifyQP and gives the node a turn.
func (q *QP) Modify(a qp.QPAttr, mask qp.AttrMask) error {
	err := q.Node.Control(func() error {
		err := q.Node.Engine.ModifyQP(q.Node.W.Now, q.QP, &a, mask)
		if err == nil && mask&qp.AttrState != 0 {
			q.entered(a.State)
		}
		return err
	})
	return err
}

// entered tells the oracle that the application moved the queue pair.
func (q *QP) entered(s qp.QPState) {
	switch s {
	case qp.StateErr:
		q.fail("the application moved it to ERR")
		q.mute = true
	case qp.StateReset:
		q.forget()
	case qp.StateRTS:
		if q.squelched {
			q.resume()
		}
	}
}

// resume is SQE to RTS: what was flushed has taken no PSNs.
func (q *QP) resume() {
	q.squelched = false
	if s := q.out; s != nil {
		s.end = s.nxt
		s.ops = slices.DeleteFunc(s.ops, func(o *op) bool { return o.end() > s.nxt || o.packets > 0 && !o.good })
	}
	if q.gram != nil {
		q.gram.end = q.gram.nxt
	}
}

// forget drops all that was outstanding, as RESET does: without completions.
func (q *QP) forget() {
	for _, o := range q.fetching { // a part may have arrived
		o.landedAll(q.Node)
	}
	if s := q.in; s != nil {
		s.putBack()
		s.emptied()
	}
	delete(q.Node.remotes, q.dest)
	if q.Peer != nil {
		q.Peer.silent = "its peer was reset"
	}
	fresh := QP{
		QP:      q.QP,
		Node:    q.Node,
		Cfg:     q.Cfg,
		SendWCs: q.SendWCs,
		RecvWCs: q.RecvWCs,
		sendCQ:  q.sendCQ,
		recvCQ:  q.recvCQ,
	}
	*q = fresh
}

// Destroy ends the queue pair.
func (q *QP) Destroy() error {
	return q.Node.Control(func() error {
		err := q.Node.Engine.DestroyQP(q.QP)
		if err == nil {
			q.forget()
			q.down = "destroyed"
		}
		return err
	})
}

// attr returns the attributes that connect the queue pair to a peer that starts at psn.
func (q *QP) attr(peer wire.GID, qpn uint32, psn wire.PSN) qp.QPAttr {
	c := &q.Cfg
	return qp.QPAttr{PathMTU: c.MTU, QKey: c.QKey, RQPSN: psn, SQPSN: c.PSN, DestQPN: qpn,
		AccessFlags: c.Access, Port: 1, AV: qp.AHAttr{
			DGID:         peer,
			SGIDIndex:    c.Row,
			TrafficClass: c.TrafficClass,
			HopLimit:     c.HopLimit,
			FlowLabel:    c.FlowLabel,
		},
		MaxRdAtomic: uint8(c.RdAtomic), MaxDestRdAtomic: uint8(c.DestRdAtomic), MinRNRTimer: c.MinRNRTimer,
		Timeout: c.Timeout, RetryCnt: c.RetryCnt, RNRRetry: c.RNRRetry, SelectiveRepeat: c.Selective,
		LongWindow: c.LongWindow, FlowControl: c.FlowControl, RateLimit: c.RateLimit}
}

// Masks of the ordinary walk through the states, by type.
var (
	toInit = map[qp.QPType]qp.AttrMask{qp.RC: maskInit, qp.UC: maskInit, qp.UD: maskInitUD,
		qp.GSI: maskInitUD &^ qp.AttrPort, qp.XRCSend: maskInit, qp.XRCRecv: maskInit}
	toRTR = map[qp.QPType]qp.AttrMask{qp.RC: maskRTR | qp.AttrMaxDestRdAtomic | qp.AttrMinRNRTimer, qp.UC: maskRTR,
		qp.UD: qp.AttrState, qp.GSI: qp.AttrState, qp.XRCSend: maskRTR, qp.XRCRecv: maskRTR | qp.AttrMaxDestRdAtomic |
			qp.AttrMinRNRTimer}
	toRTS = map[qp.QPType]qp.AttrMask{qp.RC: qp.AttrState | qp.AttrSQPSN | qp.AttrTimeout | qp.AttrRetryCnt |
		qp.AttrRNRRetry | qp.AttrMaxRdAtomic,
		qp.XRCSend: qp.AttrState | qp.AttrSQPSN | qp.AttrTimeout | qp.AttrRetryCnt | qp.AttrRNRRetry |
			qp.AttrMaxRdAtomic,
		qp.XRCRecv: qp.AttrState | qp.AttrSQPSN | qp.AttrTimeout,
		qp.UC:      qp.AttrState | qp.AttrSQPSN, qp.UD: qp.AttrState | qp.AttrSQPSN,
		qp.GSI: qp.AttrState | qp.AttrSQPSN}
)

const (
	maskInit   = qp.AttrState | qp.AttrPKeyIndex | qp.AttrPort | qp.AttrAccessFlags
	maskInitUD = qp.AttrState | qp.AttrPKeyIndex | qp.AttrPort | qp.AttrQKey
	maskRTR    = qp.AttrState | qp.AttrAV | qp.AttrPathMTU | qp.AttrDestQPN | qp.AttrRQPSN
)

// walk takes the queue pair from RESET to a state.
func (q *QP) walk(to qp.QPState, a qp.QPAttr) {
	for _, step := range []struct {
		state qp.QPState
		mask  map[qp.QPType]qp.AttrMask
	}{{qp.StateInit, toInit}, {qp.StateRTR, toRTR}, {qp.StateRTS, toRTS}} {
		if step.state > to {
			return
		}
		a.State = step.state
		mask := step.mask[q.Type()]
		if q.Cfg.Selective && step.state == qp.StateRTR {
			mask |= qp.AttrSelectiveRepeat | qp.AttrLongWindow
		}
		if q.Cfg.FlowControl && step.state == qp.StateRTR {
			mask |= qp.AttrFlowControl
		}
		if q.Cfg.RateLimit != 0 && step.state == qp.StateRTS {
			mask |= qp.AttrRateLimit
		}
		if err := q.Modify(a, mask); err != nil {
			panic(fmt.Sprintf("qptest: %v to %v: %v", q, step.state, err))
		}
	}
}

// Connect takes two queue pairs from RESET to RTS, each with the other as its peer.
func (w *World) Connect(a, b *QP) {
	a.Peer, b.Peer = b, a
	a.dest, b.dest = remote{b.GID(), b.QPN()}, remote{a.GID(), a.QPN()}
	a.Node.remotes[a.dest], b.Node.remotes[b.dest] = a, b
	ab, ba := newStream(a, b), newStream(b, a)
	a.out, b.in, b.out, a.in = ab, ab, ba, ba
	for _, q := range []*QP{a, b} {
		to := qp.StateRTS
		if q.Cfg.WithoutSender {
			to = qp.StateRTR
		}
		q.walk(to, q.attr(q.Peer.GID(), q.Peer.QPN(), q.Peer.Cfg.PSN))
	}
}

// ConnectRaw takes a queue pair to RTS with a raw peer's queue pair number as its peer.
func (q *QP) ConnectRaw(peer *Node, qpn uint32, psn wire.PSN) {
	q.dest = remote{peer.GID, qpn}
	q.Node.remotes[q.dest] = q
	to := qp.StateRTS
	if q.Cfg.WithoutSender {
		to = qp.StateRTR
	}
	q.walk(to, q.attr(peer.GID, qpn, psn))
}

// WalkTo takes a queue pair with a raw peer from RESET to any state.
func (q *QP) WalkTo(state qp.QPState, peer wire.GID, qpn uint32, psn wire.PSN) {
	q.dest = remote{peer, qpn}
	q.Node.remotes[q.dest] = q
	q.walk(min(state, qp.StateRTS), q.attr(peer, qpn, psn))
	if state > qp.StateRTS {
		if err := q.Modify(qp.QPAttr{State: state}, qp.AttrState); err != nil {
			panic(fmt.Sprintf("qptest: %v to %v: %v", q, state, err))
		}
	}
}

// Activate takes a UD queue pair to RTS.
func (q *QP) Activate() {
	q.gram = &datagrams{}
	q.walk(qp.StateRTS, q.attr(wire.GID{}, 0, 0))
}

// PostSend posts one send work request, rings the doorbell, and returns the WRID, which is the
// world's choice if it was 0.
func (q *QP) PostSend(wr qp.SendWR) (uint64, error) {
	err := q.Stage(&wr)
	if err == nil {
		q.Ring()
	}
	return wr.WRID, err
}

// Stage posts one send work request without ringing the doorbell.
func (q *QP) Stage(wr *qp.SendWR) error {
	if wr.WRID == 0 {
		q.Node.W.wrid++
		wr.WRID = q.Node.W.wrid
	}
	one := [1]qp.SendWR{*wr}
	n, err := q.QP.PostSend(one[:])
	if (n == 1) != (err == nil) {
		q.Node.W.Fail("%s: PostSend of one returned %d, %v", q, n, err)
	}
	if err == nil && !q.Node.W.Unchecked {
		q.posted(*wr)
	}
	return err
}

// Ring rings the doorbell and gives the node a turn.
func (q *QP) Ring() {
	q.Node.Engine.Ring(q.QP)
	q.Node.Kick()
}

// PostRecv posts one receive work request and returns its WRID.
func (q *QP) PostRecv(sgl ...qp.SGE) (uint64, error) {
	q.Node.W.wrid++
	wr := qp.RecvWR{WRID: q.Node.W.wrid | recvBit, SGL: sgl}
	n, err := q.QP.PostRecv([]qp.RecvWR{wr})
	if (n == 1) != (err == nil) {
		q.Node.W.Fail("%s: PostRecv of one returned %d, %v", q, n, err)
	}
	if err == nil && !q.Node.W.Unchecked {
		q.postedRecv(wr)
	}
	q.Ring()
	return wr.WRID, err
}

// SGE names n bytes of a region at offset off.
func (r *Region) SGE(off, n int) qp.SGE {
	return qp.SGE{Addr: r.Addr(off), Length: uint32(n), LKey: r.LKey()}
}
