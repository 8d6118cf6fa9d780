package packet

// Opening, describing, closing.
//
// Five descriptors: two packet sockets that only receive (they see all EtherTypes, because those
// sockets come before the IP stack and the others after it), one for each ring; one that only
// sends, so that its completions disturb nobody; a UDP socket that holds address and port and
// receives nothing, as the kernel would answer every packet with ICMP port unreachable otherwise;
// and netlink.

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/ether"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

type port struct {
	ether.Port
	lanes []*port // of the first port: all ports of the address, it among them
	rx    [2]int  // packet sockets: of the short ring, of the long one
	// oneRing says that there is no group, in which the kernel chooses: all comes to the long ring.
	oneRing bool
	tx      int // packet socket
	recv    receiver
	send    sender
	// of the first port, for each address
	stops map[wire.GID]*ingressStop
	mu    sync.Mutex // Stats against Close
	drops uint64     // of the rings; the kernel's count starts anew when it is read. Under mu
}

func open(name, where string, lanes int, o transport.Options) ([]transport.Port, error) {
	first := newPort()
	first.stops = map[wire.GID]*ingressStop{}
	if err := first.Init("packet", name, where, o); err != nil {
		return nil, err
	}
	first.Admit = first.admit
	ports := []*port{first}
	err := first.setUp(nil)
	for err == nil && len(ports) < lanes {
		p := newPort()
		p.InitLane(&first.Port)
		ports = append(ports, p)
		err = p.setUp(first)
	}
	for i, p := range ports {
		p.QPNs = p.QPNs.Lane(i, lanes)
	}
	if first.lanes = ports; err == nil {
		err = first.steer()
	}
	if err == nil {
		err = first.Ready()
	}
	if err != nil {
		transport.CloseAll(ports)
		return nil, err
	}
	return transport.Ports(ports), nil
}

// newPort is a port without sockets.
func newPort() *port { return &port{rx: [2]int{-1, -1}, tx: -1} }

// setUp opens the sockets. first is another lane of the same address, nil if there is none yet.
func (p *port) setUp(first *port) error {
	iface, err := p.Interface()
	if err != nil {
		return err
	}
	for _, fd := range []*int{&p.rx[0], &p.rx[1], &p.tx} {
		if *fd, err = newSocket(); err != nil {
			return p.noPacketSocket(err)
		}
	}
	if first == nil {
		if err := p.Hold(iface, ether.Holding{Merged: true}); err != nil {
			return err
		}
	}
	if err := p.openReceive(iface); err != nil {
		return p.Fail("receiving from interface "+iface.Name+" can not be set up", err)
	}
	if err := p.openSend(iface.Index); err != nil {
		return p.Fail("sending by interface "+iface.Name+" can not be set up", err)
	}
	p.Waiter.OwnThread(p.Options.OwnThread)
	if err := p.Waiter.Open(p.tx, p.rx[:]...); err != nil {
		return p.Fail("the system gives nothing to sleep on", err)
	}
	return nil
}

// packetSocket makes a packet socket that receives nothing yet.
func newSocket() (fd int, err error) {
	return unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}

func (p *port) noPacketSocket(err error) error {
	e := &transport.OpenError{Name: p.Name, Err: err, Reason: "the system gives no packet socket"}
	switch {
	case errors.Is(err, unix.EPERM):
		e.Reason = fmt.Sprintf("packet sockets need the capability CAP_NET_RAW: run as root, or do `setcap "+
			"cap_net_raw+ep` to the program, "+
			"or use udp:%v, which needs nothing", p.Addr)
	case errors.Is(err, unix.EAFNOSUPPORT):
		e.Reason = fmt.Sprintf("this kernel has no packet sockets (CONFIG_PACKET): use udp:%v", p.Addr)
	}
	return e
}

// openReceive binds the receiving sockets last: before that, nothing arrives that the filter has
// not seen.
func (p *port) openReceive(iface *net.Interface) error {
	p.recv.open(p.Station)
	size, rings := p.Options.RecvBuffer, &p.recv.rings
	err := p.openRing(&rings.short, p.rx[0], iface.Index, min(size/2, maxShort), shortSlot(iface.MTU))
	if err != nil {
		return err
	}
	return p.openRing(&rings.long, p.rx[1], iface.Index, min(size, maxLong), longSlot)
}

// openRing gives a socket its ring, then what it is to receive.
func (p *port) openRing(r *ring, fd, iface, size, slot int) error {
	if err := r.open(fd, size, slot); err != nil {
		return err
	}
	if got := len(r.mem); got < size&^(ringBlock-1) {
		p.Degrade("receive ring", fmt.Sprintf("%d MiB instead of %d: bursts may be lost. There is no memory for more",
			got>>20, size>>20), unix.ENOMEM)
	}
	if err := host.AttachFilter(fd, host.DropAll); err != nil {
		return fmt.Errorf("SO_ATTACH_FILTER: %w", err)
	}
	// The filter refuses outgoing packets too; where the kernel knows this option (4.20), it does
	// not even ask.
	unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
	return bind(fd, iface, unix.ETH_P_ALL)
}

func (p *port) openSend(iface int) error {
	if err := unix.SetsockoptInt(p.tx, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return fmt.Errorf("PACKET_VNET_HDR: %w", err)
	}
	if err := unix.SetsockoptInt(p.tx, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
		p.Degrade("PACKET_QDISC_BYPASS", "packets pass the interface's queue", err)
	}
	if unix.SetsockoptInt(p.tx, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, p.Options.SendBuffer) != nil {
		// The kernel takes what the limit allows.
		unix.SetsockoptInt(p.tx, unix.SOL_SOCKET, unix.SO_SNDBUF, p.Options.SendBuffer)
	}
	p.send.init(p)
	return bind(p.tx, iface, 0)
}

// bindPacket ties a packet socket to an interface, to receive one EtherType, ETH_P_ALL, or with 0
// nothing.
func bind(fd, iface int, etherType uint16) error {
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: host.Htons(etherType), Ifindex: iface}); err != nil {
		return fmt.Errorf("bind to interface %d: %w", iface, err)
	}
	return nil
}

// admit gives the rings a filter for the addresses and the groups that there are now, and has what
// they let pass of an address go no further.
func (p *port) admit(dst wire.GID, in bool) error {
	rows := slices.DeleteFunc(slices.Clone(p.Rows()), wire.GID.IsZero)
	program := filter(rows, p.Groups())
	var err error
	for _, lane := range p.lanes {
		for i, fd := range lane.rx {
			if i > 0 || !p.oneRing { // else it goes on to take in nothing
				err = errors.Join(err, host.AttachFilter(fd, program))
			}
		}
	}
	switch stop := p.stops[dst]; {
	case dst.IsMulticast():
	case in && stop == nil:
		stop = new(ingressStop)
		if err := stop.open(p.Interfaced(), dst); err != nil {
			p.Degrade("ingress program",
				"the kernel's own stack looks at every packet too. It takes Linux 6.6, CAP_BPF and CAP_NET_ADMIN", err)
		}
		p.stops[dst] = stop
	case !in && stop != nil:
		stop.close()
		delete(p.stops, dst)
	}
	return err
}

// Info describes the port.
func (p *port) Info() transport.Info {
	info := p.Describe()
	info.MaxRun, info.RecvBuffer = p.send.runLimit(), p.recv.rings.bytes()
	return info
}

// Stats returns the counters, the kernel's drops among them.
func (p *port) Stats() transport.Stats {
	s := p.Port.Stats()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fd := range p.rx {
		if p.Closed.Load() {
			break
		}
		if k, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			p.drops += uint64(k.Drops)
		}
	}
	s.RecvOverflow += p.drops
	return s
}

// Close frees address and port.
func (p *port) Close() error {
	if p.Closed.Swap(true) {
		return transport.ErrClosed
	}
	return p.release()
}

// release closes what is open.
func (p *port) release() error {
	err := p.LetGo()
	p.mu.Lock() // against Stats
	defer p.mu.Unlock()
	for _, stop := range p.stops {
		stop.close()
	}
	err = errors.Join(err, p.recv.rings.short.close(), p.recv.rings.long.close())
	for _, fd := range []int{p.rx[0], p.rx[1], p.tx} {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}
