package rdmacm

// The numbers of rdma_cma.h (section 9.11): port spaces, events, limits.

import (
	"fmt"
	"syscall"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
)

// PortSpace says what an ID connects, and in which space its port numbers are (rdma_port_space).
type PortSpace uint16

// Port spaces (section 9.4).
const (
	PSTCP PortSpace = 0x0106 // RDMA_PS_TCP: connections, of RC queue pairs
	PSUDP PortSpace = 0x0111 // RDMA_PS_UDP: datagrams; the listener tells its queue pair's number
	// RDMA_PS_IB: as PSTCP or PSUDP, depending on the queue pair's type, with ports of its own; on
	// devices of the kernel as PSTCP
	PSIB PortSpace = 0x013f
	// PSIPoIB is RDMA_PS_IPOIB, of InfiniBand alone: CreateID refuses it.
	PSIPoIB PortSpace = 0x0002
)

var portSpaceNames = map[PortSpace]string{
	PSTCP:   "RDMA_PS_TCP",
	PSUDP:   "RDMA_PS_UDP",
	PSIB:    "RDMA_PS_IB",
	PSIPoIB: "RDMA_PS_IPOIB",
}

// String prints "RDMA_PS_TCP".
func (p PortSpace) String() string {
	if s, ok := portSpaceNames[p]; ok {
		return s
	}
	return fmt.Sprintf("PortSpace(0x%04x)", uint16(p))
}

// EventType is what happened (rdma_cm_event_type).
type EventType uint8

// What happens to an ID.
const (
	EventAddrResolved    EventType = 0 // ResolveAddr is done: the ID has a device
	EventAddrError       EventType = 1 // ResolveAddr has failed
	EventRouteResolved   EventType = 2 // ResolveRoute is done
	EventRouteError      EventType = 3 // ResolveRoute has failed
	EventConnectRequest  EventType = 4 // somebody wants a connection: Event.ID is a new one
	EventConnectResponse EventType = 5 // the peer accepts, and the ID has no queue pair: Establish
	EventConnectError    EventType = 6 // the connection failed on this side
	EventUnreachable     EventType = 7 // the peer does not answer, or cannot be asked
	EventRejected        EventType = 8 // the peer refuses: Event.Status is the reason (section 9.3)
	EventEstablished     EventType = 9 // both may send
	EventDisconnected    EventType = 10
	EventDeviceRemoval   EventType = 11 // the device is gone: what is on it is to be closed
	EventMulticastJoin   EventType = 12 // JoinMulticast is done
	EventMulticastError  EventType = 13 // JoinMulticast has failed
	EventAddrChange      EventType = 14 // the device does not have the ID's address any more
	EventTimewaitExit    EventType = 15 // nothing of the connection is on its way any more
)

var eventNames = [...]string{"RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ADDR_ERROR", "RDMA_CM_EVENT_ROUTE_RESOLVED",
	"RDMA_CM_EVENT_ROUTE_ERROR", "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
	"RDMA_CM_EVENT_CONNECT_ERROR", "RDMA_CM_EVENT_UNREACHABLE", "RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_ESTABLISHED",
	"RDMA_CM_EVENT_DISCONNECTED", "RDMA_CM_EVENT_DEVICE_REMOVAL", "RDMA_CM_EVENT_MULTICAST_JOIN",
	"RDMA_CM_EVENT_MULTICAST_ERROR", "RDMA_CM_EVENT_ADDR_CHANGE", "RDMA_CM_EVENT_TIMEWAIT_EXIT"}

// String prints the event as rdma_event_str does: "RDMA_CM_EVENT_ESTABLISHED".
func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return fmt.Sprintf("EventType(%d)", uint8(t))
}

// Consumer private data: bytes that travel with a message (section 9.5). What a peer receives has
// always this length, filled up with zeros.
const (
	MaxConnectData  = cm.MaxPrivateREQ     // 56, of Connect
	MaxAcceptData   = cm.MaxPrivateREP     // 196, of Accept
	MaxRejectData   = cm.MaxPrivateREJ     // 148, of Reject
	MaxResolveData  = cm.MaxPrivateSIDRREQ // 180, of Connect in PSUDP
	MaxResolvedData = cm.MaxPrivateSIDRREP // 136, of Accept and Reject in PSUDP
)

// MaxRdAtomic, as ConnParam.ResponderResources or InitiatorDepth, is as many as the device has
// (RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH).
const MaxRdAtomic = 0xff

// UDPQKey is the Q_Key of datagrams and multicast groups (RDMA_UDP_QKEY).
const UDPQKey uint32 = 0x01234567

// Sizes and limits of this implementation.
const (
	// DefaultBacklog is how many requests of a listener wait for an answer if Listen is given 0 or
	// less, as with rdma_listen of Linux.
	DefaultBacklog = 1024
	minEphemeral   = 32768 // ports that are chosen, as Linux's ip_local_port_range
	maxEphemeral   = 60999
)

// The errors are this package's words for roce's kinds of errors: errors.Is works with either.
var (
	ErrInvalid      = roce.ErrInvalid      // a value breaks a rule, the text says which
	ErrState        = roce.ErrState        // the ID's state does not allow it
	ErrBusy         = roce.ErrBusy         // the address or port is in use
	ErrClosed       = roce.ErrClosed       // the ID, channel, listener or connection is closed
	ErrUnreachable  = roce.ErrUnreachable  // no route, no answer
	ErrNotSupported = roce.ErrNotSupported // there is no such thing over RoCE
)

// addressError is an error about an address: this package's, and the one that TCP has.
type addressError struct {
	error
	code syscall.Errno
}

var (
	errTaken = addressError{ErrBusy, syscall.EADDRINUSE}
	errAway  = addressError{ErrInvalid, syscall.EADDRNOTAVAIL}
)

func (e addressError) Unwrap() error { return e.error }

// Is says that it is TCP's too.
func (e addressError) Is(target error) bool { return target == e.code }
