package qptest

// The oracle for UD: datagrams leave in posting order and arrive or do not; a receive takes 40
// bytes of GRH and the payload (sections 1.8, 6.4, 8.2).

import (
	"bytes"
	"slices"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// datagrams is what a UD queue pair has sent.
type datagrams struct {
	end, nxt uint64 // posted, sent
}

// gramMTU is the port's largest path MTU: UD has no other.
func (q *QP) gramMTU() int {
	if m := q.Node.cfg.Engine.MaxMTU; m != 0 {
		return m.Bytes()
	}
	return wire.MTU4096.Bytes()
}

// SetMTU gives the node's port another largest path MTU.
func (n *Node) SetMTU(m wire.MTU) {
	n.cfg.Engine.MaxMTU = m
	n.Control(func() error { n.Engine.SetMTU(m); return nil })
}

// datagramSent checks a datagram that the engine sends.
func (q *QP) datagramSent(p *wire.Packet, bad func(string, ...any)) {
	var o *op
	for _, x := range q.sends[q.nextSend:] {
		if x.packets > 0 && x.first == q.gram.nxt {
			o = x
			break
		}
	}
	if o == nil {
		bad("no datagram was posted")
		return
	}
	op, qkey := wire.UDSendOnly, o.wr.RemoteQKey
	if o.is(qp.WRSendWithImm) {
		op = wire.UDSendOnlyImm
	}
	if qkey&(1<<31) != 0 {
		qkey = q.Cfg.QKey
	}
	attr := o.wr.AH.Attr()
	switch {
	case q.down != "" || q.squelched:
		bad("the queue pair is in an error state")
	case p.Opcode != op:
		bad("opcode should be %v", op)
	case p.Frame.Dst() != attr.DGID:
		bad("destination should be %v", attr.DGID)
	case p.Frame.Src() != q.Node.GIDs[attr.SGIDIndex]:
		bad("source should be %v", q.Node.GIDs[attr.SGIDIndex])
	case p.Frame.TOS() != attr.TrafficClass:
		bad("traffic class should be %#x", attr.TrafficClass)
	case p.BTH.DestQP() != o.wr.RemoteQPN:
		bad("destination QP should be %#x", o.wr.RemoteQPN)
	case p.BTH.PSN() != q.Cfg.PSN.Add(uint32(q.gram.nxt)):
		bad("PSN should be %d", q.Cfg.PSN.Add(uint32(q.gram.nxt)))
	case p.DETH().QKey() != qkey:
		bad("Q_Key should be %#x", qkey)
	case p.BTH.Solicited() != (o.wr.Flags&qp.SendSolicited != 0):
		bad("SE is not what was posted")
	case p.ImmDt() != nil && p.ImmDt().Imm() != o.wr.Imm:
		bad("immediate data should be %#x", o.wr.Imm)
	case !bytes.Equal(p.Payload, o.data):
		bad("payload is not the message")
	}
	q.gram.nxt++
}

// datagramArrived is a datagram at a node: for one queue pair, or for all that are attached to its
// group.
func (n *Node) datagramArrived(p *wire.Packet) {
	if p.BTH.DestQP() != wire.MulticastQPN {
		if q := n.qps[p.BTH.DestQP()]; q != nil && slices.Contains(n.GIDs, p.Frame.Dst()) {
			q.datagramReceived(p)
		}
		return
	}
	for _, q := range n.list {
		if q.Groups[p.Frame.Dst()] {
			q.datagramReceived(p)
		}
	}
}

func (q *QP) datagramReceived(p *wire.Packet) {
	if q.gram == nil || q.down != "" || p.DETH().QKey() != q.Cfg.QKey {
		return
	}
	r := q.takeRecv(false)
	if r == nil {
		return
	}
	if len(p.Payload)+qp.GRHSize > r.room {
		q.returnRecv(r)
		return
	}
	grh := make([]byte, qp.GRHSize)
	if p.Frame.IPv4() != nil {
		copy(grh[20:], p.Frame.Head[:20])
	} else {
		copy(grh, p.Frame.Head[:40])
	}
	if !q.Node.scatter(q.Cfg.PD, r.wr.SGL, 0, append(grh, p.Payload...)) {
		q.Node.W.Fail("%s: a datagram for a receive with bad elements: the oracle has no rule", q)
		return
	}
	wc := qp.WC{
		WRID:    r.wr.WRID,
		Opcode:  qp.WCRecv,
		ByteLen: uint32(len(p.Payload) + qp.GRHSize),
		QPN:     q.QPN(),
		SrcQP:   p.DETH().SrcQP(),
		Flags:   qp.WCGRH,
	}
	wc.SL, wc.NetworkType = 9, qp.NetworkIPv6
	if p.Frame.IPv4() != nil {
		wc.SL, wc.NetworkType = 10, qp.NetworkIPv4
	}
	if h := p.ImmDt(); h != nil {
		wc.Flags |= qp.WCWithImm
		wc.Imm = h.Imm()
	}
	q.wantRecv = append(q.wantRecv, want{wc, 1 << qp.WCSuccess})
}
