package hub

// What a process and its hub say to each other: each message begins with a byte that says what it
// is, followed by JSON, or for those of the connection manager by bytes in their places
// (conn_linux.go).

import (
	"net/netip"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/wire"
)

// Version is that of this protocol. A hub refuses another one.
const Version = 2

// Kind is what a message is.
type Kind byte

// What a process says, and what the hub answers with the same kind.
const (
	KindJoin    Kind = 'J' // Join; answered by KindFiles, as often as it takes, and Joined
	KindFiles   Kind = 'F' // descriptors: those of an answer that are too many for one message
	KindListen  Kind = 'L' // Listen; Answer
	KindLeave   Kind = 'X' // the device is closed; not answered
	KindMAD     Kind = 'M' // from or for queue pair 1; not answered
	KindFrame   Kind = 'G' // a packet that came to another process than its own; not answered
	KindKnown   Kind = 'K' // what the process had before: Known, as often as it takes; not answered
	KindShared  Kind = 'A' // nothing; Status, without more
	KindStatus  Kind = 'S' // nothing; Status, and a KindProcess of each process
	KindProcess Kind = 'P' // ProcessStatus
	KindReport  Kind = 'R' // the hub asks, and the process says what runs on it: Report
)

// Join asks for a slot of an address, or says which one the process has.
type Join struct {
	Version int
	Where   string // address or interface
	Lanes   int
	UDPPort int
	Program string
	Since   int64 // when the process asked first: Unix time, seconds
	// Again is what the process has of a hub that is gone; nil: it is new. The shelf is beside.
	Again *Again `json:",omitempty"`
}

// Again is what a process has that calls anew: mostly of a hub that is gone.
type Again struct{ Joined }

// Known is what a process had at a hub that is gone: listeners and connections, and the requests of
// peers that wait for its answer.
type Known struct {
	Services []Service
	Estates  []cm.Estate
	Asked    []Request
	Last     bool // that was all
}

// Request is that of a peer.
type Request struct {
	From wire.GID
	ID   uint32 // the peer's communication ID
	QPN  uint32 // and its queue pair
}

// KnownAtOnce is how many of each go with a message.
const KnownAtOnce = 150

// Joined is what a process has of an address.
type Joined struct {
	Answer
	Where string // as the hub calls the address
	Addrs []netip.Addr
	Slot  int
	Slots int
	QPNs  wire.QPNSpace
	// Files is how many descriptors came, with those of KindFiles: the sockets, row by row, each
	// with all lanes; the memory of the deck; the shelf.
	Files int
}

// Answer says that something is done, or why not.
type Answer struct {
	Error string `json:",omitempty"`
	Taken bool   `json:",omitempty"` // the error is that somebody has it
	To    uint64 `json:",omitempty"` // Listen.Number
}

// Service is what a listener listens on.
type Service struct {
	ID      uint64
	Address wire.GID // the zero GID: all
	Only    int      // 4, 6: of all addresses those of the IP version
}

// Listen begins or ends that.
type Listen struct {
	Service
	End    bool
	Number uint64 // for the answer
}

// Report is what runs on a process's device.
type Report struct {
	QPs                  int
	QueuePairs           []QueuePair // of these the first MaxQueuePairs
	SentBytes, RecvBytes uint64
	SentPkts, RecvPkts   uint64
	Foreign, ForeignLost uint64 // packets that came to it and were another's; not taken by the hub
	Brought, BroughtLost uint64 // packets of its own that the hub has brought; without room here
	Lost                 uint64 // messages of the connection manager without room
}

// MaxQueuePairs is how many queue pairs a Report lists.
const MaxQueuePairs = 256

// MaxServices is how many services a ProcessStatus lists.
const MaxServices = 256

// QueuePair is one of them.
type QueuePair struct {
	QPN   uint32
	Type  string
	State string
	Peer  string `json:",omitempty"`
	To    uint32 `json:",omitempty"`
}

// Status is what a hub knows.
type Status struct {
	PID       int
	Awaited   []AddressStatus `json:",omitempty"` // of an earlier hub, whose processes may call yet
	Addresses []AddressStatus
	Processes int // that follow
}

// AddressStatus is what is shared.
type AddressStatus struct {
	Where string
	Port  int // of UDP
	Addrs []netip.Addr
	Slots int
	Lanes int
	// Messages are those of the connection manager: to processes, from them, to nobody that is here
	// (which the hub answers), and such as found no room.
	In, Out, Nobodys, NoRoom uint64
	Frames, FramesLost       uint64 // packets brought to their processes, or not
	Strange                  uint64 // what a process wanted to send and is not its own to say
	Left                     uint64 // processes that have ended
	Inherited                uint64 // connections whose peers were told for them
}

// ProcessStatus is one that shares it.
type ProcessStatus struct {
	Where    string
	Port     int // of UDP
	PID      int
	Program  string
	Slot     int
	Since    int64     // Unix time, seconds
	Away     bool      // its call has ended, or it has not called this hub yet
	Services []Service // the first MaxServices
	Conns    int       // of the connection manager
	Report   *Report
}
