package cm

// Messages of peers, up to the table: whose is it (section 9.7)?
// Stages: what is kept of a message → the table of messages → whose connection it is → message by
// message → answers to what is nobody's.

import "github.com/goroce/goroce/wire"

// received is the message that is being handled, as far as the rows of the table look at it.
type received struct {
	from    Path
	tid     uint64
	attr    wire.CMAttribute
	options uint32 // the option bits of a REQ or REP
	local   uint32 // the sender's communication ID
	peer    peerID // the sender of a REP
	rep     wire.CMRep
	rej     wire.CMRej
	sidr    wire.CMSidrRep
	service uint8  // of a MRA
	private []byte // lent
}

// rejection is an event of the REJ.
func (in *received) rejection(t EventType) Event {
	return Event{
		Type:    t,
		Reason:  in.rej.Reason,
		ARI:     clone(in.rej.ARI[:min(int(in.rej.ARILen), len(in.rej.ARI))]),
		Private: clone(in.rej.PrivateData[:]),
	}
}

// handlers are indexed by attribute from REQ on.
var handlers = [numAttributes]func(*Machine, *wire.MAD){
	(*Machine).handleREQ, (*Machine).handleMRA, (*Machine).handleREJ, (*Machine).handleREP, (*Machine).handleRTU,
	(*Machine).handleDREQ, (*Machine).handleDREP, (*Machine).handleSIDRREQ, (*Machine).handleSIDRREP,
	(*Machine).handleLAP, (*Machine).handleAPR,
}

// find returns the connection that a message names by our ID and by the sender's. The sender's must
// be right as soon as it is known, and so must the addresses: nobody else can speak for a peer.
// ours says whether the ID is one of ours, if there is no connection.
func (m *Machine) find(local, remote uint32) (c *Conn, ours bool) {
	c = m.conns[remote]
	switch {
	case c == nil:
		return nil, false
	case c.path.Remote != m.in.from.Remote || c.path.Local != m.in.from.Local:
		m.drop(DropAddress)
		return nil, true
	case c.remoteID != 0 && local != c.remoteID:
		return nil, false
	}
	return c, true
}

// deliver takes a message of a connection through the table.
func (m *Machine) deliver(c *Conn, on input) {
	if !m.step(c, on, nil) {
		m.drop(DropUnexpected)
	}
}

// handleMRA: the peer wants time for its answer to what we have sent.
func (m *Machine) handleMRA(in *wire.MAD) {
	var mra wire.CMMra
	_ = wire.GetCM(in, &mra)
	c, ours := m.find(mra.LocalCommID, mra.RemoteCommID)
	switch {
	case c == nil && ours:
	case c == nil:
		m.drop(DropUnknown)
	case c.passive != (mra.MessageMRAed == wire.CMWhichREP), c.patience != 0 && m.now >= c.patience:
		m.drop(DropUnexpected)
	default:
		m.in.service = mra.ServiceTimeout
		m.deliver(c, gotMRA)
	}
}

// handleREJ: the peer refuses, or has waited in vain. Then it may not know our ID, and gives its
// CA GUID instead; once it knows our ID it has to give that, which is harder to guess.
func (m *Machine) handleREJ(in *wire.MAD) {
	rej := &m.in.rej
	_ = wire.GetCM(in, rej)
	c, ours := m.find(rej.LocalCommID, rej.RemoteCommID)
	if rej.RemoteCommID == 0 && rej.Reason == wire.CMRejTimeout {
		guid := uint64(0)
		for _, b := range rej.ARI[:8] {
			guid = guid<<8 | uint64(b)
		}
		c = m.byPeer[peerID{gid: m.in.from.Remote, guid: guid, id: rej.LocalCommID}]
		if c != nil && traits[c.state].owes == owesNobody {
			c = nil
		}
	}
	switch {
	case c == nil && ours:
	case c == nil:
		m.drop(DropUnknown)
	case rej.Reason == wire.CMRejStale:
		m.deliver(c, gotStale)
	default:
		m.deliver(c, gotREJ)
	}
}

// handleREP: the peer accepts.
func (m *Machine) handleREP(in *wire.MAD) {
	rep := &m.in.rep
	_ = wire.GetCM(in, rep)
	c, ours := m.find(rep.LocalCommID, rep.RemoteCommID)
	switch {
	case rep.LocalCommID == 0:
		m.drop(DropMalformed)
		return
	case c == nil && ours:
		return
	case c == nil: // nobody's any more: the peer need not ask for an RTU for a minute
		m.drop(DropUnknown)
		m.refuse(rep.RemoteCommID, rep.LocalCommID, wire.CMWhichREP, wire.CMRejInvalidCommID)
		return
	}
	if c.transport == XRC { // section 9.2
		rep.LocalQPN = rep.LocalEECN
	}
	m.in.peer = peerID{gid: m.in.from.Remote, guid: rep.LocalCAGUID, id: rep.LocalCommID}
	if c.remoteID == 0 {
		other := m.byPeer[m.in.peer]
		if other == nil {
			other = m.byQPN[peerQPN{gid: m.in.peer.gid, guid: m.in.peer.guid, qpn: rep.LocalQPN}]
		}
		if other != nil { // the peer is in two connections at once: it has forgotten the other one
			m.refuse(rep.RemoteCommID, rep.LocalCommID, wire.CMWhichREP, wire.CMRejStale)
			m.step(other, peerForgot, nil)
			m.deliver(c, peerForgot)
			return
		}
	}
	m.deliver(c, gotREP)
}

// handleRTU: the peer has got our REP.
func (m *Machine) handleRTU(in *wire.MAD) {
	var rtu wire.CMRtu
	_ = wire.GetCM(in, &rtu)
	c, ours := m.find(rtu.LocalCommID, rtu.RemoteCommID)
	switch {
	case c == nil && ours:
	case c == nil: // we gave up, or are not who sent the REP: the peer must not believe in it
		m.drop(DropUnknown)
		m.refuse(rtu.RemoteCommID, rtu.LocalCommID, wire.CMWhichOther, wire.CMRejInvalidCommID)
	default:
		m.in.private = rtu.PrivateData[:]
		m.deliver(c, gotRTU)
	}
}

// handleDREQ: the peer wants to part. What is nobody's is answered too, so that the peer ends.
func (m *Machine) handleDREQ(in *wire.MAD) {
	var dreq wire.CMDreq
	_ = wire.GetCM(in, &dreq)
	c, ours := m.find(dreq.LocalCommID, dreq.RemoteCommID)
	switch {
	case c == nil && ours:
	case c == nil:
		m.drop(DropUnknown)
		m.sendTo(m.in.from, mad(m.in.tid, &wire.CMDrep{LocalCommID: dreq.RemoteCommID, RemoteCommID: dreq.LocalCommID}))
	case dreq.RemoteQPN != c.own.QPN:
		m.drop(DropUnexpected)
	default:
		m.in.local, m.in.private = dreq.LocalCommID, dreq.PrivateData[:]
		m.deliver(c, gotDREQ)
	}
}

// handleDREP: the peer has heard that we want to part.
func (m *Machine) handleDREP(in *wire.MAD) {
	var drep wire.CMDrep
	_ = wire.GetCM(in, &drep)
	c, ours := m.find(drep.LocalCommID, drep.RemoteCommID)
	switch {
	case c == nil && ours:
	case c == nil:
		m.drop(DropUnknown)
	default:
		m.in.private = drep.PrivateData[:]
		m.deliver(c, gotDREP)
	}
}

// handleLAP: RoCE has no alternate paths.
func (m *Machine) handleLAP(in *wire.MAD) {
	var lap wire.CMLap
	_ = wire.GetCM(in, &lap)
	apr := wire.CMApr{LocalCommID: lap.RemoteCommID, RemoteCommID: lap.LocalCommID, Status: aprUnsupported}
	c, ours := m.find(lap.LocalCommID, lap.RemoteCommID)
	switch {
	case c == nil && ours:
		return
	case c == nil:
		apr.Status = aprInvalidCommID
	}
	m.sendTo(m.in.from, mad(m.in.tid, &apr))
}

const (
	aprInvalidCommID wire.CMAprStatus = 1
	aprUnsupported   wire.CMAprStatus = 2
)

// handleAPR: we never ask.
func (m *Machine) handleAPR(*wire.MAD) { m.drop(DropUnexpected) }

// refuse sends a REJ that belongs to no connection of ours.
func (m *Machine) refuse(local, remote uint32, which wire.CMWhich, reason wire.CMRejReason) {
	m.sendTo(m.in.from, mad(m.in.tid, &wire.CMRej{
		LocalCommID:     local,
		RemoteCommID:    remote,
		MessageRejected: which,
		Reason:          reason,
	}))
}

// refuseREQ refuses a REQ that no connection was made for.
func (m *Machine) refuseREQ(req *wire.CMReq, reason wire.CMRejReason) {
	m.refuse(0, req.LocalCommID, wire.CMWhichREQ, reason)
}
