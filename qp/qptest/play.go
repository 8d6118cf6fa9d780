package qptest

// Running a plan: the applications of the random world. Each posts its work when the time has come
// and there is room, keeps receives coming, and at the end everything must have come to rest.

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// player is the application at one end.
type player struct {
	w       *World
	plan    *EndPlan
	q       *QP
	peer    *player
	sharers []*sharer // of the world
	ah      *qp.AH
	groups  [4]*qp.AH // UD: to groups; nil: of the other IP version
	source  *Region
	result  *Region
	remote  *Region
	recv    *Region
	nextOp  int
	nextRcv int
	full    bool // the receive queue
	tries   int  // to post what finds the send queue full
	gone    bool
}

// Play runs the plan and returns the first violation. What is not nil records the packets, tells
// the story, or gets the digest of what the engines do.
func (p *Plan) Play(capture *Capture, trace io.Writer, digest *Digest) error {
	w := NewWorld(p.Seed)
	w.Capture, w.Trace, w.Digest = capture, trace, digest
	return p.PlayIn(w)
}

// PlayIn runs the plan in a new world of its seed, which may capture and record.
func (p *Plan) PlayIn(w *World) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("at %s: panic: %v\n%s", stamp(w.Now), r, debug.Stack())
		}
	}()
	// A request with a bad local key, or without a retry left, fails at some moment within a turn;
	// what the queue pair still executes depends on which, and what others may keep.
	w.OneByOne = p.has(FaultLKey) || p.impatient() || p.Crowded
	w.Faults, w.Hopeless = p.Faults, p.Hopeless
	conns := p.stage(w)
	for _, a := range p.Acts {
		w.After(a.At, func() { conns[a.Conn][a.Side].act(a.Kind) })
	}
	if err := w.Run(); err != nil {
		return err
	}
	if err := w.AtRest(); err != nil {
		return err
	}
	return p.sentOnce(w)
}

// sentOnce holds that nothing was sent twice without a reason: links that lose something, a queue
// pair that has failed, on purpose or by a mistake of its own, late answers (of storage, of a
// responder that keeps to a rate, of a port that takes a break), or a NAK. A packet of which nobody
// awaits the acknowledgement is asked about by a probe, which is one sent again.
func (p *Plan) sentOnce(w *World) error {
	f := p.Faults
	if f.Loss+f.Burst.Enter+f.Duplicate+f.Reorder+f.Corrupt > 0 || f.Rate > 0 || f.Partition != nil || f.Drop != nil ||
		p.Acts != nil || p.Neighbours != nil || p.late() {
		return nil
	}
	var again, naks uint64
	for _, n := range w.Nodes {
		st := n.Engine.Stats()
		again, naks = again+st.Retransmitted, naks+st.RcvdRNR+st.RcvdSeqErr+st.RcvdInvReq+st.RcvdAccessErr+st.RcvdOpErr
		if p.unsignaled() {
			again -= st.Probes
		}
		if n.Synced > 0 || slices.ContainsFunc(n.list, func(q *QP) bool { return q.down != "" }) {
			return nil
		}
	}
	if again > 0 && naks == 0 {
		return fmt.Errorf("%d packets were sent again, and nothing was lost", again)
	}
	return nil
}

// unsignaled says whether the last request of an end tells nobody that it is done.
func (p *Plan) unsignaled() bool {
	for _, c := range p.Conns {
		for _, e := range c.Ends {
			if n := len(e.Ops); n > 0 && !e.Cfg.SQSigAll && e.Ops[n-1].Flags&qp.SendSignaled == 0 {
				return true
			}
		}
	}
	return false
}

// late says whether answers may come later than a requester can foresee.
func (p *Plan) late() bool {
	for _, n := range p.Nodes {
		if n.Hardware != (Hardware{}) || n.Budget > 0 {
			return true
		}
	}
	for _, c := range p.Conns {
		for i, e := range c.Ends {
			for _, o := range e.Ops {
				if o.Kind == qp.WRRead && c.Ends[1-i].Cfg.RateLimit > 0 {
					return true
				}
			}
		}
	}
	return false
}

// stage puts the plan's nodes and applications into a world, which begin, and returns the two of
// each connection.
func (p *Plan) stage(w *World) (conns [][2]*player) {
	for _, n := range p.Nodes {
		w.AddNode(n)
	}
	sharers := make([]*sharer, len(p.SRQs))
	for i := range p.SRQs {
		sharers[i] = w.newSharer(&p.SRQs[i])
	}
	for i := range p.Conns {
		c := &p.Conns[i]
		pair := [2]*player{w.newPlayer(&c.Ends[0], sharers), w.newPlayer(&c.Ends[1], sharers)}
		pair[0].peer, pair[1].peer = pair[1], pair[0]
		if c.Ends[0].Cfg.Type == qp.UD {
			pair[0].datagram()
			pair[1].datagram()
		} else {
			w.Connect(pair[0].q, pair[1].q)
		}
		conns = append(conns, pair)
	}
	for i, n := range p.Neighbours {
		n.join(w, i, sharers)
	}
	for _, s := range sharers {
		s.start()
	}
	for _, pair := range conns {
		pair[0].start()
		pair[1].start()
	}
	return conns
}

// impatient says whether a response may find that no retry is left.
func (p *Plan) impatient() bool {
	for _, c := range p.Conns {
		for _, e := range c.Ends {
			if e.Cfg.RNRRetry > 0 && e.Cfg.RNRRetry < 7 || e.Cfg.RetryCnt > 0 && e.Cfg.RetryCnt < 7 {
				return true
			}
		}
	}
	return false
}

// has says whether some work request has this mistake.
func (p *Plan) has(f OpFault) bool {
	for _, c := range p.Conns {
		for _, e := range c.Ends {
			for _, o := range e.Ops {
				if o.Fault == f {
					return true
				}
			}
		}
	}
	return false
}

func (w *World) newPlayer(e *EndPlan, sharers []*sharer) *player {
	n := w.Nodes[e.Node]
	source, result, recv := 512, 8, 8
	for _, o := range e.Ops {
		source = max(source, o.Local+o.Len)
		result = max(result, o.Local+o.Len)
	}
	for _, r := range e.Recvs {
		recv = max(recv, r.Off+r.Len)
	}
	rights := mr.LocalWrite | mr.RemoteAny
	if e.NoRights {
		rights = mr.LocalWrite
	}
	cfg := e.Cfg
	if e.SRQ > 0 {
		cfg.SRQ = sharers[e.SRQ-1].srq
	}
	p := &player{w: w, plan: e, sharers: sharers, q: n.CreateQP(cfg)}
	base := uint64(len(n.regions)+1) << 32
	p.source = n.NewRegion("source", source+5000, base, 0)
	p.result = n.NewRegion("result", result, base+1<<28, mr.LocalWrite)
	p.remote = n.NewRegion("remote", e.Remote, base+2<<28, rights)
	p.recv = n.NewRegion("recv", recv, base+3<<28, mr.LocalWrite)
	return p
}

func (p *player) datagram() {
	p.q.Activate()
	p.q.Node.Control(func() (err error) {
		p.ah, err = p.q.Node.Engine.CreateAH(p.q.Node.PD, qp.AHAttr{
			DGID:         p.peer.q.GID(),
			SGIDIndex:    p.q.Cfg.Row,
			TrafficClass: p.q.Cfg.TrafficClass,
		})
		return err
	})
	p.attach()
}

// start posts the first receives and schedules the rest.
func (p *player) start() {
	for range p.plan.RecvFirst {
		p.postRecv()
	}
	p.receive()
	p.q.OnReceive = func() {
		if p.full {
			p.full = false
			p.receive()
		}
	}
	p.q.OnSend = func() {
		if p.q.State() == qp.StateErr {
			p.leftAlone()
		}
	}
	p.work()
}

// receive posts one receive and comes back for the next: after a while, or when the queue has room
// again.
func (p *player) receive() {
	if p.postRecv() {
		p.w.After(p.plan.RecvEvery, p.receive)
	}
}

func (p *player) postRecv() bool {
	if p.gone || p.full || p.plan.SRQ > 0 || p.nextRcv == len(p.plan.Recvs) {
		return false
	}
	r := p.plan.Recvs[p.nextRcv]
	sgl := p.recv.cut(r.Off, r.Pieces)
	if r.BadKey {
		for i := range sgl {
			sgl[i].LKey ^= 0x5500
		}
	}
	switch _, err := p.q.PostRecv(sgl...); {
	case err == nil:
		p.nextRcv++
		return true
	case errors.Is(err, qp.ErrFull):
		p.full = true
	default:
		p.w.Fail("%s: PostRecv: %v", p.q, err)
	}
	return false
}

// cut names the pieces of a message that lie one after the other.
func (r *Region) cut(off int, pieces []int) (sgl []qp.SGE) {
	for _, n := range pieces {
		sgl = append(sgl, r.SGE(off, n))
		off += n
	}
	return sgl
}

// work posts what is due, rings once, and comes back.
func (p *player) work() {
	if p.gone {
		return
	}
	rung := false
	for p.nextOp < len(p.plan.Ops) {
		o := &p.plan.Ops[p.nextOp]
		if due := worldStart + o.At; due > p.w.Now {
			p.w.At(due, p.work)
			break
		}
		wr := p.request(o)
		err := p.q.Stage(&wr)
		if errors.Is(err, qp.ErrFull) {
			// A partition fills it for seconds.
			p.w.After(20*Microsecond<<min(p.tries/100, 10), p.work)
			p.tries++
			break
		}
		if err != nil {
			p.w.Fail("%s: PostSend(%v): %v", p.q, o.Kind, err)
			return
		}
		p.nextOp, p.tries = p.nextOp+1, 0
		rung = true
	}
	if rung {
		p.q.Ring()
	}
}

// request builds the work request of an operation.
func (p *player) request(o *OpPlan) qp.SendWR {
	wr := qp.SendWR{Opcode: o.Kind, Flags: o.Flags, Imm: o.Imm, AH: p.ah}
	region, peer := p.source, p.peer
	switch o.Kind {
	case qp.WRRead:
		region = p.result
	case qp.WRAtomicCmpAndSwp, qp.WRAtomicFetchAndAdd:
		region, wr.CompareAdd, wr.Swap = p.result, o.Swap>>32, o.Swap
	case qp.WRAtomicWrite:
		wr.Swap = o.Swap
	case qp.WRFlush:
		wr.Flush = qp.FlushInfo{
			Length:      uint32(o.Len),
			Placement:   qp.Placement(1 + o.Swap%3),
			Selectivity: qp.Selectivity(o.Swap >> 8 % 2),
		}
	}
	pieces := o.Pieces
	if o.Fault == FaultTooBig {
		pieces = []int{4097}
		wr.Flags &^= qp.SendInline
	}
	wr.RKey, wr.RemoteAddr = peer.remote.RKey(), peer.remote.Addr(o.Remote)
	wr.RemoteQPN, wr.RemoteQKey = peer.q.QPN(), peer.q.Cfg.QKey
	if o.Group > 0 {
		wr.AH, wr.RemoteQPN = p.groups[o.Group-1], wire.MulticastQPN
	}
	if o.bare() {
		return o.spoil(wr, peer)
	}
	if p.q.Type() == qp.XRCSend {
		wr.RemoteSRQN = p.targetOf(o)
	}
	if pieces == nil {
		wr.Inline = region.Bytes[o.Local : o.Local+o.Len]
	} else {
		wr.SGL = region.cut(o.Local, pieces)
	}
	return o.spoil(wr, peer)
}

// spoil makes the mistake of an operation.
func (o *OpPlan) spoil(wr qp.SendWR, peer *player) qp.SendWR {
	switch o.Fault {
	case FaultLKey:
		for i := range wr.SGL {
			wr.SGL[i].LKey ^= 0xaa00
		}
	case FaultRKey:
		wr.RKey ^= 0xff00
	case FaultRange:
		wr.RemoteAddr += peer.remote.Len() &^ 7
	case FaultQKey:
		wr.RemoteQKey++
	}
	return wr
}

// targetOf is the number of the shared receive queue that an operation is for. The mistake is that
// of one of another domain, if there is one, or of none.
func (p *player) targetOf(o *OpPlan) uint32 {
	if o.Fault != FaultSRQN {
		return p.sharers[o.SRQ].srq.Number()
	}
	last := p.sharers[len(p.sharers)-1].srq
	if last.xrcd > xrcDomain {
		return last.Number()
	}
	return last.Number() ^ 0x800001
}

// act ends this side, or drains it for a while.
func (p *player) act(kind ActKind) {
	if p.gone {
		return
	}
	if kind != ActDrain {
		p.gone = kind != ActError
		p.q.end(kind)
		p.leftAlone()
	} else if p.q.State() == qp.StateRTS {
		if err := p.q.Modify(qp.QPAttr{State: qp.StateSQD}, qp.AttrState); err != nil {
			p.w.Fail("%s: to SQD: %v", p.q, err)
		}
		p.resume()
	}
}

// end is an intervention that ends what the queue pair does.
func (q *QP) end(kind ActKind) {
	err := error(nil)
	switch kind {
	case ActError:
		err = q.Modify(qp.QPAttr{State: qp.StateErr}, qp.AttrState)
	case ActReset:
		err = q.Modify(qp.QPAttr{State: qp.StateReset}, qp.AttrState)
	case ActDestroy:
		err = q.Destroy()
	}
	if err != nil {
		q.Node.W.Fail("%s: act %d: %v", q, kind, err)
	}
}

// leftAlone ends the other side too if it receives from a shared queue: else the message that this
// side has not finished would keep its request for ever, and others might wait for that.
func (p *player) leftAlone() {
	o := p.peer
	if o.plan.SRQ == 0 && o.q.Type() != qp.XRCRecv {
		return
	}
	p.w.After(Millisecond, func() {
		if s := o.q.State(); !o.gone && s != qp.StateErr && s != qp.StateReset {
			if err := o.q.Modify(qp.QPAttr{State: qp.StateErr}, qp.AttrState); err != nil {
				p.w.Fail("%s: to ERR: %v", o.q, err)
			}
		}
	})
}

// resume goes back to RTS as soon as the queue pair has drained.
func (p *player) resume() {
	if p.gone || p.q.State() != qp.StateSQD {
		return
	}
	if a := p.q.Node.Engine.QueryQP(p.q.QP); a.SQDraining {
		p.w.After(50*Microsecond, p.resume)
		return
	}
	if err := p.q.Modify(qp.QPAttr{State: qp.StateRTS}, qp.AttrState); err != nil {
		p.w.Fail("%s: SQD to RTS: %v", p.q, err)
	}
}
