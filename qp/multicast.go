package qp

// Multicast: UD queue pairs attached to a group each get a copy of a datagram to it (section 8.2).

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/wire"
)

// AttachMulticast lets q receive datagrams to group g, one copy of each however often it is
// attached. The port must join the group too.
func (e *Engine) AttachMulticast(q *QP, g wire.GID) error {
	switch {
	case e.qps.find(q.qpn) != q:
		return fmt.Errorf("QP 0x%06x: %w", q.qpn, ErrUnknown)
	case q.typ != UD:
		return invalid("%v queue pair 0x%06x: only UD receives multicast", q.typ, q.qpn)
	case !g.IsMulticast():
		return invalid("%v is no multicast group: ff00::/8 or ::ffff:224.0.0.0/100", g)
	case !slices.Contains(e.groups[g], q):
		e.groups[g] = append(e.groups[g], q)
	}
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
