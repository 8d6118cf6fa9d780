package roce

// The shared receive queue: making one, posting to it, its size and its limit, its end → XRC
// domains, which those have that peers name. What XRC is, is in package qp (srq.go).

import (
	"fmt"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft"
)

// SRQInitAttr says what shared receive queue to make (ibv_srq_init_attr).
type SRQInitAttr struct {
	MaxWR  int // receive work requests, 1 to DeviceAttr.MaxSRQWR; 0 is 128
	MaxSGE int // elements of a request, 0 to DeviceAttr.MaxSRQSGE
	// Limit arms EventSRQLimit at once, as SRQ.Modify does, but for the event that an empty queue
	// would be; 0: it is not armed.
	Limit   int
	Context any // the application's own, returned by SRQ.Context
	// XRCD and CQ make it one of XRC (IBV_SRQT_XRC), which peers name by its Number, and whose
	// requests complete in CQ; nil: a basic one, which QPInitAttr.SRQ gives to queue pairs
	XRCD *XRCD
	CQ   *CQ
}

// SRQAttr holds the attributes of a shared receive queue (ibv_srq_attr).
//
//	MaxWR  uint32 // work requests
//	MaxSGE uint32 // scatter/gather elements of one
//	Limit  uint32 // see SRQ.Modify
type SRQAttr = qp.SRQAttr

// SRQAttrMask says which fields of an SRQAttr SRQ.Modify sets (ibv_srq_attr_mask).
type SRQAttrMask = qp.SRQAttrMask

// Attribute mask bits (IBV_SRQ_*).
const (
	SRQMaxWR = qp.SRQMaxWR // the size
	SRQLimit = qp.SRQLimit // when EventSRQLimit comes
)

// SRQ is a shared receive queue (ibv_srq): receive requests for many queue pairs
// (QPInitAttr.SRQ), of any type and any protection domain of the device. The first packet of a
// message takes the oldest request; when the message is there, the request completes in the receive
// queue of the queue pair that it came to, and the completion has that queue pair's number.
// Messages of different queue pairs end in any order. All methods may be called from any goroutine.
//
// No request is lost: a queue pair that fails flushes the one that a message was using and no
// other, and then raises EventQPLastWQE; one that is reset or closed puts it back. Completions of
// requests stay in their queue when the queue pair is reset or closed. While the queue is empty, an
// RC peer is told to try again (ConnectOptions.RNRRetry), and messages of UC and UD are dropped.
type SRQ struct {
	pd      *PD
	xrcd    *XRCD // nil, both, of a basic one
	cq      *CQ
	context any

	srq  srqProvider
	soft *soft.SRQ // the same, by its concrete type: one of the two
	hw   *hwSRQ
}

func (s *SRQ) kind() string  { return "SRQ" }
func (s *SRQ) label() string { return "" }
func (s *SRQ) needs() []object {
	if s.xrcd == nil {
		return []object{s.pd}
	}
	return []object{s.pd, s.xrcd, s.cq}
}

// CreateSRQ makes a shared receive queue (ibv_create_srq). The keys of its requests are those of
// this domain, whatever domain a queue pair is of. ErrInvalid names the value that is wrong,
// ErrLimit is a device that is full, ErrClosed a domain that is closed.
func (p *PD) CreateSRQ(attr SRQInitAttr) (s *SRQ, err error) {
	if attr.MaxWR == 0 {
		attr.MaxWR = int(DefaultQPCap().MaxRecvWR)
	}
	err = p.create("CreateSRQ", func() error {
		if attr.MaxWR < 0 || attr.MaxSGE < 0 || attr.Limit < 0 || attr.MaxWR > qp.MaxSRQWR || attr.Limit > attr.MaxWR {
			return fmt.Errorf("%w: a queue of %d requests of %d elements with the limit %d: sizes are 1 to %d, a "+
				"limit is at most the size",
				ErrInvalid, attr.MaxWR, attr.MaxSGE, attr.Limit, qp.MaxSRQWR)
		}
		if err := p.checkXRC(&attr); err != nil {
			return err
		}
		s = &SRQ{pd: p, context: attr.Context, xrcd: attr.XRCD, cq: attr.CQ}
		below, err := p.pd.createSRQ(s, &attr)
		if err == nil {
			s.srq = below
			p.dev.objects.add(s)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// checkXRC is an error unless the XRC domain and the completion queue are given together, or
// neither, and are of the device.
func (p *PD) checkXRC(attr *SRQInitAttr) error {
	switch {
	case attr.XRCD == nil && attr.CQ == nil:
		return nil
	case attr.XRCD == nil || attr.CQ == nil:
		return fmt.Errorf("%w: a shared receive queue of XRC needs an XRCD and a CQ, a basic one neither", ErrInvalid)
	case !p.dev.objects.has(attr.XRCD):
		return fmt.Errorf("%w: the XRCD is closed, or of another device", ErrInvalid)
	}
	return p.checkCQ(attr.CQ)
}

// checkSRQ is an error unless a queue pair of the domain may take its requests from s.
func (p *PD) checkSRQ(s *SRQ) error {
	switch {
	case s == nil:
		return nil
	case s.pd.dev != p.dev:
		return p.dev.checkOwn("SRQ", s.pd.dev)
	case !p.dev.objects.has(s):
		return fmt.Errorf("SRQ: %w", ErrClosed)
	}
	return nil
}

// Number is what peers name an XRC one by in SendWR.RemoteSRQN (ibv_get_srq_num), 24 bits,
// unpredictable; 0 of a basic one.
func (s *SRQ) Number() uint32 { return s.srq.Number() }

// Context is SRQInitAttr.Context.
func (s *SRQ) Context() any { return s.context }

// PD returns the queue's protection domain.
func (s *SRQ) PD() *PD { return s.pd }

// PostRecv appends work requests (ibv_post_srq_recv). A refused one yields a *PostError with its
// index: ErrFull when as many requests as the queue takes are posted or in use by messages (a
// request is out of use when its completion is in its queue), ErrInvalid for a request that breaks
// a rule, ErrClosed. Requests before it are posted.
func (s *SRQ) PostRecv(wrs ...RecvWR) error {
	n, err := 0, s.pd.dev.faults.verb("PostRecv")
	switch {
	case err != nil:
	case withHW && s.hw != nil:
		n, err = s.hw.PostRecv(wrs)
	default:
		n, err = s.soft.PostRecv(wrs)
	}
	if err != nil {
		return &PostError{"PostRecv", 0, n, err}
	}
	return nil
}

// Modify sets the attributes that mask names (ibv_modify_srq). SRQMaxWR is the size, which may
// change while messages are in progress. SRQLimit arms EventSRQLimit: it comes once, when fewer
// requests than that are posted, and is disarmed then; of this stack's own devices it comes at once
// if there are fewer already. 0 disarms. ErrInvalid names the value: a size below what is
// outstanding or beyond the device, a limit above the size. Then nothing has changed. ErrClosed.
func (s *SRQ) Modify(attr SRQAttr, mask SRQAttrMask) error {
	return s.pd.dev.fail("Modify", s.srq.Modify(attr, mask))
}

// Query returns the present attributes (ibv_query_srq), with the real sizes. ErrClosed.
func (s *SRQ) Query() (SRQAttr, error) {
	attr, err := s.srq.Query()
	return attr, s.pd.dev.fail("Query", err)
}

// Close destroys the queue (ibv_destroy_srq), and with it the requests that are posted. While queue
// pairs use it the error is ErrBusy and names them. A second Close does nothing.
func (s *SRQ) Close() error { return s.pd.dev.destroy(s, s.srq.Close) }

// XRCD is an XRC domain (ibv_xrcd). One connection of an XRC_SEND queue pair with an XRC_RECV one
// serves all shared receive queues of the domain that the latter is of: each send work request says
// which (SendWR.RemoteSRQN, the peer's SRQ.Number). READs, WRITEs and atomics name one too: keys
// are those of its protection domain. A request that names none of the domain ends the connection
// with WCRemInvReqErr.
type XRCD struct {
	dev  *Device
	xrcd xrcdProvider
	soft *soft.XRCD
}

func (x *XRCD) kind() string    { return "XRCD" }
func (x *XRCD) label() string   { return "" }
func (x *XRCD) needs() []object { return nil }

// OpenXRCD makes an XRC domain (ibv_open_xrcd), which is this process's own. ErrNotSupported if the
// device has none, ErrClosed.
func (d *Device) OpenXRCD() (x *XRCD, err error) {
	err = d.create("OpenXRCD", func() error {
		made := &XRCD{dev: d}
		below, err := d.provider.openXRCD(made)
		if err == nil {
			made.xrcd, x = below, made
			d.objects.add(x)
		}
		return err
	})
	return x, err
}

// Close ends the domain (ibv_close_xrcd). While queue pairs or shared receive queues are of it the
// error is ErrBusy and names them. A second Close does nothing.
func (x *XRCD) Close() error { return x.dev.destroy(x, x.xrcd.Close) }
