// Package packet is the port of AF_PACKET sockets on one interface, for all of its addresses or
// one, on Linux. It sees and makes whole IP packets, so ICRCs are checked in full and any UDP
// source port can be sent. It needs CAP_NET_RAW.
//
//	packet.go          opening (this file)
//	port_linux.go      its sockets
//	filter_linux.go    which packets the kernel copies for us
//	ingress_linux.go   and which it then need not look at any more
//	ring_linux.go      the memory that we share with the kernel
//	order_linux.go     two rings, for short and long packets, and their order
//	lanes_linux.go     which ring of which lane a packet comes to
//	recv_linux.go      frames lent from them
//	send_linux.go      runs of frames as one packet each
//
// What it shares with the port of AF_XDP is in transport/internal/ether: neighbours, multicast,
// frames to ourselves.
package packet

import "github.com/goroce/goroce/transport"

// Open opens packet sockets for each lane on the interface that has the address of
// "packet:ADDRESS", or on "packet:INTERFACE" for all its addresses. It is a transport.Opener. The
// ports are transport.Watched, transport.Multicasters and transport.Resolvers.
func Open(name string, lanes int, o transport.Options) ([]transport.Port, error) {
	where, err := transport.Where(name, lanes)
	if err != nil {
		return nil, err
	}
	return open(name, where, lanes, o.WithDefaults())
}
