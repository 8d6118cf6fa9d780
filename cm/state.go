package cm

// The state machine of a connection.
// Stages: states and what each is like → inputs → the table → one step through it.

import (
	"fmt"
	"strconv"

	"github.com/goroce/goroce/wire"
)

// State is where a connection or a query stands. Names and numbers are those of Linux's ib_cm
// (section 9.7), and two of our own.
type State uint8

const (
	StateIdle        State = 0  // it has ended; nothing knows it any more
	StateListen      State = 1  // unused: a [Listener] has no states
	StateReqSent     State = 2  // active: waits for a REP
	StateReqRcvd     State = 3  // passive: the application is asked
	StateMRAReqSent  State = 4  // passive: so, and the peer was told to wait
	StateMRAReqRcvd  State = 5  // active: the peer told us to wait
	StateRepSent     State = 6  // passive: waits for the RTU
	StateRepRcvd     State = 7  // active: the application is asked to establish
	StateMRARepSent  State = 8  // active: so, and the peer was told to wait
	StateMRARepRcvd  State = 9  // passive: the peer told us to wait
	StateEstablished State = 10 // in use
	StateDReqSent    State = 11 // waits for a DREP
	StateDReqRcvd    State = 12 // the peer wants to end it: the application is asked to disconnect
	StateTimeWait    State = 13 // ended; IDs and the peer's queue pair number are still reserved
	StateSIDRReqSent State = 14 // a query of ours: waits for the SIDR_REP
	StateSIDRReqRcvd State = 15 // a query of a peer: the application is asked
	StateRefused     State = 16 // ours: came to nothing; late copies get the same answer
	StateSIDRRepSent State = 17 // ours: a query of a peer was answered; copies get the same

	numStates = 18
)

// wait is what a state's deadline means.
type wait uint8

const (
	waitNothing wait = iota // no deadline
	waitAnswer              // of the peer: when it comes, what was sent is sent again
	waitService             // of the peer, which asked for time by a MRA; then the same
	waitEnd                 // the connection is forgotten
)

// owes is whom a listener's request waits for.
type owes uint8

const (
	owesNobody owes = iota
	owesApplication
	owesPeer
)

// traits are what a state is like.
var traits = [numStates]struct {
	name string
	wait wait
	owes owes
}{
	StateIdle:        {"IDLE", waitNothing, owesNobody},
	StateListen:      {"LISTEN", waitNothing, owesNobody},
	StateReqSent:     {"REQ_SENT", waitAnswer, owesNobody},
	StateReqRcvd:     {"REQ_RCVD", waitNothing, owesApplication},
	StateMRAReqSent:  {"MRA_REQ_SENT", waitNothing, owesApplication},
	StateMRAReqRcvd:  {"MRA_REQ_RCVD", waitService, owesNobody},
	StateRepSent:     {"REP_SENT", waitAnswer, owesPeer},
	StateRepRcvd:     {"REP_RCVD", waitNothing, owesNobody},
	StateMRARepSent:  {"MRA_REP_SENT", waitNothing, owesNobody},
	StateMRARepRcvd:  {"MRA_REP_RCVD", waitService, owesPeer},
	StateEstablished: {"ESTABLISHED", waitNothing, owesNobody},
	StateDReqSent:    {"DREQ_SENT", waitAnswer, owesNobody},
	StateDReqRcvd:    {"DREQ_RCVD", waitNothing, owesNobody},
	StateTimeWait:    {"TIMEWAIT", waitEnd, owesNobody},
	StateSIDRReqSent: {"SIDR_REQ_SENT", waitAnswer, owesNobody},
	StateSIDRReqRcvd: {"SIDR_REQ_RCVD", waitNothing, owesApplication},
	StateRefused:     {"REFUSED", waitEnd, owesNobody},
	StateSIDRRepSent: {"SIDR_REP_SENT", waitEnd, owesNobody},
}

// String prints ib_cm's name: "REQ_SENT".
func (s State) String() string {
	if int(s) < len(traits) {
		return traits[s].name
	}
	return "state " + strconv.Itoa(int(s))
}

// input is what can happen to a connection.
type input uint8

const (
	callAccept input = iota
	callReject
	callEstablish
	callDisconnect
	callMRA
	callDrop
	callClose

	gotREQ // a copy of the one that made it
	gotMRA
	gotREJ
	gotStale // a REJ with reason 10
	gotREP
	gotRTU
	gotDREQ
	gotDREP
	gotSIDRREQ // a copy
	gotSIDRREP

	displaced  // its place is given to a request of a source that has fewer
	outlived   // its peer has stopped asking, and asks anew
	peerForgot // it seems so: the connection's IDs or queue pair are said to be another one's
	timeAgain  // the deadline came, and what was sent may be sent again
	timeOver   // the deadline came for good

	numInputs
)

var inputNames = [numInputs]string{"Accept", "Reject", "Establish", "Disconnect", "MRA", "Drop", "Close",
	"a REQ", "a MRA", "a REJ", "a REJ (stale)", "a REP", "a RTU", "a DREQ", "a DREP", "a SIDR_REQ", "a SIDR_REP",
	"displaced", "outlived", "the peer forgot", "again", "over"}

// String prints the call's or message's name.
func (i input) String() string { return inputNames[i] }

// action does what a row says, beside the change of state. out is the message of a call, ready to
// be sent; a received message is in m.in.
type action func(m *Machine, c *Conn, out *wire.MAD)

// row is one line of the table.
type row struct {
	from []State
	on   input
	do   action
	next State
}

const stay State = 0xff // in a row: the state and its deadline stay as they are

func in(s ...State) []State { return s }

// rows is the machine of section 9.7. What is missing is refused with ErrState if it is a call, and
// dropped if it is a message. That a peer seems to have forgotten a connection may be a forger's
// word, so an established one asks the peer; one that is still being made has an answer to come
// that only the peer can give.
var rows = []row{
	// Active side, until a REP.
	{in(StateReqSent, StateMRAReqRcvd), timeAgain, sendAgain, StateReqSent},
	{in(StateReqSent, StateMRAReqRcvd), timeOver, giveUp, StateIdle},
	{in(StateReqSent, StateMRAReqRcvd), gotMRA, beToldToWait, StateMRAReqRcvd},
	{in(StateReqSent, StateMRAReqRcvd), gotREP, takeREP, StateRepRcvd},
	{in(StateReqSent, StateMRAReqRcvd), gotREJ, beRejected, StateIdle},
	{in(StateReqSent, StateMRAReqRcvd), gotStale, beRejected, StateTimeWait},
	{in(StateReqSent, StateMRAReqRcvd), gotDREQ, beDisconnectedEarly, StateTimeWait},
	{in(StateReqSent, StateMRAReqRcvd), callClose, withdraw, StateIdle},
	{in(StateReqSent, StateMRAReqRcvd), peerForgot, beForgotten, StateIdle},
	// Active side, until the application establishes.
	{in(StateRepRcvd, StateMRARepSent), callEstablish, sendOnce, StateEstablished},
	{in(StateRepRcvd, StateMRARepSent), callReject, sendOnce, StateRefused},
	{in(StateRepRcvd, StateMRARepSent), callMRA, sendOnce, StateMRARepSent},
	{in(StateRepRcvd), gotREP, askForTime, StateMRARepSent},
	{in(StateMRARepSent), gotREP, resend, stay},
	{in(StateRepRcvd, StateMRARepSent), gotREJ, beRejected, StateTimeWait},
	{in(StateRepRcvd, StateMRARepSent), gotStale, beRejected, StateTimeWait},
	{in(StateRepRcvd, StateMRARepSent), gotDREQ, beDisconnected, StateDReqRcvd},
	{in(StateRepRcvd, StateMRARepSent), callClose, rejectClosed, StateRefused},
	{in(StateRepRcvd, StateMRARepSent), peerForgot, nothing, stay},
	// Passive side, until the application answers.
	{in(StateReqRcvd, StateMRAReqSent), callAccept, ask, StateRepSent},
	{in(StateReqRcvd, StateMRAReqSent), callReject, sendOnce, StateRefused},
	{in(StateReqRcvd, StateMRAReqSent), callMRA, sendOnce, StateMRAReqSent},
	{in(StateReqRcvd), gotREQ, askForTime, StateMRAReqSent},
	{in(StateMRAReqSent), gotREQ, resend, stay},
	{in(StateReqRcvd, StateMRAReqSent), gotREJ, beRejected, StateRefused},
	{in(StateReqRcvd, StateMRAReqSent), gotStale, beRejected, StateRefused},
	{in(StateReqRcvd, StateMRAReqSent), callDrop, beDropped, StateIdle},
	{in(StateReqRcvd, StateMRAReqSent), displaced, beDisplaced, StateIdle},
	{in(StateReqRcvd, StateMRAReqSent), outlived, beOutlived, StateIdle},
	{in(StateReqRcvd, StateMRAReqSent), callClose, rejectClosed, StateRefused},
	{in(StateReqRcvd, StateMRAReqSent), peerForgot, nothing, stay},
	// Passive side, until a RTU.
	{in(StateRepSent, StateMRARepRcvd), timeAgain, sendAgain, StateRepSent},
	{in(StateRepSent, StateMRARepRcvd), timeOver, giveUp, StateRefused},
	{in(StateRepSent, StateMRARepRcvd), displaced, giveUp, StateRefused},
	{in(StateRepSent, StateMRARepRcvd), gotMRA, beToldToWait, StateMRARepRcvd},
	{in(StateRepSent, StateMRARepRcvd), gotREQ, resend, stay},
	{in(StateRepSent, StateMRARepRcvd), gotRTU, beEstablished, StateEstablished},
	{in(StateRepSent, StateMRARepRcvd), callEstablish, forgetSent, StateEstablished},
	{in(StateRepSent, StateMRARepRcvd), gotREJ, beRejected, StateRefused},
	{in(StateRepSent, StateMRARepRcvd), gotStale, beRejected, StateTimeWait},
	{in(StateRepSent, StateMRARepRcvd), gotDREQ, beDisconnected, StateDReqRcvd},
	{in(StateRepSent, StateMRARepRcvd), callDisconnect, ask, StateDReqSent},
	{in(StateRepSent, StateMRARepRcvd), callClose, askDREQ, StateDReqSent},
	{in(StateRepSent, StateMRARepRcvd), peerForgot, nothing, stay},
	// Both sides.
	{in(StateEstablished), gotREQ, nothing, stay},
	{in(StateEstablished), gotRTU, nothing, stay},
	{in(StateEstablished), gotREP, resend, stay},
	{in(StateEstablished), gotREJ, beBroken, StateTimeWait},
	{in(StateEstablished), gotStale, beBroken, StateTimeWait},
	{in(StateEstablished), gotDREQ, beDisconnected, StateDReqRcvd},
	{in(StateEstablished), callDisconnect, ask, StateDReqSent},
	{in(StateEstablished), callClose, askDREQ, StateDReqSent},
	{in(StateEstablished), peerForgot, probe, stay},
	{in(StateEstablished), gotDREP, beMissed, StateTimeWait},
	{in(StateDReqSent), timeAgain, sendAgain, StateDReqSent},
	{in(StateDReqSent), timeOver, beGone, StateTimeWait},
	{in(StateDReqSent), gotDREP, beParted, StateTimeWait},
	{in(StateDReqSent), gotDREQ, crossDREQ, StateTimeWait},
	{in(StateDReqSent), gotREJ, beBroken, StateTimeWait},
	{in(StateDReqSent), gotStale, beBroken, StateTimeWait},
	{in(StateDReqSent), callClose, nothing, stay},
	{in(StateDReqSent), peerForgot, nothing, stay},
	{in(StateDReqRcvd), gotDREQ, nothing, stay},
	{in(StateDReqRcvd), callDisconnect, sendOnce, StateTimeWait},
	{in(StateDReqRcvd), callClose, answerClosed, StateTimeWait},
	{in(StateDReqRcvd), peerForgot, nothing, stay},
	// After the end.
	{in(StateTimeWait), gotREQ, rejectStale, stay},
	{in(StateTimeWait), gotDREQ, answerDREQ, stay},
	{in(StateTimeWait), callClose, nothing, stay},
	{in(StateTimeWait), peerForgot, nothing, stay},
	{in(StateTimeWait), timeOver, leaveTimeWait, StateIdle},
	{in(StateRefused), gotREQ, resend, stay},
	{in(StateRefused), gotREP, resend, stay},
	{in(StateRefused), gotRTU, resend, stay},
	{in(StateRefused), gotDREQ, answerDREQ, stay},
	{in(StateRefused), callClose, nothing, stay},
	{in(StateRefused), peerForgot, nothing, StateIdle},
	{in(StateRefused), timeOver, nothing, StateIdle},
	// Service ID resolution.
	{in(StateSIDRReqSent), timeAgain, sendAgain, StateSIDRReqSent},
	{in(StateSIDRReqSent), timeOver, tellUnreachable, StateIdle},
	{in(StateSIDRReqSent), gotSIDRREP, beResolved, StateIdle},
	{in(StateSIDRReqSent), callClose, nothing, StateIdle},
	{in(StateSIDRReqRcvd), gotSIDRREQ, nothing, stay},
	{in(StateSIDRReqRcvd), callAccept, sendOnce, StateSIDRRepSent},
	{in(StateSIDRReqRcvd), callDrop, beDropped, StateIdle},
	{in(StateSIDRReqRcvd), displaced, beDisplaced, StateIdle},
	{in(StateSIDRReqRcvd), callClose, answerQueryClosed, StateSIDRRepSent},
	{in(StateSIDRRepSent), gotSIDRREQ, resend, stay},
	{in(StateSIDRRepSent), callClose, nothing, stay},
	{in(StateSIDRRepSent), timeOver, nothing, StateIdle},
}

// cell is a row where it is looked up.
type cell struct {
	do   action
	next State
}

var table = func() (t [numStates][numInputs]cell) {
	for _, r := range rows {
		for _, s := range r.from {
			t[s][r.on] = cell{r.do, r.next}
		}
	}
	return t
}()

// step takes a connection through the table, and says whether there was a row for it.
func (m *Machine) step(c *Conn, on input, out *wire.MAD) bool {
	cell := &table[c.state][on]
	if cell.do == nil {
		return false
	}
	cell.do(m, c, out)
	if cell.next != stay {
		m.enter(c, cell.next)
	}
	return true
}

// may says whether the application can make a call now.
func (c *Conn) may(on input) error {
	if c.closed {
		return fmt.Errorf("cm: %v: %w", on, ErrClosed)
	}
	if table[c.state][on].do == nil {
		return fmt.Errorf("cm: %v: %w: connection 0x%08x is in %v", on, ErrState, c.localID, c.state)
	}
	return nil
}
