package udp

// Multicast: a socket bound to the group itself, next to the device's own, for each group joined.
// So the destination of what arrives is known, and nobody else's groups do. Several devices may
// join one group (SO_REUSEADDR): each receives a copy of every packet, those of its own machine and
// its own included (IP_MULTICAST_LOOP is on by default).

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

type groupSocket struct {
	recv  receiver
	joins int
	left  atomic.Bool
}

// JoinGroup implements Multicaster.
func (p *port) JoinGroup(group wire.GID) error {
	if !group.IsMulticast() {
		return fmt.Errorf("transport: %s: join %v: %w", p.name, group, transport.ErrNotMulticast)
	}
	if group.Is4() != p.gid.Is4() {
		return fmt.Errorf("transport: %s: join %v: the port's address is %v, of the other IP version", p.name, group, p.addr)
	}
	p.groups.Lock()
	defer p.groups.Unlock()
	if p.closed.Load() {
		return fmt.Errorf("transport: %s: join %v: %w", p.name, group, transport.ErrClosed)
	}
	if g := p.groups.joined[group]; g != nil {
		g.joins++
		return nil
	}
	g, err := p.openGroup(group)
	if err != nil {
		return fmt.Errorf("transport: %s: join %v: %w", p.name, group, err)
	}
	if p.groups.joined == nil {
		p.groups.joined = map[wire.GID]*groupSocket{}
	}
	p.groups.joined[group] = g
	p.publishGroups()
	return nil
}

func (p *port) openGroup(group wire.GID) (*groupSocket, error) {
	fd, err := unix.Socket(p.family(), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return nil, err
	}
	if err := p.setUpGroup(fd, group); err != nil {
		unix.Close(fd)
		return nil, err
	}
	g := &groupSocket{joins: 1}
	g.recv.init(fd, group, p.opt.UDPPort, false)
	return g, nil
}

func (p *port) setUpGroup(fd int, group wire.GID) error {
	if err := p.setOptions(fd); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if err := unix.Bind(fd, host.Sockaddr(group.Addr(), p.opt.UDPPort, p.zone)); err != nil {
		return fmt.Errorf("binding the group: %w", err)
	}
	var err error
	if group.Is4() {
		err = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: group.Addr().As4(), Address: p.addr.As4(), Ifindex: int32(p.zone)})
	} else {
		err = unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
			&unix.IPv6Mreq{Multiaddr: group, Interface: uint32(p.zone)})
	}
	if err != nil {
		return fmt.Errorf("on interface %d: %w", p.zone, err)
	}
	return p.WatchSocket(fd)
}

// LeaveGroup implements Multicaster. Packets of the group that have arrived already may still be
// received.
func (p *port) LeaveGroup(group wire.GID) error {
	p.groups.Lock()
	defer p.groups.Unlock()
	g := p.groups.joined[group]
	if g == nil {
		return fmt.Errorf("transport: %s: leave %v: %w", p.name, group, transport.ErrNotJoined)
	}
	if g.joins--; g.joins > 0 {
		return nil
	}
	delete(p.groups.joined, group)
	p.groups.left = append(p.groups.left, g)
	g.left.Store(true)
	return nil
}

// publishGroups gives Recv a new list. The caller holds the lock.
func (p *port) publishGroups() {
	if len(p.groups.joined)+len(p.groups.left) == 0 {
		p.groups.list.Store(nil)
		return
	}
	list := append([]*groupSocket(nil), p.groups.left...)
	for _, g := range p.groups.joined {
		list = append(list, g)
	}
	p.groups.list.Store(&list)
}

// recvGroups adds to frames[:n] what the groups have.
func (p *port) recvGroups(groups []*groupSocket, frames []wire.Frame, n int) (int, error) {
	p.groups.next++
	for i := range groups {
		g := groups[(p.groups.next+i)%len(groups)]
		if g.left.Load() {
			p.closeLeft()
			continue
		}
		got, err := g.recv.recv(frames[n:])
		g.recv.report(&p.Counters)
		if err != nil {
			return n, err
		}
		if n += got; n == len(frames) {
			break
		}
	}
	return n, nil
}

// closeLeft closes the sockets of groups that were left. Only Recv and Close do, so that no socket
// is closed under a Recv in progress.
func (p *port) closeLeft() {
	p.groups.Lock()
	defer p.groups.Unlock()
	for _, g := range p.groups.left {
		p.closeGroup(g)
	}
	p.groups.left = nil
	p.publishGroups()
}

func (p *port) closeGroups() {
	p.closeLeft()
	p.groups.Lock()
	defer p.groups.Unlock()
	for _, g := range p.groups.joined {
		p.closeGroup(g)
	}
	clear(p.groups.joined)
	p.publishGroups()
}

func (p *port) closeGroup(g *groupSocket) {
	p.UnwatchSocket(g.recv.fd)
	unix.Close(g.recv.fd)
}

// multicastOut sends multicast by the port's own interface instead of by the default route. Where
// it fails there is no multicast, which the counters show when somebody tries.
func (p *port) multicastOut() {
	if p.addr.Is4() {
		unix.SetsockoptIPMreqn(p.tx, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Address: p.addr.As4(), Ifindex: int32(p.zone)})
	} else {
		unix.SetsockoptInt(p.tx, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, p.zone)
	}
}
