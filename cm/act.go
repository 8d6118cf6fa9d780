package cm

// What the rows of the table do.
// Stages: messages that are made → sending and asking → giving up → what a peer's message means →
// closing.

import "github.com/goroce/goroce/wire"

// mad is a message, ready to be sent.
func mad(tid uint64, msg wire.CMMessage) *wire.MAD {
	m := new(wire.MAD)
	wire.PutCM(m, tid, msg)
	return m
}

// ownTID is the transaction ID of a REQ, SIDR_REQ or DREQ of ours (section 9.6).
func (c *Conn) ownTID() uint64 { return c.m.agent | uint64(c.localID) }

// which says what a REJ or MRA of ours is about.
func (c *Conn) which() wire.CMWhich {
	switch c.state {
	case StateReqRcvd, StateMRAReqSent:
		return wire.CMWhichREQ
	case StateRepRcvd, StateMRARepSent:
		return wire.CMWhichREP
	}
	return wire.CMWhichOther
}

// rej refuses what the peer has sent last. As with Linux, a REQ that nothing was answered to yet is
// refused without an ID of ours.
func (c *Conn) rej(reason wire.CMRejReason) wire.CMRej {
	rej := wire.CMRej{LocalCommID: c.localID, RemoteCommID: c.remoteID, MessageRejected: c.which(), Reason: reason}
	if c.state == StateReqRcvd {
		rej.LocalCommID = 0
	}
	return rej
}

// rejTimeout says that the peer was waited for in vain. Its ARI is our CA GUID: a peer whose ID is
// not known finds its connection by it (section 9.6).
func (c *Conn) rejTimeout() *wire.MAD {
	rej := c.rej(wire.CMRejTimeout)
	rej.ARILen = 8
	for i := range 8 {
		rej.ARI[i] = byte(c.m.cfg.CAGUID >> (56 - 8*i))
	}
	return mad(c.tid, &rej)
}

func (c *Conn) mra(service uint8) *wire.MAD {
	c.promised, c.repeated = max(c.promised, span(service)), c.m.now
	return mad(c.tid, &wire.CMMra{
		LocalCommID:    c.localID,
		RemoteCommID:   c.remoteID,
		MessageMRAed:   c.which(),
		ServiceTimeout: service,
	})
}

func (c *Conn) dreq() wire.CMDreq {
	return wire.CMDreq{LocalCommID: c.localID, RemoteCommID: c.remoteID, RemoteQPN: c.theirs.QPN}
}

func nothing(*Machine, *Conn, *wire.MAD) {}

// sendOnce sends what nobody confirms. It is kept, for a peer that asks once more.
func sendOnce(m *Machine, c *Conn, out *wire.MAD) {
	c.sent = out
	m.send(c, out)
}

// ask sends what the peer must answer; the timer repeats it.
func ask(m *Machine, c *Conn, out *wire.MAD) {
	c.tries = c.retries
	sendOnce(m, c, out)
}

func sendAgain(m *Machine, c *Conn, _ *wire.MAD) {
	c.tries--
	m.stats.Retried[c.sent.Attribute()-wire.CMAttrREQ]++
	m.send(c, c.sent)
}

// resend answers a copy of what was answered before, in the same way.
func resend(m *Machine, c *Conn, _ *wire.MAD) {
	m.stats.Duplicates[m.in.attr-wire.CMAttrREQ]++
	if c.sent != nil {
		m.send(c, c.sent)
	}
}

func forgetSent(_ *Machine, c *Conn, _ *wire.MAD) { c.sent = nil }

// askForTime tells a peer that repeats what the application has not answered yet to wait.
func askForTime(m *Machine, c *Conn, _ *wire.MAD) {
	m.stats.Duplicates[m.in.attr-wire.CMAttrREQ]++
	sendOnce(m, c, c.mra(ServiceTimeout))
}

// giveUp ends an attempt that got no answer, and says so to the peer, who may hear.
func giveUp(m *Machine, c *Conn, _ *wire.MAD) {
	sendOnce(m, c, c.rejTimeout())
	tellUnreachable(m, c, nil)
}

func tellUnreachable(m *Machine, c *Conn, _ *wire.MAD) { m.tell(c, Event{Type: EventUnreachable}) }

// beToldToWait takes a MRA: the peer gets the time that it asks for, as far as c.patience goes,
// which begins with the first one.
func beToldToWait(m *Machine, c *Conn, _ *wire.MAD) {
	if c.patience == 0 {
		c.patience = m.now + maxService
	}
	c.service = min(span(m.in.service), c.patience-m.now)
}

// takeREP learns from a REP who the peer is.
func takeREP(m *Machine, c *Conn, _ *wire.MAD) {
	rep := &m.in.rep
	c.sent = nil
	c.remoteID, c.peer, c.dstPSN = rep.LocalCommID, m.in.peer, rep.StartingPSN
	c.theirs = ConnParam{QPN: rep.LocalQPN, ResponderResources: rep.ResponderResources,
		InitiatorDepth: rep.InitiatorDepth, FlowControl: rep.EndToEndFlowControl, RetryCount: c.own.RetryCount,
		RNRRetryCount: rep.RNRRetryCount, SRQ: rep.SRQ}
	c.theirs.setOptions(optionsOfREP, rep.VendorID, m.in.options)
	c.ackTimeout = ackTimeout(rep.TargetAckDelay, c.ackTimeout)
	m.byPeer[c.peer], m.byQPN[c.peerQPN()] = c, c
	m.tell(c, Event{Type: EventConnectResponse, Param: c.told(), Private: clone(rep.PrivateData[:])})
}

func beRejected(m *Machine, c *Conn, _ *wire.MAD) {
	c.sent = nil
	m.tell(c, m.in.rejection(EventRejected))
}

// beForgotten ends an attempt whose IDs the peer uses for another.
func beForgotten(m *Machine, c *Conn, _ *wire.MAD) {
	c.sent = nil
	m.tell(c, Event{Type: EventRejected, Reason: wire.CMRejStale})
}

func beEstablished(m *Machine, c *Conn, _ *wire.MAD) {
	c.sent = nil
	m.tell(c, Event{Type: EventEstablished, Private: clone(m.in.private)})
}

// beBroken ends a connection that the peer breaks off without asking.
func beBroken(m *Machine, c *Conn, _ *wire.MAD) {
	c.sent = nil
	m.tell(c, m.in.rejection(EventDisconnected))
}

// beDisconnected takes a DREQ; the application answers it.
func beDisconnected(m *Machine, c *Conn, _ *wire.MAD) {
	c.sent, c.dreqTID = nil, m.in.tid
	m.tell(c, Event{Type: EventDisconnected, Private: clone(m.in.private)})
}

// beDisconnectedEarly takes a DREQ of a peer whose REP was lost: it has accepted, and then changed
// its mind.
func beDisconnectedEarly(m *Machine, c *Conn, _ *wire.MAD) {
	c.remoteID = m.in.local
	answerDREQ(m, c, nil)
	m.tell(c, Event{Type: EventRejected, Reason: wire.CMRejConsumer})
}

// beParted takes a DREP.
func beParted(m *Machine, c *Conn, _ *wire.MAD) {
	c.sent = nil
	m.tell(c, Event{Type: EventDisconnected, Private: clone(m.in.private)})
}

// crossDREQ takes a DREQ that has crossed ours: each answers the other's.
func crossDREQ(m *Machine, c *Conn, _ *wire.MAD) {
	answerDREQ(m, c, nil)
	m.tell(c, Event{Type: EventDisconnected, Private: clone(m.in.private)})
}

// beGone ends a connection whose peer does not answer.
func beGone(m *Machine, c *Conn, _ *wire.MAD) {
	c.sent = nil
	m.tell(c, Event{Type: EventDisconnected, Reason: wire.CMRejTimeout})
}

// answerDREQ answers a DREQ after the end, in the words of the first answer if there was one.
func answerDREQ(m *Machine, c *Conn, _ *wire.MAD) {
	drep := mad(m.in.tid, &wire.CMDrep{LocalCommID: c.localID, RemoteCommID: c.remoteID})
	if c.sent != nil && c.sent.Attribute() == wire.CMAttrDREP {
		*drep = *c.sent
		drep.SetTransactionID(m.in.tid)
	}
	c.sent = drep
	m.send(c, drep)
}

// rejectStale answers a REQ of a connection that is over.
func rejectStale(m *Machine, c *Conn, _ *wire.MAD) {
	m.stats.Duplicates[0]++
	m.send(c, mad(m.in.tid, &wire.CMRej{
		LocalCommID:     c.localID,
		RemoteCommID:    c.remoteID,
		MessageRejected: wire.CMWhichREQ,
		Reason:          wire.CMRejStale,
	}))
}

func leaveTimeWait(m *Machine, c *Conn, _ *wire.MAD) { m.tell(c, Event{Type: EventTimeWaitExit}) }

// withdraw takes back a REQ.
func withdraw(m *Machine, c *Conn, _ *wire.MAD) { sendOnce(m, c, c.rejTimeout()) }

func beDropped(m *Machine, _ *Conn, _ *wire.MAD) { m.drop(DropBacklog) }

// beDisplaced is beDropped for lack of a place.
func beDisplaced(m *Machine, c *Conn, _ *wire.MAD) {
	m.drop(DropBacklog)
	m.takeBack(c, wire.CMRejNoResources)
}

// beOutlived ends a request whose peer has begun anew.
func beOutlived(m *Machine, c *Conn, _ *wire.MAD) { m.takeBack(c, wire.CMRejStale) }

// takeBack ends a request that was not answered. The application is told if it knows of it.
func (m *Machine) takeBack(c *Conn, reason wire.CMRejReason) {
	if !c.heard {
		c.closed = true
		return
	}
	m.tell(c, Event{Type: EventRejected, Reason: reason})
}

func rejectClosed(m *Machine, c *Conn, _ *wire.MAD) {
	rej := c.rej(wire.CMRejConsumer)
	sendOnce(m, c, mad(c.tid, &rej))
}

// probe asks a peer whether it knows the connection, by a DREQ for queue pair 0, which is never the
// connection's: a peer that knows the connection drops that, one that does not answers it with a
// DREP (section 9.7). A forger who sees no packets cannot answer for the peer, as both IDs are
// needed.
func probe(m *Machine, c *Conn, _ *wire.MAD) {
	if c.probed != 0 && m.now-c.probed < c.timeout { // however many such messages come
		return
	}
	c.probed = m.now
	dreq := c.dreq()
	dreq.RemoteQPN = 0
	m.send(c, mad(c.ownTID(), &dreq))
}

// beMissed takes the DREP of a peer that does not know the connection.
func beMissed(m *Machine, c *Conn, _ *wire.MAD) {
	c.sent = nil
	m.tell(c, Event{Type: EventDisconnected, Reason: wire.CMRejStale})
}

// askDREQ disconnects without private data.
func askDREQ(m *Machine, c *Conn, _ *wire.MAD) {
	dreq := c.dreq()
	ask(m, c, mad(c.ownTID(), &dreq))
}

func answerClosed(m *Machine, c *Conn, _ *wire.MAD) {
	sendOnce(m, c, mad(c.dreqTID, &wire.CMDrep{LocalCommID: c.localID, RemoteCommID: c.remoteID}))
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }
