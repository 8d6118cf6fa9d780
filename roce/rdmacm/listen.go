package rdmacm

// Listening: who is told of requests, and the ID that each request gets.

import (
	"net/netip"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// Listen has the ID, which is bound, take requests (rdma_listen): an EventConnectRequest each.
// backlog is how many of them may wait to be answered on each device, after which requests are
// dropped, and repeated by their senders; 0 or less is DefaultBacklog. An ID that is bound to all
// addresses listens on all devices of its channel; in a channel without devices of its own on all
// addresses of this machine that are not link-local. ErrBusy if the port is shared or, in that
// case, if another process uses an address; ErrState.
func (id *ID) Listen(backlog int) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if _, ok := id.state.next(callListen); !ok {
		return fail("Listen", id.step(callListen))
	}
	if err := id.listen(backlog); err != nil {
		return fail("Listen", err)
	}
	return id.step(callListen)
}

func (id *ID) listen(backlog int) (err error) {
	addr := id.local.Addr()
	if err := listenPort(id.space, id.local.Port(), id.claim); err != nil {
		return err
	}
	if addr.IsUnspecified() {
		if id.agents, err = id.ch.all(addr, id.claim.v4too); err != nil {
			return err
		}
	}
	if backlog <= 0 {
		backlog = DefaultBacklog
	}
	id.backlog = backlog * len(id.agents)
	o := cm.ListenOptions{Backlog: backlog, Context: id}
	switch {
	case !addr.IsUnspecified():
		o.Address = gidOf(addr)
	case addr.Is4():
		o.Only = 4
	case !id.claim.v4too:
		o.Only = 6
	}
	for _, a := range id.agents {
		err = a.do(func(m *cm.Machine) error {
			l, err := m.Listen(id.service(id.local.Port()), o)
			if err == nil {
				id.listens = append(id.listens, l)
			}
			return err
		})
		if err != nil {
			id.unlisten()
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

// unlisten takes no more requests. The caller has the lock.
func (id *ID) unlisten() {
	for i, l := range id.listens {
		id.agents[i].do(func(*cm.Machine) error { l.Close(now()); return nil })
	}
	id.listens = nil
}

// request makes an ID of a peer's request, and tells its listener. The agent's goroutine calls it.
func (id *ID) request(a *agent, e *cm.Event) {
	id.mu.Lock()
	defer id.mu.Unlock()
	child := &ID{space: id.space, ch: id.ch, state: requested, options: id.options, parts: id.parts, conn: e.Conn, query: e.Query}
	if id.state != listening || int(id.waiting.Load()) >= id.backlog || id.ch.enter() != nil {
		child.forgetAt(a)
		return
	}
	share(a.dev) // its agent is a, of which the listener is a user
	child.agents, child.asker = []*agent{a}, id
	id.waiting.Add(1)
	child.meet(a, e)
	ev := &Event{Type: EventConnectRequest, ID: child, Listener: id, Param: paramOf(&e.Param, e.Private)}
	id.put(ev)
}

// answered says that the application has answered the request that the ID was made for, if it was.
// The machine's own backlog does not count those that their peers withdraw: IDs that the
// application does not know of yet would be without number. The caller has the lock.
func (id *ID) answered() {
	if id.asker != nil {
		id.asker.waiting.Add(-1)
		id.asker = nil
	}
}

// meet gives a new ID its addresses and what is known of its peer.
func (id *ID) meet(a *agent, e *cm.Event) {
	var service uint64
	a.do(func(*cm.Machine) error {
		if e.Query != nil {
			service, id.path = e.Query.ServiceID(), e.Query.Path()
			e.Query.Context = id
			return nil
		}
		e.Conn.Context = id
		service, id.path = e.Conn.ServiceID(), e.Conn.Path()
		if n, err := e.Conn.Negotiate(e.Param); err == nil {
			id.terms = n
			id.mtu = n.PathMTU
		}
		return nil
	})
	_, port, _ := wire.CMServicePort(service)
	zone := ""
	if id.path.Local.Addr().IsLinkLocalUnicast() {
		zone = a.dev.PortInfo().Interface
	}
	id.local = netip.AddrPortFrom(zoned(id.path.Local, zone), port)
	id.peer = netip.AddrPortFrom(zoned(e.Header.Src, zone), e.Header.SrcPort)
}

func zoned(g roce.GID, zone string) netip.Addr {
	if a := g.Addr(); a.IsLinkLocalUnicast() && a.Is6() {
		return a.WithZone(zone)
	}
	return g.Addr()
}

// paramOf is what a peer says.
func paramOf(p *cm.ConnParam, private []byte) ConnParam {
	return ConnParam{PrivateData: private, ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		FlowControl: p.FlowControl, RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ, QPN: p.QPN}
}
