package transport

// Lanes: several ports with one address, so that several threads can run one device, each with a
// queue of its own.
//
//	sender ──▶ the address ──▶ steering by BTH.DestQP ──▶ port 0, 1, 2 … of the device
//
// Stages of this file: opening them; which lane a packet belongs to; lists of them.
//
// Steering puts most packets where they belong, not all: packets that travel as one (UDP_GRO, a run
// of the sender) all go where the first one does, a network card spreads flows as it likes, and
// groups belong to all lanes. So whoever has several lanes looks at each packet (LaneOf) and hands
// on what is not its own.

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goroce/goroce/wire"
)

// MaxLanes is how many lanes a device can have: more than a machine has use for, and few enough for
// a byte of the queue pair's number to name them.
const MaxLanes = 1 << wire.OwnerShift

// Opener opens the ports of a device with several lanes, 1 to MaxLanes, a power of two. They share
// the address: each sends from it, and of what arrives each gets the packets whose LaneOf it is,
// where the system knows how to steer.
//
//	udp, packet   steered by the kernel
//	xdp           each takes its share of the interface's queues, which must be as many: the
//	              interface steers
//	pipe          steered
//
// The name is KIND:WHERE, of which an opener reads what follows the colon: "auto:eth0" may be
// opened by any. Buffers of Options are for each lane. A group is joined at the first port; its
// packets then come to any one of them. Every port is to be closed; the address is free when all
// are. Errors are *OpenError.
type Opener func(name string, lanes int, o Options) ([]Port, error)

// Where returns what follows the kind in the name of a port, "eth0" of "udp:eth0", for openers. The
// error says that there is nothing, or that there can not be so many lanes.
func Where(name string, lanes int) (where string, err error) {
	_, where, _ = strings.Cut(name, ":")
	switch {
	case where == "":
		err = &OpenError{Name: name,
			Reason: "what follows the colon is missing: an address, an interface, or the name of a pipe"}
	case lanes < 1 || lanes > MaxLanes || lanes&(lanes-1) != 0:
		err = &OpenError{Name: name, Reason: fmt.Sprintf("%d lanes: the number must be a power of two from 1 to %d",
			lanes, MaxLanes)}
	}
	return where, err
}

// DestQPLow is where a frame's body has the low byte of BTH.DestQP.
const DestQPLow = 7

// LaneOf is which of the lanes, a power of two, a packet belongs to: the low bits of BTH.DestQP say
// it.
func LaneOf(f *wire.Frame, lanes int) int {
	if len(f.Body) <= DestQPLow {
		return 0
	}
	return wire.LaneOf(uint32(f.Body[DestQPLow]), lanes)
}

// Ports is a list of ports of one kind as an Opener returns it.
func Ports[P Port](list []P) []Port {
	ports := make([]Port, len(list))
	for i, p := range list {
		ports[i] = p
	}
	return ports
}

// CloseAll closes ports, all of them, and returns what went wrong.
func CloseAll[P Port](list []P) error {
	var errs []error
	for _, p := range list {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
