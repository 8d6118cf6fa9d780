//go:build linux

// Package raw holds the references: what system calls alone carry between two processes, without
// any protocol, in the best form that was found for each way. They are no limits.
//
// A stream (stream.go) sends super-frames of equal segments as fast as the receiver takes them: the
// receiver reports how far it is (pace.go), so that next to nothing is lost. A ping-pong
// (pingpong.go) sends one packet to and fro, with a gap between two exchanges if that is wanted.
// With work (work.go), both ends of a stream do what no RoCE stack can avoid, with the routines
// that ours has: one copy of the payload from or to the application's memory, and the ICRC, which
// the receiver checks. Each path here is one line of Paths: a link (link_*.go) under a stream or a
// ping-pong.
//
// System calls that do not block, or not for long, are raw ones (syscall.RawSyscall): the Go
// scheduler need not know of them.
//
// The sockets of roce perf (cmd/roce/internal/costs) are another thing: what a Go program gets, by
// the poller of its runtime, would be bars that are too low.
//
// io_uring is not among the ways: the system call package that the project allows has its numbers
// and neither its rings nor its structures.
package raw

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// End says where one end of a path is, and what it is to do.
type End struct {
	Interface   string
	Local, Peer netip.Addr
	PeerMAC     net.HardwareAddr
	MTU         int // of the interface
	Duration    time.Duration
	Sends       bool          // this end starts: the sender of a stream, the client of a ping-pong
	Gap         time.Duration // of a ping-pong: how long the client sleeps before each exchange
	Spin        time.Duration // of a ping-pong that spins before it sleeps: for how long
}

// Result is what an end saw. The receiver of a stream and the client of a ping-pong know the
// figure.
type Result struct {
	Gbps    float64 `json:"gbps,omitempty"`    // of payload that arrived
	Mpps    float64 `json:"mpps,omitempty"`    // packets that arrived
	Lost    float64 `json:"lost,omitempty"`    // share of packets that did not arrive
	Bad     uint64  `json:"bad_crc,omitempty"` // packets with a wrong CRC
	OneWay  float64 `json:"usec,omitempty"`    // half a round trip, mean
	Typical float64 `json:"typical,omitempty"` // the same, median
	P99     float64 `json:"p99,omitempty"`     // and of 99 %
	Best    float64 `json:"best,omitempty"`    // the least
	Rate    float64 `json:"rate,omitempty"`    // exchanges a second, gaps and all
	Packets uint64  `json:"packets,omitempty"` // counted
	Seconds float64 `json:"seconds,omitempty"` // from the first packet to the last
}

// Path is one reference.
type Path struct {
	Name  string
	Brief string
	Run   func(End) (Result, error)
}

// Paths are all references.
var Paths = []Path{
	{"udp-stream", "UDP sockets, 4 runs of UDP_SEGMENT a call out, UDP_GRO in, system calls only",
		streams(overUDP, bulk(4), false)},
	{"udp-stream-work", "the same with copy and ICRC on both ends", streams(overUDP, bulk(4), true)},
	{"udp-small-work", "UDP sockets, 8 runs of 128 × 40 B a call (Linux 6.9) out, UDP_GRO in, with copy and ICRC",
		streams(overUDP, tiny(8*128), true)},
	{"udp-pingpong", "UDP sockets, 64 B, both ends spin on a non-blocking receive", pingpongs(overSpinningUDP, 64)},
	{"udp-spin50", "UDP sockets, 64 B, both ends spin for 50 us (-spin), then sleep in a blocking receive",
		pingpongs(overPatientUDP, 64)},
	{"udp-blocking", "UDP sockets, 64 B, both ends sleep in a blocking receive", pingpongs(overBlockingUDP, 64)},
	{"udp-net", "UDP of Go's package net, 64 B, both ends sleep in ReadFromUDPAddrPort", pingpongs(overNet, 64)},
	{"packet-stream", "AF_PACKET, GSO out, TPACKET_V2 ring in, system calls only", streams(overPacket, bulk(1), false)},
	{"packet-stream-work", "the same with copy and ICRC on both ends", streams(overPacket, bulk(1), true)},
	{"packet-small-work", "AF_PACKET, GSO 128 × 40 B (Linux 6.9) out, TPACKET_V2 ring in, with copy and ICRC",
		streams(overPacket, tiny(128), true)},
	{"packet-pingpong", "AF_PACKET, 64 B, both ends spin on a TPACKET_V2 ring, PACKET_QDISC_BYPASS",
		pingpongs(overPacketSmall, 64)},
}

// Run runs a path by name and prints the result as JSON.
func Run(out io.Writer, name string, end End) error {
	for _, p := range Paths {
		if p.Name != name {
			continue
		}
		r, err := p.Run(end)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return json.NewEncoder(out).Encode(r)
	}
	return fmt.Errorf("no raw path %q", name)
}

// Port is the UDP port of all paths.
const Port = 4791

// link carries super-frames. Its methods are called by one goroutine.
type link interface {
	// segment is where segment i of the next super-frame is laid out, if its segments have the
	// given size.
	segment(i, size int) []byte
	// send sends a super-frame of n bytes that was laid out in segments of the given size. It
	// returns false if there is no room for it now.
	send(n, size int) (bool, error)
	// recv returns the next super-frame and the size of its segments, or none when nothing is
	// there; a link that blocks waits first, but not for ever. The bytes are valid until the next
	// recv.
	recv() (frame []byte, segment int, err error)
	close()
}

// opener makes the link of an end.
type opener func(End) (link, error)
