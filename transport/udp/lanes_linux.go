package udp

// Several sockets with one address: SO_REUSEPORT, and a classic BPF program that chooses the one a
// packet goes to. Neither needs a privilege.
//
// Each lane sends from a UDP port of its own, as a network tells flows apart by that: their packets
// spread over the queues of the receiver's card, and its kernel merges (UDP_GRO) only those of one
// lane, which are most likely for one lane of the peer.
//
// The address is still taken by one device at a time, because its first socket is bound without
// SO_REUSEPORT, which the kernel refuses while anybody has the address. Only then it is set, for
// the other lanes. Some other program of the same user that uses SO_REUSEPORT could bind the
// address after that; it would receive nothing, as the program chooses among our sockets only.

import (
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// chooseSender makes a socket to send by for every lane but the first. Nothing is received by it.
func (p *port) chooseSender() (err error) {
	if p.from = wire.UDPPort; p.lane == 0 {
		return nil
	}
	p.tx, err = unix.Socket(p.family(), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		p.tx = p.fd
		return err
	}
	if err := p.setOptions(p.tx); err != nil {
		return err
	}
	if err := host.AttachFilter(p.tx, host.DropAll); err != nil {
		return err
	}
	// The kernel chooses a port that is free.
	if err := unix.Bind(p.tx, host.Sockaddr(p.addr, 0, p.zone)); err != nil {
		return err
	}
	switch sa, err := unix.Getsockname(p.tx); sa := sa.(type) {
	case *unix.SockaddrInet4:
		p.from = uint16(sa.Port)
	case *unix.SockaddrInet6:
		p.from = uint16(sa.Port)
	default:
		return err
	}
	return nil
}

// admitLanes lets sockets of the same user share the address. An error shows when the next one is
// bound.
func (p *port) admitLanes() { unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }

// steerSockets has packets go to the lanes that their BTH.DestQP names. Sockets are numbered in the
// order in which they were bound; the program sees a packet from BTH on.
func steerSockets(fd, lanes int) error {
	return host.SetProgram(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, host.LaneProgram(0, lanes))
}
