package rdmacm

// Listening: which ID is told of requests, and the ID that each request gets.

import (
	"context"
	"net/netip"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// Listen has the ID, which is bound, take requests (rdma_listen): an EventConnectRequest each.
// backlog is how many of them may wait to be answered on each device, after which requests are
// dropped, and repeated by their senders; 0 or less is DefaultBacklog. Once accepted, 4096 or
// backlog may wait for their peers' last word. If there are more, an address that has fewer than
// another (with IPv6 first a /64) gets the place of that one's oldest, of which EventRejected or
// EventUnreachable tells, or if its event has not been taken, nothing. It may take 275 s until a
// peer is given up (EventUnreachable), as with rdma_cm, and as long again if it asks for time; an
// application that cannot wait so long closes the ID.
//
// An ID that is bound to all addresses listens on all devices of its channel; in a channel without
// devices of its own on all addresses of this machine that are not link-local. A device that goes
// away, or whose queue pair 1 has come to its end, is taken out, and with the last one comes
// EventDeviceRemoval. ErrBusy if the port is shared or, in that case, if another process uses an
// address; ErrState.
func (id *ID) Listen(backlog int) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if _, ok := id.state.next(callListen); !ok {
		return fail("Listen", id.step(callListen))
	}
	if err := listenPort(id.space, id.local.Port(), id.claim); err != nil {
		return fail("Listen", err)
	}
	if err := id.listen(backlog); err != nil {
		unlistenPort(id.claim)
		return fail("Listen", err)
	}
	return id.step(callListen)
}

// listen listens on the devices that the address is about, all or none. The caller has the lock.
func (id *ID) listen(backlog int) error {
	addr := id.local.Addr()
	if addr.IsUnspecified() {
		all, err := id.ch.all(addr, id.claim.v4too)
		if err != nil {
			return err
		}
		for i, a := range all {
			if err := id.use(a); err != nil {
				for _, a := range all[i+1:] {
					a.release()
				}
				id.unuse()
				return err
			}
		}
	}
	if backlog <= 0 {
		backlog = DefaultBacklog
	}
	id.backlog = backlog * len(id.below)
	for _, c := range id.below {
		if err := c.listen(backlog); err != nil {
			if addr.IsUnspecified() {
				id.unuse()
			}
			return err
		}
	}
	return nil
}

// service is the service ID of a port of the ID's space.
func (id *ID) service(port uint16) uint64 {
	return wire.CMServiceID(wire.CMPortSpace(id.space), port)
}

// takes says whether the ID is one that requests for a connection are for, or those for a queue
// pair's number (sidr): in PSIB both are. The caller has the lock.
func (id *ID) takes(sidr bool) bool {
	return id.state == listening && (id.space == PSIB || sidr == (id.space == PSUDP))
}

// child makes the ID of a request; nil if it is not taken, or there is no room for it. The caller
// has the lock.
func (id *ID) child(sidr bool) *ID {
	if !id.takes(sidr) || int(id.waiting.Load()) >= id.backlog || id.ch.enter() != nil {
		return nil
	}
	return &ID{space: id.space, ch: id.ch, state: requested, options: id.options, parts: id.parts, sidr: sidr}
}

// asked tells of a request, whose ID has addresses by now. The caller has the lock.
func (id *ID) asked(child *ID, c cmID, param ConnParam) {
	share(c.at().dev, nil) // its agent is c's, of which the listener is a user
	child.below, child.asker = []cmID{c}, id
	if id.ch.born != nil {
		child.Context = id.ch.born(child, id)
	}
	id.waiting.Add(1)
	id.put(&Event{Type: EventConnectRequest, ID: child, Listener: id, Param: param})
}

// untold takes in that a request is over before the application has answered it: its peer has
// withdrawn it, or its place has gone to another address. If the application has not taken its
// event yet it never hears of it, and its ID is closed: peers who ask and withdraw fill no queue. A
// sink sees to that itself. The caller has the lock.
func (id *ID) untold() (so bool) {
	if id.ch.sink != nil {
		id.answered()
		return false
	}
	id.ch.events.Remove(func(e *Event) bool {
		mine := e.Listener != nil && e.ID == id
		so = so || mine
		return mine
	})
	if so {
		id.answered()
		id.one().at().background(func(context.Context) { id.unheard() })
	}
	return so
}

// unheard closes an ID that the application never hears of.
func (id *ID) unheard() {
	if id.ch.unborn != nil {
		id.ch.unborn(id)
	}
	id.Close()
}

// answered says that the application has answered the request that the ID was made for, if it was,
// or will never hear of it. The machine's own backlog does not count those that their peers
// withdraw: those that the application knows of and has not looked at would be without number. The
// caller has the lock.
func (id *ID) answered() {
	if id.asker != nil {
		id.asker.waiting.Add(-1)
		id.asker = nil
	}
}

func zoned(g roce.GID, zone string) netip.Addr {
	if a := g.Addr(); a.IsLinkLocalUnicast() && a.Is6() {
		return a.WithZone(zone)
	}
	return g.Addr()
}
