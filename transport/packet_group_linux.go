// Multicast: the UDP socket that holds our port joins the group, which makes the kernel report the membership (IGMP, MLD)
// and open the interface's filter for the group's Ethernet address. The packets come by the ring like all others, when its
// own filter lets them pass.
//
// Frames that we send to a group that we have joined are for ourselves too (see packet_self_linux.go); only lo brings them
// back by itself.

package transport

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

type packetGroups struct {
	sync.Mutex
	joined map[wire.GID]int // how often
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
	p.peers.setSelf(group, p.peers.encap != "loopback")
	if err := p.filterGroups(); err != nil {
		return fail(err)
	}
	return nil
}

// LeaveGroup implements Multicaster. Packets of the group that have arrived already may still be received.
func (p *packetPort) LeaveGroup(group wire.GID) error {
	p.groups.Lock()
	defer p.groups.Unlock()
	if p.groups.joined[group] == 0 {
		return fmt.Errorf("transport: %s: leave %v: %w", p.name, group, ErrNotJoined)
	}
	if p.groups.joined[group]--; p.groups.joined[group] > 0 {
		return nil
	}
	delete(p.groups.joined, group)
	p.peers.setSelf(group, false)
	return errors.Join(p.member(group, false), p.filterGroups())
}

// filterGroups gives the ring a filter for the groups that are joined now.
func (p *packetPort) filterGroups() error {
	var list []wire.GID
	for g := range p.groups.joined {
		list = append(list, g)
	}
	return attachFilter(p.rx, packetFilter(p.gid, list))
}

// member has the UDP socket join the group on the interface, or leave it.
func (p *packetPort) member(group wire.GID, join bool) (err error) {
	if group.Is4() {
		what := unix.IP_DROP_MEMBERSHIP
		if join {
			what = unix.IP_ADD_MEMBERSHIP
		}
		err = unix.SetsockoptIPMreqn(p.holder, unix.IPPROTO_IP, what,
			&unix.IPMreqn{Multiaddr: group.Addr().As4(), Address: p.addr.As4(), Ifindex: int32(p.peers.index)})
	} else {
		what := unix.IPV6_LEAVE_GROUP
		if join {
			what = unix.IPV6_JOIN_GROUP
		}
		err = unix.SetsockoptIPv6Mreq(p.holder, unix.IPPROTO_IPV6, what,
			&unix.IPv6Mreq{Multiaddr: group, Interface: uint32(p.peers.index)})
	}
	if errors.Is(err, unix.ENOBUFS) {
		return fmt.Errorf("the port is in %d groups, which is as many as net.ipv4.igmp_max_memberships allows: %w", len(p.groups.joined), err)
	}
	return err
}
