package qp

// The responder of UD queue pairs and of QP 1: one packet, one receive request, no state
// (section 6.4).
//
// Stages: how long a datagram may be (SetMTU) → one comes in, behind a GRH (deliver) → from that,
// who sent it and to whom (AHFromGRH) → multicast: UD queue pairs attached to a group each get a
// copy of a datagram to it (section 8.2).

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// SetMTU says what the largest path MTU is from now on, which datagrams go by at once. Connections
// keep the path MTU that they have.
func (e *Engine) SetMTU(m wire.MTU) {
	e.cfg.MaxMTU = m
	e.qps.each(func(q *QP) {
		if q.datagram {
			q.attr.PathMTU, q.mtu = m, uint32(m.Bytes())
		}
	})
}

// deliver takes a UD packet in: 40 bytes of GRH, then the payload.
func (e *Engine) deliver(q *QP, p *wire.Packet) wire.DropReason {
	n := uint32(len(p.Payload))
	if n > q.mtu {
		return wire.DropTooLong
	}
	f := e.recvOnPurpose(q, p)
	if f == faultNoRecv || f == faultNone && !e.claim(q, false) {
		return wire.DropNoRecv
	}
	if uint64(n)+GRHSize > uint64(q.recvRoom()) {
		q.putBack()
		return wire.DropTooLong
	}
	wc := WC{Opcode: WCRecv, SrcQP: p.DETH().SrcQP(), ByteLen: n + GRHSize, Flags: WCGRH}
	wc.SL, wc.NetworkType = slIPv6, NetworkIPv6
	if p.Frame.IPv4() != nil {
		wc.SL, wc.NetworkType = slIPv4, NetworkIPv4
	}
	if p.Op.Flags&wire.OpImm != 0 {
		wc.Flags |= WCWithImm
		wc.Imm = p.ImmDt().Imm()
	}
	sgl, pd := q.recvSGL()
	if f != faultNone {
		wc.Status = faults[f].recv
	} else if e.scatter(pd, sgl, 0, e.grh(p.Frame)) != mr.OK || e.scatter(pd, sgl, GRHSize, p.Payload) != mr.OK {
		wc.Status = WCLocProtErr
	}
	e.endReceive(q, &wc, p.BTH.Solicited())
	return wire.DropNone
}

// What WC.SL says of how a datagram came.
const (
	slIPv6 = 8 | 1
	slIPv4 = 8 | 2
)

// grh is what stands before the payload in the buffer: an IPv6 header, or 20 zero bytes and an IPv4
// header. Consumers tell the two apart by the checksum of the latter (section 1.8).
func (e *Engine) grh(f *wire.Frame) []byte {
	g := &e.grhBytes
	if f.IPv4() != nil {
		clear(g[:20])
		copy(g[20:], f.Head[:20])
	} else {
		copy(g[:], f.Head[:GRHSize])
	}
	return g[:]
}

// grhGIDs reads the sender's address and that of the destination out of a received GRH, as
// ibv_init_ah_from_wc does. It returns false if that is no GRH of RoCEv2.
func grhGIDs(grh []byte) (src, dst wire.GID, ok bool) {
	switch {
	case len(grh) < GRHSize:
		return src, dst, false
	case grh[20] == 0x45 && binary.BigEndian.Uint64(grh) == 0:
		src[10], src[11], dst[10], dst[11] = 0xff, 0xff, 0xff, 0xff
		copy(src[12:], grh[32:36])
		copy(dst[12:], grh[36:40])
		return src, dst, true
	case grh[0]>>4 == 6:
		copy(src[:], grh[8:24])
		copy(dst[:], grh[24:40])
		return src, dst, true
	}
	return src, dst, false
}

// GRHDestination returns the address to which a received datagram was sent: grh is the first 40
// bytes of its buffer. false: they are no GRH of RoCEv2.
func GRHDestination(grh []byte) (dst wire.GID, ok bool) {
	_, dst, ok = grhGIDs(grh)
	return dst, ok
}

// AHFromGRH returns the address vector that answers a received datagram: grh is the first 40 bytes
// of its buffer. ErrInvalid if they are no GRH of RoCEv2.
func AHFromGRH(grh []byte) (AHAttr, error) {
	src, _, ok := grhGIDs(grh)
	if !ok {
		return AHAttr{}, invalid("the first 40 bytes of the buffer are neither an IPv6 header nor 20 zeros and " +
			"an IPv4 header")
	}
	return AHAttr{DGID: src, HopLimit: defaultHopLimit}, nil
}

// AttachMulticast lets q receive datagrams to group g, one copy of each however often it is
// attached. The port must join the group too. ErrLimit of one group too many, or one queue pair.
func (e *Engine) AttachMulticast(q *QP, g wire.GID) error {
	switch {
	case e.qps.find(q.qpn) != q:
		return fmt.Errorf("QP 0x%06x: %w", q.qpn, ErrUnknown)
	case q.typ != UD:
		return invalid("%v queue pair 0x%06x: only UD receives multicast", q.typ, q.qpn)
	case !g.IsMulticast():
		return invalid("%v is no multicast group: ff00::/8 or ::ffff:224.0.0.0/100", g)
	case slices.Contains(e.groups[g], q):
		return nil
	case len(e.groups[g]) == 0 && len(e.groups) >= MaxMcastGrp:
		return fmt.Errorf("%w: %d multicast groups have members", ErrLimit, MaxMcastGrp)
	case len(e.groups[g]) >= MaxMcastQPAttach:
		return fmt.Errorf("%w: %d queue pairs are attached to %v", ErrLimit, MaxMcastQPAttach, g)
	}
	e.groups[g] = append(e.groups[g], q)
	return nil
}

// DetachMulticast ends AttachMulticast. ErrInvalid if q is not attached to g.
func (e *Engine) DetachMulticast(q *QP, g wire.GID) error {
	i := slices.Index(e.groups[g], q)
	if i < 0 {
		return invalid("QP 0x%06x is not attached to %v", q.qpn, g)
	}
	e.groups[g] = slices.Delete(e.groups[g], i, i+1)
	if len(e.groups[g]) == 0 {
		delete(e.groups, g)
	}
	return nil
}

func (e *Engine) detachAll(q *QP) {
	for g := range e.groups {
		if slices.Contains(e.groups[g], q) {
			_ = e.DetachMulticast(q, g) // it is attached
		}
	}
}

// multicast gives the packet to every attached queue pair that may have it, and passes over the
// others.
func (e *Engine) multicast(p *wire.Packet) wire.DropReason {
	members := e.groups[p.Frame.Dst()]
	switch {
	case p.Opcode.Service() != wire.ServiceUD:
		return wire.DropQPType
	case len(members) == 0:
		return wire.DropUnknownQPN
	case !wire.Verify(p.Frame):
		return wire.DropICRC
	}
	for _, q := range members {
		reason := wire.DropQPState
		switch s := q.State(); {
		case s < StateRTR || s == StateErr:
		case p.DETH().QKey() != q.attr.QKey:
			reason = wire.DropQKey
		default:
			reason = e.deliver(q, p)
		}
		if reason != wire.DropNone {
			e.stats.Drops[reason]++
			if e.recorder != nil {
				e.recordPacket(RecordDropped, p.Frame, reason)
			}
		}
	}
	return wire.DropNone
}
