//go:build linux

// Package raw holds the ceilings: what system calls alone can carry between two processes, without any protocol.
//
// A stream sends super-frames of equal segments as fast as it can; a ping-pong sends one packet to and fro. With work, both
// ends of a stream do what no RoCE stack can avoid: one copy of the payload from or to the application's memory and one
// CRC-32 over the packet, which the receiver compares. Each path here is one line of Paths: a link (links_*.go) under a
// stream or a ping-pong.
//
// System calls that cannot block are raw ones (syscall.RawSyscall): the Go scheduler need not know of them. Loops spin.
package raw

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// End says where one end of a path is.
type End struct {
	Interface   string
	Local, Peer netip.Addr
	PeerMAC     net.HardwareAddr
	Duration    time.Duration
	Sends       bool // this end starts: the sender of a stream, the client of a ping-pong
}

// Result is what an end saw. The receiver of a stream and the client of a ping-pong know the figure.
type Result struct {
	Gbps    float64 `json:"gbps,omitempty"`    // of payload that arrived
	Mpps    float64 `json:"mpps,omitempty"`    // packets that arrived
	OneWay  float64 `json:"usec,omitempty"`    // half a round trip, mean
	Typical float64 `json:"typical,omitempty"` // median over blocks of trips
	Best    float64 `json:"best,omitempty"`    // the least block: what it would be on a quiet machine
	Lost    float64 `json:"lost,omitempty"`    // share of packets that did not arrive
	Bad     uint64  `json:"bad_crc,omitempty"` // packets with a wrong CRC
	Packets uint64  `json:"packets,omitempty"` // counted
	Seconds float64 `json:"seconds,omitempty"` // from the first packet to the last
}

// Path is one ceiling.
type Path struct {
	Name  string
	Brief string
	Run   func(End) (Result, error)
}

// Paths are all ceilings.
var Paths = []Path{
	{"udp-stream", "UDP socket, UDP_SEGMENT 15 × 4128 B out, UDP_GRO in, system calls only", streams(overUDP, large, false)},
	{"udp-stream-work", "the same with copy and CRC-32 on both ends", streams(overUDP, large, true)},
	{"udp-small", "UDP socket, UDP_SEGMENT 64 × 40 B out, UDP_GRO in, system calls only", streams(overUDP, small, false)},
	{"udp-small-work", "the same with copy and CRC-32 on both ends", streams(overUDP, small, true)},
	{"udp-most-work", "the same with UDP_SEGMENT 128 × 40 B, which needs Linux 6.9", streams(overUDP, most, true)},
	{"udp-pingpong", "UDP sockets, 64 B, both ends spin on a non-blocking receive", pingpongs(overSpinningUDP, 64)},
	{"udp-blocking", "UDP sockets, 64 B, both ends sleep in a blocking receive", pingpongs(overBlockingUDP, 64)},
	{"packet-stream", "AF_PACKET, GSO 15 × 4128 B out, TPACKET_V2 ring in, system calls only", streams(overPacket, large, false)},
	{"packet-stream-work", "the same with copy and CRC-32 on both ends", streams(overPacket, large, true)},
	{"packet-small-work", "AF_PACKET, GSO 64 × 40 B out, TPACKET_V2 ring in, with copy and CRC-32", streams(overPacket, small, true)},
	{"packet-most-work", "the same with GSO 128 × 40 B, which needs Linux 6.9", streams(overPacket, most, true)},
	{"packet-pingpong", "AF_PACKET, 64 B, both ends spin on a TPACKET_V2 ring, PACKET_QDISC_BYPASS", pingpongs(overPacketSmall, 64)},
	{"xdp-stream", "AF_XDP, copy mode, packets of 2080 B, system calls only", streams(overXDP, medium, false)},
	{"xdp-stream-work", "the same with copy and CRC-32 on both ends", streams(overXDP, medium, true)},
	{"xdp-small-work", "AF_XDP, copy mode, packets of 40 B, with copy and CRC-32", streams(overXDP, small, true)},
	{"xdp-pingpong", "AF_XDP, copy mode, 64 B, both ends spin on the ring", pingpongs(overXDP, 64)},
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

// shape is what a stream's super-frames look like: segments of one size, in each some bytes of payload behind a header.
type shape struct {
	segments, size  int // bytes of a segment after the UDP header
	payload, offset int // where the payload lies in it; a CRC-32 ends the segment
}

var (
	large  = shape{segments: 15, size: 4128, payload: 4096, offset: 28} // 15 is the most that fits a UDP datagram
	medium = shape{segments: 30, size: 2080, payload: 2048, offset: 28}
	small  = shape{segments: 64, size: 40, payload: 8, offset: 28}
	most   = shape{segments: 128, size: 40, payload: 8, offset: 28}
)

// Port is the UDP port of all paths.
const Port = 4791

// link carries super-frames. Its methods are called by one goroutine.
type link interface {
	// room says whether a super-frame of so many segments can be laid out now.
	room(segments int) bool
	// segment is where segment i of the next super-frame is laid out, if its segments have the given size.
	segment(i, size int) []byte
	// send sends a super-frame of n bytes that was laid out in segments of the given size; false: not now.
	send(n, size int) (bool, error)
	// recv returns the next super-frame and the size of its segments; none when nothing is there (a link that blocks waits).
	// The bytes are valid until the next recv.
	recv() (frame []byte, segment int, err error)
	close()
}

// opener makes the link of an end.
type opener func(End) (link, error)
