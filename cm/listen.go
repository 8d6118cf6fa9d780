package cm

// Who listens, and what becomes of a REQ (section 9.8).
// Stages: listeners → a REQ: a copy, a stale one, or a new one → who is called → is it valid → is
// there a place for it.

import (
	"fmt"

	"github.com/goroce/goroce/internal/fair"
	"github.com/goroce/goroce/wire"
)

// Listener is a service ID that requests are taken for.
type Listener struct {
	// Context is the application's own.
	Context any

	m           *Machine
	key         serviceKey
	backlog     int
	halfOpen    int
	open, asked fair.Places[*Conn] // of requests: all, and those that wait for the application
}

// ListenOptions is what a listener is like.
type ListenOptions struct {
	// Address is the one that requests must come to; zero stands for every address of the device,
	// of the IP version that Only names.
	Address wire.GID
	Only    IPVersion
	// Backlog is how many requests may wait for the application's answer; 0 means DefaultBacklog.
	// HalfOpen is how many may wait for that or, once accepted, for the peer's RTU; 0 means
	// DefaultHalfOpen, and Backlog at least. Of a request beyond these either it or the oldest one
	// of the source that has most is given up (package fair): it is dropped, and the peer asks
	// again, or the peer gets a REJ (timeout) if the application has accepted it. The application
	// is told, by EventRejected (no resources) or EventUnreachable.
	Backlog, HalfOpen int
	Context           any
}

// IPVersion is 4, 6, or 0 for both.
type IPVersion uint8

// serviceKey is how a listener is found.
type serviceKey struct {
	id      uint64
	address wire.GID
	only    IPVersion
}

// Listen takes requests for a service ID: wire.CMServiceID(port space, port), or any other.
// Listeners of one service ID on different addresses, or on all and on some, can be there at the
// same time: the one that says most gets a request. ErrInUse says that there is one just the same.
func (m *Machine) Listen(service uint64, o ListenOptions) (*Listener, error) {
	switch {
	case o.Only != 0 && o.Only != 4 && o.Only != 6:
		return nil, fmt.Errorf("cm: Listen: %w", invalid("IP version %d is none of 4, 6 and 0", o.Only))
	case o.Backlog < 0 || o.HalfOpen < 0:
		return nil, fmt.Errorf("cm: Listen: %w", invalid("backlog %d or half-open limit %d is negative",
			o.Backlog, o.HalfOpen))
	case !o.Address.IsZero():
		o.Only = 0
	}
	l := &Listener{
		Context:  o.Context,
		m:        m,
		key:      serviceKey{service, o.Address, o.Only},
		backlog:  o.Backlog,
		halfOpen: o.HalfOpen,
	}
	if l.backlog == 0 {
		l.backlog = DefaultBacklog
	}
	if l.halfOpen == 0 {
		l.halfOpen = max(DefaultHalfOpen, l.backlog)
	}
	if m.listeners[l.key] != nil {
		return nil, fmt.Errorf("cm: Listen: %w: 0x%x", ErrInUse, service)
	}
	m.listeners[l.key] = l
	return l, nil
}

// Close takes no more requests. Those that the application has not been told of are rejected; the
// others stay. Closing twice does no harm.
func (l *Listener) Close(now Time) {
	m := l.m
	m.now = now
	if m.listeners[l.key] != l {
		return
	}
	delete(m.listeners, l.key)
	for _, e := range m.events.items[m.events.head:] {
		if e.Listener == l {
			e.conn().Close(now)
		}
	}
}

// listener finds who is called: by this address, by any of its IP version, or by any.
func (m *Machine) listener(service uint64, at wire.GID) *Listener {
	version := IPVersion(6)
	if at.Is4() {
		version = 4
	}
	for _, k := range [...]serviceKey{{service, at, 0}, {id: service, only: version}, {id: service}} {
		if l := m.listeners[k]; l != nil {
			return l
		}
	}
	return nil
}

// admits says whether a listener has a place for one more request of a source, or makes one.
func (l *Listener) admits(source wire.GID) bool {
	full := &l.asked
	switch {
	case l.asked.Len() >= l.backlog:
	case l.open.Len() >= l.halfOpen:
		full = &l.open
	default:
		return true
	}
	gives, ok := full.Gives(source)
	if ok {
		l.m.step(gives, displaced, nil)
	}
	return ok
}

// handleREQ takes a REQ.
func (m *Machine) handleREQ(in *wire.MAD) {
	var req wire.CMReq
	if wire.GetCM(in, &req) != nil || req.LocalCommID == 0 {
		m.drop(DropMalformed)
		return
	}
	peer := peerID{gid: m.in.from.Remote, guid: req.LocalCAGUID, id: req.LocalCommID}
	if c := m.byPeer[peer]; c != nil {
		if c.tid == m.in.tid && c.theirs.QPN == req.LocalQPN {
			c.repeated = m.now
			m.deliver(c, gotREQ)
			return
		}
		// the peer uses the ID for a new connection
		if c.state == StateRefused {
			m.step(c, peerForgot, nil)
		} else if !m.outlives(c, &req) {
			return
		}
	}
	if c := m.byQPN[peerQPN{gid: peer.gid, guid: peer.guid, qpn: req.LocalQPN}]; c != nil && !m.outlives(c, &req) {
		return
	}
	l := m.listener(req.ServiceID, m.in.from.Local)
	if l == nil {
		m.refuseREQ(&req, wire.CMRejInvalidService)
		return
	}
	var header wire.CMIPHeader
	if reason := m.judge(&req, &header); reason != 0 {
		m.refuseREQ(&req, reason)
		return
	}
	if m.place(l) {
		m.welcome(l, peer, &req, header)
	}
}

// outlives says whether a REQ takes the place of its peer's connection with the same ID or queue
// pair; else it is refused. It does if the application has not answered that one, and the peer has
// not repeated it for twice as long as it was to wait: it has begun anew.
func (m *Machine) outlives(c *Conn, req *wire.CMReq) bool {
	if m.now-c.repeated > c.linger+c.promised && m.step(c, outlived, nil) {
		return true
	}
	m.refuseREQ(req, wire.CMRejStale)
	m.step(c, peerForgot, nil)
	return false
}

// judge holds a REQ against the rules of section 9.8, in their order; 0 says that it is right.
func (m *Machine) judge(req *wire.CMReq, header *wire.CMIPHeader) wire.CMRejReason {
	from, p := &m.in.from, &req.Primary
	switch {
	case transportOf(req) > XRC:
		return wire.CMRejInvalidType
	case p.LocalGID != from.Remote || p.RemoteGID != from.Local: // our packets would go to a third
		return wire.CMRejInvalidGID
	case req.PartitionKey != defaultPKey:
		return wire.CMRejUnsupported
	case !req.PathMTU.Valid() || req.PathMTU > m.cfg.MTU:
		return wire.CMRejInvalidMTU
	}
	if isIPPort(req.ServiceID) && (header.Get(req.PrivateData[:]) != nil || header.Src.Is4() != from.Local.Is4()) {
		return wire.CMRejConsumer
	}
	return 0
}

// transportOf is the transport of a REQ; beyond XRC if it is none of ours.
func transportOf(req *wire.CMReq) Transport {
	switch t := Transport(req.TransportServiceType); {
	case t == RC || t == UC:
		return t
	case t == XRC && req.ExtendedTransportType == 1:
		return t
	}
	return XRC + 1
}

// place says whether there is a place for a request, or makes one. If not it is dropped, without a
// word: the peer asks again, and a flood gets no answers.
func (m *Machine) place(l *Listener) bool {
	if !l.admits(m.in.from.Remote) {
		m.drop(DropBacklog)
		return false
	}
	if m.room() != nil {
		m.drop(DropLimit)
		return false
	}
	return true
}

// welcome makes a connection of a REQ, and tells the application.
func (m *Machine) welcome(l *Listener, peer peerID, req *wire.CMReq, header wire.CMIPHeader) {
	p := &req.Primary
	c := &Conn{passive: true, transport: transportOf(req), remoteID: req.LocalCommID, tid: m.in.tid, peer: peer,
		serviceID: req.ServiceID, listener: l, mtu: req.PathMTU, ackTimeout: p.LocalAckTimeout,
		psn: wire.PSN(m.cfg.Rand()) & wire.PSNMask, dstPSN: req.StartingPSN,
		path: Path{Local: m.in.from.Local, Remote: m.in.from.Remote, TrafficClass: p.TrafficClass, HopLimit: p.HopLimit,
			SL: p.SL, FlowLabel: p.FlowLabel}.or64(),
		theirs: ConnParam{QPN: req.LocalQPN, ResponderResources: req.ResponderResources,
			InitiatorDepth: req.InitiatorDepth, FlowControl: req.EndToEndFlowControl, RetryCount: req.RetryCount,
			RNRRetryCount: req.RNRRetryCount, SRQ: req.SRQ}}
	c.theirs.setOptions(optionsOfREQ, req.VendorID, m.in.options)
	c.timeout, c.retries = bounded(req.LocalCMResponseTimeout), req.MaxCMRetries
	c.hold, c.repeated = bounded(p.LocalAckTimeout), m.now
	c.linger = 2 * (max(c.hold, 2*span(DefaultPacketLifetime)) + bounded(req.RemoteCMResponseTimeout))
	m.add(c, StateReqRcvd)
	m.byPeer[peer], m.byQPN[c.peerQPN()] = c, c
	private := req.PrivateData[:]
	if isIPPort(req.ServiceID) {
		private = private[wire.CMIPHeaderLen:]
	}
	m.tell(c, Event{Type: EventConnectRequest, Listener: l, Header: header, Param: c.told(), Private: private})
}
