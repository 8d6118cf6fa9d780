package cm

import (
	"strconv"

	"github.com/goroce/goroce/wire"
)

// EventType says what has happened.
type EventType uint8

const (
	// EventConnectRequest: a peer wants a connection. Answer by Accept, Reject or Close.
	EventConnectRequest EventType = iota + 1
	// EventConnectResponse: the peer has accepted. Make the queue pair ready (QPParams), then
	// Establish, or Reject or Close.
	EventConnectResponse
	// EventEstablished: passive side; the peer's RTU is here.
	EventEstablished
	// EventRejected: an attempt has ended by a REJ of the peer, or because it has forgotten it, or
	// a request has lost its place among those of its listener. Reason, ARI and Private are the
	// REJ's.
	EventRejected
	// EventUnreachable: an attempt or a query has ended without an answer of the peer, or an
	// accepted request has lost its place before the RTU came.
	EventUnreachable
	// EventDisconnected: the connection is over, or the peer wants it to be: then, in
	// StateDReqRcvd, answer by Disconnect or Close. Reason is 0, or that of a REJ that broke it
	// off; wire.CMRejTimeout if the peer did not answer.
	EventDisconnected
	// EventTimeWaitExit: the connection has left the time-wait; its queue pair may be used again.
	EventTimeWaitExit
	// EventSIDRRequest: a peer asks for the queue pair behind a service ID. Answer by Query.Answer
	// or Close.
	EventSIDRRequest
	// EventResolved: the peer has answered a query; Status says whether QPN and QKey are valid.
	EventResolved
)

var eventNames = [...]string{"", "CONNECT_REQUEST", "CONNECT_RESPONSE", "ESTABLISHED", "REJECTED", "UNREACHABLE",
	"DISCONNECTED", "TIMEWAIT_EXIT", "SIDR_REQUEST", "RESOLVED"}

// String prints rdma_cm's name where it has one: "CONNECT_REQUEST".
func (t EventType) String() string {
	if t > 0 && int(t) < len(eventNames) {
		return eventNames[t]
	}
	return "event " + strconv.Itoa(int(t))
}

// Event is something that the application is told. Of each connection and attempt there is one
// terminal event, unless it was closed: EventRejected, EventUnreachable or EventDisconnected;
// EventTimeWaitExit may come after it.
type Event struct {
	Type     EventType
	Conn     *Conn     // nil of queries
	Query    *Query    // nil of connections
	Listener *Listener // of requests: the one that was called

	// Header is what RDMA IP CM puts in front of the private data of requests (section 9.5): the
	// peer's port, and addresses as the peer has them. Zero if the service ID is no IP port.
	Header wire.CMIPHeader
	// Param is what the peer has said in its REQ or REP.
	Param ConnParam
	// Private is the whole of the message's private data that is the application's, padded with
	// zeros as it came; nil if the event comes of no message.
	Private []byte

	Reason wire.CMRejReason
	ARI    []byte // additional information on Reason

	Status wire.CMSidrStatus // of EventResolved, with what it gives:
	QPN    uint32
	QKey   uint32
}

// conn is whose event it is.
func (e *Event) conn() *Conn {
	if e.Query != nil {
		return (*Conn)(e.Query)
	}
	return e.Conn
}
