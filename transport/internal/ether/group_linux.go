package ether

// Multicast: a UDP socket joins the group, which makes the kernel report the membership (IGMP, MLD)
// and open the interface's filter for the group's Ethernet address. The packets come like all
// others, when the port's own filter admits them.
//
// Frames that we send to a group that we have joined are for ourselves too (see self_linux.go);
// only lo brings them back by itself.

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

type groups struct {
	sync.Mutex
	joined map[wire.GID]int // how often
}

// JoinGroup implements Multicaster.
func (p *Port) JoinGroup(group wire.GID) error {
	fail := func(err error) error { return fmt.Errorf("transport: %s: join %v: %w", p.Name, group, err) }
	if !group.IsMulticast() {
		return fail(transport.ErrNotMulticast)
	}
	if !slices.ContainsFunc(p.Rows(), func(g wire.GID) bool { return !g.IsZero() && g.Is4() == group.Is4() }) {
		return fail(errors.New("the port has no address of that IP version"))
	}
	p.groups.Lock()
	defer p.groups.Unlock()
	if p.Closed.Load() {
		return fail(transport.ErrClosed)
	}
	if p.groups.joined[group] == 0 {
		if err := p.member(group, true); err != nil {
			return fail(err)
		}
		if p.groups.joined == nil {
			p.groups.joined = map[wire.GID]int{}
		}
	}
	if p.groups.joined[group]++; p.groups.joined[group] > 1 {
		return nil
	}
	p.Peers.setSelf(group, p.Peers.link.Encap != "loopback")
	if err := p.Admit(group, true); err != nil {
		p.leave(group) // what was not done yet can not be undone
		return fail(err)
	}
	return nil
}

// LeaveGroup implements Multicaster. Packets of the group that have arrived already may still be
// received.
func (p *Port) LeaveGroup(group wire.GID) error {
	p.groups.Lock()
	defer p.groups.Unlock()
	if p.groups.joined[group] == 0 {
		return fmt.Errorf("transport: %s: leave %v: %w", p.Name, group, transport.ErrNotJoined)
	}
	if p.groups.joined[group]--; p.groups.joined[group] > 0 {
		return nil
	}
	return p.leave(group)
}

// leave undoes the first JoinGroup of a group.
func (p *Port) leave(group wire.GID) error {
	delete(p.groups.joined, group)
	p.Peers.setSelf(group, false)
	return errors.Join(p.member(group, false), p.Admit(group, false))
}

// Groups lists the groups that are joined. It is for Admit, which is called with their lock held.
func (p *Port) Groups() (list []wire.GID) {
	for g := range p.groups.joined {
		list = append(list, g)
	}
	return list
}

// member has the UDP socket of an IP version join the group on the interface, or leave it.
func (p *Port) member(group wire.GID, join bool) (err error) {
	i, family := 0, unix.AF_INET
	if !group.Is4() {
		i, family = 1, unix.AF_INET6
	}
	if p.members[i] < 0 {
		err := p.where.Do(func() (err error) {
			p.members[i], err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
				unix.IPPROTO_UDP)
			return err
		})
		if err != nil {
			p.members[i] = -1
			return err
		}
	}
	if group.Is4() {
		what := unix.IP_DROP_MEMBERSHIP
		if join {
			what = unix.IP_ADD_MEMBERSHIP
		}
		err = unix.SetsockoptIPMreqn(p.members[i], unix.IPPROTO_IP, what, &unix.IPMreqn{Multiaddr: group.Addr().As4(),
			Ifindex: int32(p.iface)})
	} else {
		what := unix.IPV6_LEAVE_GROUP
		if join {
			what = unix.IPV6_JOIN_GROUP
		}
		err = unix.SetsockoptIPv6Mreq(p.members[i], unix.IPPROTO_IPV6, what,
			&unix.IPv6Mreq{Multiaddr: group, Interface: uint32(p.iface)})
	}
	if errors.Is(err, unix.ENOBUFS) {
		return fmt.Errorf("the port is in %d groups, which is as many as net.ipv4.igmp_max_memberships allows: %w",
			len(p.groups.joined), err)
	}
	return err
}
