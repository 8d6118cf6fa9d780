package soft

// The queue pair: posting, its state, and its end.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// QPInit says what queue pair to make: as qp.QPInit, with this package's queues.
type QPInit struct {
	Type           qp.QPType
	SendCQ, RecvCQ *CQ   // XRC_SEND has no RecvCQ, XRC_RECV none of them
	XRCD           *XRCD // of XRC_RECV
	Cap            qp.Cap
	SRQ            *SRQ // nil: a receive queue of its own
	SQSigAll       bool
	WholeMessages  bool
	Context        any // the owner's, for events
}

// QP is a queue pair. All methods may be called from any goroutine; posts to one queue take turns.
type QP struct {
	lane   *lane
	sq     sync.Mutex // send queue
	rq     sync.Mutex // receive queue
	closed bool       // written under both
	shares bool       // its receive queue
	groups []wire.GID // multicast groups; under both

	dev            *Device
	sendCQ, recvCQ *CQ
	q              qp.QP
}

// CreateQP makes a queue pair in RESET, on the lane that has the fewest: in q, which is the zero
// value and part of its owner's, so that a post finds all of it in one place.
func (p *PD) CreateQP(q *QP, init QPInit) error {
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.emptiestLane()
	if init.Type == qp.GSI { // of which a device has one
		l = d.lanes[0]
	}
	q.dev, q.lane, q.sendCQ, q.recvCQ, q.shares = d, l, init.SendCQ, init.RecvCQ, init.SRQ != nil
	below := qp.QPInit{Type: init.Type, PD: p.handle, SendCQ: init.SendCQ.on(l), RecvCQ: init.RecvCQ.on(l),
		Cap: init.Cap, SQSigAll: init.SQSigAll, WholeMessages: init.WholeMessages, Context: init.Context}
	if q.shares {
		below.SRQ = init.SRQ.s
	}
	if init.XRCD != nil {
		below.XRCD = init.XRCD.id
	}
	if err := l.do(func(e *qp.Engine, _ qp.Time) error { return e.CreateQPIn(&q.q, below) }); err != nil {
		return err
	}
	l.pairs++
	for _, c := range q.cqs() {
		c.count(l, +1)
	}
	return nil
}

// cqs are the completion queues that there are, one twice if both are it.
func (q *QP) cqs() (list []*CQ) {
	for _, c := range []*CQ{q.sendCQ, q.recvCQ} {
		if c != nil {
			list = append(list, c)
		}
	}
	return list
}

// QPN is the queue pair's number, 24 bits.
func (q *QP) QPN() uint32 { return q.q.QPN() }

// Lane is the index of the lane that the queue pair is on.
func (q *QP) Lane() int { return q.lane.index }

// Type is the transport service.
func (q *QP) Type() qp.QPType { return q.q.Type() }

// State is the present state.
func (q *QP) State() qp.QPState { return q.q.State() }

// StartPSN is the first PSN that this side sends after the next RTS.
func (q *QP) StartPSN() wire.PSN { return q.q.StartPSN() }

// PostSend appends work requests to the send queue and, if nobody else has the lane's turn, sends
// what can be sent. It returns how many were posted; the error is about the one behind them.
func (q *QP) PostSend(wrs []qp.SendWR) (n int, err error) {
	q.sq.Lock()
	if q.closed {
		q.sq.Unlock()
		return 0, ErrClosed
	}
	n, err = q.q.PostSend(wrs)
	q.sq.Unlock()
	if n > 0 {
		q.lane.sendPosted(&q.q, n)
	}
	return n, err
}

// bindMW posts the bind of a window of type 1.
func (q *QP) bindMW(wrid uint64, flags qp.SendFlags, b qp.BindInfo, serial uint32) error {
	q.sq.Lock()
	if q.closed {
		q.sq.Unlock()
		return ErrClosed
	}
	err := q.q.BindMW(wrid, flags, b, serial)
	q.sq.Unlock()
	if err == nil {
		q.lane.sendPosted(&q.q, 1)
	}
	return err
}

// PostSendAll is PostSend of all or nothing.
func (q *QP) PostSendAll(wrs []qp.SendWR) (n int, err error) {
	q.sq.Lock()
	if q.closed {
		q.sq.Unlock()
		return 0, ErrClosed
	}
	n, err = q.q.PostSendAll(wrs)
	q.sq.Unlock()
	if err == nil && n > 0 {
		q.lane.sendPosted(&q.q, n)
	}
	return n, err
}

// PostRecv appends work requests to the receive queue, as PostSend does.
func (q *QP) PostRecv(wrs []qp.RecvWR) (n int, err error) {
	q.rq.Lock()
	if q.closed {
		q.rq.Unlock()
		return 0, ErrClosed
	}
	n, err = q.q.PostRecv(wrs)
	q.rq.Unlock()
	// only a flush looks at the receive queue without a packet
	if n > 0 && q.q.State() == qp.StateErr {
		q.lane.sendPosted(&q.q, n)
	}
	return n, err
}

// Modify sets attributes and moves the queue pair to another state. For a new address vector it
// waits until the port can send there. After RESET no completion from before is seen, but for those
// of requests of a shared receive queue: nothing else says that they are over.
func (q *QP) Modify(ctx context.Context, attr *qp.QPAttr, mask qp.AttrMask) error {
	if q.takesAV(attr, mask) {
		if err := q.lane.reach(ctx, attr.AV.DGID); err != nil {
			return err
		}
	}
	return q.control(func(e *qp.Engine, now qp.Time) error {
		return e.ModifyQP(now, &q.q, attr, mask)
	}, func() {
		if mask&qp.AttrState != 0 && attr.State == qp.StateReset {
			q.purge()
		}
	})
}

// purge takes out of the completion queues what they hold of the queue pair.
func (q *QP) purge() {
	for _, c := range q.cqs() {
		c.purge(q.QPN(), q.shares)
	}
}

// takesAV tells whether Modify is going to use an address vector, as far as one can see without a
// lock: with one that it will refuse anyway there is nothing to wait for.
func (q *QP) takesAV(attr *qp.QPAttr, mask qp.AttrMask) bool {
	from := q.State()
	toRTR := from == qp.StateInit && mask&qp.AttrState != 0 && attr.State == qp.StateRTR
	return mask&qp.AttrAV != 0 && q.Type() != qp.UD && (from == qp.StateSQD || toRTR)
}

// Query returns the present attributes.
func (q *QP) Query() (a qp.QPAttr, err error) {
	err = q.control(func(e *qp.Engine, _ qp.Time) error {
		a = e.QueryQP(&q.q)
		return nil
	}, nil)
	return a, err
}

// PathInfo returns what the queue pair knows of its path.
func (q *QP) PathInfo() (p qp.PathInfo, err error) {
	err = q.control(func(e *qp.Engine, _ qp.Time) (err error) {
		p, err = e.PathInfo(&q.q)
		return err
	}, nil)
	return p, err
}

// AttachMcast lets a UD queue pair receive datagrams that are sent to a multicast group.
func (q *QP) AttachMcast(group wire.GID) error {
	return q.control(func(e *qp.Engine, _ qp.Time) error {
		if slices.Contains(q.groups, group) {
			return nil
		}
		if err := e.AttachMulticast(&q.q, group); err != nil {
			return err
		}
		err := transport.JoinGroup(q.dev.lanes[0].port, group) // the first port joins for all
		if errors.Is(err, transport.ErrNoMulticast) {
			err = fmt.Errorf("%w: %w", qp.ErrInvalid, err)
		}
		if err != nil {
			return errors.Join(err, e.DetachMulticast(&q.q, group))
		}
		q.groups = append(q.groups, group)
		q.dev.groups.count(group, q.lane, +1)
		return nil
	}, nil)
}

// DetachMcast undoes AttachMcast.
func (q *QP) DetachMcast(group wire.GID) error {
	return q.control(func(e *qp.Engine, _ qp.Time) error {
		if err := e.DetachMulticast(&q.q, group); err != nil {
			return err
		}
		q.groups = slices.DeleteFunc(q.groups, func(g wire.GID) bool { return g == group })
		q.dev.groups.count(group, q.lane, -1)
		return transport.LeaveGroup(q.dev.lanes[0].port, group)
	}, nil)
}

// control runs f on the queue pair's lane, with no post in progress, and if it has no error then,
// before any other post or control call.
func (q *QP) control(f func(e *qp.Engine, now qp.Time) error, then func()) error {
	q.sq.Lock()
	defer q.sq.Unlock()
	q.rq.Lock()
	defer q.rq.Unlock()
	if q.closed {
		return fmt.Errorf("QP 0x%06x: %w", q.QPN(), ErrClosed)
	}
	err := q.lane.do(f)
	if err == nil && then != nil {
		then()
	}
	return err
}

// Close destroys the queue pair. Outstanding requests yield no completion, and when Close returns,
// completions that were not polled are gone, but for those of requests of a shared receive queue. A
// request of that which a message was using is back in it. A second Close does nothing.
func (q *QP) Close() error {
	d := q.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.closed {
		return nil
	}
	err := q.control(func(e *qp.Engine, _ qp.Time) error {
		if err := e.DestroyQP(&q.q); err != nil {
			return err
		}
		q.closed = true
		for _, g := range q.groups {
			transport.LeaveGroup(d.lanes[0].port, g)
			d.groups.count(g, q.lane, -1)
		}
		return nil
	}, nil)
	if err != nil {
		return err
	}
	q.lane.pairs--
	q.purge()
	for _, c := range q.cqs() {
		c.count(q.lane, -1)
	}
	return nil
}
