package rdmacm

// Connecting, and ending a connection.
//
// Stages: Connect on the active side; Accept and Reject; Establish; Disconnect; what the machine
// tells of a connection.

import (
	"context"
	"fmt"
	"syscall"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// Connect asks the peer for a connection (rdma_connect), or in PSUDP for the number of its queue
// pair. What comes of it is told by EventEstablished, when the ID's queue pair is in RTS;
// EventConnectResponse if it has none, whose number param then has; EventRejected;
// EventUnreachable, after a minute without an answer; or EventConnectError. param may be nil: as
// many READs and atomics as the device has, and 7 for both retry counts. ErrState, and ErrInvalid
// of a value of param.
func (id *ID) Connect(param *ConnParam) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if _, ok := id.state.next(callConnect); !ok {
		return fail("Connect", id.step(callConnect))
	}
	p := defaultParam(param)
	if id.space == PSUDP {
		return fail("Connect", id.resolveService(&p))
	}
	if err := id.say(&p, MaxConnectData); err != nil {
		return fail("Connect", err)
	}
	c := cm.ConnectParams{ServiceID: id.service(id.peer.Port()), Path: id.path, SrcPort: id.local.Port(), MTU: id.mtu,
		ConnParam: id.machineParam(), Private: p.PrivateData, Context: id}
	if id.qp != nil && id.qp.Type() == roce.UC {
		c.Transport = cm.UC
	}
	if id.options.ackTimeout > 1 {
		c.PacketLifetime = id.options.ackTimeout - 1 // section 9.9
	}
	err := id.agent().do(func(m *cm.Machine) (err error) {
		id.conn, err = m.Connect(now(), &c)
		return err
	})
	if err != nil {
		return fail("Connect", err)
	}
	return id.step(callConnect)
}

// defaultParam is what nil stands for, and a copy of what is not nil.
func defaultParam(p *ConnParam) ConnParam {
	if p == nil {
		return ConnParam{ResponderResources: MaxRdAtomic, InitiatorDepth: MaxRdAtomic, RetryCount: 7, RNRRetryCount: 7}
	}
	return *p
}

// say checks what this side will say, and keeps it. The caller has the lock.
func (id *ID) say(p *ConnParam, maxData int) (err error) {
	if err := p.check(maxData); err != nil {
		return err
	}
	if id.qp == nil && p.QPN == 0 {
		return fmt.Errorf("%w: the ID has no queue pair, and ConnParam.QPN is 0", ErrInvalid)
	}
	has := id.agent().dev.Query()
	own := *p
	own.PrivateData = nil
	if own.ResponderResources, err = depth("responder_resources", p.ResponderResources, has.MaxQPRdAtom); err != nil {
		return err
	}
	if own.InitiatorDepth, err = depth("initiator_depth", p.InitiatorDepth, has.MaxQPInitRdAtom); err != nil {
		return err
	}
	if id.qp != nil {
		own.QPN, own.SRQ = id.qp.QPN(), id.qp.SRQ() != nil
	}
	id.own = own
	return nil
}

// machineParam is what this side says, in the machine's words. The caller has the lock.
func (id *ID) machineParam() cm.ConnParam {
	p := &id.own
	return cm.ConnParam{QPN: p.QPN, ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		FlowControl: p.FlowControl, RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ}
}

// Accept accepts the request that the ID was made for (rdma_accept). The ID's queue pair is in RTS
// when it returns, and EventEstablished comes when the peer is ready too. An ID without one names
// it in param, and it must be in RTS before. In PSUDP the peer is told the number of the queue
// pair, and no event comes. param may be nil: as many READs and atomics as the peer wants, and 7
// for RNRRetryCount. As roce.QP.Modify it may wait for a neighbour's answer. ErrState, and
// ErrInvalid of a value of param; if the queue pair cannot be made ready the peer is refused, and
// the error says why.
func (id *ID) Accept(param *ConnParam) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if _, ok := id.state.next(callAccept); !ok {
		return fail("Accept", id.step(callAccept))
	}
	p := defaultParam(param)
	if id.query != nil {
		return fail("Accept", id.serve(&p))
	}
	if err := id.say(&p, MaxAcceptData); err != nil {
		return fail("Accept", err)
	}
	if err := id.agree(); err != nil {
		return fail("Accept", err)
	}
	id.step(callAccept)
	id.answered()
	return fail("Accept", id.accept(p.PrivateData))
}

// agree learns from the machine what both sides have said comes to. The caller has the lock.
func (id *ID) agree() error {
	err := id.agent().do(func(*cm.Machine) (err error) {
		id.terms, err = id.conn.Negotiate(id.machineParam())
		return err
	})
	if err != nil {
		return err
	}
	want := roce.RC
	if id.terms.Transport == cm.UC {
		want = roce.UC
	}
	if id.qp != nil && id.qp.Type() != want {
		return fmt.Errorf("%w: the peer's queue pair is of type %v, and the ID's of %v", ErrInvalid, want, id.qp.Type())
	}
	return nil
}

// accept makes the queue pair ready, then sends the answer. The caller has the lock, which is open
// in between.
func (id *ID) accept(private []byte) error {
	a, conn := id.agent(), id.conn
	id.mu.Unlock()
	err := id.raise(a.ctx)
	id.mu.Lock()
	switch {
	case id.state == closed:
		return ErrClosed
	case id.state != accepting:
		return fmt.Errorf("%w: the peer has withdrawn its request", ErrState)
	}
	if err == nil {
		err = a.do(func(*cm.Machine) error {
			return conn.Accept(now(), &cm.AcceptParams{ConnParam: id.machineParam(), Private: private})
		})
	}
	if err != nil {
		a.do(func(*cm.Machine) error { return conn.Reject(now(), wire.CMRejNoQP, nil, nil) })
		id.happened(failed, nil)
		return err
	}
	id.happened(repSent, nil)
	return nil
}

// Reject refuses the request that the ID was made for, or the peer's acceptance
// (EventConnectResponse), with private data (rdma_reject): the peer hears of EventRejected with the
// status 28. ErrState; ErrInvalid if there is too much private data.
func (id *ID) Reject(private []byte) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if _, ok := id.state.next(callReject); !ok {
		return fail("Reject", id.step(callReject))
	}
	if id.query != nil {
		if err := id.refuse(private); err != nil {
			return fail("Reject", err)
		}
		id.answered()
		return id.step(callReject)
	}
	if len(private) > MaxRejectData {
		return fail("Reject", fmt.Errorf("%w: %d bytes of private data, at most %d fit", ErrInvalid, len(private), MaxRejectData))
	}
	id.answered()
	// That the peer is gone meanwhile will be told.
	id.agent().do(func(*cm.Machine) error { return id.conn.Reject(now(), wire.CMRejConsumer, nil, private) })
	return id.step(callReject)
}

// Establish says that the connection is in use (rdma_establish, and rdma_notify with COMM_EST):
// after EventConnectResponse, when the application has made its queue pair ready; or after Accept
// if data has come before EventEstablished, which then does not come. ErrState.
func (id *ID) Establish() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if _, ok := id.state.next(callEstablish); !ok {
		return fail("Establish", id.step(callEstablish))
	}
	if id.state == responded && id.qp != nil {
		return fail("Establish", fmt.Errorf("%w: the ID has a queue pair, and establishes by itself", ErrState))
	}
	err := id.agent().do(func(*cm.Machine) error { return id.conn.Establish(now(), nil) })
	if err != nil {
		return fail("Establish", fmt.Errorf("%w: %w", ErrState, err))
	}
	return id.step(callEstablish)
}

// Disconnect ends the connection (rdma_disconnect): the queue pair goes to ERR, where what is
// outstanding is flushed, and EventDisconnected comes when the peer has answered or is given up.
// After the peer's EventDisconnected it answers that, and no further one comes. ErrState; so in
// PSUDP, which has no connections.
func (id *ID) Disconnect() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.space == PSUDP && id.state != closed {
		return fail("Disconnect", fmt.Errorf("%w: %v has no connections", ErrState, id.space))
	}
	if err := id.step(callDisconnect); err != nil {
		return fail("Disconnect", err)
	}
	return fail("Disconnect", id.part())
}

// part ends the queue pair, then tells the peer. The caller has the lock.
func (id *ID) part() error {
	err := id.lower()
	// That the connection has ended meanwhile will be told.
	id.agent().do(func(*cm.Machine) error { return id.conn.Disconnect(now(), nil) })
	return err
}

// forget lets the connection or query go. The caller has the lock.
func (id *ID) forget() {
	if a := id.agent(); a != nil {
		id.forgetAt(a)
	}
}

// forgetAt is forget on an agent. The machine remembers the connection for a while, but not the ID.
func (id *ID) forgetAt(a *agent) {
	a.do(func(*cm.Machine) error {
		if id.conn != nil {
			id.conn.Close(now())
			id.conn.Context = nil
		}
		if id.query != nil {
			id.query.Close(now())
			id.query.Context = nil
		}
		return nil
	})
}

// told takes in what the machine tells of the connection. The agent's goroutine calls it.
func (id *ID) told(e *cm.Event) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state == closed {
		return
	}
	switch e.Type {
	case cm.EventConnectResponse:
		id.response(e)
	case cm.EventEstablished:
		id.happened(rtu, &Event{Param: paramOf(&e.Param, e.Private)})
	case cm.EventRejected:
		id.happened(rejected, &Event{Status: int(e.Reason), Err: fmt.Errorf("the peer refuses: %v", e.Reason),
			Param: ConnParam{PrivateData: e.Private}})
	case cm.EventUnreachable:
		id.happened(unreachable, new(Event).errno(syscall.ETIMEDOUT, fmt.Errorf("%w: %v does not answer", ErrUnreachable, id.peer)))
	case cm.EventDisconnected:
		id.disconnected(e)
	case cm.EventTimeWaitExit:
		id.happened(timewaitExit, nil)
	case cm.EventResolved:
		id.serviceResolved(e)
	}
}

// response makes the queue pair ready, if there is one, and tells the peer.
func (id *ID) response(e *cm.Event) {
	a, conn := id.agent(), id.conn
	a.do(func(*cm.Machine) error { id.terms = conn.QPParams(); return nil })
	if !id.happened(replied, nil) {
		return
	}
	ev := &Event{Param: paramOf(&e.Param, e.Private)}
	if id.qp == nil {
		ev.Type = EventConnectResponse
		id.put(ev)
		return
	}
	a.background(func(ctx context.Context) {
		err := id.raise(ctx)
		id.mu.Lock()
		defer id.mu.Unlock()
		if id.state != responded {
			return
		}
		if err != nil {
			a.do(func(*cm.Machine) error { return conn.Reject(now(), wire.CMRejNoQP, nil, nil) })
			id.happened(failed, new(Event).errno(codeOf(err), err))
			return
		}
		// It fails if the peer has changed its mind, of which an event is on its way.
		if a.do(func(*cm.Machine) error { return conn.Establish(now(), nil) }) == nil {
			id.happened(ready, ev)
		}
	})
}

// disconnected takes in that the peer disconnects, that it knows that we do, or that the connection
// broke.
func (id *ID) disconnected(e *cm.Event) {
	on := drep
	if id.state != disconnecting {
		on = broken
		id.agent().do(func(*cm.Machine) error {
			if id.conn.State() == cm.StateDReqRcvd {
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
	if id.happened(on, ev) && id.state == peerGone && id.parts {
		id.step(callDisconnect)
		id.part()
	}
}
