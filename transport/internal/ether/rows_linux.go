package ether

// The addresses of a port, rows of its GID table: each is held by a UDP socket, answered for to the
// neighbours' table, and let through by the port's filter, for as long as the interface has it.
//
// Stages: the station; holding what is there in the beginning; following the interface; the socket
// that holds an address; the end.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// Station is what a device has once, however many lanes it has.
type Station struct {
	All   bool // the addresses of the interface, not one
	Peers *Neighbours
	// Admit has the kernel give us the packets to an address or group, or no longer. Rows and
	// Groups are as they are to be then. It is set before Hold, and called when the lanes are ready
	// (Ready), one call at a time.
	Admit func(dst wire.GID, in bool) error

	martians atomic.Pointer[Martians] // sources of packets that nobody outside has
	rows     atomic.Pointer[[]wire.GID]
	nowhere  NextHop // of frames whose source has gone
	users    atomic.Int32

	mu      sync.Mutex
	iface   int
	how     Holding
	where   host.Namespace
	closing bool
	holders map[wire.GID]int // UDP sockets, one for each address
	members [2]int           // members of groups: UDP sockets of IPv4 and IPv6
}

func newStation() *Station {
	st := &Station{holders: map[wire.GID]int{}, members: [2]int{-1, -1}}
	st.rows.Store(new([]wire.GID))
	st.martians.Store(&Martians{})
	st.nowhere.unknown(fmt.Errorf("the source address has gone: %w", unix.EADDRNOTAVAIL))
	st.nowhere.wanted.Store(true)
	return st
}

// Rows are the addresses that are held, with empty rows between them. Nobody modifies them.
func (st *Station) Rows() []wire.GID { return *st.rows.Load() }

// Martians tells the forged packets.
func (st *Station) Martians() *Martians { return st.martians.Load() }

// Holding says how an address and UDP port are held.
type Holding struct {
	Shared bool // other ports of ours may have the same address
	Merged bool // the kernel may merge packets before we get them (UDP_GRO)
}

// Hold takes the UDP port of each address, routes and neighbours.
func (p *Port) Hold(iface *net.Interface, how Holding) (err error) {
	st, only := p.Station, p.Addr
	if st.iface, st.how, st.where = iface.Index, how, host.OpenNamespace(); st.All {
		only = netip.Addr{}
	}
	if st.Peers, err = openNeighbours(iface.Index, only); err != nil {
		return p.Fail("interface "+iface.Name+" has no routes and neighbours to ask for", err)
	}
	if kind := st.Peers.link.Encap; kind != "ether" && kind != "loopback" {
		return p.Fail(fmt.Sprintf("interface %s is not Ethernet (%s): use udp:%v", iface.Name, kind, p.Addr), nil)
	}
	rows := slices.Clone(st.Peers.link.GIDs())
	for i, g := range rows {
		addr := p.Addr
		if st.All {
			addr = g.Addr()
		}
		err := p.hold(addr)
		if st.All && errors.Is(err, unix.EADDRNOTAVAIL) {
			rows[i] = wire.GID{} // it has gone meanwhile, of which we hear
		} else if err != nil {
			return err
		}
	}
	st.publish(rows)
	st.Peers.link.Serve = p.serve
	p.Hop = st.Peers.Hop(wire.GIDFrom(p.Addr))
	return nil
}

// Ready has packets to our addresses come, and follows the interface from now on. The kernel keeps
// what has changed since Hold.
func (p *Port) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.Rows() {
		if err := p.admit(g, true); err != nil {
			return err
		}
	}
	p.Peers.start()
	return nil
}

// admit calls Admit for an address.
func (p *Port) admit(g wire.GID, in bool) error {
	p.groups.Lock()
	defer p.groups.Unlock()
	if g.IsZero() {
		return nil
	}
	return p.Admit(g, in)
}

// hold holds an address.
func (p *Port) hold(addr netip.Addr) error {
	fd, err := p.holdPort(addr)
	if err != nil {
		return err
	}
	g := wire.GIDFrom(addr)
	p.holders[g] = fd
	p.Peers.addSource(g, fd)
	return nil
}

// letGo undoes hold. The link is locked while its socket may be in use.
func (p *Port) letGo(g wire.GID) {
	p.Peers.dropSource(g)
	p.Peers.link.Lock()
	defer p.Peers.link.Unlock()
	unix.Close(p.holders[g])
	delete(p.holders, g)
}

// publish says which addresses are held now.
func (st *Station) publish(rows []wire.GID) {
	var info transport.Info
	st.Peers.link.Describe(&info)
	st.martians.Store(martiansOn(info.Addresses, st.Peers.link.Encap == "loopback", rows))
	st.rows.Store(&rows)
}

// serve follows the interface: rows are the addresses that it has now. It returns those that are
// held. A port of one address holds that all the time.
func (p *Port) serve(rows []wire.GID) []wire.GID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.All || p.closing {
		return rows
	}
	have := append(slices.Clone(p.Rows()), make([]wire.GID, max(0, len(rows)-len(p.Rows())))...)
	for i, g := range rows {
		if have[i] == g {
			continue
		}
		if old := have[i]; !old.IsZero() {
			have[i] = wire.GID{}
			p.giveUp(have, old)
		}
		if g.IsZero() {
			continue
		}
		if err := p.take(have, i, g); err != nil {
			p.Degrade("address "+g.Addr().String(), "its row of the GID table is empty", err)
			continue
		}
		have[i] = g
	}
	p.publish(have)
	return have
}

// take holds an address that has come, for row i, and has packets to it come.
func (p *Port) take(have []wire.GID, i int, g wire.GID) error {
	if err := p.where.Do(func() error { return p.hold(g.Addr()) }); err != nil {
		return err
	}
	now := slices.Clone(have)
	now[i] = g
	p.publish(now) // Admit looks at all
	err := p.admit(g, true)
	if err != nil {
		p.giveUp(have, g)
	}
	return err
}

// giveUp has packets to an address that is not in have come no longer, and frees it.
func (p *Port) giveUp(have []wire.GID, g wire.GID) {
	p.publish(slices.Clone(have)) // Admit looks at all, also at those that went before
	p.admit(g, false)
	p.letGo(g)
}

// holdPort binds the UDP socket that keeps the kernel from answering packets to an address. If we
// take merged packets, so must it: otherwise the kernel would cut up every one only to drop the
// pieces. Its other use is the datagram that makes the kernel look for a neighbour, which shall go
// no further than that (TTL 1).
func (p *Port) holdPort(addr netip.Addr) (fd int, err error) {
	family, ip, ttl := unix.AF_INET, unix.IPPROTO_IP, unix.IP_TTL
	if addr.Is6() {
		family, ip, ttl = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
	}
	fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return -1, p.Fail("the system gives no UDP socket", err)
	}
	if err = host.AttachFilter(fd, host.DropAll); err != nil {
		unix.Close(fd)
		return -1, p.Fail("the system gives no UDP socket", err)
	}
	unix.SetsockoptInt(fd, ip, ttl, 1)
	unix.SetsockoptInt(fd, unix.IPPROTO_UDP, host.UDPGRO, host.BoolInt(p.how.Merged))
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, host.BoolInt(p.how.Shared))
	if addr.Is6() {
		unix.SetsockoptInt(fd, unix.IPPROTO_UDP, host.UDPNoCheck6RX, 1)
	}
	if err := unix.Bind(fd, host.Sockaddr(addr, p.Options.UDPPort, p.iface)); err != nil {
		unix.Close(fd)
		return -1, host.BindError(p.Name, addr, p.Options.UDPPort, err)
	}
	return fd, nil
}

// close frees what the station has.
func (st *Station) close() (err error) {
	if st.Peers != nil {
		st.Peers.close()
	}
	st.where.Close()
	for _, fd := range st.holders {
		err = errors.Join(err, unix.Close(fd))
	}
	for _, fd := range st.members {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}
