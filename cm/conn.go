package cm

// A connection, and the calls of the application.
// Stages: the connection and what it says of itself → Connect → Accept, Reject, Establish → MRA →
// Disconnect, Close.

import (
	"container/list"
	"fmt"

	"github.com/goroce/goroce/internal/fair"
	"github.com/goroce/goroce/wire"
)

// Conn is one side of a connection, from the REQ on: Connect makes it, or a REQ of a peer does. All
// methods are for the caller that drives the machine.
type Conn struct {
	// Context is the application's own.
	Context any

	m         *Machine
	state     State
	closed    bool // the application has gone: nobody is told of anything
	query     bool // it is a Query
	heard     bool // the application knows of the request
	passive   bool
	transport Transport

	localID, remoteID uint32 // communication IDs; remoteID is 0 until the peer's is known
	tid, dreqTID      uint64 // of the REQ and of the peer's DREQ: their answers repeat them
	peer              peerID // as its copies are known; zero until it is
	path              Path
	serviceID         uint64
	listener          *Listener // while it owes something, with its places there:
	open, asked       *fair.Place[*Conn]

	own, theirs ConnParam // theirs.QPN is the peer's queue pair
	psn, dstPSN wire.PSN  // what the peer begins with when it sends to us, and we to it
	mtu         wire.MTU
	ackTimeout  uint8 // code, for the queue pair

	sent     *wire.MAD // what is sent again: by the timer, or when a copy asks for it
	retries  uint8     // how often the timer does that
	tries    uint8     // and how often it may still
	timeout  Time      // that the peer has for an answer
	service  Time      // that it has asked for on top
	patience Time      // until when it may ask for more; 0 if it has not yet
	hold     Time      // that the connection is remembered after its end, ...
	linger   Time      // ... and after an attempt that came to nothing
	repeated Time      // when the peer last sent its REQ, or was told to wait
	promised Time      // the longest that it was told to wait: it may heed any MRA
	probed   Time      // when it was last asked whether it knows the connection; 0: never
	deadline Time
	timer    int           // place among the timers, from 1; 0 if none
	held     *list.Element // of Machine.held
}

// Transport is the service of the queue pairs, as a REQ numbers it.
type Transport uint8

const (
	RC  Transport = 0
	UC  Transport = 1
	XRC Transport = 3 // what the extended transport type 1 says
)

// ConnectParams is what Connect needs. Zero values of codes stand for the defaults of limits.go.
type ConnectParams struct {
	ServiceID uint64 // the service called: wire.CMServiceID(port space, port)
	Path      Path   // Local and Remote must be set, both of the same IP version
	SrcPort   uint16 // our own RDMA port; goes into the REQ if ServiceID is an IP port
	Transport Transport
	MTU       wire.MTU // path MTU, 1..5
	ConnParam          // QPN must be set

	ResponseTimeout uint8 // code, 1..31: how long each side has for an answer
	MaxRetries      uint8 // 1..15: how often a message is sent again
	PacketLifetime  uint8 // code, 1..31: of the path
	// Private is the application's data: up to 56 bytes if ServiceID is an IP port, else 92
	// (section 9.5).
	Private []byte
	Context any
}

// AcceptParams is what Accept answers. Of ConnParam the QPN must be set, and RetryCount means
// nothing: the REQ has said it.
type AcceptParams struct {
	ConnParam
	Private []byte // up to 196 bytes
}

// Sizes of the application's private data in bytes (section 9.5).
const (
	MaxPrivateREQ        = 56 // with an IP port as service ID
	MaxPrivateREQRaw     = 92 // with another
	MaxPrivateREP        = 196
	MaxPrivateREJ        = 148
	MaxPrivateRTU        = 224
	MaxPrivateDREQ       = 220
	MaxPrivateDREP       = 224
	MaxPrivateSIDRREQ    = 180 // with an IP port as service ID
	MaxPrivateSIDRREQRaw = 216 // with another
	MaxPrivateSIDRREP    = 136
	MaxARI               = 72 // of a REJ
)

// State returns where the connection stands.
func (c *Conn) State() State { return c.state }

// LocalID is our communication ID, unique on the machine while the connection is known.
func (c *Conn) LocalID() uint32 { return c.localID }

// RemoteID is the peer's communication ID, 0 until a message has told it.
func (c *Conn) RemoteID() uint32 { return c.remoteID }

// ServiceID is the service that was called.
func (c *Conn) ServiceID() uint64 { return c.serviceID }

// Path is where the messages of the connection go.
func (c *Conn) Path() Path { return c.path }

// Passive says whether the peer has made the connection.
func (c *Conn) Passive() bool { return c.passive }

// memory is how long the connection is remembered in a state that it ends in. In the time-wait that
// is until no packet is under way any more; if an attempt has come to nothing, until the peer has
// repeated its message twice in vain.
func (c *Conn) memory(s State) Time {
	if s == StateRefused {
		return c.linger
	}
	return c.hold
}

func (c *Conn) peerQPN() peerQPN {
	return peerQPN{gid: c.path.Remote, guid: c.peer.guid, qpn: c.theirs.QPN}
}

// Connect asks for a connection: it sends a REQ, again if need be. EventConnectResponse,
// EventRejected or EventUnreachable will tell what came of it. ErrInvalid names the parameter that
// is wrong; ErrLimit says that the machine has Config.MaxConns connections.
func (m *Machine) Connect(now Time, p *ConnectParams) (*Conn, error) {
	m.now = now
	req := wire.CMReq{ServiceID: p.ServiceID, LocalQPN: p.QPN, EndToEndFlowControl: p.FlowControl,
		RetryCount: p.RetryCount, PartitionKey: defaultPKey, PathMTU: p.MTU, RNRRetryCount: p.RNRRetryCount,
		LocalCAGUID: m.cfg.CAGUID, SRQ: p.SRQ, TransportServiceType: uint8(p.Transport)}
	if p.Transport == XRC {
		req.ExtendedTransportType = 1
	}
	if err := m.checkConnect(p, &req); err != nil {
		return nil, fmt.Errorf("cm: Connect: %w", err)
	}
	c := &Conn{Context: p.Context, transport: p.Transport, path: p.Path.or64(), serviceID: p.ServiceID,
		own: p.ConnParam, mtu: p.MTU, psn: wire.PSN(m.cfg.Rand()) & wire.PSNMask}
	c.own.ResponderResources = min(c.own.ResponderResources, m.cfg.RdAtomic)
	c.own.InitiatorDepth = min(c.own.InitiatorDepth, m.cfg.RdAtomic)
	response, lifetime := or(p.ResponseTimeout, DefaultResponseTimeout), or(p.PacketLifetime, DefaultPacketLifetime)
	c.ackTimeout = lifetime
	c.timeout, c.retries = 2*span(lifetime)+span(response), or(p.MaxRetries, DefaultMaxRetries)
	m.add(c, StateReqSent)

	req.LocalCommID, req.StartingPSN = c.localID, c.psn
	req.ResponderResources, req.InitiatorDepth = c.own.ResponderResources, c.own.InitiatorDepth
	req.RemoteCMResponseTimeout, req.LocalCMResponseTimeout, req.MaxCMRetries = response, response, c.retries
	req.Primary = wire.CMPath{LocalLID: permissiveLID, RemoteLID: permissiveLID, LocalGID: c.path.Local,
		RemoteGID: c.path.Remote, FlowLabel: c.path.FlowLabel, TrafficClass: c.path.TrafficClass,
		HopLimit: c.path.HopLimit, SL: c.path.SL, LocalAckTimeout: ackTimeout(m.cfg.AckDelay, lifetime)}
	c.hold, c.linger = span(req.Primary.LocalAckTimeout), 2*c.timeout
	c.tid = c.ownTID()
	out := mad(c.tid, &req)
	out.SetAttributeModifier(c.own.options(optionsOfREQ))
	ask(m, c, out)
	return c, nil
}

// defaultPKey is the only partition, and permissiveLID what a REQ over RoCE says instead of LIDs.
const (
	defaultPKey   = 0xffff
	permissiveLID = 0xffff
)

// checkConnect holds the parameters against their ranges, and writes the private data.
func (m *Machine) checkConnect(p *ConnectParams, req *wire.CMReq) error {
	switch {
	case p.Transport != RC && p.Transport != UC && p.Transport != XRC:
		return invalid("transport %d is none of RC, UC and XRC", p.Transport)
	case !p.MTU.Valid():
		return invalid("path MTU %d is not 1..5 (256..4096 bytes)", p.MTU)
	case p.ResponseTimeout > 31 || p.PacketLifetime > 31:
		return invalid("response timeout %d or packet lifetime %d is above 31", p.ResponseTimeout, p.PacketLifetime)
	case p.MaxRetries > 15:
		return invalid("%d retries are more than 15", p.MaxRetries)
	}
	if err := p.ConnParam.check(); err != nil {
		return err
	}
	if err := p.Path.check(); err != nil {
		return err
	}
	if err := putPrivate(req.PrivateData[:], p.ServiceID, p.SrcPort, p.Path, p.Private); err != nil {
		return err
	}
	return m.room()
}

// room says whether the machine may have one more connection.
func (m *Machine) room() error {
	if n, _ := m.Len(); n >= m.cfg.MaxConns {
		return fmt.Errorf("%w: %d connections", ErrLimit, n)
	}
	return nil
}

// Accept answers a ConnectRequest: it sends a REP, again if need be. EventEstablished, or one of
// the terminal events, will tell what came of it. The queue pair must be able to receive before
// (Negotiate says with what), for the peer sends as soon as it has the REP.
func (c *Conn) Accept(now Time, p *AcceptParams) error {
	m := c.m
	m.now = now
	if err := c.may(callAccept); err != nil {
		return err
	}
	if err := p.ConnParam.check(); err != nil {
		return fmt.Errorf("cm: Accept: %w", err)
	}
	own := c.limit(p.ConnParam)
	rep := wire.CMRep{LocalCommID: c.localID, RemoteCommID: c.remoteID, LocalQPN: own.QPN, StartingPSN: c.psn,
		ResponderResources: own.ResponderResources, InitiatorDepth: own.InitiatorDepth, TargetAckDelay: m.cfg.AckDelay,
		EndToEndFlowControl: own.FlowControl, RNRRetryCount: own.RNRRetryCount, SRQ: own.SRQ, LocalCAGUID: m.cfg.CAGUID}
	if c.transport == XRC { // section 9.2
		rep.LocalQPN, rep.LocalEECN, rep.SRQ = 0, own.QPN, true
	}
	if err := put(rep.PrivateData[:], p.Private, "REP"); err != nil {
		return fmt.Errorf("cm: Accept: %w", err)
	}
	c.own = own
	out := mad(c.tid, &rep)
	out.SetAttributeModifier(own.options(optionsOfREP))
	m.step(c, callAccept, out)
	return nil
}

// Reject refuses: a ConnectRequest (passive side) or a ConnectResponse (active side). reason is
// wire.CMRejConsumer unless the application knows a better one; ari is up to 72 bytes of additional
// information, private up to 148 bytes.
func (c *Conn) Reject(now Time, reason wire.CMRejReason, ari, private []byte) error {
	c.m.now = now
	if err := c.may(callReject); err != nil {
		return err
	}
	rej := c.rej(reason)
	rej.ARILen = uint8(len(ari))
	if err := put(rej.ARI[:], ari, "ARI of a REJ"); err != nil {
		return fmt.Errorf("cm: Reject: %w", err)
	}
	if err := put(rej.PrivateData[:], private, "REJ"); err != nil {
		return fmt.Errorf("cm: Reject: %w", err)
	}
	c.m.step(c, callReject, mad(c.tid, &rej))
	return nil
}

// Establish says that the connection is in use. On the active side it answers a ConnectResponse: it
// sends a RTU with up to 224 bytes of private data. On the passive side it says that the peer's
// first data came before its RTU (COMM_EST); EventEstablished will then not come.
func (c *Conn) Establish(now Time, private []byte) error {
	c.m.now = now
	if err := c.may(callEstablish); err != nil {
		return err
	}
	rtu := wire.CMRtu{LocalCommID: c.localID, RemoteCommID: c.remoteID}
	if err := put(rtu.PrivateData[:], private, "RTU"); err != nil {
		return fmt.Errorf("cm: Establish: %w", err)
	}
	c.m.step(c, callEstablish, mad(c.tid, &rtu))
	return nil
}

// MRA tells the peer that the answer to its REQ or REP takes up to a time, given as a code (4.096
// us * 2^n, 0..31). The machine does that by itself, with ServiceTimeout, when a peer repeats what
// has no answer yet.
func (c *Conn) MRA(now Time, service uint8) error {
	c.m.now = now
	if service > 31 {
		return fmt.Errorf("cm: MRA: %w", invalid("service timeout %d is above 31", service))
	}
	if err := c.may(callMRA); err != nil {
		return err
	}
	c.m.step(c, callMRA, c.mra(service))
	return nil
}

// Disconnect ends an established connection, or one whose REP is out: it sends a DREQ, again if
// need be, and EventDisconnected tells when the peer has answered or is given up. If the peer has
// sent its DREQ, Disconnect answers it. private is up to 220 bytes.
func (c *Conn) Disconnect(now Time, private []byte) error {
	m := c.m
	m.now = now
	if err := c.may(callDisconnect); err != nil {
		return err
	}
	if c.state == StateDReqRcvd {
		drep := wire.CMDrep{LocalCommID: c.localID, RemoteCommID: c.remoteID}
		if err := put(drep.PrivateData[:], private, "DREP"); err != nil {
			return fmt.Errorf("cm: Disconnect: %w", err)
		}
		m.step(c, callDisconnect, mad(c.dreqTID, &drep))
		return nil
	}
	dreq := c.dreq()
	if err := put(dreq.PrivateData[:], private, "DREQ"); err != nil {
		return fmt.Errorf("cm: Disconnect: %w", err)
	}
	m.step(c, callDisconnect, mad(c.ownTID(), &dreq))
	return nil
}

// Drop forgets a ConnectRequest as one that its listener has no place for: the peer hears nothing,
// and asks again. ErrState if it is answered or withdrawn: then it is to be closed.
func (c *Conn) Drop(now Time) error {
	c.m.now = now
	if err := c.may(callDrop); err != nil {
		return err
	}
	c.closed = true
	c.m.step(c, callDrop, nil)
	return nil
}

// Close lets go of the connection, whatever its state: there will be no more events of it, and no
// call but Close is allowed. The peer is told what it has to know, and the machine sees to the rest
// by itself: it withdraws a REQ, rejects what is not answered, disconnects, and remembers the IDs
// for as long as the protocol wants it. Closing twice does no harm.
func (c *Conn) Close(now Time) {
	c.m.now = now
	c.closed = true
	c.m.step(c, callClose, nil)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

func or(code, standard uint8) uint8 {
	if code == 0 {
		return standard
	}
	return code
}
