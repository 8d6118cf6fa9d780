package rdmacm

// Connecting, and ending a connection.
//
// Stages: what both sides tell each other; Connect on the active side; Accept and Reject;
// Establish; Disconnect; what a peer's answer and its end lead to.

import (
	"context"
	"errors"
	"fmt"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// ConnParam are the properties of a connection (rdma_conn_param).
type ConnParam struct {
	// PrivateData travels with the request or the answer: at most MaxConnectData or MaxAcceptData
	// bytes and so on. In an event it has that length, with zeros behind what the peer gave, and is
	// the taker's.
	PrivateData []byte
	// ResponderResources is how many READs and atomics of the peer this side serves at a time,
	// InitiatorDepth how many of its own it has outstanding; 0 to what the device has
	// (DeviceAttr.MaxQPRdAtom, MaxQPInitRdAtom), or MaxRdAtomic for all of that. Accept takes as
	// many as the peer wants at most.
	ResponderResources, InitiatorDepth uint8
	FlowControl                        bool  // accepted, told, and without effect
	RetryCount                         uint8 // 0..7, of both sides: Accept does not look at it
	RNRRetryCount                      uint8 // 0..7, of the peer when it sends; 7 is for ever
	// GoBackN has a lost packet repeated with all that is behind it, as other stacks do. Else an RC
	// queue pair of CreateQP repeats selectively, within windows of up to 65,536 packets, if the
	// peer's does too (roce.QPAttr.SelectiveRepeat, LongWindow). It has no effect on devices of the
	// kernel.
	GoBackN bool
	// The next two count if the ID has no queue pair of its own (CreateQP).
	SRQ  bool
	QPN  uint32 // 24 bits
	QKey uint32 // PSUDP: what the peer must send with; 0: UDPQKey
}

// DatagramParam says where datagrams go to (rdma_ud_param).
type DatagramParam struct {
	AH          roce.AHAttr // for PD.CreateAH
	QPN         uint32
	QKey        uint32
	PrivateData []byte // of the peer's Accept: MaxResolvedData bytes
}

// check holds the caller's values against their limits.
func (p *ConnParam) check(maxData int) error {
	switch {
	case len(p.PrivateData) > maxData:
		return fmt.Errorf("%w: %d bytes of private data, at most %d fit", ErrInvalid, len(p.PrivateData), maxData)
	case p.RetryCount > 7:
		return fmt.Errorf("%w: retry_count %d, want 0 to 7", ErrInvalid, p.RetryCount)
	case p.RNRRetryCount > 7:
		return fmt.Errorf("%w: rnr_retry_count %d, want 0 to 7", ErrInvalid, p.RNRRetryCount)
	case p.QPN >= 1<<24:
		return fmt.Errorf("%w: qp_num 0x%x, which has 24 bits", ErrInvalid, p.QPN)
	}
	return nil
}

// depth is a number of READs and atomics as the device has them.
func depth(name string, wanted uint8, has int) (uint8, error) {
	has = min(has, MaxRdAtomic-1)
	if wanted == MaxRdAtomic {
		return uint8(has), nil
	}
	if int(wanted) > has {
		return 0, fmt.Errorf("%w: %s %d, the device has %d", ErrInvalid, name, wanted, has)
	}
	return wanted, nil
}

// Connect asks the peer for a connection (rdma_connect), or in PSUDP for the number of its queue
// pair. What comes of it is told by EventEstablished, when the ID's queue pair is in RTS;
// EventConnectResponse if it has none, whose number param then has; EventRejected;
// EventUnreachable, after a minute without an answer, or six minutes of a peer that asks for time;
// or EventConnectError. param may be nil: as many READs and atomics as the device has, and 7 for
// both retry counts. ErrState, and ErrInvalid of a value of param.
func (id *ID) Connect(param *ConnParam) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if _, ok := id.state.next(callConnect); !ok {
		return fail("Connect", id.step(callConnect))
	}
	p := defaultParam(param)
	if id.datagrams() {
		return fail("Connect", id.resolveService(&p))
	}
	if err := id.say(&p, MaxConnectData); err != nil {
		return fail("Connect", err)
	}
	if err := id.one().connect(p.PrivateData); err != nil {
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

// Accept accepts the request that the ID was made for (rdma_accept). The ID's queue pair is in RTS
// when it returns, and EventEstablished comes when the peer is ready too. An ID without one names
// it in param, and it must be in RTS before. In PSUDP the peer is told the number of the queue
// pair, and no event comes. param may be nil: as many READs and atomics as the peer wants, and 7
// for RNRRetryCount. As roce.QP.Modify it may wait for a neighbour's answer. ErrState, and
// ErrInvalid of a value of param; if the queue pair cannot be made ready the peer is refused, and
// the error says why.
func (id *ID) Accept(param *ConnParam) error { return id.acceptIn(nil, param) }

// acceptIn is Accept; the neighbour is looked for until ctx ends, or if that is nil, until the
// agent does.
func (id *ID) acceptIn(ctx context.Context, param *ConnParam) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if _, ok := id.state.next(callAccept); !ok {
		return fail("Accept", id.step(callAccept))
	}
	p := defaultParam(param)
	if id.sidr {
		return fail("Accept", id.serve(&p))
	}
	if err := id.say(&p, MaxAcceptData); err != nil {
		return fail("Accept", err)
	}
	if err := id.one().agree(); err != nil {
		return fail("Accept", err)
	}
	id.step(callAccept)
	id.answered()
	if ctx == nil {
		ctx = id.agent().ctx
	}
	return fail("Accept", id.accept(ctx, p.PrivateData))
}

// accept makes the queue pair ready, then sends the answer. The caller has the lock, which is open
// in between.
func (id *ID) accept(ctx context.Context, private []byte) error {
	c := id.one()
	id.mu.Unlock()
	err := id.raise(ctx)
	id.mu.Lock()
	switch {
	case id.state == closed:
		return ErrClosed
	case id.state != accepting:
		return fmt.Errorf("%w: the peer has withdrawn its request", ErrState)
	}
	if err == nil {
		err = c.accept(private)
	}
	if err != nil {
		c.reject(wire.CMRejNoQP, nil)
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
	if id.sidr {
		if err := id.refuse(private); err != nil {
			return fail("Reject", err)
		}
		id.answered()
		return id.step(callReject)
	}
	if len(private) > MaxRejectData {
		return fail("Reject", fmt.Errorf("%w: %d bytes of private data, at most %d fit",
			ErrInvalid, len(private), MaxRejectData))
	}
	id.answered()
	id.one().reject(wire.CMRejConsumer, private)
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
	if err := id.one().establish(); err != nil {
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
	if id.datagrams() && id.state != closed {
		return fail("Disconnect", fmt.Errorf("%w: datagrams have no connections", ErrState))
	}
	if err := id.step(callDisconnect); err != nil {
		return fail("Disconnect", err)
	}
	return fail("Disconnect", id.part())
}

// part ends the queue pair, then tells the peer. Where the kernel moves the queue pair it ends with
// the connection, after what is on its way. The caller has the lock.
func (id *ID) part() (err error) {
	c := id.one()
	if c.raises() {
		err = id.lower()
	}
	c.disconnect()
	return err
}

// response makes the queue pair ready, if there is one, and tells the peer, whose acceptance says
// param. The caller has the lock.
func (id *ID) response(param ConnParam) {
	if !id.happened(replied, nil) {
		return
	}
	ev := &Event{Param: param}
	if id.qp == nil {
		ev.Type = EventConnectResponse
		id.put(ev)
		return
	}
	c := id.one()
	c.at().background(func(ctx context.Context) {
		err := id.raise(ctx)
		id.mu.Lock()
		defer id.mu.Unlock()
		if id.state != responded {
			return
		}
		if err != nil {
			c.reject(wire.CMRejNoQP, nil)
			id.happened(failed, new(Event).errno(codeOf(err), err))
			return
		}
		// It fails if the peer has changed its mind, of which an event is on its way.
		if c.establish() == nil {
			id.happened(ready, ev)
		}
	})
}

// refusal is the event of a peer that refuses.
func refusal(reason int, private []byte) *Event {
	return &Event{
		Status: reason,
		Err:    errors.New(refuses(wire.CMRejReason(reason))),
		Param:  ConnParam{PrivateData: private},
	}
}

// parted takes in that the connection has ended, by what. The caller has the lock.
func (id *ID) parted(on input, ev *Event) {
	if id.happened(on, ev) && id.state == peerGone && id.parts {
		id.step(callDisconnect)
		id.part()
	}
}
