package transport

// What a port says about itself: facts (Info) and counters (Stats).

import (
	"net"
	"net/netip"

	"github.com/goroce/goroce/wire"
)

// MaxGIDs is how many rows Info.GIDs has at most: AHAttr.SGIDIndex is a byte.
const MaxGIDs = 256

// Info describes a port.
type Info struct {
	Name string // as given to whoever opened it
	Kind string // "udp", "packet", "xdp" or "pipe"
	Why  string // it was chosen, if there was a choice ("auto:"): begins with the kind

	// GIDs are the addresses that the port receives on and sends from, the rows of a device's GID
	// table. Each stays in its row: when the interface loses it, the row is empty (the zero GID),
	// and has it again when it is back. A new address takes a new row, or beyond MaxGIDs of them
	// the one that has been empty for longest. A port opened by an address has one row, a port
	// opened by an interface those of all its addresses, in the beginning IPv4 before IPv6 and
	// link-local last. The slice is not modified: a change makes another one.
	GIDs []wire.GID

	// Interface and the rest describe what is below the port; zero for a pipe.
	Interface string
	Index     int              // interface index
	Addresses []netip.Prefix   // all addresses of the interface, also those that are not the port's
	MAC       net.HardwareAddr // nil if there is none
	Loopback  bool
	Up        bool // administratively up, with a carrier
	NetMTU    int  // longest IP packet in bytes; 65536 on lo
	SpeedMbps int  // 0: unknown

	// MaxRun is how many frames a run may have (wire.Batch.MaxRun). More than the kernel takes are
	// sent all the same, but sealed anew one by one.
	MaxRun int

	// SrcPort, if not 0, is the UDP source port that leaves the machine whatever a frame's Head
	// says. The ICRC covers it, so the engine must make its paths with it; lanes of one device may
	// have different ones. 0: any source port can be sent.
	SrcPort uint16

	// QPNs are the queue pair numbers that are this port's: those who make queue pairs on it take
	// numbers from there. Packets for others may come too, where nobody can steer.
	QPNs wire.QPNSpace

	ICRC ICRCCheck // how much of the check is possible on receive

	RecvBuffer int // bytes that the system holds for us between two turns; 0: not known
	// Mode is how the port works where there are several ways, in words: "native, zero-copy".
	Mode     string
	Degraded []Degradation
}

// ICRCCheck tells how well wire.Verify can check what a port receives.
type ICRCCheck uint8

const (
	// ICRCFull is the check of all 32 bits: the port sees the whole header.
	ICRCFull ICRCCheck = iota
	// ICRCSolved is what a UDP socket over IPv4 allows: Identification is hidden and solved for, 16
	// bits of check stay.
	ICRCSolved
)

// String says it in a word.
func (c ICRCCheck) String() string {
	if c == ICRCSolved {
		return "solved"
	}
	return "full"
}

// Degradation is a feature that the system refused. The port works without.
type Degradation struct {
	Feature string // "UDP_SEGMENT", "UDP_GRO", "receive buffer", ...
	Effect  string // what that costs
	Err     error
}

// String says it in a line: "without zero-copy: the kernel copies each packet (operation not
// supported)".
func (d Degradation) String() string {
	s := "without " + d.Feature + ": " + d.Effect
	if d.Err != nil {
		s += " (" + d.Err.Error() + ")"
	}
	return s
}

// Stats are the counters of a port since it was opened.
type Stats struct {
	RecvFrames, RecvBytes uint64 // received; bytes count from BTH to ICRC
	RecvBatches           uint64 // calls of Recv that found something
	RecvRuns              uint64 // messages of the kernel that held more than one frame
	RecvOverflow          uint64 // lost because nobody received them in time
	RecvBad               uint64 // cut off, or not from an IP address
	// RecvForged came from a source that nobody outside has; with udp the kernel drops them.
	RecvForged            uint64
	RecvCopied            uint64 // frames that came in pieces and were copied together
	SendFrames, SendBytes uint64 // handed over to the network
	SendBatches           uint64 // calls of Send that sent something
	SendRuns              uint64 // runs sent as one message
	SendResealed          uint64 // frames of runs that had to go one by one
	SendBlocked           uint64 // calls of Send that found no room for all frames
	SendTooLong           uint64 // frames longer than the interface or the path takes
	SendUnreachable       uint64 // frames without a route, or to nobody
	SendRefused           uint64 // frames that the system did not take for any other reason
	LastSendError         string // the reason of the last of the three above
	Wakes                 uint64 // system calls made to wake a sleeper
}
