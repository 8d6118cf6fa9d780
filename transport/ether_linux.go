// What the ports that make Ethernet packets themselves have in common, AF_PACKET and AF_XDP: one address on one interface.
//
//	ether_linux.go         opening on an interface, Ethernet headers, sleeping (this file)
//	ether_group_linux.go   multicast
//	neigh_linux.go         routes, neighbours, and so Ethernet addresses
//	martian_linux.go       sources that are forged
//	packet_self_linux.go   frames to ourselves, which no interface would bring back
//	wait_linux.go          sleeping and waking, of every port with sockets

package transport

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

// etherPort is embedded by these ports.
type etherPort struct {
	kind string // "packet", "xdp"
	name string
	addr netip.Addr
	gid  wire.GID
	opt  Options

	*station
	hop    *nextHop // where the last frame went
	self   selfQueue
	sleep  sleeper
	groups etherGroups
	// admit has the kernel give us the packets of a group, or no longer.
	admit func(group wire.GID, in bool) error

	mu       sync.Mutex
	degraded []Degradation

	closed atomic.Bool
	counters
}

// station is what an address has once, however many lanes its device has.
type station struct {
	holder   int // UDP socket
	peers    *neighbours
	martians martians
	users    atomic.Int32
}

// initEther finds the address that follows the kind in a port's name.
func (p *etherPort) initEther(kind, name, rest string, o Options) (err error) {
	p.kind, p.name, p.opt, p.station = kind, name, o, &station{holder: -1}
	p.users.Store(1)
	if p.addr, err = udpAddress(name, rest); err != nil {
		return err
	}
	p.gid = wire.GIDFrom(p.addr)
	if o.UDPPort != wire.UDPPort {
		return p.fail(fmt.Sprintf("%s ports send to UDP port %d only; %d is for udp ports", kind, wire.UDPPort, o.UDPPort), nil)
	}
	return nil
}

// initLane makes p another lane of a port that is open.
func (p *etherPort) initLane(first *etherPort) {
	p.kind, p.name, p.opt, p.addr, p.gid, p.station = first.kind, first.name, first.opt, first.addr, first.gid, first.station
	p.users.Add(1)
	p.hop = p.peers.hop(p.gid)
}

// fail is an error for people.
func (p *etherPort) fail(reason string, err error) error {
	return &OpenError{Name: p.name, Reason: reason, Err: err}
}

// iface is the interface that has our address.
func (p *etherPort) iface() (*net.Interface, error) {
	if i, ok := interfaceOf(p.addr); ok {
		return i, nil
	}
	return nil, p.fail(fmt.Sprintf("%v is not an address of this machine; its addresses are %s", p.addr, localAddresses()), nil)
}

// holding says how an address and UDP port are held.
type holding struct {
	shared bool // other ports of ours may have the same address
	merged bool // the kernel may merge packets before we get them (UDP_GRO)
}

// hold takes the UDP port, routes and neighbours.
func (p *etherPort) hold(iface *net.Interface, how holding) (err error) {
	if err := p.holdPort(iface.Index, how); err != nil {
		return err
	}
	if p.peers, err = openNeighbours(iface.Index, p.addr, p.holder); err != nil {
		return p.fail("interface "+iface.Name+" has no routes and neighbours to ask for", err)
	}
	if kind := p.peers.encap; kind != "ether" && kind != "loopback" {
		return p.fail(fmt.Sprintf("interface %s is not Ethernet (%s): use udp:%v", iface.Name, kind, p.addr), nil)
	}
	p.hop = p.peers.hop(p.gid)
	p.martians = martiansOn(iface, p.gid)
	return nil
}

// holdPort binds the UDP socket that keeps the kernel from answering our packets. If we take merged packets, so must it:
// otherwise the kernel would cut up every one only to drop the pieces. Its other uses are to be a member of groups, and the
// datagram that makes the kernel look for a neighbour, which shall go no further than that (TTL 1).
func (p *etherPort) holdPort(iface int, how holding) (err error) {
	family, ip, ttl := unix.AF_INET, unix.IPPROTO_IP, unix.IP_TTL
	if p.addr.Is6() {
		family, ip, ttl = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
	}
	p.holder, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err == nil {
		err = attachFilter(p.holder, dropAll)
	}
	if err != nil {
		return p.fail("the system gives no UDP socket", err)
	}
	unix.SetsockoptInt(p.holder, ip, ttl, 1)
	unix.SetsockoptInt(p.holder, unix.IPPROTO_UDP, udpGRO, boolInt(how.merged))
	unix.SetsockoptInt(p.holder, unix.SOL_SOCKET, unix.SO_REUSEPORT, boolInt(how.shared))
	if p.addr.Is6() {
		unix.SetsockoptInt(p.holder, unix.IPPROTO_UDP, udpNoCheck6RX, 1)
	}
	if err := unix.Bind(p.holder, sockaddr(p.addr, p.opt.UDPPort, iface)); err != nil {
		return bindError(p.name, p.addr, p.opt.UDPPort, err)
	}
	return nil
}

// letGo undoes hold, with the last lane.
func (p *etherPort) letGo() error {
	p.sleep.close()
	if p.users.Add(-1) > 0 {
		return nil
	}
	if p.peers != nil {
		p.peers.close()
	}
	if p.holder < 0 {
		return nil
	}
	return unix.Close(p.holder)
}

// sockaddr is an address as system calls want it. iface is for those that only mean something together with it.
func sockaddr(a netip.Addr, port, iface int) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: port}
	}
	sa := &unix.SockaddrInet6{Addr: a.As16(), Port: port}
	if a.IsLinkLocalUnicast() || a.IsMulticast() {
		sa.ZoneId = uint32(iface)
	}
	return sa
}

// headerFor returns the Ethernet header for a frame; nil if it is not known. p.hop is then where the frame goes.
func (p *etherPort) headerFor(f *wire.Frame) *etherHeader {
	if !f.To(&p.hop.dst) {
		p.hop = p.peers.hop(f.Dst())
	}
	if !p.hop.wanted.Load() {
		p.peers.want(p.hop)
	}
	return p.hop.header.Load()
}

// toSelf gives a frame to the next Recv. false: there is no room before that.
func (p *etherPort) toSelf(f *wire.Frame) bool {
	if !p.self.put(f) {
		return false
	}
	p.sleep.wakeAll()
	return true
}

// lost counts frames that could not go.
func (p *etherPort) lost(why error, frames int) {
	switch why {
	case unix.EMSGSIZE:
		p.sendTooLong.Add(uint64(frames))
	case unix.ENETDOWN, unix.ENETUNREACH, unix.EHOSTUNREACH:
		p.sendUnreachable.Add(uint64(frames))
	default:
		p.sendRefused.Add(uint64(frames))
	}
	p.lastError(why)
}

// unreachable counts a frame whose next hop is not known.
func (p *etherPort) unreachable() {
	p.sendUnreachable.Add(1)
	p.lastError(p.hop.reason())
}

// lastError keeps the reason for Stats.
func (p *etherPort) lastError(err error) {
	if last := p.lastSendError.Load(); last == nil || *last != err {
		reason := err // a copy that may go to the heap
		p.lastSendError.Store(&reason)
	}
}

// degrade notes, once per feature, that the port works without it.
func (p *etherPort) degrade(feature, effect string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.degraded {
		if d.Feature == feature {
			return
		}
	}
	p.degraded = append(p.degraded, Degradation{Feature: feature, Effect: effect, Err: err})
}

// Resolve implements Resolver.
func (p *etherPort) Resolve(ctx context.Context, dst wire.GID, timeout time.Duration) error {
	if p.closed.Load() {
		return fmt.Errorf("transport: %s: resolve %v: %w", p.name, dst.Addr(), ErrClosed)
	}
	if err := p.peers.resolve(ctx, dst, timeout); err != nil {
		return fmt.Errorf("transport: %s: %w", p.name, err)
	}
	return nil
}

// Wait sleeps.
func (p *etherPort) Wait(timeout time.Duration) error {
	if p.closed.Load() {
		return ErrClosed
	}
	return p.sleep.wait(timeout)
}

// Wake ends a Wait.
func (p *etherPort) Wake() { p.Rouse(Background) }

// SetAlarm and what follows implement Watched.
func (p *etherPort) SetAlarm(d time.Duration) { p.sleep.setAlarm(d) }

// Watch sleeps in the seat of w.
func (p *etherPort) Watch(w Watcher) error {
	if p.closed.Load() {
		return ErrClosed
	}
	return p.sleep.sleepIn(w)
}

// Rouse ends a Watch.
func (p *etherPort) Rouse(w Watcher) {
	if p.sleep.wake(w) {
		p.wakes.Add(1)
	}
}

// Take makes the background deaf.
func (p *etherPort) Take() { p.sleep.take() }

// Leave has it hear again.
func (p *etherPort) Leave() { p.sleep.rise(Relief) }

// describe is what Info says about every such port.
func (p *etherPort) describe() Info {
	info := Info{Name: p.name, Kind: p.kind, Why: p.opt.why, GIDs: []wire.GID{p.gid}}
	p.peers.describe(&info)
	p.mu.Lock()
	defer p.mu.Unlock()
	info.Degraded = append([]Degradation(nil), p.degraded...)
	return info
}
