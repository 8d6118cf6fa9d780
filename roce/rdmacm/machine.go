package rdmacm

// A software device: we speak, by queue pair 1 and the machine (package cm), which all IDs on the
// device share. A goroutine moves messages, time and events between the two; calls of IDs change
// the machine under its lock and wake that goroutine.
//
// Stages: beginning and end; the goroutine's round; changing the machine; an ID in it: addresses,
// listening, requests, connecting and ending, datagrams, what the queue pair must know (section
// 9.9); what the machine tells.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

type machine struct {
	a    *agent
	done chan struct{} // closed when the goroutine has ended
	wake chan struct{} // holds a token while the goroutine has something to do

	gsi *gsi // the goroutine's

	mu      sync.Mutex // taken after an ID's
	cm      *cm.Machine
	lookAt  cm.Time   // when the port's MTU is to be looked at again
	orphan  time.Time // since when nobody uses the device; zero: somebody does, or it is not ours
	refused bool      // the device could not be closed, for what others have on it
}

// newMachine makes queue pair 1 of a device and starts its goroutine.
func newMachine(a *agent) (*machine, error) {
	dev := a.dev
	g, err := openGSI(dev)
	if err != nil {
		return nil, fmt.Errorf("queue pair 1 of device %s: %w", dev.Name(), err)
	}
	attr := dev.Query()
	m := &machine{a: a, gsi: g, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	m.cm = cm.New(cm.Config{Rand: rand.Uint64, CAGUID: attr.NodeGUID, MTU: dev.QueryPort().ActiveMTU, AckDelay: attr.LocalCAAckDelay,
		RdAtomic: uint8(min(attr.MaxQPRdAtom, attr.MaxQPInitRdAtom, MaxRdAtomic-1))})
	go m.run()
	return m, nil
}

func (m *machine) hush()        { <-m.done }
func (m *machine) close() error { return m.gsi.close() }

// kick wakes the goroutine.
func (m *machine) kick() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// run is the goroutine. It sleeps when nothing has come, nothing is due and nobody calls.
func (m *machine) run() {
	defer close(m.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		events, next, err := m.round()
		for i := range events {
			deliver(events[i].id, &events[i].Event)
		}
		if err != nil { // queue pair 1 is gone, and nothing more will come
			next = cm.Never
		}
		timer.Reset(time.Duration(min(next-now(), cm.Time(time.Hour))))
		select {
		case <-m.gsi.ch.Ready():
			m.gsi.ch.TryGet()
		case <-m.wake:
		case f := <-m.gsi.answers:
			m.gsi.answered(f)
		case <-timer.C:
		case <-m.a.ctx.Done():
			m.round()
			return
		}
	}
}

// round takes in what has come and what is due, sends what is to be sent, and says what happened
// and when to come again.
func (m *machine) round() (events []happening, next cm.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := now(); t >= m.lookAt { // requests that want a larger path MTU than it are refused
		m.lookAt = t + cm.Time(time.Second)
		m.cm.SetMTU(m.a.dev.QueryPort().ActiveMTU)
	}
	more, err := m.gsi.receive(func(from cm.Path, mad []byte) { m.cm.HandleMAD(now(), from, mad) })
	if more {
		m.kick()
	}
	m.cm.HandleTimeout(now())
	var msg cm.Message
	for m.gsi.room() && m.cm.PollTransmit(&msg) {
		m.gsi.send(msg.Path, &msg.MAD)
	}
	for {
		e, ok := m.cm.PollEvent()
		if !ok {
			break
		}
		events = append(events, happening{whose(&e), e})
	}
	next = m.cm.PollTimeout()
	if !m.orphan.IsZero() {
		over := cm.Time(m.orphan.Add(lingerTime).Sub(epoch))
		if inUse, _ := m.cm.Len(); inUse == 0 && !m.refused || now() >= over {
			m.orphan = time.Time{}
			go m.a.finish()
		}
		next = min(next, over)
	}
	return events, next, err
}

func (m *machine) abandoned(is, refused bool) {
	m.mu.Lock()
	m.orphan, m.refused = time.Time{}, refused
	if is {
		m.orphan = time.Now()
	}
	m.mu.Unlock()
	m.kick()
}

// do changes the machine, and has the goroutine see what comes of it. An error is one of this
// package's.
func (m *machine) do(f func(m *cm.Machine) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.kick()
	err := f(m.cm)
	for _, e := range [...]struct{ theirs, ours error }{{cm.ErrInvalid, ErrInvalid}, {cm.ErrState, ErrState}, {cm.ErrClosed, ErrState},
		{cm.ErrInUse, ErrBusy}, {cm.ErrLimit, roce.ErrLimit}} {
		if errors.Is(err, e.theirs) {
			return fmt.Errorf("%w: %w", e.ours, err)
		}
	}
	return err
}

// slow says whether the port has to find out link addresses before it can send.
func (m *machine) slow() bool { return m.gsi.slow }

// reach waits until packets can get to a neighbour.
func (m *machine) reach(ctx context.Context, from, to roce.GID) error {
	ah, err := m.gsi.find(ctx, cm.Path{Local: from, Remote: to})
	if err != nil {
		return err
	}
	return m.gsi.pd.DestroyAH(ah)
}

// happening is an event and whose it is; nil: nobody's any more.
type happening struct {
	id *machineID
	cm.Event
}

// whose is the ID of an event: of a request that of its listener. The caller has the lock.
func whose(e *cm.Event) (id *machineID) {
	switch {
	case e.Listener != nil:
		id, _ = e.Listener.Context.(*machineID)
	case e.Query != nil:
		id, _ = e.Query.Context.(*machineID)
	default:
		id, _ = e.Conn.Context.(*machineID)
	}
	return id
}

// deliver hands an event of the machine to its ID.
func deliver(c *machineID, e *cm.Event) {
	switch {
	case c == nil:
	case e.Type == cm.EventConnectRequest || e.Type == cm.EventSIDRRequest:
		c.request(e)
	default:
		c.told(e)
	}
}

// machineID is what an ID has of a machine: one of the three, or none yet.
type machineID struct {
	*machine
	id       *ID
	listener *cm.Listener
	conn     *cm.Conn
	query    *cm.Query
	// terms are what the queue pair must know of the connection, from EventConnectRequest or
	// EventConnectResponse on; before, PathMTU is 0.
	terms cm.QPParams
}

func (m *machine) newID(id *ID) (cmID, error) { return &machineID{machine: m, id: id}, nil }

func (c *machineID) at() *agent { return c.a }

func (c *machineID) bind(addr netip.AddrPort) (uint16, error) { return addr.Port(), nil }

func (c *machineID) resolveAddr(p path, timeout time.Duration) {
	id := c.id
	if !c.slow() || p.remote.IsMulticast() {
		id.addrResolved(p, nil)
		return
	}
	c.a.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err := c.reach(ctx, gidOf(p.local), gidOf(p.remote))
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
	return c.do(func(m *cm.Machine) (err error) {
		c.listener, err = m.Listen(id.service(id.local.Port()), o)
		return err
	})
}

// request makes an ID of a peer's request, and tells its listener. The machine's goroutine calls
// it.
func (c *machineID) request(e *cm.Event) {
	c.id.mu.Lock()
	defer c.id.mu.Unlock()
	child := c.id.child(e.Query != nil)
	asked := &machineID{machine: c.machine, id: child, conn: e.Conn, query: e.Query}
	if child == nil {
		asked.close()
		return
	}
	asked.meet(e)
	c.id.asked(child, asked, paramOf(&e.Param, e.Private))
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
	p := cm.ConnectParams{ServiceID: id.service(id.peer.Port()), Path: id.path, SrcPort: id.local.Port(), MTU: id.mtu,
		ConnParam: c.own(), Private: private, Context: c}
	if id.qp != nil && id.qp.Type() == roce.UC {
		p.Transport = cm.UC
	}
	if id.options.ackTimeout > 1 {
		p.PacketLifetime = id.options.ackTimeout - 1 // section 9.9
	}
	return c.do(func(m *cm.Machine) (err error) {
		c.conn, err = m.Connect(now(), &p)
		return err
	})
}

// own is what this side says, in the machine's words.
func (c *machineID) own() cm.ConnParam {
	p := &c.id.own
	return cm.ConnParam{QPN: p.QPN, ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		FlowControl: p.FlowControl, RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ}
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
	want := roce.RC
	if c.terms.Transport == cm.UC {
		want = roce.UC
	}
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
	q := cm.ResolveParams{ServiceID: id.service(id.peer.Port()), Path: id.path, SrcPort: id.local.Port(), Private: private, Context: c}
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
}

func (c *machineID) raises() bool { return true }

func (c *machineID) attr(to roce.QPState, t roce.QPType) (roce.QPAttr, roce.AttrMask, error) {
	n := &c.terms
	if n.PathMTU == 0 {
		return roce.QPAttr{}, 0, c.id.notYet()
	}
	if to == roce.StateRTS {
		attr := roce.QPAttr{State: roce.StateRTS, SQPSN: n.SQPSN, Timeout: n.Timeout, RetryCnt: n.RetryCnt, RNRRetry: n.RNRRetry,
			MaxRdAtomic: n.MaxRdAtomic}
		mask := roce.AttrState | roce.AttrSQPSN
		if t == roce.RC {
			mask |= roce.AttrTimeout | roce.AttrRetryCnt | roce.AttrRNRRetry | roce.AttrMaxRdAtomic
		}
		return attr, mask, nil
	}
	if _, ok := rowOf(c.a.dev, n.Path.Local); !ok {
		return roce.QPAttr{}, 0, fmt.Errorf("%w: device %s has lost the address %v", ErrUnreachable, c.a.dev.Name(), n.Path.Local)
	}
	// The rights follow from what was said since INIT.
	attr := roce.QPAttr{State: roce.StateRTR, PathMTU: n.PathMTU, DestQPN: n.DestQPN, RQPSN: n.RQPSN,
		AV: addressVector(c.a.dev, n.Path), MaxDestRdAtomic: n.MaxDestRdAtomic, AccessFlags: c.id.rights()}
	mask := roce.AttrState | roce.AttrPathMTU | roce.AttrDestQPN | roce.AttrRQPSN | roce.AttrAV | roce.AttrAccessFlags
	if t == roce.RC {
		mask |= roce.AttrMaxDestRdAtomic | roce.AttrMinRNRTimer
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
		id.happened(rejected, refusal(int(e.Reason), e.Private))
	case cm.EventUnreachable:
		id.happened(unreachable, new(Event).errno(syscall.ETIMEDOUT, fmt.Errorf("%w: %v does not answer", ErrUnreachable, id.peer)))
	case cm.EventDisconnected:
		c.disconnected(e)
	case cm.EventTimeWaitExit:
		id.happened(timewaitExit, nil)
	case cm.EventResolved:
		id.resolved(e.Status, e.QPN, e.QKey, e.Private)
	}
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
			ev.errno(syscall.ETIMEDOUT, fmt.Errorf("%w: %v does not answer", ErrUnreachable, id.peer))
		}
	}
	id.parted(on, ev)
}

// paramOf is what a peer says.
func paramOf(p *cm.ConnParam, private []byte) ConnParam {
	return ConnParam{PrivateData: private, ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		FlowControl: p.FlowControl, RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ, QPN: p.QPN}
}
