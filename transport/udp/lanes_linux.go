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
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// chooseSender makes a socket to send by for every lane but the first, of the first owner of the
// address. Nothing is received by it.
// It sends from the same UDP port whatever the address, which the kernel chooses with the first of
// them. If that is taken at another one, the error is errPortTaken: a port that is being opened
// has the kernel choose again (openRows), and of an address that comes later the row stays empty.
func (p *port) chooseSender(s *socket) (err error) {
	if p.qpns.Value == 0 {
		p.from.Store(wire.UDPPort)
		return nil
	}
	tx, err := unix.Socket(family(s.addr), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return err
	}
	s.tx = tx
	setV6Only(tx, s.addr)
	bindTentative(tx, s.addr)
	if err := p.setOptions(tx, s.addr); err != nil {
		return err
	}
	if err := host.AttachFilter(tx, host.DropAll); err != nil {
		return err
	}
	from := p.from.Load()
	if err := unix.Bind(tx, host.Sockaddr(s.addr, int(from), s.zone)); err != nil {
		if from != 0 && err == unix.EADDRINUSE {
			err = errPortTaken
		}
		return fmt.Errorf("binding UDP port %d of %v: %w", from, s.addr, err)
	}
	switch sa, err := unix.Getsockname(tx); sa := sa.(type) {
	case *unix.SockaddrInet4:
		p.from.Store(uint32(sa.Port))
	case *unix.SockaddrInet6:
		p.from.Store(uint32(sa.Port))
	default:
		return err
	}
	return nil
}

// errPortTaken is of a UDP port to send from that is free at one of our addresses only.
var errPortTaken = fmt.Errorf("it was free at the addresses before: %w", unix.EADDRINUSE)

// portTries is how often the kernel chooses before that is an error.
const portTries = 32

// forgetPorts closes the sockets of all rows, so that the kernel chooses other ports to send from.
// The caller holds st.mu.
func (st *station) forgetPorts() {
	for i := range st.rows {
		st.closeRow(i)
	}
	for _, p := range st.lanes {
		p.from.Store(0)
	}
}

// admitLanes lets sockets of the same user share the address. An error shows when the next one is
// bound.
func admitLanes(fd int) { unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }

// steerSockets has packets go to the lanes that their BTH.DestQP names. Sockets are numbered in the
// order in which they were bound; the program sees a packet from BTH on.
func steerSockets(fd, lanes int) error {
	return host.SetProgram(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, host.LaneProgram(0, lanes))
}
