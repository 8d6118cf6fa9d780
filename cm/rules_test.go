package cm

// Stories, one for each rule that the table alone does not show: times, who is believed, and what
// happens when both sides do something at once.

import (
	"testing"

	"github.com/goroce/goroce/wire"
)

// listen lets a machine of the pair take requests.
func (p *pair) listen(end int, o ListenOptions) *Listener {
	p.t.Helper()
	l, err := p.m[end].Listen(service, o)
	p.must(err)
	return l
}

func (p *pair) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// connect is a connection of the pair, established.
func (p *pair) connect(params *ConnectParams, passiveQPN uint32) (a, b *Conn) {
	p.t.Helper()
	a, err := p.m[0].Connect(p.now, params)
	p.must(err)
	b = p.event(1, EventConnectRequest).Conn
	p.must(b.Accept(p.now, &AcceptParams{ConnParam: ConnParam{QPN: passiveQPN}}))
	p.event(0, EventConnectResponse)
	p.must(a.Establish(p.now, nil))
	p.event(1, EventEstablished)
	return a, b
}

// lose throws away what an end has to send, and says what it was.
func (p *pair) lose(end int) (lost []wire.CMAttribute) {
	for msg := (Message{}); p.m[end].PollTransmit(&msg); {
		lost = append(lost, msg.MAD.Attribute())
	}
	return lost
}

// quiet wants no event.
func (p *pair) quiet(end int) {
	p.t.Helper()
	p.carry()
	if e, ok := p.m[end].PollEvent(); ok {
		p.t.Errorf("machine %d tells %v", end, e.Type)
	}
}

// states wants a connection to be in a state.
func states(t *testing.T, c *Conn, want State) {
	t.Helper()
	if c.State() != want {
		t.Errorf("0x%x is in %v, want %v", c.LocalID(), c.State(), want)
	}
}

// TestRetries: what must be answered is sent 1 + retries times, a timeout apart; then the attempt
// is over (section 9.6).
func TestRetries(t *testing.T) {
	reqSent := 2*span(DefaultPacketLifetime) + span(DefaultResponseTimeout)
	for _, c := range []struct {
		first State
		by    []input
		what  wire.CMAttribute
		sends int
		every Time
		end   string
	}{
		{StateReqSent, nil, wire.CMAttrREQ, 15, reqSent, "→ IDLE, sends REJ (timeout of other), tells UNREACHABLE"},
		{StateReqRcvd, []input{callAccept}, wire.CMAttrREP, 3, span(20), "→ REFUSED, sends REJ (timeout of other), tells UNREACHABLE"},
		{StateReqSent, []input{gotREP, callEstablish, callDisconnect}, wire.CMAttrDREQ, 15, reqSent,
			"→ TIMEWAIT, tells DISCONNECTED (timeout)"},
		{StateSIDRReqSent, nil, wire.CMAttrSIDRREQ, 15, span(20), "→ IDLE, tells UNREACHABLE"},
	} {
		s := newStage(c.first)
		for _, on := range c.by {
			s.do(on)
		}
		s.outcome()
		for n := range c.sends + 1 {
			if due := s.m.PollTimeout(); due != s.now+c.every {
				t.Fatalf("%v: sent again after %v, want %v", c.what, due-s.now, c.every)
			}
			s.m.HandleTimeout(s.now + c.every - 1)
			if early := s.outcome(); early != "→ "+s.c.state.String() {
				t.Fatalf("%v: too early: %s", c.what, early)
			}
			s.now += c.every
			s.m.HandleTimeout(s.now)
			want := "→ " + s.c.state.String() + ", sends " + c.what.String() + " again"
			if n == c.sends {
				want = c.end
			}
			if got := s.outcome(); got != want {
				t.Fatalf("%v, deadline %d: %s, want %s", c.what, n+1, got, want)
			}
		}
		if got := s.m.Stats().Retried[c.what-wire.CMAttrREQ]; got != uint64(c.sends) {
			t.Errorf("%v: %d counted as sent again", c.what, got)
		}
	}
}

// TestMRA: it gives the peer the time that it asks for, within bounds, on top of what it has; it
// does not give it more tries.
func TestMRA(t *testing.T) {
	for code, want := range map[uint8]Time{10: span(10), 24: span(24), 26: span(26), 31: span(26)} {
		s := newStage(StateReqSent)
		every := s.c.timeout
		s.hear(&wire.CMMra{RemoteCommID: s.c.localID, LocalCommID: peerID1, MessageMRAed: wire.CMWhichREQ, ServiceTimeout: code})
		if due := s.m.PollTimeout(); due != s.now+want+every {
			t.Errorf("code %d: sent again after %v, want %v", code, due-s.now, want+every)
		}
		s.now = s.m.PollTimeout()
		s.m.HandleTimeout(s.now)
		if due := s.m.PollTimeout(); s.c.state != StateReqSent || due != s.now+every || s.c.tries != DefaultMaxRetries-1 {
			t.Errorf("then: %v, again after %v, %d tries", s.c.state, due-s.now, s.c.tries)
		}
	}
	s := newStage(StateReqSent)
	s.hear(&wire.CMMra{RemoteCommID: s.c.localID, LocalCommID: peerID1, MessageMRAed: wire.CMWhichREP, ServiceTimeout: 20})
	if states(t, s.c, StateReqSent); s.m.Stats().Drops[DropUnexpected] != 1 {
		t.Error("a MRA of a REP that was never sent")
	}
}

// TestCodesOfPeersAreBounded: neither a peer without patience nor one with too much makes us send
// or keep more than we want.
func TestCodesOfPeersAreBounded(t *testing.T) {
	for _, c := range []struct {
		code          uint8
		timeout, hold Time
	}{{0, span(14), span(14)}, {14, span(14), span(14)}, {20, span(20), span(20)}, {31, span(22), span(22)}} {
		s := newStage(StateReqRcvd)
		req := s.req
		req.LocalCommID, req.LocalQPN = 1, 1
		req.LocalCMResponseTimeout, req.Primary.LocalAckTimeout = c.code, c.code
		s.hear(&req)
		e, _ := s.m.PollEvent()
		if e.Conn.timeout != c.timeout || e.Conn.hold != c.hold {
			t.Errorf("code %d: waits %v, remembers %v", c.code, e.Conn.timeout, e.Conn.hold)
		}
	}
}

// TestSimultaneousConnects: two that call each other at once get two connections.
func TestSimultaneousConnects(t *testing.T) {
	p := newPair(t)
	var c [2]*Conn
	for i, m := range p.m {
		p.listen(i, ListenOptions{})
		params := p.params()
		params.Path = Path{Local: p.gid[i], Remote: p.gid[1-i]}
		var err error
		c[i], err = m.Connect(p.now, params)
		p.must(err)
	}
	for i := range p.m {
		b := p.event(i, EventConnectRequest).Conn
		p.must(b.Accept(p.now, &AcceptParams{ConnParam: ConnParam{QPN: 0x999}}))
	}
	for i := range p.m {
		p.event(i, EventConnectResponse)
		p.must(c[i].Establish(p.now, nil))
	}
	for i, m := range p.m {
		p.event(i, EventEstablished)
		if n, _ := m.Len(); n != 2 {
			t.Errorf("machine %d has %d connections", i, n)
		}
	}
}

// TestCrossingDREQs: both sides disconnect at once; each is the other's answer.
func TestCrossingDREQs(t *testing.T) {
	p := newPair(t)
	p.listen(1, ListenOptions{})
	a, b := p.connect(p.params(), 0x222)
	p.must(a.Disconnect(p.now, nil))
	p.must(b.Disconnect(p.now, nil))
	p.event(0, EventDisconnected)
	p.event(1, EventDisconnected)
	p.quiet(0)
	p.quiet(1)
	states(t, a, StateTimeWait)
	states(t, b, StateTimeWait)
}

// TestLostRTU: the peer's REP is answered by the RTU once more.
func TestLostRTU(t *testing.T) {
	p := newPair(t)
	p.listen(1, ListenOptions{})
	a, err := p.m[0].Connect(p.now, p.params())
	p.must(err)
	b := p.event(1, EventConnectRequest).Conn
	p.must(b.Accept(p.now, &AcceptParams{ConnParam: ConnParam{QPN: 1}}))
	p.event(0, EventConnectResponse)
	p.must(a.Establish(p.now, []byte("ready")))
	p.lose(0)
	p.now = p.m[1].PollTimeout()
	p.m[1].HandleTimeout(p.now)
	if e := p.event(1, EventEstablished); string(e.Private[:5]) != "ready" || len(e.Private) != MaxPrivateRTU {
		t.Errorf("%q", e.Private)
	}
}

// TestREPAfterTheEnd: a REP that comes when the active side has given up, and its REJ was lost, is
// refused; so is a RTU.
func TestREPAfterTheEnd(t *testing.T) {
	p := newPair(t)
	p.listen(1, ListenOptions{})
	a, err := p.m[0].Connect(p.now, p.params())
	p.must(err)
	b := p.event(1, EventConnectRequest).Conn
	a.Close(p.now)
	p.lose(0)
	p.must(b.Accept(p.now, &AcceptParams{ConnParam: ConnParam{QPN: 1}}))
	if e := p.event(1, EventRejected); e.Reason != wire.CMRejInvalidCommID {
		t.Errorf("%v", e.Reason)
	}
	p.quiet(0)

	a, b = p.connect(p.params(), 0x222)
	p.m[1] = newPair(t).m[1] // it crashes
	p.m[0].HandleMAD(p.now, Path{Local: p.gid[0], Remote: p.gid[1]}, mad(b.tid, &wire.CMRep{
		LocalCommID:  b.localID,
		RemoteCommID: a.localID,
		LocalQPN:     0x222,
	})[:])
	if e := p.event(0, EventDisconnected); e.Reason != wire.CMRejInvalidCommID { // by its RTU
		t.Errorf("%v", e.Reason)
	}
}

// TestWithdrawal: who withdraws a REQ names its CA GUID, as it knows no ID of the peer; and the
// passive side finds its connection by that.
func TestWithdrawal(t *testing.T) {
	p := newPair(t)
	p.listen(1, ListenOptions{})
	a, err := p.m[0].Connect(p.now, p.params())
	p.must(err)
	b := p.event(1, EventConnectRequest).Conn
	a.Close(p.now)
	e := p.event(1, EventRejected)
	if e.Reason != wire.CMRejTimeout || len(e.ARI) != 8 || e.ARI[6] != 1 || e.ARI[7] != 0 || e.Conn != b {
		t.Errorf("%v % x", e.Reason, e.ARI)
	}
	p.quiet(1)
}

// TestReused: a peer that uses its communication ID or its queue pair for a new connection seems to
// have forgotten the old one (section 9.7): the new one gets a REJ, stale, and the peer is asked.
// If it says that it knows nothing of it the old one ends.
func TestReused(t *testing.T) {
	for name, reuse := range map[string]func(*wire.CMReq){
		"the ID":         func(r *wire.CMReq) { r.LocalQPN++ },
		"the queue pair": func(r *wire.CMReq) { r.LocalCommID++ },
	} {
		s := newStage(StateReqRcvd)
		s.do(callAccept)
		s.do(gotRTU)
		s.outcome()
		req := s.req
		reuse(&req)
		s.hear(&req)
		if got := s.outcome(); got != "→ ESTABLISHED, sends REJ (stale connection of REQ), DREQ" {
			t.Errorf("%s: %s", name, got)
		}
		s.do(gotDREP)
		if got := s.outcome(); got != "→ TIMEWAIT, tells DISCONNECTED (stale connection)" {
			t.Errorf("%s: %s", name, got)
		}
		s.hear(&req)
		if got := s.outcome(); got != "→ TIMEWAIT, sends REJ (stale connection of REQ) again" {
			t.Errorf("%s, in the time-wait: %s", name, got)
		}
		s.do(timeOver)
		s.outcome()
		s.hear(&req)
		if e, ok := s.m.PollEvent(); !ok || e.Type != EventConnectRequest {
			t.Errorf("%s, after it: %v", name, e.Type)
		}
	}
}

// TestStaleREP: so it is with a REP from a queue pair that is in another connection, which goes on
// if the peer knows it.
func TestStaleREP(t *testing.T) {
	p := newPair(t)
	p.listen(1, ListenOptions{})
	old, known := p.connect(p.params(), 0x222)
	params := p.params()
	params.QPN++
	_, err := p.m[0].Connect(p.now, params)
	p.must(err)
	p.must(p.event(1, EventConnectRequest).Conn.Accept(p.now, &AcceptParams{ConnParam: ConnParam{QPN: 0x222}}))
	if e := p.event(0, EventRejected); e.Reason != wire.CMRejStale {
		t.Errorf("%v", e.Reason)
	}
	if e := p.event(1, EventRejected); e.Reason != wire.CMRejStale {
		t.Errorf("%v", e.Reason)
	}
	if sent := p.m[0].Stats().Sent[wire.CMAttrDREQ-wire.CMAttrREQ]; sent != 1 {
		t.Errorf("the peer was asked %d times", sent)
	}
	states(t, old, StateEstablished)
	states(t, known, StateEstablished)
}

// TestStrangers: a message from another address than the connection's, or with another ID of the
// peer, is not believed, whatever it is.
func TestStrangers(t *testing.T) {
	elsewhere := peerPath
	elsewhere.Remote[15] = 9
	for state, way := range reach {
		for on := gotREQ; on < peerForgot; on++ {
			s := newStage(way.first)
			for _, step := range way.by {
				s.do(step)
			}
			s.outcome()
			msg := s.message(on)
			if msg == nil || on == gotREQ || on == gotSIDRREQ {
				continue // a request of a stranger is one of its own
			}
			before := s.m.Stats().Drops
			s.m.HandleMAD(s.now, elsewhere, mad(peerTID, msg)[:])
			if got := s.outcome(); got != "→ "+state.String() || s.m.Stats().Drops[DropAddress] != before[DropAddress]+1 {
				t.Errorf("%v, %v from elsewhere: %s", state, on, got)
			}
		}
	}
	s := newStage(StateReqRcvd)
	s.do(callAccept)
	s.do(gotRTU)
	s.outcome()
	for _, msg := range []wire.CMMessage{
		&wire.CMDreq{LocalCommID: peerID1, RemoteCommID: s.c.localID, RemoteQPN: ourQP + 1},
		&wire.CMRej{LocalCommID: peerID1 + 1, RemoteCommID: s.c.localID, Reason: wire.CMRejNoQP},
		&wire.CMMra{LocalCommID: peerID1 + 1, RemoteCommID: s.c.localID},
		&wire.CMDrep{LocalCommID: peerID1 + 1, RemoteCommID: s.c.localID},
		&wire.CMApr{LocalCommID: peerID1, RemoteCommID: s.c.localID},
	} {
		if s.hear(msg); s.outcome() != "→ ESTABLISHED" {
			t.Errorf("%v: %v", msg.Attribute(), s.c.state)
		}
	}
}

// TestDREQOfNobody: who asks to part from nobody is answered, so that it ends (section 9.7).
func TestDREQOfNobody(t *testing.T) {
	p := newPair(t)
	p.listen(1, ListenOptions{})
	a, _ := p.connect(p.params(), 0x222)
	p.m[1] = newPair(t).m[1] // it crashes
	p.must(a.Disconnect(p.now, nil))
	if e := p.event(0, EventDisconnected); e.Reason != 0 {
		t.Errorf("%v", e.Reason)
	}
}

// TestIDsAreUnique: a communication ID that is in use, or 0, is not given out.
func TestIDsAreUnique(t *testing.T) {
	p := newPair(t)
	m := New(Config{Rand: dealt(0, 1, 0x77, 2, 0x77, 0, 0x78)})
	a, err := m.Connect(p.now, p.params())
	p.must(err)
	b, err := m.Connect(p.now, p.params())
	p.must(err)
	if a.LocalID() != 0x77 || b.LocalID() != 0x78 {
		t.Errorf("0x%x, 0x%x", a.LocalID(), b.LocalID())
	}
}

// TestLAP: there are no alternate paths over RoCE, and who asks is told so.
func TestLAP(t *testing.T) {
	s := newStage(StateReqRcvd)
	s.do(callAccept)
	s.do(gotRTU)
	s.outcome()
	for id, want := range map[uint32]wire.CMAprStatus{peerID1: aprUnsupported, peerID1 + 1: aprInvalidCommID} {
		s.hear(&wire.CMLap{LocalCommID: id, RemoteCommID: s.c.localID})
		var msg Message
		var apr wire.CMApr
		if !s.m.PollTransmit(&msg) || wire.GetCM(&msg.MAD, &apr) != nil || apr.Status != want || apr.RemoteCommID != id ||
			msg.MAD.TransactionID() != peerTID {
			t.Errorf("%s", wire.AppendMAD(nil, &msg.MAD))
		}
	}
	states(t, s.c, StateEstablished)
}
