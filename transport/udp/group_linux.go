package udp

// Multicast: a socket bound to the group itself, next to the device's own, for each group joined.
// So the destination of what arrives is known, and nobody else's groups do. The kernel tells the
// network of the membership (IGMP, MLD) while the socket has it. Several devices may join one group
// (SO_REUSEADDR): each receives a copy of every packet, those of its own machine and its own
// included (IP_MULTICAST_LOOP is on by default).

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// JoinGroup implements Multicaster.
func (p *port) JoinGroup(group wire.GID) error {
	fail := func(err error) error { return fmt.Errorf("transport: %s: join %v: %w", p.name, group, err) }
	if !group.IsMulticast() {
		return fail(transport.ErrNotMulticast)
	}
	p.sockets.Lock()
	defer p.sockets.Unlock()
	if p.closed.Load() {
		return fail(transport.ErrClosed)
	}
	if g := p.sockets.groups[group]; g != nil {
		g.joins++
		return nil
	}
	i := slices.IndexFunc(p.sockets.rows, func(s *socket) bool { return s != nil && s.addr.Is4() == group.Is4() })
	if i < 0 {
		return fail(fmt.Errorf("the port has no address of that IP version"))
	}
	var g *socket
	err := p.where.Do(func() (err error) {
		g, err = p.openGroup(group, p.sockets.rows[i])
		return err
	})
	if err != nil {
		return fail(err)
	}
	if p.sockets.groups == nil {
		p.sockets.groups = map[wire.GID]*socket{}
	}
	p.sockets.groups[group] = g
	p.publish()
	return nil
}

// openGroup opens the socket of a group, which joins it on the interface of one of our addresses.
func (p *port) openGroup(group wire.GID, own *socket) (*socket, error) {
	fd, err := unix.Socket(family(group.Addr()), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return nil, err
	}
	if err := p.setUpGroup(fd, group, own); err != nil {
		unix.Close(fd)
		return nil, err
	}
	g := &socket{addr: group.Addr(), tx: fd, joins: 1}
	g.recv.init(fd, group, p.opt.UDPPort, false)
	return g, nil
}

func (p *port) setUpGroup(fd int, group wire.GID, own *socket) error {
	setV6Only(fd, group.Addr())
	if err := p.setOptions(fd, group.Addr()); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	// What comes by interfaces where others have joined the group is theirs. Kernels that do not
	// know that deliver it, which is harmless.
	if group.Is4() {
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
	} else {
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_ALL, 0)
	}
	grow(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, p.opt.RecvBuffer)
	if err := unix.Bind(fd, host.Sockaddr(group.Addr(), p.opt.UDPPort, own.zone)); err != nil {
		return fmt.Errorf("binding the group: %w", err)
	}
	var err error
	if group.Is4() {
		err = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: group.Addr().As4(), Address: own.addr.As4(), Ifindex: int32(own.zone)})
	} else {
		err = unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
			&unix.IPv6Mreq{Multiaddr: group, Interface: uint32(own.zone)})
	}
	if err != nil {
		return fmt.Errorf("on interface %d: %w", own.zone, err)
	}
	return p.WatchSocket(fd)
}

// LeaveGroup implements Multicaster. Packets of the group that have arrived already may still be
// received.
func (p *port) LeaveGroup(group wire.GID) error {
	p.sockets.Lock()
	defer p.sockets.Unlock()
	g := p.sockets.groups[group]
	if g == nil {
		return fmt.Errorf("transport: %s: leave %v: %w", p.name, group, transport.ErrNotJoined)
	}
	if g.joins--; g.joins > 0 {
		return nil
	}
	delete(p.sockets.groups, group)
	p.leave(g)
	p.publish()
	return nil
}

// multicastOut sends multicast by the port's own interface instead of by the default route. Where
// it fails there is no multicast, which the counters show when somebody tries.
func (p *port) multicastOut(s *socket) {
	if s.addr.Is4() {
		unix.SetsockoptIPMreqn(s.tx, unix.IPPROTO_IP, unix.IP_MULTICAST_IF,
			&unix.IPMreqn{Address: s.addr.As4(), Ifindex: int32(s.zone)})
	} else {
		unix.SetsockoptInt(s.tx, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, s.zone)
	}
}
