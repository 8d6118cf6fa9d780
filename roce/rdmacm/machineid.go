package rdmacm

// An ID on a software device: its listener, connection or query in the machine of package cm.
//
// Stages: what the device tells; addresses; listening; requests; connecting and ending; datagrams;
// what the queue pair must know (section 9.9); what the machine tells.

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"syscall"
	"time"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// machineID is what an ID has of a machine: one of the three, or none yet.
type machineID struct {
	*machine
	id       *ID
	listener *cm.Listener
	unlisten func() // what is left to be done when the listener is closed; nil: nothing
	conn     *cm.Conn
	query    *cm.Query
	// terms are what the queue pair must know of the connection, from EventConnectRequest or
	// EventConnectResponse on; before, PathMTU is 0.
	terms   cm.QPParams
	private []byte // a copy of what a request says, to be said again (smaller)
}

func (m *machine) newID(id *ID) (cmID, error) { return m.enlist(&machineID{machine: m, id: id}), nil }

// enlist counts an ID among those that are told what becomes of the device.
func (m *machine) enlist(c *machineID) *machineID {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ids[c] = false
	return c
}

// tellChanges tells the IDs whose address is gone, or all that the device is.
func (m *machine) tellChanges() {
	gone := m.gone.Load()
	if !m.moved.Swap(false) && !gone {
		return
	}
	m.mu.Lock()
	ids := maps.Clone(m.ids)
	m.mu.Unlock()
	for c, told := range ids {
		c.id.mu.Lock()
		local := c.id.local.Addr()
		_, has := rowOf(m.a.dev, gidOf(local))
		has = has || !local.IsValid() || local.IsUnspecified()
		switch {
		case gone:
			c.id.deviceGone(c)
		case !has && !told:
			c.id.addressGone()
		}
		c.id.mu.Unlock()
		m.mu.Lock()
		if _, there := m.ids[c]; there && gone {
			delete(m.ids, c)
		} else if there {
			m.ids[c] = !has
		}
		m.mu.Unlock()
	}
}

// tellDeaf tells the IDs that listen that they will hear of nobody any more: it is not for them to
// wait in vain.
func (m *machine) tellDeaf(why error) {
	m.mu.Lock()
	ids := maps.Clone(m.ids)
	m.mu.Unlock()
	for c := range ids {
		c.id.mu.Lock()
		if c.id.state == listening {
			c.id.loses(c, m.isDeaf(why))
		}
		c.id.mu.Unlock()
	}
}

// isDeaf is the error of a listener that would hear of nobody.
func (m *machine) isDeaf(why error) error {
	return fmt.Errorf("%w: nothing comes to queue pair 1 of device %s any more: %w",
		ErrUnreachable, m.a.dev.Name(), why)
}

func (c *machineID) at() *agent { return c.a }

func (c *machineID) bind(addr netip.AddrPort) (uint16, error) { return addr.Port(), nil }

func (c *machineID) resolveAddr(p path, timeout time.Duration) {
	id := c.id
	if !c.slow() || p.remote.IsMulticast() {
		id.addrResolved(p, nil)
		return
	}
	w := cm.Path{Local: gidOf(p.local), Remote: gidOf(p.remote), HopLimit: 64, TrafficClass: id.options.tos}
	c.a.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err := c.reach(ctx, w)
		id.mu.Lock()
		defer id.mu.Unlock()
		id.addrResolved(p, err)
	})
}

func (c *machineID) resolveRoute(time.Duration) { c.id.happened(routeDone, nil) }

func (c *machineID) listen(backlog int) error {
	id := c.id
	addr := id.local.Addr()
	o := cm.ListenOptions{Backlog: backlog, Context: c}
	switch {
	case !addr.IsUnspecified():
		o.Address = gidOf(addr)
	case addr.Is4():
		o.Only = 4
	case !id.claim.v4too:
		o.Only = 6
	}
	service := id.service(id.local.Port())
	if err := c.hub.listen(service, &o); err != nil {
		return err
	}
	err := c.do(func(m *cm.Machine) (err error) {
		if c.deaf != nil {
			return c.isDeaf(c.deaf)
		}
		c.listener, err = m.Listen(service, o)
		return err
	})
	if err != nil {
		c.hub.unlisten(service, &o)
		return err
	}
	c.unlisten = func() { c.hub.unlisten(service, &o) }
	return nil
}

// request makes an ID of a peer's request, and tells its listener. The machine's goroutine calls
// it.
func (c *machineID) request(e *cm.Event) {
	c.id.mu.Lock()
	defer c.id.mu.Unlock()
	child := c.id.child(e.Query != nil)
	asked := &machineID{machine: c.machine, id: child, conn: e.Conn, query: e.Query}
	switch {
	case !c.id.takes(e.Query != nil):
		asked.close()
		return
	case child == nil:
		if !asked.drop() {
			asked.close()
		}
		return
	}
	c.enlist(asked).meet(e)
	c.id.asked(child, asked, paramOf(&e.Param, e.Private))
}

// drop forgets a request that there is no room for, as the machine does with those beyond a
// listener's backlog: the peer asks again. It fails if the peer has withdrawn it.
func (c *machineID) drop() bool {
	return nil == c.do(func(*cm.Machine) error {
		if c.query != nil {
			return c.query.Drop(now())
		}
		return c.conn.Drop(now())
	})
}

// meet gives a new ID its addresses and what is known of its peer.
func (c *machineID) meet(e *cm.Event) {
	var service uint64
	id := c.id
	c.do(func(*cm.Machine) error {
		if e.Query != nil {
			service, id.path = e.Query.ServiceID(), e.Query.Path()
			e.Query.Context = c
			return nil
		}
		e.Conn.Context = c
		service, id.path = e.Conn.ServiceID(), e.Conn.Path()
		if n, err := e.Conn.Negotiate(e.Param); err == nil {
			c.terms = n
			id.mtu = n.PathMTU
		}
		return nil
	})
	_, port, _ := wire.CMServicePort(service)
	zone := ""
	if id.path.Local.Addr().IsLinkLocalUnicast() {
		zone = c.a.dev.PortInfo().Interface
	}
	id.local = netip.AddrPortFrom(zoned(id.path.Local, zone), port)
	id.peer = netip.AddrPortFrom(zoned(e.Header.Src, zone), e.Header.SrcPort)
}

func (c *machineID) connect(private []byte) error {
	id := c.id
	c.private = append([]byte(nil), private...)
	p := cm.ConnectParams{ServiceID: id.service(id.peer.Port()), Path: id.path, SrcPort: id.local.Port(), MTU: id.mtu,
		ConnParam: c.own(), Private: private, Context: c}
	if id.qp != nil {
		var connects bool
		if p.Transport, connects = transports[id.qp.Type()]; !connects {
			return fmt.Errorf("%w: a queue pair of type %v is there to be connected to", ErrInvalid, id.qp.Type())
		}
	}
	if id.options.ackTimeout != 0 {
		p.PacketLifetime = max(id.options.ackTimeout-1, 1) // section 9.9; 0 stands for the default
	}
	return c.do(func(m *cm.Machine) (err error) {
		c.conn, err = m.Connect(now(), &p)
		return err
	})
}

// transports are those that the queue pairs of who connects have, and responders the queue pairs
// that answer them.
var (
	transports = map[roce.QPType]cm.Transport{roce.RC: cm.RC, roce.UC: cm.UC, roce.XRCSend: cm.XRC}
	responders = map[cm.Transport]roce.QPType{cm.RC: roce.RC, cm.UC: roce.UC, cm.XRC: roce.XRCRecv}
)

// own is what this side says, in the machine's words.
func (c *machineID) own() cm.ConnParam {
	p := &c.id.own
	return cm.ConnParam{QPN: p.QPN, ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		FlowControl: p.FlowControl, RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ,
		SelectiveRepeat: c.selective(), LongWindow: c.selective()}
}

// selective says whether the queue pair is one that can repeat selectively, and shall. One of the
// application's own is not spoken for: it may be of any type.
func (c *machineID) selective() bool {
	q := c.id.qp
	return q != nil && q.Type() == roce.RC && !c.id.own.GoBackN && c.a.dev.Query().SelectiveRepeat
}

// agree learns from the machine what both sides have said comes to.
func (c *machineID) agree() error {
	err := c.do(func(*cm.Machine) (err error) {
		c.terms, err = c.conn.Negotiate(c.own())
		return err
	})
	if err != nil {
		return err
	}
	want := responders[c.terms.Transport]
	if q := c.id.qp; q != nil && q.Type() != want {
		return fmt.Errorf("%w: the peer's queue pair is of type %v, and the ID's of %v", ErrInvalid, want, q.Type())
	}
	return nil
}

func (c *machineID) accept(private []byte) error {
	return c.do(func(*cm.Machine) error {
		return c.conn.Accept(now(), &cm.AcceptParams{ConnParam: c.own(), Private: private})
	})
}

func (c *machineID) establish() error {
	return c.do(func(*cm.Machine) error { return c.conn.Establish(now(), nil) })
}

func (c *machineID) reject(reason wire.CMRejReason, private []byte) {
	c.do(func(*cm.Machine) error { return c.conn.Reject(now(), reason, nil, private) })
}

func (c *machineID) disconnect() {
	c.do(func(*cm.Machine) error { return c.conn.Disconnect(now(), nil) })
}

func (c *machineID) ask(private []byte) error {
	id := c.id
	q := cm.ResolveParams{
		ServiceID: id.service(id.peer.Port()),
		Path:      id.path,
		SrcPort:   id.local.Port(),
		Private:   private,
		Context:   c,
	}
	return c.do(func(m *cm.Machine) (err error) {
		c.query, err = m.Resolve(now(), &q)
		return err
	})
}

func (c *machineID) answer(a *cm.Answer) error {
	return c.do(func(*cm.Machine) error { return c.query.Answer(now(), a) })
}

// close lets all go. The machine remembers the connection for a while, but not the ID.
func (c *machineID) close() {
	c.do(func(*cm.Machine) error {
		delete(c.ids, c)
		if c.listener != nil {
			c.listener.Close(now())
			c.listener = nil
		}
		if c.conn != nil {
			c.conn.Close(now())
			c.conn.Context = nil
		}
		if c.query != nil {
			c.query.Close(now())
			c.query.Context = nil
		}
		return nil
	})
	if c.unlisten != nil {
		c.unlisten()
		c.unlisten = nil
	}
}

func (c *machineID) raises() bool { return true }

func (c *machineID) attr(to roce.QPState, t roce.QPType) (roce.QPAttr, roce.AttrMask, error) {
	n := &c.terms
	if n.PathMTU == 0 {
		return roce.QPAttr{}, 0, c.id.notYet()
	}
	if to == roce.StateRTS {
		attr := roce.QPAttr{State: roce.StateRTS, SQPSN: n.SQPSN, Timeout: n.Timeout, RetryCnt: n.RetryCnt,
			RNRRetry: n.RNRRetry, MaxRdAtomic: n.MaxRdAtomic}
		mask := roce.AttrState | roce.AttrSQPSN
		switch t {
		case roce.RC, roce.XRCSend:
			mask |= roce.AttrTimeout | roce.AttrRetryCnt | roce.AttrRNRRetry | roce.AttrMaxRdAtomic
		case roce.XRCRecv:
			mask |= roce.AttrTimeout
		}
		return attr, mask, nil
	}
	if _, ok := rowOf(c.a.dev, n.Path.Local); !ok {
		return roce.QPAttr{}, 0, fmt.Errorf("%w: device %s has lost the address %v",
			ErrUnreachable, c.a.dev.Name(), n.Path.Local)
	}
	// The rights follow from what was said since INIT.
	attr := roce.QPAttr{State: roce.StateRTR, PathMTU: n.PathMTU, DestQPN: n.DestQPN, RQPSN: n.RQPSN,
		AV: addressVector(c.a.dev, n.Path), MaxDestRdAtomic: n.MaxDestRdAtomic, AccessFlags: c.id.rights()}
	mask := roce.AttrState | roce.AttrPathMTU | roce.AttrDestQPN | roce.AttrRQPSN | roce.AttrAV | roce.AttrAccessFlags
	if t == roce.RC || t == roce.XRCRecv {
		mask |= roce.AttrMaxDestRdAtomic | roce.AttrMinRNRTimer
	}
	if attr.SelectiveRepeat = n.SelectiveRepeat; n.SelectiveRepeat {
		mask |= roce.AttrSelectiveRepeat
	}
	if attr.LongWindow = n.LongWindow; n.LongWindow {
		mask |= roce.AttrLongWindow
	}
	return attr, mask, nil
}

// told takes in what the machine tells of the connection. The machine's goroutine calls it.
func (c *machineID) told(e *cm.Event) {
	id := c.id
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state == closed {
		return
	}
	switch e.Type {
	case cm.EventConnectResponse:
		c.do(func(*cm.Machine) error { c.terms = c.conn.QPParams(); return nil })
		id.response(paramOf(&e.Param, e.Private))
	case cm.EventEstablished:
		id.happened(rtu, &Event{Param: paramOf(&e.Param, e.Private)})
	case cm.EventRejected:
		if e.Reason == wire.CMRejInvalidMTU && c.smaller() {
			return
		}
		id.happened(rejected, refusal(int(e.Reason), e.Private))
	case cm.EventUnreachable:
		id.happened(unreachable, new(Event).errno(syscall.ETIMEDOUT, id.silent()))
	case cm.EventDisconnected:
		c.disconnected(e)
	case cm.EventTimeWaitExit:
		id.happened(timewaitExit, nil)
	case cm.EventResolved:
		id.resolved(e.Status, e.QPN, e.QKey, e.Private)
	}
}

// smaller requests the connection once more, with the next smaller path MTU: the peer's port takes
// less than ours, as of an interface of 1500 bytes beside one of 9000. false: there is none, or
// the application has gone on.
func (c *machineID) smaller() bool {
	if c.id.state != connecting || c.id.mtu <= wire.MTU256 {
		return false
	}
	c.do(func(*cm.Machine) error { c.conn.Context = nil; return nil })
	c.id.mtu--
	return c.connect(c.private) == nil
}

// silent is the error of a peer that has let all its time pass.
func (id *ID) silent() error {
	return fmt.Errorf("%w: %v does not answer: %w", ErrUnreachable, id.peer, syscall.ETIMEDOUT)
}

// disconnected takes in that the peer disconnects, that it knows that we do, or that the connection
// broke.
func (c *machineID) disconnected(e *cm.Event) {
	id := c.id
	on := drep
	if id.state != disconnecting {
		on = broken
		c.do(func(*cm.Machine) error {
			if c.conn.State() == cm.StateDReqRcvd {
				on = dreq
			}
			return nil
		})
	}
	ev := new(Event)
	if e.Reason != 0 {
		ev.Status, ev.Err = int(e.Reason), fmt.Errorf("the connection broke: %v", e.Reason)
		if e.Reason == wire.CMRejTimeout {
			ev.errno(syscall.ETIMEDOUT, id.silent())
		}
	}
	id.parted(on, ev)
}

// paramOf is what a peer says.
func paramOf(p *cm.ConnParam, private []byte) ConnParam {
	return ConnParam{PrivateData: private, ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		FlowControl: p.FlowControl, RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ, QPN: p.QPN}
}
