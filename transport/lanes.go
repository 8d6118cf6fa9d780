// Lanes: several ports with one address, so that several threads can run one device, each with a queue of its own.
//
//	sender ──▶ the address ──▶ steering by BTH.DestQP ──▶ port 0, 1, 2 … of the device
//
// Stages of this file: opening them; which lane a packet belongs to.
//
// Steering puts most packets where they belong, not all: packets that travel as one (UDP_GRO, a run of the sender) all go
// where the first one does, a network card spreads flows as it likes, and groups belong to all lanes. So whoever has
// several lanes looks at each packet (LaneOf) and hands on what is not its own.

package transport

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/wire"
)

// MaxLanes is how many lanes a device can have: more than a machine has use for, and few enough for a byte of the queue
// pair's number to name them.
const MaxLanes = 64

// OpenLanes opens the ports of a device with several lanes, 1 to MaxLanes, a power of two. They share the address: each
// sends from it, and of what arrives each gets the packets whose LaneOf it is, where the system knows how to steer.
//
//	udp, packet   steered by the kernel
//	xdp           each takes its share of the interface's queues, which must be as many: the interface steers
//	pipe          steered
//
// Buffers of Options are for each lane. A group is joined at the first port; its packets then come to any one of them.
// Every port is to be closed; the address is free when all are.
func OpenLanes(name string, lanes int, o Options) ([]Port, error) {
	kind, rest, _ := strings.Cut(name, ":")
	open := openers[kind]
	switch {
	case open == nil:
		return nil, &OpenError{Name: name, Reason: fmt.Sprintf("%q is not a kind of port; there are %s", kind, kinds())}
	case rest == "":
		return nil, &OpenError{Name: name, Reason: "what follows the colon is missing: an address, an interface, or the name of a pipe"}
	case lanes < 1 || lanes > MaxLanes || lanes&(lanes-1) != 0:
		return nil, &OpenError{Name: name, Reason: fmt.Sprintf("%d lanes: the number must be a power of two from 1 to %d", lanes, MaxLanes)}
	}
	return open(name, rest, lanes, o.withDefaults())
}

// destQPLow is where a frame's body has the low byte of BTH.DestQP.
const destQPLow = 7

// LaneOf is which of the lanes, a power of two, a packet belongs to: the low bits of BTH.DestQP say it.
func LaneOf(f *wire.Frame, lanes int) int {
	if len(f.Body) <= destQPLow {
		return 0
	}
	return int(f.Body[destQPLow]) & (lanes - 1)
}

// portsOf is a list of ports of one kind as OpenLanes returns it.
func portsOf[P Port](list []P) []Port {
	ports := make([]Port, len(list))
	for i, p := range list {
		ports[i] = p
	}
	return ports
}

// closeAll closes the ports that were open when the next one could not be opened.
func closeAll[P Port](list []P) {
	for _, p := range list {
		p.Close()
	}
}
