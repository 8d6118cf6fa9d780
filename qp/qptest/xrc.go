package qptest

// XRC: connections whose requests name a shared receive queue of the responder's node. The oracle's
// streams are those of RC in one direction; for each request the responder takes the receives of
// the queue that it names (aim), and refuses what names none of its domain.

import "github.com/goroce/goroce/qp"

// reliable says whether the queue pair's packets are acknowledged.
func (q *QP) reliable() bool { return q.Type() == qp.RC || q.Type() >= qp.XRCSend }

// xrcDomain is the domain of the XRC_RECV queue pairs of the world.
const xrcDomain = 1

// enterXRC makes a shared receive queue one that requests can name.
func (s *SRQ) enterXRC(init *qp.SRQInit, cqe int) {
	n := s.Node
	s.xrcd = init.XRCD
	for _, x := range n.srqs { // one for all: completions of a queue pair have an order
		if x.CQ != nil {
			s.CQ = x.CQ
		}
	}
	if s.CQ == nil {
		s.CQ = n.CreateCQ(cqe)
	}
	if init.Number == 0 {
		init.Number = uint32(n.W.rand("srq", n.Index, len(n.srqs)).IntN(1<<24-1)) + 1
	}
}

// aim has an XRC_RECV queue pair take the receives of the queue that a request names; false: there
// is no such queue in its domain.
func (s *stream) aim(o *op) bool {
	if s.to.Type() != qp.XRCRecv {
		return true
	}
	for _, x := range s.to.Node.srqs {
		if x.Number() == o.wr.RemoteSRQN && x.xrcd == xrcDomain {
			s.to.Cfg.SRQ = x
			return true
		}
	}
	return false
}

// drawXRC adds a few XRC connections to one node, which has one to three shared receive queues for
// them, and maybe one of another domain.
func (p *Plan) drawXRC(d Dice, m *mix, limit int) {
	node, first := d.IntN(len(p.Nodes)), len(p.SRQs)
	targets := d.between(1, 3)
	for i := range targets + d.IntN(2) {
		s := SRQPlan{Node: node, Init: qp.SRQInit{
			MaxWR:  uint32(d.between(1, maxShared)),
			MaxSGE: uint32(d.between(1, 5)),
			XRCD:   xrcDomain,
		},
			First: d.IntN(maxShared + 1), Every: qp.Time(d.IntN(int(20*Microsecond)) + 1)}
		if i >= targets {
			s.Init.XRCD++
		}
		s.Init.Limit = uint32(d.IntN(int(s.Init.MaxWR) + 1))
		p.SRQs = append(p.SRQs, s)
	}
	room := 0
	for range d.between(1, 3) {
		p.drawConnOf(d, m, qp.XRCSend, limit)
		c := len(p.Conns) - 1
		a, b := &p.Conns[c].Ends[0], &p.Conns[c].Ends[1]
		b.Cfg.Type, b.Node = qp.XRCRecv, node
		a.Recvs, b.Recvs, b.Ops = nil, nil, nil
		for i := range a.Ops {
			o := &a.Ops[i]
			if o.SRQ = first + d.IntN(targets); o.Kind == qp.WRSend || o.Kind == qp.WRSendWithImm {
				room = max(room, o.Len)
			}
			if d.Chance(0.005) {
				o.Fault = FaultSRQN
			}
		}
		if d.Chance(0.2) {
			act := Act{
				At:   qp.Time(d.IntN(int(300 * Microsecond))),
				Conn: c,
				Side: d.IntN(2),
				Kind: Pick(d, ActError, ActReset, ActDestroy),
			}
			p.Acts = append(p.Acts, act)
		}
	}
	for i := first; i < len(p.SRQs); i++ {
		s := &p.SRQs[i]
		if s.Room = room + Pick(d, 0, 1, 100); d.Chance(0.05) {
			s.Room /= 2 // then some messages are too long
		}
		s.Pieces = d.pieces(s.Room, int(s.Init.MaxSGE))
	}
}
