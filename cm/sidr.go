package cm

// Service ID resolution: which queue pair, with which Q_Key, serves a service ID by datagrams
// (section 9.10).
// Stages: the query → asking → being asked → answering.

import (
	"fmt"

	"github.com/goroce/goroce/wire"
)

// Query is one side of a resolution. As far as IDs, copies and repeating go it is a connection; it
// has other calls.
type Query Conn

// ResolveParams is what Resolve needs. Zero values of codes stand for the defaults of limits.go.
type ResolveParams struct {
	ServiceID       uint64 // the service asked for: wire.CMServiceID(wire.CMPortSpaceUDP, port)
	Path            Path   // Local and Remote must be set, both of the same IP version
	SrcPort         uint16 // our own RDMA port
	ResponseTimeout uint8  // code, 1..31: how long the peer has for an answer
	MaxRetries      uint8  // 1..15: how often we ask again
	// Private is the application's data: up to 180 bytes if ServiceID is an IP port, else 216.
	Private []byte
	Context any
}

// Answer is what a query is answered with. QPN, QKey and Private count if Status is wire.CMSidrOK.
type Answer struct {
	Status  wire.CMSidrStatus
	QPN     uint32 // 24 bits
	QKey    uint32
	Private []byte // up to 136 bytes
}

// Resolve asks a peer: it sends a SIDR_REQ, again if need be. EventResolved or EventUnreachable
// will tell what came of it; then the query is over. ErrInvalid names the parameter that is wrong;
// ErrLimit says that the machine has Config.MaxConns connections.
func (m *Machine) Resolve(now Time, p *ResolveParams) (*Query, error) {
	m.now = now
	req := wire.CMSidrReq{PartitionKey: defaultPKey, ServiceID: p.ServiceID}
	if err := m.checkResolve(p, &req); err != nil {
		return nil, fmt.Errorf("cm: Resolve: %w", err)
	}
	c := &Conn{Context: p.Context, query: true, path: p.Path.or64(), serviceID: p.ServiceID,
		timeout: span(or(p.ResponseTimeout, DefaultResponseTimeout)), retries: or(p.MaxRetries, DefaultMaxRetries)}
	m.add(c, StateSIDRReqSent)
	req.RequestID = c.localID
	ask(m, c, mad(c.ownTID(), &req))
	return (*Query)(c), nil
}

func (m *Machine) checkResolve(p *ResolveParams, req *wire.CMSidrReq) error {
	switch {
	case p.ResponseTimeout > 31:
		return invalid("response timeout %d is above 31", p.ResponseTimeout)
	case p.MaxRetries > 15:
		return invalid("%d retries are more than 15", p.MaxRetries)
	}
	if err := p.Path.check(); err != nil {
		return err
	}
	if err := putPrivate(req.PrivateData[:], p.ServiceID, p.SrcPort, p.Path, p.Private); err != nil {
		return err
	}
	return m.room()
}

// State returns where the query stands.
func (q *Query) State() State { return q.state }

// Path is where the query goes, and afterwards the datagrams.
func (q *Query) Path() Path { return q.path }

// ServiceID is the service that is asked for.
func (q *Query) ServiceID() uint64 { return q.serviceID }

// Answer answers a peer's query.
func (q *Query) Answer(now Time, a *Answer) error {
	c := (*Conn)(q)
	c.m.now = now
	if err := c.may(callAccept); err != nil {
		return err
	}
	rep := wire.CMSidrRep{RequestID: c.remoteID, Status: a.Status, QPN: a.QPN, QKey: a.QKey, ServiceID: c.serviceID}
	if a.QPN > 1<<24-1 {
		return fmt.Errorf("cm: Answer: %w", invalid("QPN 0x%x has more than 24 bits", a.QPN))
	}
	if err := put(rep.PrivateData[:], a.Private, "SIDR_REP"); err != nil {
		return fmt.Errorf("cm: Answer: %w", err)
	}
	c.m.step(c, callAccept, mad(c.tid, &rep))
	return nil
}

// Drop forgets a peer's query as one that its listener has no place for, as Conn.Drop does.
func (q *Query) Drop(now Time) error { return (*Conn)(q).Drop(now) }

// Close lets go of the query: there will be no event of it. One of a peer that has no answer yet is
// rejected. Closing twice does no harm.
func (q *Query) Close(now Time) { (*Conn)(q).Close(now) }

// handleSIDRREQ: a peer asks.
func (m *Machine) handleSIDRREQ(in *wire.MAD) {
	var req wire.CMSidrReq
	_ = wire.GetCM(in, &req)
	peer := peerID{gid: m.in.from.Remote, id: req.RequestID, query: true}
	if c := m.byPeer[peer]; c != nil {
		m.deliver(c, gotSIDRREQ)
		return
	}
	l := m.listener(req.ServiceID, m.in.from.Local)
	var header wire.CMIPHeader
	status := wire.CMSidrOK
	switch {
	case l == nil:
		status = wire.CMSidrUnsupported
	case req.PartitionKey != defaultPKey:
		status = wire.CMSidrRejected
	case isIPPort(req.ServiceID) && (header.Get(req.PrivateData[:]) != nil ||
		header.Src.Is4() != m.in.from.Local.Is4()):
		status = wire.CMSidrRejected
	}
	if status != wire.CMSidrOK {
		m.sendTo(m.in.from, mad(m.in.tid, &wire.CMSidrRep{
			RequestID: req.RequestID,
			Status:    status,
			ServiceID: req.ServiceID,
		}))
		return
	}
	if !m.place(l) {
		return
	}
	c := &Conn{query: true, passive: true, remoteID: req.RequestID, tid: m.in.tid, peer: peer, path: m.in.from,
		serviceID: req.ServiceID, listener: l, hold: 2 * span(DefaultResponseTimeout)}
	m.add(c, StateSIDRReqRcvd)
	m.byPeer[peer] = c
	private := req.PrivateData[:]
	if isIPPort(req.ServiceID) {
		private = private[wire.CMIPHeaderLen:]
	}
	m.tell(c, Event{Type: EventSIDRRequest, Listener: l, Header: header, Private: private})
}

// handleSIDRREP: the peer has answered our query.
func (m *Machine) handleSIDRREP(in *wire.MAD) {
	_ = wire.GetCM(in, &m.in.sidr)
	c, ours := m.find(0, m.in.sidr.RequestID)
	switch {
	case c == nil && ours:
	case c == nil:
		m.drop(DropUnknown)
	default:
		m.deliver(c, gotSIDRREP)
	}
}

func beResolved(m *Machine, c *Conn, _ *wire.MAD) {
	r := &m.in.sidr
	m.tell(c, Event{Type: EventResolved, Status: r.Status, QPN: r.QPN, QKey: r.QKey, Private: clone(r.PrivateData[:])})
}

func answerQueryClosed(m *Machine, c *Conn, _ *wire.MAD) {
	sendOnce(m, c, mad(c.tid, &wire.CMSidrRep{
		RequestID: c.remoteID,
		Status:    wire.CMSidrRejected,
		ServiceID: c.serviceID,
	}))
}
