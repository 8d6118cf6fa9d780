// Package udp is the port that works everywhere and needs no privilege: a UDP socket on port 4791
// of an address, or of each address of an interface.
//
//	udp.go             opening, and the head in front of what a socket receives (this file)
//	port_linux.go      on Linux: opening and closing, options
//	rows_linux.go      a socket for each address, while it is there
//	recv_linux.go      recvmmsg, and cutting up what UDP_GRO has merged
//	send_linux.go      sendmmsg, and UDP_SEGMENT for runs
//	group_linux.go     multicast
//	lanes_linux.go     several sockets with one address
//	slots_linux.go     several processes with one address
//	portable.go        the same through package net, for every other system
//	df_linux.go …      keeping packets from being fragmented, by system
//
// A socket that is bound to port 4791 sends from 4791. RoCE would like a source port per
// connection, for networks that spread flows by it, and receivers must accept any; but the ICRC
// covers the source port, so the engine has to use the one that will be sent: Info.SrcPort.
package udp

import (
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// Open opens UDP sockets for each lane: on "udp:ADDRESS", an address of this machine
// ("udp:127.0.0.1", "udp:fe80::1%eth0"), or on all addresses of "udp:INTERFACE", in the order of
// transport.Info.GIDs, each of which must be free. One that comes later and is another's has an
// empty row, and Info.Degraded says so. It is a transport.Opener. On Linux the ports are
// transport.Watched and transport.Multicasters; elsewhere they are neither, have one lane, and of
// an interface they have the first address.
func Open(name string, lanes int, o transport.Options) ([]transport.Port, error) {
	where, err := transport.Where(name, lanes)
	if err != nil {
		return nil, err
	}
	return open(name, where, lanes, o.WithDefaults())
}

// headMaker makes the heads of received packets: addresses and port as the socket reports them, TOS
// and TTL from its ancillary data, lengths computed. It keeps the last path, as packets of one
// sender come together.
type headMaker struct {
	path wire.Path
	made bool
}

// put writes a head for a body of n bytes into dst and returns its length, 0 if there can be none.
// id is the guess for the Identification that the sender used.
func (m *headMaker) put(dst []byte, src, local wire.GID, srcPort uint16, tos, ttl uint8, n int, id uint16) int {
	p := &m.path
	if !m.made || p.Src != src || p.Dst != local || p.SrcPort != srcPort || p.TrafficClass != tos || p.HopLimit != ttl {
		var err error
		if m.path, err = wire.NewPath(src, local, srcPort, tos, ttl, 0); err != nil {
			m.made = false
			return 0
		}
		m.made = true
	}
	return m.path.PutHead(dst, n, id)
}
