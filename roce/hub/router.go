//go:build linux

package hub

// Which process a message of the connection manager is for: one that answers is for whose
// communication ID it names, and these say which slot; a request is for who listens on its service.
//
// And for which process a packet is that came to another one, as those do that a foreign sender has
// sent in one run: its queue pair says which slot.
//
// Stages: where an ID is in a message; listeners; the way of a message; the way of a packet.

import (
	"encoding/binary"
	"slices"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce/internal/hub"
	"github.com/goroce/goroce/wire"
)

// madBody is where the body of a message begins: the sender's communication ID and the receiver's,
// but for REQ, which has no receiver's, and the two of a query, which have one ID (section 9.2).
const madBody = 24

// isRequest tells whether a message is for who listens.
func isRequest(m *wire.MAD) bool {
	return m.Attribute() == wire.CMAttrREQ || m.Attribute() == wire.CMAttrSIDRREQ
}

// ids are those that a message has; 0: none.
func ids(m *wire.MAD) (sender, receiver uint32) {
	first, second := binary.BigEndian.Uint32(m[madBody:]), binary.BigEndian.Uint32(m[madBody+4:])
	switch m.Attribute() {
	case wire.CMAttrREQ, wire.CMAttrSIDRREQ:
		return first, 0
	case wire.CMAttrSIDRREP:
		return 0, first
	}
	return first, second
}

// router knows who is at an address.
type router struct {
	slots     []*process // nil: nobody; the hub's own is the first
	listeners map[hub.Service]*process
}

func newRouter(slots int) router {
	return router{slots: make([]*process, slots), listeners: map[hub.Service]*process{}}
}

// listen has requests for a service go to a process; false: they go to another one.
func (r *router) listen(p *process, s hub.Service) bool {
	if other := r.listeners[s]; other != nil && other != p {
		return false
	}
	r.listeners[s] = p
	return true
}

// unlisten ends that.
func (r *router) unlisten(p *process, s hub.Service) {
	if r.listeners[s] == p {
		delete(r.listeners, s)
	}
}

// forget ends all listeners of a process.
func (r *router) forget(p *process) {
	for _, s := range r.services(p) {
		r.unlisten(p, s)
	}
}

// expects tells whether there is a process of an earlier hub that has not said yet what it listens
// on: one that has called, or if the hub is young, one that has not.
func (r *router) expects(young bool) bool {
	return slices.ContainsFunc(r.slots, func(p *process) bool {
		return p != nil && (p.standing == telling || young && p.standing == expected)
	})
}

// services are what a process listens on.
func (r *router) services(p *process) (list []hub.Service) {
	for s, who := range r.listeners {
		if who == p {
			list = append(list, s)
		}
	}
	return list
}

// listener is who gets a request: the one that says most of the address, as in a machine of package
// cm.
func (r *router) listener(service uint64, to wire.GID) *process {
	version := 6
	if to.Is4() {
		version = 4
	}
	for _, s := range []hub.Service{{ID: service, Address: to}, {ID: service, Only: version}, {ID: service}} {
		if p := r.listeners[s]; p != nil {
			return p
		}
	}
	return nil
}

// owner is the process of a slot that a communication ID names; nil: nobody's.
func (r *router) owner(id uint32) *process {
	if slot := int(id >> hub.SlotShift); slot < len(r.slots) {
		return r.slots[slot]
	}
	return nil
}

// to returns whom a message is for, one process but for a refusal that names no connection, which
// each one looks at; none: nobody that is here, and the hub answers.
func (r *router) to(from *cm.Path, m *wire.MAD) []*process {
	one := func(p *process) []*process {
		if p == nil {
			return nil
		}
		return []*process{p}
	}
	switch m.Attribute() {
	case wire.CMAttrREQ:
		var req wire.CMReq
		if wire.GetCM(m, &req) != nil {
			return nil
		}
		for _, p := range r.slots { // a copy is for who has the first, whoever listens by now
			if p != nil && p.ledger.HasPeer(from.Remote, req.LocalCommID) {
				return one(p)
			}
		}
		return one(r.listener(req.ServiceID, from.Local))
	case wire.CMAttrSIDRREQ:
		var req wire.CMSidrReq
		if wire.GetCM(m, &req) != nil {
			return nil
		}
		return one(r.listener(req.ServiceID, from.Local))
	}
	_, id := ids(m)
	if id == 0 && m.Attribute() == wire.CMAttrREJ {
		var all []*process
		for _, p := range r.slots {
			if p != nil {
				all = append(all, p)
			}
		}
		return all
	}
	return one(r.owner(id))
}

// own tells whether a process may send a message: it speaks for itself only, from an address that
// it has.
func (r *router) own(p *process, path *cm.Path, m *wire.MAD) bool {
	sender, _ := ids(m)
	return m.IsCM() && p.at.has(path.Local) && (sender == 0 || sender>>hub.SlotShift == uint32(p.slot))
}

// maxAstray is how many packets that came to slot 0 wait for their way. Others are lost.
const maxAstray = 64

// foreign takes a packet that came to slot 0. It is called in a turn of the device.
func (a *address) foreign(f *wire.Frame) {
	own := wire.Frame{Head: slices.Clone(f.Head), Body: slices.Clone(f.Body), Flags: f.Flags}
	select {
	case a.astray <- own:
		a.kick()
	default:
		a.overflow.Add(1)
	}
}

// brings gives a packet that came to one process, nil: to slot 0, to the one whose it is. The
// caller has the lock.
func (a *address) brings(from *process, f *wire.Frame) {
	slot := wire.OwnerOf((*wire.BTH)(f.Body).DestQP(), len(a.slots))
	to, taken := a.who.slots[slot], false
	switch {
	case from != nil && (to == from || a.who.slots[from.slot] != from):
		a.count.strange++
		return
	case slot == 0:
		taken = a.ctx.Err() == nil && a.device.HandOver(f)
	case to != nil && to.standing.called():
		taken = to.SayFrame(f)
	}
	if taken {
		a.count.frames++
	} else {
		a.count.framesLost++
	}
}
