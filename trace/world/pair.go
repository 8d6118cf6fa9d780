package world

// Queue pairs: creation, the walk through the states, connecting two of them by hand, posting.

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// QP is a queue pair. Attr is what Connect gives it; a scenario changes it before.
type QP struct {
	*qp.QP
	Host *Host
	Attr qp.QPAttr

	send, recv *CQ
	sq, rq     []WorkRequest // as the moments show them
}

// QPInit is what CreateQP may be told; the zero value is an RC queue pair of 16 requests.
type QPInit struct {
	Type     qp.QPType
	PD       mr.PD  // 0: the host's first
	RecvCQ   *CQ    // nil: that of the sends
	Cap      qp.Cap // zero: 16 work requests of 4 elements each way, 64 bytes inline
	SQSigAll bool
}

// CreateQP makes a queue pair in RESET. Its Attr lets the peer do everything.
func (h *Host) CreateQP(cq *CQ, init QPInit) *QP {
	if init.Type == 0 {
		init.Type = qp.RC
	}
	if init.PD == 0 {
		init.PD = h.PD
	}
	if init.RecvCQ == nil {
		init.RecvCQ = cq
	}
	if init.Cap == (qp.Cap{}) {
		init.Cap = qp.Cap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64}
	}
	q := &QP{Host: h, send: cq, recv: init.RecvCQ}
	var err error
	q.QP, err = h.engine.CreateQP(qp.QPInit{
		Type:     init.Type,
		PD:       init.PD,
		SendCQ:   cq.CQ,
		RecvCQ:   init.RecvCQ.CQ,
		Cap:      init.Cap,
		SQSigAll: init.SQSigAll,
		Context:  q,
	})
	h.called("ibv_create_qp", typeName(init.Type), err)
	if err != nil {
		panic("world: " + err.Error()) // of the scenario: no change of a packet comes to this
	}
	h.w.psns++
	q.Attr = qp.QPAttr{PathMTU: wire.MTU1024, Port: 1, QKey: 0x11223344, SQPSN: wire.PSN(1000 * h.w.psns),
		AccessFlags: mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic, MaxRdAtomic: 4, MaxDestRdAtomic: 4,
		Timeout: 8, RetryCnt: 3, RNRRetry: 3, MinRNRTimer: 12}
	h.pairs = append(h.pairs, q)
	info := &h.w.play.Hosts[h.index]
	info.QPs = append(info.QPs, QPInfo{q.QPN(), typeName(init.Type), 0})
	return q
}

// Connect tells two queue pairs of each other and takes both to RTS. In a real program the numbers
// travel over a TCP connection, or a connection manager exchanges them.
func (w *World) Connect(a, b *QP) {
	for _, side := range [][2]*QP{{a, b}, {b, a}} {
		q, peer := side[0], side[1]
		q.Attr.DestQPN, q.Attr.RQPSN, q.Attr.AV.DGID = peer.QPN(), peer.Attr.SQPSN, peer.Host.GID
		q.To(qp.StateRTS)
	}
}

// Activate takes a queue pair of a kind that needs no peer (UD) to RTS.
func (q *QP) Activate() { q.To(qp.StateRTS) }

// To takes a queue pair from RESET through the states to the given one, INIT, RTR or RTS, with what
// Attr says.
func (q *QP) To(state qp.QPState) {
	for _, step := range []qp.QPState{qp.StateInit, qp.StateRTR, qp.StateRTS} {
		if step > q.State() && step <= state && q.Modify(step, masks[q.Type()][step]) != nil {
			return
		}
	}
}

// Modify moves the queue pair to a state with the attributes of the mask, which Attr has.
func (q *QP) Modify(state qp.QPState, mask qp.AttrMask) error {
	q.Attr.State = state
	var err error
	first := len(q.Host.w.play.Entries)
	q.Host.turn(0, func() {
		err = q.Host.engine.ModifyQP(q.Host.w.now, q.QP, &q.Attr, mask|qp.AttrState)
	})
	q.Host.called("ibv_modify_qp", fmt.Sprintf("QP 0x%06x to %v", q.QPN(), state), err)
	for i := range q.Host.pairs {
		if q.Host.pairs[i] == q && mask&qp.AttrDestQPN != 0 && err == nil {
			q.Host.w.play.Hosts[q.Host.index].QPs[i].Peer = q.Attr.DestQPN
		}
	}
	all := q.Host.w.play.Entries // the call stands before what has come of it
	copy(all[first:], slices.Insert(slices.Clone(all[first:len(all)-1]), 0, all[len(all)-1]))
	return err
}

// masks are the attributes that each step needs (section 5.1).
var masks = map[qp.QPType]map[qp.QPState]qp.AttrMask{
	qp.RC: {qp.StateInit: initMask | qp.AttrAccessFlags, qp.StateRTR: rtrMask | qp.AttrMaxDestRdAtomic |
		qp.AttrMinRNRTimer | qp.AttrSelectiveRepeat,
		qp.StateRTS: qp.AttrSQPSN | qp.AttrTimeout | qp.AttrRetryCnt | qp.AttrRNRRetry | qp.AttrMaxRdAtomic |
			qp.AttrRateLimit},
	qp.UC: {qp.StateInit: initMask | qp.AttrAccessFlags, qp.StateRTR: rtrMask,
		qp.StateRTS: qp.AttrSQPSN | qp.AttrRateLimit},
	qp.UD: {qp.StateInit: initMask | qp.AttrQKey, qp.StateRTR: 0, qp.StateRTS: qp.AttrSQPSN | qp.AttrRateLimit},
}

const (
	initMask = qp.AttrPKeyIndex | qp.AttrPort
	rtrMask  = qp.AttrAV | qp.AttrPathMTU | qp.AttrDestQPN | qp.AttrRQPSN
)

// PathInfo asks what the queue pair knows of its path.
func (q *QP) PathInfo() qp.PathInfo {
	p, err := q.Host.engine.PathInfo(q.QP)
	q.Host.called("QP.PathInfo", fmt.Sprintf("window of %d packets (%v), cut %d times, %d packets sent again", p.Window,
		p.State, p.Cuts, p.Resent), err)
	return p
}

// PostSend posts send work requests and rings the doorbell once for all of them.
func (q *QP) PostSend(wrs ...qp.SendWR) error {
	n, err := q.QP.PostSend(wrs)
	for i := range wrs[:n] {
		q.sq = append(q.sq, WorkRequest{WRID: wrs[i].WRID, Op: wrs[i].Opcode.String(),
			Length: lengthOf(wrs[i].SGL) + len(wrs[i].Inline), State: "waiting",
			Signaled: wrs[i].Flags&qp.SendSignaled != 0})
		q.Host.called("ibv_post_send", sendWords(&wrs[i]), nil)
	}
	if err != nil {
		q.Host.called("ibv_post_send", sendWords(&wrs[n]), err)
	}
	q.Host.w.moment()
	q.ring()
	return err
}

// PostRecv posts receive work requests.
func (q *QP) PostRecv(wrs ...qp.RecvWR) error {
	n, err := q.QP.PostRecv(wrs)
	for i := range wrs[:n] {
		q.rq = append(q.rq, WorkRequest{
			WRID:     wrs[i].WRID,
			Op:       "RECV",
			Length:   lengthOf(wrs[i].SGL),
			State:    "waiting",
			Signaled: true,
		})
		q.Host.called("ibv_post_recv", fmt.Sprintf("wr %d, room for %d bytes", wrs[i].WRID, lengthOf(wrs[i].SGL)), nil)
	}
	if err != nil {
		q.Host.called("ibv_post_recv", fmt.Sprintf("wr %d", wrs[n].WRID), err)
	}
	q.Host.w.moment()
	if q.State() == qp.StateErr {
		q.ring()
	}
	return err
}

// ring tells the device, which looks a little later.
func (q *QP) ring() {
	h := q.Host
	h.engine.Ring(q.QP)
	h.w.After(doorbell, func() { h.turn(0, func() { h.engine.HandlePosted(h.w.now) }) })
}

func lengthOf(sgl []qp.SGE) (n int) {
	for i := range sgl {
		n += int(sgl[i].Length)
	}
	return n
}

func typeName(t qp.QPType) string {
	return map[qp.QPType]string{qp.RC: "RC", qp.UC: "UC", qp.UD: "UD"}[t]
}
