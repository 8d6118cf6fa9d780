package roce

// The queue pair: making one, posting, its state, and its end. Connecting is in connect.go.

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/goroce/goroce/roce/internal/soft"
)

// QPInitAttr says what queue pair to make (ibv_qp_init_attr).
type QPInitAttr struct {
	Type   QPType // 0 is RC
	SendCQ *CQ    // where send work requests complete
	RecvCQ *CQ    // where receive work requests complete; nil is SendCQ
	// sizes; the zero QPCap is DefaultQPCap. Queues are rounded up to powers of two: Query tells
	Cap QPCap
	// SRQ is where its receive requests come from; nil: from a queue of its own. With one, PostRecv
	// is refused, and Cap.MaxRecvWR and MaxRecvSGE do not count.
	SRQ *SRQ
	// XRCD is the domain of an XRCRecv queue pair, which has no completion queue; others have none.
	XRCD     *XRCD
	SQSigAll bool // every send work request yields a completion, as if it had SendSignaled

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

// DefaultQPCap is the size of a queue pair whose QPInitAttr.Cap is zero: 128 requests each way,
// four pieces of memory a request, 256 bytes inline.
func DefaultQPCap() QPCap {
	return QPCap{MaxSendWR: 128, MaxRecvWR: 128, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 256}
}

// QP is a queue pair (ibv_qp). All methods may be called from any goroutine; posts to one queue
// take turns.
type QP struct {
	faults *faults    // nil: nothing fails on purpose
	qp     qpProvider // by its concrete type it is one of the next two
	hw     *hwQP
	soft   soft.QP

	pd   *PD
	init QPInitAttr           // but for the sizes, which Query knows
	ex   atomic.Pointer[QPEx] // nil until it is asked for
}

func (q *QP) kind() string  { return "QP" }
func (q *QP) label() string { return fmt.Sprintf("0x%06x", q.QPN()) }
func (q *QP) needs() []object {
	list := []object{q.pd}
	for _, c := range []*CQ{q.init.SendCQ, q.init.RecvCQ} {
		if c != nil {
			list = append(list, c)
		}
	}
	if q.init.SRQ != nil {
		list = append(list, q.init.SRQ)
	}
	if q.init.XRCD != nil {
		list = append(list, q.init.XRCD)
	}
	return list
}

// CreateQP makes a queue pair in RESET (ibv_create_qp). Its number and starting PSN are
// unpredictable. Connect or Activate make it ready; Modify does so step by step. ErrInvalid names
// the attribute that is wrong, or a missing SendCQ; ErrLimit is a device that is full, ErrBusy a
// second QP of type GSI, ErrClosed a domain or queue that is closed, ErrNotSupported the type
// RawPacket.
func (p *PD) CreateQP(attr QPInitAttr) (q *QP, err error) {
	if attr.Type == 0 {
		attr.Type = RC
	}
	if attr.RecvCQ == nil && attr.Type != XRCSend {
		attr.RecvCQ = attr.SendCQ
	}
	if attr.Cap == (QPCap{}) {
		attr.Cap = DefaultQPCap()
	}
	err = p.create("CreateQP", func() error {
		if attr.Type == RawPacket {
			return fmt.Errorf("%w: qp_type 8 (IBV_QPT_RAW_PACKET): queue pairs of Ethernet frames are not for "+
				"RoCE devices; "+
				"an AF_PACKET or AF_XDP socket of your own does that", ErrNotSupported)
		}
		for i, c := range []*CQ{attr.SendCQ, attr.RecvCQ} {
			if c == nil && (attr.Type == XRCRecv || attr.Type == XRCSend && i == 1) {
				continue
			}
			if err := p.checkCQ(c); err != nil {
				return err
			}
		}
		if attr.XRCD != nil && !p.dev.objects.has(attr.XRCD) {
			return fmt.Errorf("%w: the XRCD is closed, or of another device", ErrInvalid)
		}
		if err := p.checkSRQ(attr.SRQ); err != nil {
			return err
		}
		q = &QP{pd: p, init: attr, faults: p.dev.faults}
		below, err := p.pd.createQP(q, &attr)
		if err == nil {
			q.qp = below
			p.dev.objects.add(q)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return q, nil
}

// checkCQ is an error unless a queue pair of the domain may complete in c.
func (p *PD) checkCQ(c *CQ) error {
	switch {
	case c == nil:
		return fmt.Errorf("%w: no SendCQ", ErrInvalid)
	case c.dev != p.dev:
		return p.dev.checkOwn("CQ", c.dev)
	case !p.dev.objects.has(c):
		return fmt.Errorf("CQ: %w", ErrClosed)
	}
	return nil
}

// QPN is the queue pair's number, 24 bits.
func (q *QP) QPN() uint32 { return q.qp.QPN() }

// Lane is which of the device's lanes the queue pair is on, 0 to Config.Lanes-1. New ones go to the
// lane that has the fewest. One goroutine that polls a completion queue runs all lanes whose queue
// pairs complete there; so for several to work at the same time, each should have a completion
// queue for the queue pairs of one lane.
func (q *QP) Lane() int { return q.qp.Lane() }

// Type is the transport service.
func (q *QP) Type() QPType { return q.qp.Type() }

// State is the present state; after Close the last one.
func (q *QP) State() QPState { return q.qp.State() }

// Context is QPInitAttr.Context.
func (q *QP) Context() any { return q.init.Context }

// PD returns the queue pair's protection domain.
func (q *QP) PD() *PD { return q.pd }

// SendCQ returns where send work requests complete.
func (q *QP) SendCQ() *CQ { return q.init.SendCQ }

// SRQ returns where its receive work requests come from, nil if it has a queue of its own.
func (q *QP) SRQ() *SRQ { return q.init.SRQ }

// RecvCQ returns where receive work requests complete.
func (q *QP) RecvCQ() *CQ { return q.init.RecvCQ }

// PostSend appends work requests to the send queue (ibv_post_send) and, if nobody else is running
// the stack, sends what can be sent before it returns. The slices in wrs are read during the call
// only; the registered memory that SGL names belongs to the queue pair until the request completes.
// Each request ends in exactly one completion if it is signaled or fails, unless the queue pair is
// closed or reset before.
//
// A refused request yields a *PostError with its index: ErrState below RTS, ErrFull when the queue
// has no slot (poll and try again: a slot is free again when its request is done, polled or not, so
// that ErrFull keeps no completion queue from overrunning), ErrInvalid for a request that breaks a
// rule, ErrClosed.
// Requests before it are posted.
func (q *QP) PostSend(wrs ...SendWR) error {
	var n int
	var err error
	if q.faults != nil {
		if err = q.faults.verb("PostSend"); err != nil {
			return &PostError{"PostSend", q.QPN(), 0, err}
		}
	}
	if withHW && q.hw != nil {
		n, err = q.hw.PostSend(wrs)
	} else {
		n, err = q.soft.PostSend(wrs)
	}
	if err != nil {
		return &PostError{"PostSend", q.QPN(), n, err}
	}
	return nil
}

// PostRecv appends work requests to the receive queue (ibv_post_recv). Rules and errors are those
// of PostSend, except that the state must be INIT or later. With QPInitAttr.SRQ it is ErrInvalid:
// post there.
func (q *QP) PostRecv(wrs ...RecvWR) error {
	var n int
	var err error
	if q.faults != nil {
		if err = q.faults.verb("PostRecv"); err != nil {
			return &PostError{"PostRecv", q.QPN(), 0, err}
		}
	}
	if withHW && q.hw != nil {
		n, err = q.hw.PostRecv(wrs)
	} else {
		n, err = q.soft.PostRecv(wrs)
	}
	if err != nil {
		return &PostError{"PostRecv", q.QPN(), n, err}
	}
	return nil
}

// Modify sets the attributes that mask names, and with AttrState moves the queue pair to attr.State
// (ibv_modify_qp). Which attributes a transition needs and allows is the verbs' table. On error
// nothing has changed, and the text names the attribute, its value and the rule.
//
// RESET forgets all that was outstanding. As after Close, no completion of a request from before is
// seen any more, and Endpoint is another one. Requests of an SRQ are not the queue pair's: the one
// that a message was using goes back, and completions of others stay.
//
// When Modify to ERR or RESET, or without RemoteRead, has returned, no byte of memory is read for
// the peer any more, whatever it had asked for before (docs/rocev2.md, section 7.7). That is so
// also if the queue pair was in ERR already: one that has failed by itself answers until then.
//
// A new address vector (AttrAV) waits until the port can send there, at most 2 s or until ctx ends:
// packet and xdp ports have to find the neighbour's Ethernet address first. ErrUnreachable if they
// can not. Nothing else waits, or looks at ctx.
func (q *QP) Modify(ctx context.Context, attr *QPAttr, mask AttrMask) error {
	d := q.pd.dev
	if attr == nil {
		return d.fail("Modify", fmt.Errorf("%w: no attributes", ErrInvalid))
	}
	err := q.faults.verb("Modify")
	if err == nil {
		err = q.qp.Modify(ctx, attr, mask)
	}
	if err != nil {
		return d.fail("Modify", fmt.Errorf("QP 0x%06x: %w", q.QPN(), err))
	}
	return nil
}

// Query returns the present attributes (ibv_query_qp), with the real sizes in Cap. ErrClosed.
func (q *QP) Query() (QPAttr, error) {
	if err := q.faults.verb("Query"); err != nil {
		return QPAttr{}, q.pd.dev.fail("Query", err)
	}
	attr, err := q.qp.Query()
	return attr, q.pd.dev.fail("Query", err)
}

// QueryInit returns what the queue pair was made from (the other half of ibv_query_qp), with the
// real sizes in Cap and the defaults filled in. ErrClosed.
func (q *QP) QueryInit() (QPInitAttr, error) {
	attr, err := q.Query()
	if err != nil {
		return QPInitAttr{}, err
	}
	init := q.init
	init.Cap = attr.Cap
	return init, nil
}

// PathInfo returns what a connected queue pair of type RC or XRC_SEND knows of its path: round
// trips, the window and what it is, losses, what paces it, and whether long packets get through.
// Like Query it waits for the end of a turn: not for each message. ErrInvalid for other types,
// ErrNotSupported for a device of the kernel, which keeps that to itself, ErrClosed.
func (q *QP) PathInfo() (PathInfo, error) {
	if withHW && q.hw != nil {
		return PathInfo{}, q.pd.dev.fail("PathInfo",
			fmt.Errorf("%w: a device of the kernel does not tell", ErrNotSupported))
	}
	p, err := q.soft.PathInfo()
	return p, q.pd.dev.fail("PathInfo", err)
}

// AttachMcast lets a UD queue pair receive datagrams that are sent to a multicast group, until
// DetachMcast or Close (ibv_attach_mcast). A group may have many queue pairs, and a queue pair many
// groups. Each queue pair that is attached gets one copy of a datagram, also those of the device
// that sends it, and the sender itself if it is attached, as with a NIC that was not told to block
// that. Nothing tells it from what others send but its WC.SrcQP and address. Between the first
// attachment on the device and the last the interface is a member (IGMP, MLD); switches may take a
// while to notice, which no call waits for. ErrInvalid if the group is none, the queue pair is not
// UD, or the port has no multicast, or no address of the group's IP version. ErrLimit of one group
// too many (DeviceAttr.MaxMcastGrp), or one queue pair of a group (DeviceAttr.MaxMcastQPAttach).
func (q *QP) AttachMcast(group GID) error {
	err := q.faults.verb("AttachMcast")
	if err == nil {
		err = q.qp.AttachMcast(group)
	}
	return q.pd.dev.fail("AttachMcast", err)
}

// DetachMcast undoes AttachMcast (ibv_detach_mcast). ErrInvalid if the queue pair is not attached
// to the group.
func (q *QP) DetachMcast(group GID) error {
	err := q.faults.verb("DetachMcast")
	if err == nil {
		err = q.qp.DetachMcast(group)
	}
	return q.pd.dev.fail("DetachMcast", err)
}

// Close destroys the queue pair (ibv_destroy_qp), connected and with work outstanding or not.
// Outstanding requests yield no completion, and when Close returns, completions of this queue pair
// that were not polled are gone and none will come, but for those of requests of an SRQ, of which
// nothing is lost. A second Close does nothing.
func (q *QP) Close() error { return q.pd.dev.destroy(q, q.qp.Close) }
