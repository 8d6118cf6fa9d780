// The packet port: AF_PACKET sockets on one interface, for one address. It sees and makes whole IP packets, so ICRCs are
// checked in full and any UDP source port can be sent.
//
//	packet_linux.go         opening, describing, closing (this file)
//	packet_filter_linux.go  which packets the kernel copies for us
//	packet_ingress_linux.go and which it then need not look at any more
//	packet_ring_linux.go    the memory that we share with the kernel
//	packet_recv_linux.go    frames lent from it
//	packet_send_linux.go    runs of frames as one packet each
//	packet_lanes_linux.go   several rings for one address
//	ether_linux.go …        what it shares with the AF_XDP port: neighbours, multicast, frames to ourselves, sleeping
//
// Four descriptors: a packet socket that only receives (it sees all EtherTypes, because those sockets come before the IP
// stack and the others after it); one that only sends, so that its completions disturb nobody; a UDP socket that holds
// address and port and receives nothing, as the kernel would answer every packet with ICMP port unreachable otherwise; and
// netlink.

package transport

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

type packetPort struct {
	etherPort
	lanes  []*packetPort // of the first port: all ports of the address, it among them
	rx, tx int           // packet sockets
	recv   packetReceiver
	send   packetSender
	stop   ingressStop
	drops  uint64 // of the ring; the kernel's count starts anew when it is read. Under mu
}

func openPacket(name, rest string, lanes int, o Options) ([]Port, error) {
	first := &packetPort{rx: -1, tx: -1}
	if err := first.initEther("packet", name, rest, o); err != nil {
		return nil, err
	}
	first.admit = first.admitGroups
	ports := []*packetPort{first}
	err := first.setUp(nil)
	for err == nil && len(ports) < lanes {
		p := &packetPort{rx: -1, tx: -1}
		p.initLane(&first.etherPort)
		ports = append(ports, p)
		err = p.setUp(first)
	}
	if first.lanes = ports; err == nil && lanes > 1 {
		err = first.steer()
	}
	if err != nil {
		closeAll(ports)
		return nil, err
	}
	return portsOf(ports), nil
}

// setUp opens the sockets. first is another lane of the same address, nil if there is none yet.
func (p *packetPort) setUp(first *packetPort) error {
	iface, err := p.iface()
	if err != nil {
		return err
	}
	if p.rx, err = packetSocket(); err != nil {
		return p.noPacketSocket(err)
	}
	if p.tx, err = packetSocket(); err != nil {
		return p.noPacketSocket(err)
	}
	if first == nil {
		if err := p.hold(iface, holding{merged: true}); err != nil {
			return err
		}
	}
	if err := p.openReceive(iface.Index); err != nil {
		return p.fail("receiving from interface "+iface.Name+" can not be set up", err)
	}
	if first == nil {
		if err := p.stop.open(iface.Index, p.gid); err != nil {
			p.degrade("ingress program", "the kernel's own stack looks at every packet too. It takes Linux 6.6, CAP_BPF and CAP_NET_ADMIN", err)
		}
	}
	if err := p.openSend(iface.Index); err != nil {
		return p.fail("sending by interface "+iface.Name+" can not be set up", err)
	}
	if err := p.sleep.open(p.tx, p.rx); err != nil {
		return p.fail("the system gives nothing to sleep on", err)
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

// openReceive binds the receiving socket last: before that, nothing arrives that the filter has not seen.
func (p *packetPort) openReceive(iface int) error {
	if err := p.recv.open(p.rx, p.opt.RecvBuffer, &p.martians); err != nil {
		return err
	}
	if got := len(p.recv.ring.mem); got < min(p.opt.RecvBuffer, maxRing)&^(ringBlock-1) {
		p.degrade("receive ring", fmt.Sprintf("%d MiB instead of %d: bursts may be lost. There is no memory for more",
			got>>20, min(p.opt.RecvBuffer, maxRing)>>20), unix.ENOMEM)
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

// admitGroups gives the rings a filter for the groups that are joined now.
func (p *packetPort) admitGroups(wire.GID, bool) error {
	var list []wire.GID
	for g := range p.groups.joined {
		list = append(list, g)
	}
	var err error
	for _, lane := range p.lanes {
		err = errors.Join(err, attachFilter(lane.rx, packetFilter(p.gid, list)))
	}
	return err
}

// Info describes the port.
func (p *packetPort) Info() Info {
	info := p.describe()
	info.MaxRun, info.RecvBuffer = p.send.runLimit(), len(p.recv.ring.mem)
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
	err := p.letGo()
	p.mu.Lock() // against Stats
	defer p.mu.Unlock()
	p.stop.close()
	err = errors.Join(err, p.recv.ring.close())
	for _, fd := range []int{p.rx, p.tx} {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}
