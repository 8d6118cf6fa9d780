package rdmacm

// The states of an ID and what leads from one to the next: one table, which the calls and the
// events of the connection manager go by. What is not in it is, for a call, an ErrState, and for
// what happens, nothing.

import "fmt"

// state is where an ID stands. Names are rdma_cm's, as far as it has them.
type state uint8

const (
	idle          state = iota
	addrBound           // it has a local address
	addrQuery           // ResolveAddr is at work
	addrResolved        // it has a device and both addresses
	routeQuery          // ResolveRoute is at work
	routeResolved       // Connect may be called
	listening           //
	connecting          // the request is on its way to the peer
	responded           // the peer has accepted; the queue pair becomes ready
	requested           // a peer's request wants to be answered
	accepting           // it will be accepted; the queue pair becomes ready
	accepted            // the answer is on its way to the peer
	established         //
	disconnecting       // the peer is told
	peerGone            // the peer has disconnected, and waits for us to do so
	over                // the connection has ended, or was never made
	closed              //
	states
)

var stateNames = [...]string{"IDLE", "ADDR_BOUND", "ADDR_QUERY", "ADDR_RESOLVED", "ROUTE_QUERY", "ROUTE_RESOLVED",
	"LISTEN", "CONNECT", "RESPONDED", "REQUESTED", "ACCEPTING", "ACCEPTED", "ESTABLISHED", "DISCONNECTING", "PEER_GONE",
	"DISCONNECT", "CLOSED"}

func (s state) String() string { return stateNames[s] }

// input is what moves an ID: a call of its owner, or something that happened.
type input uint8

const (
	callBind input = iota
	callResolveAddr
	callResolveRoute
	callListen
	callConnect
	callAccept
	callReject
	callEstablish
	callDisconnect
	callClose

	addrDone
	addrFailed
	addrUnbound // not resolved, and the ID is bound to none
	routeDone
	routeFailed
	replied     // the peer has accepted
	ready       // our queue pair is, and the peer knows (RTU)
	served      // SIDR: the other side's queue pair is known
	repSent     // our acceptance is on its way
	failed      // something on our side did
	rtu         // the peer is ready, or has sent data
	rejected    // by the peer
	unreachable // the peer does not answer
	dreq        // the peer disconnects
	drep        // the peer knows that we do, or does not answer
	broken      // the connection is no more, for another reason
	timewaitExit
	removed // the device is gone
	inputs
)

var inputNames = [...]string{"BindAddr", "ResolveAddr", "ResolveRoute", "Listen", "Connect", "Accept", "Reject",
	"Establish", "Disconnect", "Close", "address resolved", "address not resolved", "no address", "route resolved",
	"route not resolved", "REP", "ready", "SIDR done", "REP sent", "failed", "RTU", "rejected", "unreachable", "DREQ",
	"DREP", "broken", "timewait exit", "device gone"}

func (i input) String() string { return inputNames[i] }

// none is no event.
const none EventType = 0xff

// move is a row of the table: in the state from, an input leads to the state to and tells event.
type move struct {
	from  state
	on    input
	to    state
	event EventType
}

var moves = []move{
	{idle, callBind, addrBound, none},
	{idle, callResolveAddr, addrQuery, none},
	{addrBound, callResolveAddr, addrQuery, none},
	{addrQuery, addrDone, addrResolved, EventAddrResolved},
	{addrQuery, addrFailed, addrBound, EventAddrError},
	{addrQuery, addrUnbound, idle, EventAddrError},
	{addrResolved, callResolveRoute, routeQuery, none},
	{routeQuery, routeDone, routeResolved, EventRouteResolved},
	{routeQuery, routeFailed, addrResolved, EventRouteError},

	{addrBound, callListen, listening, none},

	{routeResolved, callConnect, connecting, none},
	{connecting, replied, responded, none}, // EventConnectResponse if there is no queue pair
	{connecting, served, established, EventEstablished},
	{connecting, rejected, over, EventRejected},
	{connecting, unreachable, over, EventUnreachable},
	{connecting, failed, over, EventConnectError},
	{connecting, broken, over, EventDisconnected},
	{responded, callEstablish, established, none},
	{responded, ready, established, EventEstablished},
	{responded, failed, over, EventConnectError},
	{responded, rejected, over, EventRejected},
	{responded, unreachable, over, EventUnreachable},
	{responded, callReject, over, none},
	{responded, dreq, peerGone, EventDisconnected},
	{responded, broken, over, EventDisconnected},

	{requested, callAccept, accepting, none},
	{requested, callReject, over, none},
	{requested, rejected, over, EventRejected},
	{requested, unreachable, over, EventUnreachable},
	{requested, broken, over, EventDisconnected},
	{accepting, repSent, accepted, none},
	{accepting, served, established, none},
	{accepting, failed, over, none}, // Accept's own error
	{accepting, rejected, over, EventRejected},
	{accepting, unreachable, over, EventUnreachable},
	{accepting, broken, over, EventDisconnected},
	{accepted, rtu, established, EventEstablished},
	{accepted, callEstablish, established, none}, // data has come, says the application
	{accepted, rejected, over, EventRejected},
	{accepted, unreachable, over, EventUnreachable},
	{accepted, callDisconnect, disconnecting, none},
	{accepted, dreq, peerGone, EventDisconnected},
	{accepted, broken, over, EventDisconnected},

	{established, callDisconnect, disconnecting, none},
	{established, dreq, peerGone, EventDisconnected},
	{established, broken, over, EventDisconnected}, // the peer has forgotten the connection
	{disconnecting, drep, over, EventDisconnected},
	{disconnecting, dreq, over, EventDisconnected},
	{disconnecting, rejected, over, EventDisconnected}, // it had refused our acceptance by then
	{disconnecting, unreachable, over, EventDisconnected},
	{peerGone, callDisconnect, over, none},
	{over, timewaitExit, over, EventTimewaitExit},
}

// next is where an input leads from a state; false if nowhere.
func (s state) next(on input) (move, bool) {
	switch on {
	case callClose:
		return move{s, on, closed, none}, s != closed
	case removed:
		return move{s, on, over, EventDeviceRemoval}, s != closed
	}
	for _, m := range moves {
		if m.from == s && m.on == on {
			return m, true
		}
	}
	return move{}, false
}

// mustBe names the states in which a call is allowed, for its error.
func (i input) mustBe() (text string) {
	for _, m := range moves {
		if m.on == i {
			if text != "" {
				text += " or "
			}
			text += m.from.String()
		}
	}
	return text
}

// step moves the ID by a call of its owner. The caller has the lock.
func (id *ID) step(on input) error {
	m, ok := id.state.next(on)
	switch {
	case ok:
		id.state = m.to
		return nil
	case id.state == closed:
		return ErrClosed
	}
	return fmt.Errorf("%w: the ID is in the state %v, it must be %v", ErrState, id.state, on.mustBe())
}
