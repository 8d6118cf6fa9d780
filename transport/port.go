// Package transport moves RoCEv2 packets in batches between an engine and a network, and decides nothing about them.
//
// How to read it:
//
//	port.go info.go            what a port is, what it says about itself, how to open one by name
//	pipe.go                    a segment in memory: tests, lessons, several devices in one process
//	udp.go                     a UDP socket on port 4791: names, addresses, and what is put in front of what arrives
//	udp_linux.go …             the same by recvmmsg and sendmmsg, with whole runs of packets per message
//	udp_portable.go            the same through package net, for every other system
//	ether_linux.go …           what ports that make Ethernet packets have in common: neighbours, multicast, sleeping
//	packet_linux.go …          AF_PACKET: a ring to receive from, whole runs of packets as one
//	xdp_linux.go …             AF_XDP: packets taken from an interface before the kernel's stack
//	lanes.go                   several ports with one address
//	auto.go resolve.go         the better port of those that work; neighbours before the first packet
//	list.go                    which ports this machine has, and what is missing for those that do not work
//	fault.go capture.go        middleware: a port around a port
//
// A frame has the same form on every port: it starts at the IP header ([wire.Frame]). A port that is not shown the header
// makes one up and marks it ([wire.FrameSynthHead]).
package transport

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/wire"
)

// Port is packet I/O in batches for one lane.
//
// Recv and Send are called by one goroutine at a time, the one that has the lane's turn. Wait is called by one goroutine
// at a time too, which may be another one, concurrently with Recv and Send. Wake and Info may be called from
// anywhere. Close comes last: no Recv, Send or Wait may be running or follow; Wake may.
type Port interface {
	// Recv fills frames with packets that have arrived and returns how many, at once; 0 means nothing is there. The
	// frames are lent until the next Recv. An error means that the port is broken for good: what concerns single
	// packets is counted, not returned.
	Recv(frames []wire.Frame) (n int, err error)

	// Send sends b.Frames() in order and returns how many are done with: the caller Drops those. Fewer than b.Len()
	// means that there is no room now; Wait returns when there is. A frame that can not go at all (too long for the
	// interface, no route) is done with and counted in Stats. Frames and their ICRC may be modified.
	Send(b *wire.Batch) (sent int, err error)

	// Wait blocks until a packet can be received, until there is room again after a Send that found none, until Wake,
	// or for the timeout (<0: for ever), whose resolution is that of the system's timers. It may return without cause.
	Wait(timeout time.Duration) error

	// Wake makes the present Wait return, or the next one if none is in progress. It is sticky, but does not count.
	Wake()

	// Info describes the port as it is now. It asks the operating system for the state of the link: not for each turn.
	Info() Info

	// Stats returns the counters. Who has the turn calls it, as Recv and Send.
	Stats() Stats

	Close() error
}

// Watcher is who waits for a port that is Watched.
type Watcher int

const (
	// Background is the goroutine that waits for the port when nobody else does.
	Background Watcher = iota
	// Relief is one that waits instead of it for a while: an application's own, while it sleeps.
	Relief
)

// Watched is a port that two goroutines can wait for, one of which watches it. What happens ends the
// wait of the watcher only: a packet wakes one thread and not two, and the port changes hands
// without waking anybody. The ports of this package on Linux are Watched, but for pipes.
//
// SetAlarm is called by who has the lane's turn, Take, Watch and Leave by one goroutine of each kind
// at a time, Rouse by any. Wait is SetAlarm and Watch(Background), Wake is Rouse(Background).
type Watched interface {
	Port

	// SetAlarm says after what time the watcher's wait ends if nothing happens, the present one too
	// (<0: not at all). The time goes on when the port changes hands.
	SetAlarm(d time.Duration)

	// Watch blocks as Wait does, until the alarm instead of a timeout. While the relief has the port,
	// Watch(Background) returns for Rouse(Background) only. It may return without cause.
	Watch(w Watcher) error

	// Rouse makes the present Watch of w return, or its next one if none is in progress.
	Rouse(w Watcher)

	// Take gives the port to the relief, Leave gives it back to the background. A Watch(Relief)
	// without a Take begins with one.
	Take()
	Leave()
}

// Multicaster is a port that can join IP multicast groups, for UD queue pairs. Packets to a joined group are received
// with the group as destination, the port's own included. All methods may be called from any goroutine.
type Multicaster interface {
	// JoinGroup starts receiving what is sent to group. Joins are counted: leave as often as you joined.
	JoinGroup(group wire.GID) error
	// LeaveGroup undoes one JoinGroup. The error is ErrNotJoined if there is none.
	LeaveGroup(group wire.GID) error
}

// Options for Open. The zero value is right for nearly everybody.
type Options struct {
	// UDPPort is the UDP port to bind and to send to; 0 means 4791. With any other one, only devices that use the same
	// one can talk to each other: the frames still say 4791, and so does what their ICRC covers.
	UDPPort int

	// RecvBuffer is how many bytes the kernel should hold for us between two turns; 0 means 64 MiB, of which packet and
	// xdp ports take 16 at most. Info.RecvBuffer tells what was granted: without CAP_NET_ADMIN udp ports are limited
	// by net.core.rmem_max.
	RecvBuffer int
	// SendBuffer is the same for sending; 0 means 4 MiB.
	SendBuffer int

	// MaxRun limits how many packets may travel through the kernel as one message (UDP_SEGMENT and UDP_GRO); 0 means as
	// many as the kernel takes, 1 turns both off.
	//
	// Over IPv4 a run needs whoever cuts it up, the kernel or the NIC, to count the Identification
	// up from packet to packet, as the ICRC covers it. The kernel does. Whether a NIC that cuts
	// runs itself does cannot be seen from the host that sends. If it does not, the first packet of
	// each run arrives, and hardware, rxe and our packet and xdp ports drop the others: the
	// receiver counts ICRC errors (rx_icrc_errors here, rx_icrc_encapsulated of mlx5), and long
	// messages crawl, a packet a round trip. Our udp ports solve for the Identification and notice
	// nothing. Then set MaxRun to 1, or keep the NIC from it: ethtool -K INTERFACE
	// tx-udp-segmentation off.
	MaxRun int

	// ZeroChecksum sends UDP checksum 0 as RoCE hardware does. The kernel can not do that to runs, so it implies
	// MaxRun 1 for sending. Otherwise the kernel fills in a correct checksum, which every receiver must accept.
	ZeroChecksum bool

	// TrafficClass and HopLimit are those that most packets will have: any other value costs a little per message.
	// HopLimit 0 means 64.
	TrafficClass, HopLimit uint8

	// QueueLen is how many packets a pipe holds for its receiver; 0 means 1024.
	QueueLen int

	why string // this kind of port was chosen, by auto
}

func (o Options) withDefaults() Options {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&o.UDPPort, wire.UDPPort)
	set(&o.RecvBuffer, 64<<20)
	set(&o.SendBuffer, 4<<20)
	set(&o.MaxRun, maxRun)
	set(&o.QueueLen, 1024)
	if o.HopLimit == 0 {
		o.HopLimit = 64
	}
	return o
}

// How many packets one UDP_SEGMENT message may hold: in every kernel that knows it, and in newer ones.
const (
	sureRun = 64
	maxRun  = 128
)

// OpenError says why a port could not be opened, and what can be done about it.
type OpenError struct {
	Name   string // as given to Open
	Reason string // the rule that was broken, with the value that broke it, and the choices there are
	Err    error  // the system's error, if one caused it
}

// Error is one sentence for people.
func (e *OpenError) Error() string {
	s := "transport: open " + e.Name + ": " + e.Reason
	if e.Err != nil {
		s += " (" + e.Err.Error() + ")"
	}
	return s
}

// Unwrap returns the system's error.
func (e *OpenError) Unwrap() error { return e.Err }

// Errors for errors.Is.
var (
	ErrClosed       = errors.New("the port is closed")
	ErrNotJoined    = errors.New("the group was not joined")
	ErrNoMulticast  = errors.New("the port has no multicast")
	ErrNotMulticast = errors.New("not a multicast address")
)

// openers knows the kinds of port by the first word of their names. Each is given what follows the colon, and opens as many
// ports as there are lanes.
var openers = map[string]func(name, rest string, lanes int, o Options) ([]Port, error){
	"udp":    openUDP,
	"packet": openPacket,
	"xdp":    openXDP,
	"auto":   openAuto,
	"pipe":   openPipe,
}

// Open opens a port by name:
//
//	udp:ADDRESS        a UDP socket on an address of this machine: "udp:127.0.0.1", "udp:::1", "udp:fe80::1%eth0"
//	udp:INTERFACE      the same on the first address of an interface (IPv4 before IPv6, link-local last)
//	packet:ADDRESS     AF_PACKET sockets on the interface that has the address; also packet:INTERFACE. Needs CAP_NET_RAW
//	xdp:ADDRESS        AF_XDP sockets on all queues of the interface that has the address; also xdp:INTERFACE.
//	                   Needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF
//	xdp:ADDRESS/QUEUE  the same on one queue: a port for each lane
//	auto:ADDRESS       packet if that works here, otherwise udp: Info.Why says why; also auto:INTERFACE
//	pipe:NAME          joins the in-memory segment NAME of this process at a free address 10.0.0.N
//	pipe:NAME/ADDRESS  the same at ADDRESS
//
// Errors are *OpenError.
func Open(name string, o Options) (Port, error) {
	ports, err := OpenLanes(name, 1, o)
	if err != nil {
		return nil, err
	}
	return ports[0], nil
}

func kinds() string {
	var names []string
	for k := range openers {
		names = append(names, k)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
