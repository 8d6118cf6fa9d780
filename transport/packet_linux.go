// The packet port: AF_PACKET sockets on one interface, for one address. It sees and makes whole IP packets, so ICRCs are
// checked in full and any UDP source port can be sent.
//
//	packet_linux.go         opening, describing, closing (this file)
//	packet_filter_linux.go  which packets the kernel copies for us
//	packet_ring_linux.go    the memory that we share with the kernel
//	packet_recv_linux.go    frames lent from it
//	packet_send_linux.go    runs of frames as one packet each
//	packet_self_linux.go    frames to ourselves, which no interface would bring back
//	packet_group_linux.go   multicast
//	packet_wait_linux.go    sleeping and waking
//	neigh_linux.go          routes, neighbours, and so Ethernet addresses
//
// Four descriptors: a packet socket that only receives (it sees all EtherTypes, because those sockets come before the IP
// stack and the others after it); one that only sends, so that its completions disturb nobody; a UDP socket that holds
// address and port and receives nothing, as the kernel would answer every packet with ICMP port unreachable otherwise; and
// netlink.

package transport

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

type packetPort struct {
	name string
	addr netip.Addr
	gid  wire.GID
	opt  Options

	rx, tx int // packet sockets
	holder int // UDP socket
	recv   packetReceiver
	send   packetSender
	self   selfQueue
	peers  *neighbours
	sleep  packetSleeper
	groups packetGroups

	mu       sync.Mutex
	degraded []Degradation
	drops    uint64 // of the ring; the kernel's count starts anew when it is read

	closed atomic.Bool
	counters
}

func openPacket(name, rest string, o Options) (Port, error) {
	addr, err := udpAddress(name, rest)
	if err != nil {
		return nil, err
	}
	if o.UDPPort != wire.UDPPort {
		return nil, &OpenError{Name: name, Reason: fmt.Sprintf("packet ports send to UDP port %d only; %d is for udp ports", wire.UDPPort, o.UDPPort)}
	}
	p := &packetPort{name: name, addr: addr, gid: wire.GIDFrom(addr), opt: o, rx: -1, tx: -1, holder: -1}
	if err := p.setUp(); err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

func (p *packetPort) setUp() (err error) {
	fail := func(reason string, err error) error { return &OpenError{Name: p.name, Reason: reason, Err: err} }
	iface, ok := interfaceOf(p.addr)
	if !ok {
		return fail(fmt.Sprintf("%v is not an address of this machine; its addresses are %s", p.addr, localAddresses()), nil)
	}
	if p.rx, err = packetSocket(); err != nil {
		return p.noPacketSocket(err)
	}
	if p.tx, err = packetSocket(); err != nil {
		return p.noPacketSocket(err)
	}
	if err := p.holdPort(iface.Index); err != nil {
		return err
	}
	if p.peers, err = openNeighbours(iface.Index, p.addr, p.holder); err != nil {
		return fail("interface "+iface.Name+" has no routes and neighbours to ask for", err)
	}
	if kind := p.peers.encap; kind != "ether" && kind != "loopback" {
		return fail(fmt.Sprintf("interface %s is not Ethernet (%s): use udp:%v", iface.Name, kind, p.addr), nil)
	}
	if err := p.openReceive(iface.Index); err != nil {
		return fail("receiving from interface "+iface.Name+" can not be set up", err)
	}
	if err := p.openSend(iface.Index); err != nil {
		return fail("sending by interface "+iface.Name+" can not be set up", err)
	}
	if err := p.sleep.open(p.rx, p.tx); err != nil {
		return fail("there is no eventfd to be woken by", err)
	}
	return nil
}

// packetSocket makes a packet socket that receives nothing yet.
func packetSocket() (fd int, err error) {
	return unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}

func (p *packetPort) noPacketSocket(err error) error {
	e := &OpenError{Name: p.name, Err: err, Reason: "the system gives no packet socket"}
	switch {
	case errors.Is(err, unix.EPERM):
		e.Reason = fmt.Sprintf("packet sockets need the capability CAP_NET_RAW: run as root, or do `setcap cap_net_raw+ep` to the program, "+
			"or use udp:%v, which needs nothing", p.addr)
	case errors.Is(err, unix.EAFNOSUPPORT):
		e.Reason = fmt.Sprintf("this kernel has no packet sockets (CONFIG_PACKET): use udp:%v", p.addr)
	}
	return e
}

// holdPort binds the UDP socket that keeps the kernel from answering our packets. It is given merged packets as they are
// (UDP_GRO): otherwise the kernel would cut up every super-frame only to drop the pieces. Its other use is the datagram
// that makes the kernel look for a neighbour, which shall go no further than that (TTL 1).
func (p *packetPort) holdPort(iface int) (err error) {
	family, ip, ttl := unix.AF_INET, unix.IPPROTO_IP, unix.IP_TTL
	if p.addr.Is6() {
		family, ip, ttl = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
	}
	p.holder, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err == nil {
		err = attachFilter(p.holder, dropAll)
	}
	if err != nil {
		return &OpenError{Name: p.name, Reason: "the system gives no UDP socket", Err: err}
	}
	unix.SetsockoptInt(p.holder, ip, ttl, 1)
	unix.SetsockoptInt(p.holder, unix.IPPROTO_UDP, udpGRO, 1)
	if p.addr.Is6() {
		unix.SetsockoptInt(p.holder, unix.IPPROTO_UDP, udpNoCheck6RX, 1)
	}
	if err := unix.Bind(p.holder, sockaddr(p.addr, p.opt.UDPPort, iface)); err != nil {
		return bindError(p.name, p.addr, p.opt.UDPPort, err)
	}
	return nil
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

// openReceive binds the receiving socket last: before that, nothing arrives that the filter has not seen.
func (p *packetPort) openReceive(iface int) error {
	if err := p.recv.open(p.rx, p.opt.RecvBuffer); err != nil {
		return err
	}
	if got := len(p.recv.ring.mem); got < p.opt.RecvBuffer {
		p.degrade("receive ring", fmt.Sprintf("%d MiB instead of %d: bursts may be lost. There is no memory for more",
			got>>20, p.opt.RecvBuffer>>20), unix.ENOMEM)
	}
	if err := attachFilter(p.rx, packetFilter(p.gid, nil)); err != nil {
		return fmt.Errorf("SO_ATTACH_FILTER: %w", err)
	}
	// The filter refuses outgoing packets too; where the kernel knows this option (4.20), it does not even ask.
	unix.SetsockoptInt(p.rx, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
	return bindPacket(p.rx, iface, unix.ETH_P_ALL)
}

func (p *packetPort) openSend(iface int) error {
	if err := unix.SetsockoptInt(p.tx, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return fmt.Errorf("PACKET_VNET_HDR: %w", err)
	}
	if err := unix.SetsockoptInt(p.tx, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
		p.degrade("PACKET_QDISC_BYPASS", "packets pass the interface's queue", err)
	}
	if unix.SetsockoptInt(p.tx, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, p.opt.SendBuffer) != nil {
		unix.SetsockoptInt(p.tx, unix.SOL_SOCKET, unix.SO_SNDBUF, p.opt.SendBuffer) // takes what the limit allows
	}
	p.send.init(p)
	return bindPacket(p.tx, iface, 0)
}

// bindPacket ties a packet socket to an interface, to receive one EtherType, ETH_P_ALL, or with 0 nothing.
func bindPacket(fd, iface int, etherType uint16) error {
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(etherType), Ifindex: iface}); err != nil {
		return fmt.Errorf("bind to interface %d: %w", iface, err)
	}
	return nil
}

// degrade notes, once per feature, that the port works without it.
func (p *packetPort) degrade(feature, effect string, err error) {
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
func (p *packetPort) Resolve(dst wire.GID, timeout time.Duration) error {
	if p.closed.Load() {
		return fmt.Errorf("transport: %s: resolve %v: %w", p.name, dst.Addr(), ErrClosed)
	}
	if err := p.peers.resolve(dst, timeout); err != nil {
		return fmt.Errorf("transport: %s: %w", p.name, err)
	}
	return nil
}

// Wait sleeps in ppoll.
func (p *packetPort) Wait(timeout time.Duration) error {
	if p.closed.Load() {
		return ErrClosed
	}
	return p.sleep.wait(timeout)
}

// Wake ends a Wait.
func (p *packetPort) Wake() {
	if p.sleep.wake() {
		p.wakes.Add(1)
	}
}

// Info describes the port.
func (p *packetPort) Info() Info {
	info := Info{Name: p.name, GIDs: []wire.GID{p.gid}, MaxRun: p.send.runLimit(), RecvBuffer: len(p.recv.ring.mem)}
	p.peers.describe(&info)
	p.mu.Lock()
	defer p.mu.Unlock()
	info.Degraded = append([]Degradation(nil), p.degraded...)
	return info
}

// Stats returns the counters, the kernel's drops among them.
func (p *packetPort) Stats() Stats {
	s := p.stats()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed.Load() {
		if k, err := unix.GetsockoptTpacketStats(p.rx, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			p.drops += uint64(k.Drops)
		}
	}
	s.RecvOverflow += p.drops
	return s
}

// Close frees address and port.
func (p *packetPort) Close() error {
	if p.closed.Swap(true) {
		return ErrClosed
	}
	return p.release()
}

// release closes what is open.
func (p *packetPort) release() error {
	p.sleep.close()
	if p.peers != nil {
		p.peers.close()
	}
	p.mu.Lock() // against Stats
	defer p.mu.Unlock()
	err := p.recv.ring.close()
	for _, fd := range []int{p.rx, p.tx, p.holder} {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}
