package rdmacm

// Datagrams: who asks which queue pair serves a port (SIDR, section 9.10), and multicast groups.
//
// Stages: asking; answering; the answer; joining and leaving groups.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// multicastQPN is the number that datagrams for a group are sent to (section 1.12).
const multicastQPN = 0xffffff

// datagrams says whether the ID is one end of datagrams: in PSIB that is so of a queue pair of type
// UD, and of a peer's question for one. The caller has the lock.
func (id *ID) datagrams() bool {
	return id.space == PSUDP || id.sidr || id.space == PSIB && id.qp != nil && id.qp.Type() == roce.UD
}

// resolveService is Connect in PSUDP. The caller has the lock.
func (id *ID) resolveService(p *ConnParam) error {
	if err := p.check(MaxResolveData); err != nil {
		return err
	}
	if err := id.one().ask(p.PrivateData); err != nil {
		return err
	}
	return id.step(callConnect)
}

// serve is Accept in PSUDP: the peer is told the queue pair. The caller has the lock.
func (id *ID) serve(p *ConnParam) error {
	if err := p.check(MaxResolvedData); err != nil {
		return err
	}
	qpn, qkey := p.QPN, p.QKey
	if id.qp != nil {
		qpn = id.qp.QPN()
	}
	if qpn == 0 {
		return fmt.Errorf("%w: the ID has no queue pair, and ConnParam.QPN is 0", ErrInvalid)
	}
	if qkey == 0 {
		qkey = UDPQKey
	}
	err := id.one().answer(&cm.Answer{Status: wire.CMSidrOK, QPN: qpn, QKey: qkey, Private: p.PrivateData})
	if err != nil {
		return err
	}
	id.step(callAccept)
	id.answered()
	id.happened(served, nil)
	return nil
}

// refuse is Reject in PSUDP. The caller has the lock.
func (id *ID) refuse(private []byte) error {
	if len(private) > MaxResolvedData {
		return fmt.Errorf("%w: %d bytes of private data, at most %d fit", ErrInvalid, len(private), MaxResolvedData)
	}
	return id.one().answer(&cm.Answer{Status: wire.CMSidrRejected, Private: private})
}

// resolved takes in the answer to our question. The caller has the lock.
func (id *ID) resolved(status wire.CMSidrStatus, qpn, qkey uint32, private []byte) {
	if status != wire.CMSidrOK {
		id.happened(unreachable, &Event{Status: int(status), Err: errors.New(refuses(status)),
			Param: ConnParam{PrivateData: private}})
		return
	}
	id.happened(served, &Event{Datagram: DatagramParam{AH: addressVector(id.agent().dev, id.path), QPN: qpn, QKey: qkey,
		PrivateData: private}, Param: ConnParam{PrivateData: private}})
}

// mayJoin are the states in which an ID can join groups.
var mayJoin = []state{addrBound, addrResolved, routeResolved, connecting, established}

// JoinMulticast has the ID's queue pair receive what is sent to a multicast group
// (rdma_join_multicast), or with sendOnly makes it known as a sender alone. The ID must have a
// device. EventMulticastJoin says where datagrams for the group go, and has the context;
// EventMulticastError says why it failed. An ID without a queue pair attaches its own
// (roce.QP.AttachMcast). ErrInvalid if the address is no group's, ErrState.
func (id *ID) JoinMulticast(group netip.Addr, sendOnly bool, context any) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	group = group.Unmap()
	gid := gidOf(group)
	switch a := id.agent(); {
	case id.state == closed:
		return fail("JoinMulticast", ErrClosed)
	case !group.IsMulticast():
		return fail("JoinMulticast", fmt.Errorf("%w: %v is no multicast group", ErrInvalid, group))
	case a == nil || !slices.Contains(mayJoin, id.state):
		return fail("JoinMulticast", fmt.Errorf("%w: the ID is in the state %v, or has no device", ErrState, id.state))
	case id.isMember(gid):
		return fail("JoinMulticast", fmt.Errorf("%w: the ID is a member of %v", ErrInvalid, group))
	}
	ev := &Event{Type: EventMulticastJoin, Context: context}
	attach := id.qp != nil && !sendOnly
	if attach {
		if err := id.qp.AttachMcast(gid); err != nil {
			ev.Type = EventMulticastError
			id.put(ev.errno(syscall.EINVAL, err))
			return nil
		}
	}
	if id.groups == nil {
		id.groups = make(map[roce.GID]bool)
	}
	id.groups[gid] = attach
	ev.Datagram = DatagramParam{AH: addressVector(id.agent().dev, cm.Path{Local: gidOf(id.local.Addr()), Remote: gid,
		TrafficClass: id.options.tos, HopLimit: groupHops}), QPN: multicastQPN, QKey: UDPQKey}
	id.put(ev)
	return nil
}

// groupHops is how many hops datagrams for a group take: they stay on the link.
const groupHops = 1

// LeaveMulticast undoes JoinMulticast (rdma_leave_multicast). An EventMulticastJoin that was not
// taken is gone. ErrInvalid if the ID is no member.
func (id *ID) LeaveMulticast(group netip.Addr) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	gid := gidOf(group.Unmap())
	if id.state == closed {
		return fail("LeaveMulticast", ErrClosed)
	}
	if !id.isMember(gid) {
		return fail("LeaveMulticast", fmt.Errorf("%w: the ID is no member of %v", ErrInvalid, group))
	}
	attached := id.groups[gid]
	delete(id.groups, gid)
	id.ch.events.Remove(func(e *Event) bool {
		return e.ID == id && e.Type == EventMulticastJoin && e.Datagram.AH.DGID == gid
	})
	if id.qp == nil || !attached {
		return nil
	}
	return id.qp.DetachMcast(gid)
}

func (id *ID) isMember(gid roce.GID) bool {
	_, is := id.groups[gid]
	return is
}
