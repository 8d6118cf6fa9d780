package cm

// Peers, and who pretends to be one: what somebody who can send in a peer's name, and sees none of
// its packets, cannot do; and how long a peer that asks for time is waited for.

import (
	"testing"

	"github.com/goroce/goroce/wire"
)

// established is a stage whose connection is in use; the application has heard all.
func established() *stage {
	s := newStage(StateReqRcvd)
	s.do(callAccept)
	s.do(gotRTU)
	s.outcome()
	return s
}

// TestBlindREQ: REQs in the peer's name, of all queue pairs that it may have, end no connection,
// whether somebody listens there or not. Whoever has guessed the number makes us ask the peer, who
// knows the connection, and that is all.
func TestBlindREQ(t *testing.T) {
	const guesses = 2048 // the peer's queue pair is one of these
	for name, service := range map[string]uint64{"a listener": service, "nobody": service + 1} {
		s := established()
		asked := 0
		for qpn := range uint32(guesses) {
			req := s.req
			req.ServiceID, req.LocalCommID, req.LocalQPN = service, 0x10000+qpn, qpn
			s.m.HandleMAD(s.now, peerPath, mad(5, &req)[:])
			for msg := (Message{}); s.m.PollTransmit(&msg); {
				var dreq wire.CMDreq
				if wire.GetCM(&msg.MAD, &dreq) == nil {
					asked++
					if dreq.RemoteQPN == peerQP || dreq.RemoteCommID != peerID1 || dreq.LocalCommID != s.c.localID {
						t.Errorf("%s: a DREQ for queue pair 0x%x would end the connection", name, dreq.RemoteQPN)
					}
				}
			}
		}
		if asked != 1 || s.c.state != StateEstablished {
			t.Errorf("%s: after %d guesses the peer was asked %d times, and the connection is in %v", name, guesses, asked, s.c.state)
		}
	}
}

// TestBlindWhileMade: so it is with a connection that is still being made, on either side.
func TestBlindWhileMade(t *testing.T) {
	for _, state := range []State{StateReqRcvd, StateMRAReqSent, StateRepSent, StateMRARepRcvd, StateRepRcvd, StateMRARepSent} {
		s := newStage(reach[state].first)
		for _, on := range reach[state].by {
			s.do(on)
		}
		s.outcome()
		req := newStage(StateReqRcvd).req
		req.LocalCommID = 5 // of the peer's queue pair
		s.hear(&req)
		if got := s.outcome(); got != "→ "+state.String()+", sends REJ (stale connection of REQ)" {
			t.Errorf("%v: %s", state, got)
		}
	}
}

// TestBegunAnew: a client is killed, and starts again with the same queue pair number, as NICs
// number them from the same one after a start. The application has not answered its first request.
// While the peer may still ask for that one, the new one is refused, as a forger's would be; once
// it has not for twice as long as it was to wait, the new one takes its place.
func TestBegunAnew(t *testing.T) {
	for _, by := range [][]input{nil, {gotREQ}} { // the copy is answered with a MRA
		s := newStage(StateReqRcvd)
		for _, on := range by {
			s.do(on)
		}
		s.outcome()
		c, least := s.c, s.c.linger+s.c.promised
		if by != nil && least < span(ServiceTimeout) {
			t.Errorf("the peer was told to wait %d ns, and its silence counts after %d", span(ServiceTimeout), least)
		}
		req, began := newStage(StateReqRcvd).req, s.now
		for req.LocalCommID = 5; ; req.LocalCommID++ { // it asks each second
			s.now += second
			s.hear(&req)
			if c.state == StateIdle {
				break
			}
			if s.now-began > least {
				t.Fatalf("it is refused after %d s", (s.now-began)/second)
			}
		}
		if s.now-began <= least || s.m.byQPN[peerQPN{gid: c.peer.gid, guid: c.peer.guid, qpn: req.LocalQPN}].remoteID != req.LocalCommID {
			t.Errorf("after %d s the new request has not taken the place of the old one", (s.now-began)/second)
		}
	}
}

// TestStillAsking: somebody who knows a peer's queue pair ends no request that the peer still asks
// for, however slowly it does, and however often and for how long it is told to wait. It may ignore
// a second MRA (section 9.7).
func TestStillAsking(t *testing.T) {
	for _, c := range []struct {
		ack   uint8 // code of the peer's LocalAckTimeout: twice the time that a packet is under way
		every Time  // the application tells it to wait
		waits []uint8
	}{{ack: 17}, {ack: maxCode}, {17, 50 * second, []uint8{24}}, {17, 50 * second, []uint8{24, 14}}} {
		s := newStage(StateReqRcvd)
		if err := s.c.Drop(s.now); err != nil {
			t.Fatal(err)
		}
		s.req.Primary.LocalAckTimeout, s.req.RemoteCMResponseTimeout = c.ack, DefaultResponseTimeout
		s.hear(&s.req)
		e, _ := s.m.PollEvent()
		s.c = e.Conn
		forged, began, told := s.req, s.now, 0
		interval := span(c.ack) + span(DefaultResponseTimeout)
		asks := began + interval
		for forged.LocalCommID = 5; s.c.state != StateIdle && s.now < began+600*second; forged.LocalCommID++ {
			s.now += second
			if c.every != 0 && (s.now-began)%c.every == 0 {
				service := c.waits[told%len(c.waits)]
				told++
				if err := s.c.MRA(s.now, service); err != nil {
					t.Fatal(err)
				}
				asks = max(asks, s.now+span(service)+interval)
			}
			s.hear(&forged)
			s.lost()
			if s.now >= asks {
				s.hear(&s.req) // the answer is a MRA
				asks = s.now + span(ServiceTimeout) + interval
			}
		}
		if s.c.state != StateMRAReqSent {
			t.Errorf("%+v: after %d s it is in %v", c, (s.now-began)/second, s.c.state)
		}
	}
}

// TestProbes: whoever knows a connection's number has us ask its peer, but once only within the
// time that the peer has for an answer.
func TestProbes(t *testing.T) {
	s := established()
	asked, until := 0, s.now+3*s.c.timeout
	for id := uint32(0x10000); s.now < until; id++ {
		req := s.req
		req.LocalCommID = id
		s.m.HandleMAD(s.now, peerPath, mad(5, &req)[:])
		for msg := (Message{}); s.m.PollTransmit(&msg); {
			if wire.GetCM(&msg.MAD, new(wire.CMDreq)) == nil {
				asked++
			}
		}
		s.now += s.c.timeout / 100
	}
	if asked != 3 {
		t.Errorf("the peer was asked %d times in 3 times the time that it has", asked)
	}
}

// TestBlindREJ: a REJ that names the peer's ID alone, as one that gives up may, ends no connection
// whose peer knows our ID.
func TestBlindREJ(t *testing.T) {
	rej := wire.CMRej{LocalCommID: peerID1, Reason: wire.CMRejTimeout, ARILen: 8}
	rej.ARI[7] = peerCA
	s := established()
	if s.hear(&rej); s.outcome() != "→ ESTABLISHED" {
		t.Errorf("it is in %v", s.c.state)
	}
	s = newStage(StateReqRcvd)
	if s.hear(&rej); s.outcome() != "→ REFUSED, tells REJECTED (timeout)" {
		t.Errorf("a request that is withdrawn is in %v", s.c.state)
	}
}

// TestMRAs: a peer that asks for time again and again gets 275 s from its first MRA on, and then
// the tries that are left. It is given up on either side.
func TestMRAs(t *testing.T) {
	for _, side := range []struct {
		first State
		by    []input
	}{{StateReqSent, nil}, {StateReqRcvd, []input{callAccept}}} {
		for _, c := range []struct{ every, service Time }{{200 * second, 31}, {second, 0}, {60 * second, 24}} {
			s := newStage(side.first)
			for _, on := range side.by {
				s.do(on)
			}
			s.outcome()
			mra := s.message(gotMRA).(*wire.CMMra)
			mra.ServiceTimeout = uint8(c.service)
			began := s.now
			longest := maxService + Time(s.c.retries+2)*s.c.timeout
			for next := s.now; s.c.state != StateIdle && s.c.state != StateRefused && s.now <= began+longest; {
				if s.m.PollTimeout() < next {
					s.now = s.m.PollTimeout()
					s.m.HandleTimeout(s.now)
					continue
				}
				s.now, next = next, next+c.every
				s.hear(mra)
			}
			if e, ok := s.m.PollEvent(); !ok || e.Type != EventUnreachable {
				t.Errorf("%v, a MRA each %d s: after %d s it is in %v", side.first, c.every/second, (s.now-began)/second, s.c.state)
			}
		}
	}
}
