package cm

// The table of states and inputs, walked: every state is reached by the way that a connection takes
// to it, and there everything happens that can happen. What came of it is in testdata/table.txt, to
// be read by people, and held here against the rows.

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/goroce/goroce/wire"
)

var updateFlag = flag.Bool("update", false, "write testdata/table.txt")

// stage is a machine with one connection, and a peer that the test speaks for.
type stage struct {
	m    *Machine
	c    *Conn
	now  Time
	last map[wire.CMAttribute]wire.MAD // the messages that it has sent
	req  wire.CMReq                    // of the peer, if it is the active side
}

const (
	peerID1 = 0x9001 // the peer's communication ID and queue pair
	peerQP  = 0x0333
	ourQP   = 0x0222
	peerCA  = 0x77
	peerTID = 0x5005
)

var peerPath = Path{Local: wire.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}, Remote: wire.GID{10: 0xff, 11: 0xff, 12: 10, 15: 2}}

// newStage begins with the first state of a side: REQ_SENT, REQ_RCVD, or those of queries.
func newStage(first State) *stage {
	m := New(Config{Rand: rand.New(rand.NewPCG(5, 5)).Uint64, CAGUID: 0x55})
	s := &stage{m: m, now: 1 << 40, last: map[wire.CMAttribute]wire.MAD{}}
	if _, err := m.Listen(service, ListenOptions{}); err != nil {
		panic(err)
	}
	switch first {
	case StateReqSent:
		s.c, _ = m.Connect(s.now, &ConnectParams{ServiceID: service, Path: peerPath, MTU: wire.MTU1024, ConnParam: ConnParam{QPN: ourQP}})
	case StateReqRcvd:
		s.req = wire.CMReq{LocalCommID: peerID1, LocalQPN: peerQP, LocalCAGUID: peerCA, ServiceID: service, PartitionKey: 0xffff,
			PathMTU: wire.MTU1024, MaxCMRetries: 3, LocalCMResponseTimeout: 20, Primary: wire.CMPath{
				LocalGID:        peerPath.Remote,
				RemoteGID:       peerPath.Local,
				LocalAckTimeout: 17,
			}}
		_ = putPrivate(s.req.PrivateData[:], service, 1, Path{Local: peerPath.Remote, Remote: peerPath.Local}, nil)
		s.hear(&s.req)
	case StateSIDRReqSent:
		q, _ := m.Resolve(s.now, &ResolveParams{ServiceID: service, Path: peerPath})
		s.c = (*Conn)(q)
	case StateSIDRReqRcvd:
		s.hear(s.query())
	}
	if e, ok := m.PollEvent(); ok {
		s.c = e.conn()
	}
	s.outcome()
	return s
}

func (s *stage) query() *wire.CMSidrReq {
	req := &wire.CMSidrReq{RequestID: peerID1, PartitionKey: 0xffff, ServiceID: service}
	_ = putPrivate(req.PrivateData[:], service, 1, Path{Local: peerPath.Remote, Remote: peerPath.Local}, nil)
	return req
}

// hear gives the machine a message of the peer.
func (s *stage) hear(msg wire.CMMessage) {
	s.m.HandleMAD(s.now, peerPath, mad(peerTID, msg)[:])
}

// outcome says what the machine has sent and told, and what state it is in.
func (s *stage) outcome() string {
	var sent, told []string
	for msg := (Message{}); s.m.PollTransmit(&msg); {
		a := msg.MAD.Attribute()
		name := a.String()
		if a == wire.CMAttrREJ {
			var rej wire.CMRej
			_ = wire.GetCM(&msg.MAD, &rej)
			name += fmt.Sprintf(" (%v of %v)", rej.Reason, rej.MessageRejected)
		}
		if before, ok := s.last[a]; ok && before == msg.MAD {
			name += " again"
		}
		sent, s.last[a] = append(sent, name), msg.MAD
	}
	for {
		e, ok := s.m.PollEvent()
		if !ok {
			break
		}
		name := e.Type.String()
		if e.Reason != 0 {
			name += " (" + e.Reason.String() + ")"
		}
		told = append(told, name)
	}
	text := "→ " + s.c.state.String()
	if sent != nil {
		text += ", sends " + strings.Join(sent, ", ")
	}
	if told != nil {
		text += ", tells " + strings.Join(told, ", ")
	}
	return text
}

// reach is how a connection gets to each state: from a first state by inputs.
var reach = map[State]struct {
	first State
	by    []input
}{
	StateReqSent:     {StateReqSent, nil},
	StateMRAReqRcvd:  {StateReqSent, []input{gotMRA}},
	StateRepRcvd:     {StateReqSent, []input{gotREP}},
	StateMRARepSent:  {StateReqSent, []input{gotREP, gotREP}},
	StateReqRcvd:     {StateReqRcvd, nil},
	StateMRAReqSent:  {StateReqRcvd, []input{gotREQ}},
	StateRepSent:     {StateReqRcvd, []input{callAccept}},
	StateMRARepRcvd:  {StateReqRcvd, []input{callAccept, gotMRA}},
	StateEstablished: {StateReqRcvd, []input{callAccept, gotRTU}},
	StateDReqSent:    {StateReqRcvd, []input{callAccept, gotRTU, callDisconnect}},
	StateDReqRcvd:    {StateReqRcvd, []input{callAccept, gotRTU, gotDREQ}},
	StateTimeWait:    {StateReqRcvd, []input{callAccept, gotRTU, gotDREQ, callDisconnect}},
	StateRefused:     {StateReqRcvd, []input{callReject}},
	StateSIDRReqSent: {StateSIDRReqSent, nil},
	StateSIDRReqRcvd: {StateSIDRReqRcvd, nil},
	StateSIDRRepSent: {StateSIDRReqRcvd, []input{callAccept}},
}

// call makes a call.
func (s *stage) call(on input) error {
	c := s.c
	switch on {
	case callAccept:
		if c.query {
			return (*Query)(c).Answer(s.now, &Answer{QPN: 5})
		}
		return c.Accept(s.now, &AcceptParams{ConnParam: ConnParam{QPN: ourQP}})
	case callReject:
		return c.Reject(s.now, wire.CMRejConsumer, nil, nil)
	case callEstablish:
		return c.Establish(s.now, nil)
	case callDisconnect:
		return c.Disconnect(s.now, nil)
	case callMRA:
		return c.MRA(s.now, 20)
	case callDrop:
		return c.Drop(s.now)
	}
	c.Close(s.now)
	return nil
}

// message is what the peer sends for an input; nil if it would never send that on such a
// connection.
func (s *stage) message(on input) wire.CMMessage {
	c, local, remote, which := s.c, uint32(peerID1), s.c.localID, wire.CMWhichREQ
	if c.passive {
		which = wire.CMWhichREP
	}
	switch on {
	case gotREQ:
		if c.passive && !c.query {
			return &s.req
		}
	case gotMRA:
		return &wire.CMMra{LocalCommID: local, RemoteCommID: remote, MessageMRAed: which, ServiceTimeout: 20}
	case gotREJ:
		return &wire.CMRej{LocalCommID: local, RemoteCommID: remote, MessageRejected: which, Reason: wire.CMRejNoQP}
	case gotStale:
		return &wire.CMRej{LocalCommID: local, RemoteCommID: remote, MessageRejected: which, Reason: wire.CMRejStale}
	case gotREP:
		return &wire.CMRep{LocalCommID: local, RemoteCommID: remote, LocalQPN: peerQP, LocalCAGUID: peerCA}
	case gotRTU:
		return &wire.CMRtu{LocalCommID: local, RemoteCommID: remote}
	case gotDREQ:
		return &wire.CMDreq{LocalCommID: local, RemoteCommID: remote, RemoteQPN: c.own.QPN}
	case gotDREP:
		return &wire.CMDrep{LocalCommID: local, RemoteCommID: remote}
	case gotSIDRREQ:
		if c.query && c.passive {
			return s.query()
		}
	case gotSIDRREP:
		return &wire.CMSidrRep{RequestID: remote, Status: wire.CMSidrOK, QPN: 7, QKey: 8}
	case peerForgot: // a REQ of another connection, with the same ID
		if !c.query && s.m.byPeer[c.peer] == c {
			req := newStage(StateReqRcvd).req
			req.LocalQPN, req.LocalCommID = peerQP+1, c.remoteID
			return &req
		}
	}
	return nil
}

// do lets an input happen; possible is false if it cannot happen to such a connection.
func (s *stage) do(on input) (err error, possible bool) {
	switch {
	case on <= callClose:
		return s.call(on), true
	case on == displaced || on == outlived:
		return nil, s.m.step(s.c, on, nil)
	case on != timeAgain && on != timeOver:
		msg := s.message(on)
		if msg != nil {
			s.hear(msg)
		}
		return nil, msg != nil
	case s.c.deadline == Never || on == timeAgain && traits[s.c.state].wait == waitEnd:
		return nil, false
	case on == timeOver:
		s.c.tries = 0
	}
	s.now = s.m.PollTimeout()
	s.m.HandleTimeout(s.now)
	return nil, true
}

// TestTable walks every row, and every place where there is none.
func TestTable(t *testing.T) {
	var text strings.Builder
	for state := range numStates {
		way, ok := reach[State(state)]
		if !ok {
			continue
		}
		fmt.Fprintf(&text, "%v\n", State(state))
		for on := range numInputs {
			s := newStage(way.first)
			for _, step := range way.by {
				if err, _ := s.do(step); err != nil {
					t.Fatal(err)
				}
			}
			s.outcome()
			if s.c.state != State(state) {
				t.Fatalf("the way to %v leads to %v", State(state), s.c.state)
			}
			before, cell := s.m.stats, table[state][on]
			err, possible := s.do(on)
			if !possible {
				continue
			}
			if e := s.m.check(); e != nil {
				t.Errorf("%v, %v: %v", State(state), on, e)
			}
			did := s.outcome()
			switch {
			case cell.do != nil:
				fmt.Fprintf(&text, "    %-18v %s\n", on, did)
				want := cell.next
				if want == stay {
					want = State(state)
				}
				if on == peerForgot && State(state) == StateRefused {
					want = s.c.state // forgotten, and a new connection in its place
				}
				if err != nil || s.c.state != want {
					t.Errorf("%v, %v: %s, %v; the table says %v", State(state), on, did, err, want)
				}
			case on <= callClose:
				if !errors.Is(err, ErrState) || did != "→ "+State(state).String() {
					t.Errorf("%v, %v: %s, %v; want ErrState", State(state), on, did, err)
				}
			case s.m.stats.Drops == before.Drops || s.c.state != State(state):
				t.Errorf("%v, %v: %s; want a counted drop", State(state), on, did)
			}
		}
	}
	golden(t, "testdata/table.txt", text.String())
}

func golden(t *testing.T, name, text string) {
	t.Helper()
	if *updateFlag {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text {
		t.Errorf("%s says otherwise (go test ./cm -run %s -update writes it):\n%s", name, t.Name(), text)
	}
}

// TestTableIsWhole: no row is there twice, every state can be left, and who is let go of is
// forgotten in the end even if the peer never says anything.
func TestTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		for _, s := range r.from {
			at := s.String() + ", " + r.on.String()
			if seen[at] {
				t.Errorf("%s: two rows", at)
			}
			seen[at] = true
		}
	}
	for s := range numStates {
		state := State(s)
		if state == StateIdle || state == StateListen {
			continue
		}
		if _, ok := reach[state]; !ok {
			t.Errorf("%v is not reached by the test", state)
		}
		for steps, on := 0, callClose; state != StateIdle; steps, on = steps+1, timeOver {
			cell := table[state][on]
			if cell.do == nil || steps > 4 {
				t.Errorf("%v, closed, and no answers: ends in %v", State(s), state)
				break
			}
			if cell.next != stay {
				state = cell.next
			}
		}
		again := table[s][timeAgain].do != nil
		if w := traits[s].wait; again != (w == waitAnswer || w == waitService) || (table[s][timeOver].do != nil) != (w != waitNothing) {
			t.Errorf("%v: its rows for deadlines do not fit its traits", State(s))
		}
	}
}
