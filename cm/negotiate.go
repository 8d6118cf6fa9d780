package cm

// What two sides agree on (section 9.9).
// Stages: what each side says → what of it goes into a queue pair → the ack timeout → private data.

import (
	"fmt"

	"github.com/goroce/goroce/wire"
)

// ConnParam is what one side says of its queue pair (rdma_conn_param). In an event it is what the
// peer has said, and the two depths are exchanged, as rdma_cm does it: they are what the receiver
// of the event may use for itself.
type ConnParam struct {
	QPN uint32 // 24 bits
	// ResponderResources is how many READs and ATOMICs of the peer this side serves at a time;
	// InitiatorDepth is how many it wants outstanding itself. MaxRdAtomic stands for as many as
	// possible. The lower of what both sides say counts.
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        bool  // end-to-end flow control is obeyed
	RetryCount         uint8 // 0..7, of both sides; the active side says it
	RNRRetryCount      uint8 // 0..7, that the peer is to have
	SRQ                bool  // the queue pair receives from a shared receive queue
	// SelectiveRepeat and LongWindow are what the queue pair, of RC, does beyond the standard if
	// the peer's does too (package qp, QPAttr); other stacks do not notice that it is said.
	SelectiveRepeat, LongWindow bool
}

// The option bits of a REQ and a REP say what only this stack does (section 9.2): whose options
// they are, and which. A REP says that it is one: who makes it of the REQ's header has agreed to
// nothing.
const (
	optionsOfREQ          = 0x676f7200 // "gor"
	optionsOfREP          = optionsOfREQ | 1<<7
	optionSelectiveRepeat = 1 << 0
	optionLongWindow      = 1 << 1
	optionBits            = 1<<7 - 1
)

// options are the option bits of a REQ or of a REP; 0 if there is nothing to say.
func (p *ConnParam) options(of uint32) (bits uint32) {
	if p.SelectiveRepeat {
		bits |= of | optionSelectiveRepeat
	}
	if p.LongWindow {
		bits |= of | optionLongWindow
	}
	return bits
}

// setOptions takes in the option bits of a REQ or REP. They are a NIC's if a vendor is named; and a
// NIC that answers one who named none names none either.
func (p *ConnParam) setOptions(of, vendor, bits uint32) {
	if vendor == 0 && bits&^optionBits == of {
		p.SelectiveRepeat, p.LongWindow = bits&optionSelectiveRepeat != 0, bits&optionLongWindow != 0
	}
}

// check holds the parameters against their ranges.
func (p *ConnParam) check() error {
	switch {
	case p.QPN > 1<<24-1:
		return invalid("QPN 0x%x has more than 24 bits", p.QPN)
	case p.RetryCount > 7:
		return invalid("retry count %d is above 7", p.RetryCount)
	case p.RNRRetryCount > 7:
		return invalid("RNR retry count %d is above 7", p.RNRRetryCount)
	}
	return nil
}

// QPParams is what a connection's queue pair is modified with, to RTR and to RTS (IBV_QP_*).
type QPParams struct {
	Transport       Transport
	Path            Path // the address vector
	PathMTU         wire.MTU
	DestQPN         uint32
	RQPSN, SQPSN    wire.PSN
	MaxDestRdAtomic uint8
	MaxRdAtomic     uint8
	Timeout         uint8 // local ack timeout, a code
	RetryCnt        uint8
	RNRRetry        uint8
	FlowControl     bool // the peer sends credits that are to be obeyed
	// Both sides do it.
	SelectiveRepeat, LongWindow bool
}

// Negotiate returns what the queue pair of a request is to be modified with if the application
// accepts it with p, which Accept has to get too: a passive side makes its queue pair ready first.
// ErrInvalid names the parameter that is wrong; ErrState says that there is nothing to accept.
func (c *Conn) Negotiate(p ConnParam) (QPParams, error) {
	if err := c.may(callAccept); err != nil {
		return QPParams{}, err
	}
	if err := p.check(); err != nil {
		return QPParams{}, fmt.Errorf("cm: Negotiate: %w", err)
	}
	return c.qpParams(c.limit(p)), nil
}

// QPParams returns what the connection's queue pair is to be modified with: on the active side from
// the ConnectResponse on, on the passive side from Accept on.
func (c *Conn) QPParams() QPParams { return c.qpParams(c.own) }

func (c *Conn) qpParams(own ConnParam) QPParams {
	q := QPParams{Transport: c.transport, Path: c.path, PathMTU: c.mtu, DestQPN: c.theirs.QPN, RQPSN: c.psn,
		SQPSN: c.dstPSN, MaxDestRdAtomic: own.ResponderResources,
		MaxRdAtomic: min(own.InitiatorDepth, c.theirs.ResponderResources), Timeout: c.ackTimeout,
		RetryCnt: own.RetryCount, RNRRetry: c.theirs.RNRRetryCount, FlowControl: c.theirs.FlowControl,
		SelectiveRepeat: own.SelectiveRepeat && c.theirs.SelectiveRepeat,
		LongWindow:      own.LongWindow && c.theirs.LongWindow}
	if c.passive {
		q.RetryCnt = c.theirs.RetryCount
	}
	return q
}

// limit is what a passive side can have of p: no more than the peer offers or wants.
func (c *Conn) limit(p ConnParam) ConnParam {
	p.ResponderResources = min(p.ResponderResources, c.theirs.InitiatorDepth, c.m.cfg.RdAtomic)
	p.InitiatorDepth = min(p.InitiatorDepth, c.theirs.ResponderResources, c.m.cfg.RdAtomic)
	p.SelectiveRepeat = p.SelectiveRepeat && c.theirs.SelectiveRepeat
	p.LongWindow = p.LongWindow && c.theirs.LongWindow
	return p
}

// told is what the peer has said, as an event has it.
func (c *Conn) told() ConnParam {
	p := c.theirs
	p.ResponderResources, p.InitiatorDepth = p.InitiatorDepth, p.ResponderResources
	return p
}

// ackTimeout combines the time that a packet takes one way and the time that the peer's device
// takes to acknowledge: codes, so that sums are maxima, and one more where they are close (section
// 9.9).
func ackTimeout(delay, lifetime uint8) uint8 {
	t := lifetime + 1
	switch {
	case t >= delay && delay >= t-1:
		t++
	case t >= delay:
	case t >= delay-1:
		t = delay + 1
	default:
		t = delay
	}
	return min(t, 31)
}

// check holds a path against what RoCEv2 can do.
func (p *Path) check() error {
	switch {
	case p.Local.IsZero() || p.Remote.IsZero() || p.Local.IsMulticast() || p.Remote.IsMulticast():
		return invalid("from %v to %v: each must be the address of a device", p.Local, p.Remote)
	case p.Local.Is4() != p.Remote.Is4():
		return invalid("from %v to %v: one is IPv4, the other IPv6", p.Local, p.Remote)
	case p.FlowLabel > 1<<20-1:
		return invalid("flow label 0x%x has more than 20 bits", p.FlowLabel)
	case p.SL > 15:
		return invalid("SL %d is above 15", p.SL)
	}
	return nil
}

func (p Path) or64() Path {
	p.HopLimit = or(p.HopLimit, 64)
	return p
}

// isIPPort says whether a service ID is a port of a port space, whose private data begins with a
// header (section 9.4).
func isIPPort(id uint64) bool {
	_, _, ok := wire.CMServicePort(id)
	return ok
}

// putPrivate fills the private data of a REQ or a SIDR_REQ.
func putPrivate(dst []byte, service uint64, srcPort uint16, path Path, private []byte) error {
	if isIPPort(service) {
		h := wire.CMIPHeader{SrcPort: srcPort, Src: path.Local, Dst: path.Remote}
		h.Put(dst)
		dst = dst[wire.CMIPHeaderLen:]
	}
	return put(dst, private, "REQ")
}

// put copies what a message has room for.
func put(dst, src []byte, where string) error {
	if len(src) > len(dst) {
		return invalid("%d bytes of private data; a %s has room for %d", len(src), where, len(dst))
	}
	copy(dst, src)
	return nil
}
