// Multicast: per group a UDP socket that has joined it, which makes the kernel report the membership (IGMP, MLD) and open
// the interface's filter for the group's Ethernet address. The packets come by the ring like all others: the filter there
// is made anew.
//
// Frames that we send to a group that we have joined are for ourselves too (see packet_self_linux.go).

package transport

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

type packetGroups struct {
	sync.Mutex
	joined map[wire.GID]*packetGroup
}

type packetGroup struct {
	fd    int
	joins int
}

// JoinGroup implements Multicaster.
func (p *packetPort) JoinGroup(group wire.GID) error {
	fail := func(err error) error { return fmt.Errorf("transport: %s: join %v: %w", p.name, group, err) }
	if !group.IsMulticast() {
		return fail(ErrNotMulticast)
	}
	if group.Is4() != p.gid.Is4() {
		return fail(fmt.Errorf("the port's address is %v, of the other IP version", p.addr))
	}
	p.groups.Lock()
	defer p.groups.Unlock()
	if p.closed.Load() {
		return fail(ErrClosed)
	}
	if g := p.groups.joined[group]; g != nil {
		g.joins++
		return nil
	}
	fd, err := p.peers.joinGroup(group)
	if err != nil {
		return fail(err)
	}
	if p.groups.joined == nil {
		p.groups.joined = map[wire.GID]*packetGroup{}
	}
	p.groups.joined[group] = &packetGroup{fd: fd, joins: 1}
	if err := p.filterGroups(); err != nil {
		delete(p.groups.joined, group)
		unix.Close(fd)
		return fail(err)
	}
	p.peers.setSelf(group, true)
	return nil
}

// LeaveGroup implements Multicaster. Packets of the group that have arrived already may still be received.
func (p *packetPort) LeaveGroup(group wire.GID) error {
	p.groups.Lock()
	defer p.groups.Unlock()
	g := p.groups.joined[group]
	if g == nil {
		return fmt.Errorf("transport: %s: leave %v: %w", p.name, group, ErrNotJoined)
	}
	if g.joins--; g.joins > 0 {
		return nil
	}
	delete(p.groups.joined, group)
	p.peers.setSelf(group, false)
	unix.Close(g.fd)
	return p.filterGroups()
}

// filterGroups gives the ring a filter for the groups that are joined now.
func (p *packetPort) filterGroups() error {
	var list []wire.GID
	for g := range p.groups.joined {
		list = append(list, g)
	}
	return attachFilter(p.rx, packetFilter(p.gid, list))
}

func (g *packetGroups) close() {
	g.Lock()
	defer g.Unlock()
	for _, group := range g.joined {
		unix.Close(group.fd)
	}
	clear(g.joined)
}

// joinGroup opens a socket that is a member of the group on the interface.
func (t *neighbours) joinGroup(group wire.GID) (fd int, err error) {
	family := unix.AF_INET
	if !group.Is4() {
		family = unix.AF_INET6
	}
	if fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP); err != nil {
		return -1, err
	}
	if group.Is4() {
		err = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: group.Addr().As4(), Address: t.addr.As4(), Ifindex: int32(t.index)})
	} else {
		err = unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
			&unix.IPv6Mreq{Multiaddr: group, Interface: uint32(t.index)})
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("on interface %d: %w", t.index, err)
	}
	return fd, nil
}
