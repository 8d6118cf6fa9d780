package roce

// The queue pair: posting, its state, and its end. Connecting is in connect.go.

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/goroce/goroce/qp"
)

// QPInitAttr says what queue pair to make (ibv_qp_init_attr).
type QPInitAttr struct {
	Type     QPType // 0 is RC
	SendCQ   *CQ    // where send work requests complete
	RecvCQ   *CQ    // where receive work requests complete; nil is SendCQ
	Cap      QPCap  // sizes; the zero QPCap is DefaultCap. Queues are rounded up to powers of two: Query tells
	SQSigAll bool   // every send work request yields a completion, as if it had SendSignaled

	// WholeMessages sends a WRITE as FIRST, MIDDLE and LAST packets and asks for a READ with one
	// request, as the standard has it. Otherwise, on a port that carries runs of packets as one
	// (Device.PortInfo().MaxRun > 1), a long RC WRITE leaves as one WRITE ONLY for each packet, and
	// a long READ is asked for in pieces: half as many system calls, and any responder takes it.
	// But a WRITE that the peer refuses because its end is not in the memory that the peer has
	// granted has written the part before the end; and a peer that counts messages (its MSN) counts
	// packets.
	WholeMessages bool

	Context any // the application's own, returned by QP.Context
}

// DefaultCap is the size of a queue pair whose QPInitAttr.Cap is zero.
var DefaultCap = QPCap{MaxSendWR: 128, MaxRecvWR: 128, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 256}

// QP is a queue pair (ibv_qp). All methods may be called from any goroutine; posts to one queue take turns.
type QP struct {
	pd             *PD
	lane           *lane
	sendCQ, recvCQ *CQ
	context        any

	sq     sync.Mutex // send queue
	rq     sync.Mutex // receive queue
	q      *qp.QP
	closed bool  // written under both
	groups []GID // multicast groups; under both
}

func (q *QP) kind() string  { return "QP" }
func (q *QP) label() string { return fmt.Sprintf("0x%06x", q.QPN()) }
func (q *QP) needs(x any) bool {
	return x == any(q.pd) || x == any(q.sendCQ) || x == any(q.recvCQ)
}

// CreateQP makes a queue pair in RESET (ibv_create_qp). Its number and starting PSN are unpredictable. Connect or Activate
// make it ready; Modify does so step by step.
func (p *PD) CreateQP(attr QPInitAttr) (*QP, error) {
	if attr.Type == 0 {
		attr.Type = RC
	}
	if attr.RecvCQ == nil {
		attr.RecvCQ = attr.SendCQ
	}
	if attr.Cap == (QPCap{}) {
		attr.Cap = DefaultCap
	}
	var q *QP
	err := p.create("CreateQP", func() (err error) {
		q, err = p.createQP(&attr)
		return err
	})
	return q, err
}

// createQP has the device's control lock.
func (p *PD) createQP(attr *QPInitAttr) (*QP, error) {
	d := p.dev
	for _, c := range []*CQ{attr.SendCQ, attr.RecvCQ} {
		switch {
		case c == nil:
			return nil, fmt.Errorf("%w: no SendCQ", ErrInvalid)
		case c.dev != d:
			return nil, fmt.Errorf("%w: the CQ is of device %s", ErrInvalid, c.dev.name)
		case c.closed:
			return nil, fmt.Errorf("CQ: %w", ErrClosed)
		}
	}
	l := d.emptiestLane()
	if attr.Type == GSI { // of which a device has one
		l = d.lanes[0]
	}
	q := &QP{pd: p, lane: l, sendCQ: attr.SendCQ, recvCQ: attr.RecvCQ, context: attr.Context}
	init := qp.QPInit{Type: attr.Type, PD: p.handle, SendCQ: attr.SendCQ.lanes[l.index], RecvCQ: attr.RecvCQ.lanes[l.index],
		Cap: attr.Cap, SQSigAll: attr.SQSigAll, WholeMessages: attr.WholeMessages, Context: q}
	err := l.do(func(e *qp.Engine, _ qp.Time) (err error) {
		q.q, err = e.CreateQP(init)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.pairs++
	d.objects.add(q)
	q.sendCQ.count(l, +1)
	q.recvCQ.count(l, +1)
	return q, nil
}

// QPN is the queue pair's number, 24 bits.
func (q *QP) QPN() uint32 { return q.q.QPN() }

// Lane is which of the device's lanes the queue pair is on, 0 to Config.Lanes-1. New ones go to the lane that has the fewest. One
// goroutine that polls a completion queue runs all lanes whose queue pairs complete there; so for several to work at the same
// time, each should have a completion queue for the queue pairs of one lane.
func (q *QP) Lane() int { return q.lane.index }

// Type is the transport service.
func (q *QP) Type() QPType { return q.q.Type() }

// State is the present state.
func (q *QP) State() QPState { return q.q.State() }

// Context is QPInitAttr.Context.
func (q *QP) Context() any { return q.context }

// PD returns the queue pair's protection domain.
func (q *QP) PD() *PD { return q.pd }

// SendCQ returns where send work requests complete.
func (q *QP) SendCQ() *CQ { return q.sendCQ }

// RecvCQ returns where receive work requests complete.
func (q *QP) RecvCQ() *CQ { return q.recvCQ }

// PostSend appends work requests to the send queue (ibv_post_send) and, if nobody else is running the stack, sends what
// can be sent before it returns. The slices in wrs are read during the call only; the registered memory that SGL names
// belongs to the queue pair until the request completes. Each request ends in exactly one completion if it is signaled or
// fails, unless the queue pair is closed or reset before.
//
// A refused request yields a *PostError with its index: ErrState below RTS, ErrFull when the queue has no slot (poll
// completions first: a slot is free again when the completion of its request, or of a later signaled one, was polled),
// ErrInvalid for a request that breaks a rule, ErrClosed. Requests before it are posted.
func (q *QP) PostSend(wrs ...SendWR) error {
	q.sq.Lock()
	if q.closed {
		q.sq.Unlock()
		return &PostError{"PostSend", q.QPN(), 0, ErrClosed}
	}
	n, err := q.q.PostSend(wrs)
	q.sq.Unlock()
	if n > 0 {
		q.lane.posted(q.q, n)
	}
	if err != nil {
		return &PostError{"PostSend", q.QPN(), n, err}
	}
	return nil
}

// PostRecv appends work requests to the receive queue (ibv_post_recv). Rules and errors are those of PostSend, except that
// the state must be INIT or later.
func (q *QP) PostRecv(wrs ...RecvWR) error {
	q.rq.Lock()
	if q.closed {
		q.rq.Unlock()
		return &PostError{"PostRecv", q.QPN(), 0, ErrClosed}
	}
	n, err := q.q.PostRecv(wrs)
	q.rq.Unlock()
	if n > 0 && q.q.State() == StateErr { // only a flush looks at the receive queue without a packet
		q.lane.posted(q.q, n)
	}
	if err != nil {
		return &PostError{"PostRecv", q.QPN(), n, err}
	}
	return nil
}

// Modify sets the attributes that mask names, and with AttrState moves the queue pair to attr.State (ibv_modify_qp). Which
// attributes a transition needs and allows is the verbs' table. On error nothing has changed, and the text names the
// attribute, its value and the rule.
//
// RESET forgets all that was outstanding. As after Close, no completion of a request from before is
// seen any more, and Endpoint is another one.
//
// A new address vector (AttrAV) waits until the port can send there, at most 2 s: packet and xdp ports have to find the
// neighbour's Ethernet address first. ErrUnreachable if they can not.
func (q *QP) Modify(attr *QPAttr, mask AttrMask) error {
	if attr == nil {
		return q.pd.dev.fail("Modify", fmt.Errorf("%w: no attributes", ErrInvalid))
	}
	if q.takesAV(attr, mask) {
		if err := q.lane.reach(attr.AV.DGID); err != nil {
			return q.pd.dev.fail("Modify", fmt.Errorf("QP 0x%06x: %w", q.QPN(), err))
		}
	}
	modify := func(e *qp.Engine, now qp.Time) error { return e.ModifyQP(now, q.q, attr, mask) }
	if mask&AttrState == 0 || attr.State != StateReset {
		return q.control("Modify", modify)
	}
	return q.controlThen("Modify", modify, func() {
		q.sendCQ.purge(q.QPN())
		q.recvCQ.purge(q.QPN())
	})
}

// takesAV tells whether Modify is going to use an address vector, as far as one can see without a lock: with one that it will
// refuse anyway there is nothing to wait for.
func (q *QP) takesAV(attr *QPAttr, mask AttrMask) bool {
	from := q.State()
	return mask&AttrAV != 0 && q.Type() != UD && (from == StateSQD || from == StateInit && mask&AttrState != 0 && attr.State == StateRTR)
}

// Query returns the present attributes (ibv_query_qp), with the real sizes in Cap.
func (q *QP) Query() (QPAttr, error) {
	var a QPAttr
	err := q.control("Query", func(e *qp.Engine, _ qp.Time) error {
		a, _ = e.QueryQP(q.q)
		return nil
	})
	return a, err
}

// AttachMcast lets a UD queue pair receive datagrams that are sent to a multicast group, until DetachMcast or Close
// (ibv_attach_mcast). ErrInvalid if the group is none, the queue pair is not UD, or the port has no multicast.
func (q *QP) AttachMcast(group GID) error {
	return q.control("AttachMcast", func(e *qp.Engine, _ qp.Time) error {
		if slices.Contains(q.groups, group) {
			return nil
		}
		if err := e.AttachMulticast(q.q, group); err != nil {
			return err
		}
		if err := q.pd.dev.lanes[0].joinGroup(group); err != nil { // the first port joins for all
			return errors.Join(err, e.DetachMulticast(q.q, group))
		}
		q.groups = append(q.groups, group)
		q.lane.members.Add(1)
		return nil
	})
}

// DetachMcast undoes AttachMcast (ibv_detach_mcast). ErrInvalid if the queue pair is not attached to the group.
func (q *QP) DetachMcast(group GID) error {
	return q.control("DetachMcast", func(e *qp.Engine, _ qp.Time) error {
		if err := e.DetachMulticast(q.q, group); err != nil {
			return err
		}
		q.groups = slices.DeleteFunc(q.groups, func(g GID) bool { return g == group })
		q.lane.members.Add(-1)
		return q.pd.dev.lanes[0].leaveGroup(group)
	})
}

// control runs f on the queue pair's lane, with no post in progress.
func (q *QP) control(op string, f func(e *qp.Engine, now qp.Time) error) error {
	return q.controlThen(op, f, func() {})
}

// controlThen is control and, if that has no error, then, before any other post or control call.
func (q *QP) controlThen(op string, f func(e *qp.Engine, now qp.Time) error, then func()) error {
	q.sq.Lock()
	defer q.sq.Unlock()
	q.rq.Lock()
	defer q.rq.Unlock()
	if q.closed {
		return q.pd.dev.fail(op, fmt.Errorf("QP 0x%06x: %w", q.QPN(), ErrClosed))
	}
	err := q.lane.do(f)
	if err == nil {
		then()
	}
	return q.pd.dev.fail(op, err)
}

// Close destroys the queue pair (ibv_destroy_qp), connected and with work outstanding or not. Outstanding requests yield no
// completion, and when Close returns, completions of this queue pair that were not polled are gone and none will come.
// A second Close does nothing.
func (q *QP) Close() error {
	d := q.pd.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.closed {
		return nil
	}
	err := q.control("Close", func(e *qp.Engine, _ qp.Time) error {
		if err := e.DestroyQP(q.q); err != nil {
			return err
		}
		q.closed = true
		for _, g := range q.groups {
			d.lanes[0].leaveGroup(g)
			q.lane.members.Add(-1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.objects.remove(q)
	q.lane.pairs--
	for _, c := range []*CQ{q.sendCQ, q.recvCQ} {
		c.purge(q.QPN())
		c.count(q.lane, -1)
	}
	return nil
}
