// Package xdp is the port of AF_XDP on Linux: packets taken from a network interface before the
// kernel's IP stack sees them, by a small program that leaves all others alone. It sees and makes
// whole IP packets, so ICRCs are checked in full and any UDP source port can be sent. It needs
// CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF.
//
//	xdp.go             opening (this file)
//	port_linux.go      the port of one lane
//	program_linux.go   the program on the interface, and what it looks up
//	memory_linux.go    the memory of the packets
//	queue_linux.go     a socket for each queue of the interface
//	ring_linux.go      the rings of a socket
//	recv_linux.go      frames lent from the memory
//	send_linux.go      frames copied into it
//	features_linux.go  what the driver says of itself
//	probe_linux.go     what is missing where it does not work
//
// What it shares with the port of packet sockets is in transport/internal/ether: neighbours,
// multicast, frames to ourselves.
package xdp

import "github.com/goroce/goroce/transport"

// Open opens AF_XDP sockets on all queues of the interface that has the address of "xdp:ADDRESS",
// or on "xdp:INTERFACE" for all its addresses; each lane takes its share of the queues.
// "xdp:ADDRESS/QUEUE" is one queue, and one lane. It is a transport.Opener. The ports are
// transport.Watched, transport.Multicasters and transport.Resolvers.
func Open(name string, lanes int, o transport.Options) ([]transport.Port, error) {
	where, err := transport.Where(name, lanes)
	if err != nil {
		return nil, err
	}
	return open(name, where, lanes, o.WithDefaults())
}

// OpenZeroCopy opens a port as far as the driver of the interface says that it will be zero-copy,
// and it then is. tried tells that it was not clear beforehand that this would not work: ports and
// error are those of Open then, and nil otherwise.
func OpenZeroCopy(name string, lanes int, o transport.Options) (ports []transport.Port, tried bool, err error) {
	where, err := transport.Where(name, lanes)
	if err != nil {
		return nil, false, err
	}
	return openZeroCopy(name, where, lanes, o.WithDefaults())
}

// Probe finds out whether a port could be opened, as far as is possible without touching the
// interface: attaching a program makes some drivers take the link down for a second. nil: nothing
// is known to be in the way.
func Probe(name string, o transport.Options) error {
	where, err := transport.Where(name, 1)
	if err != nil {
		return err
	}
	return probe(name, where, o.WithDefaults())
}
