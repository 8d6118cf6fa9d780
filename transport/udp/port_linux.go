package udp

// The UDP port on Linux: opening, options, closing.
//
// The socket is not connected and has IP_MTU_DISCOVER = IP_PMTUDISC_DO: only such a socket sends an
// IPv4 Identification that is known in advance, 0 and DF, or i for the segment i of a run; and the
// ICRC covers it. It is bound to the address of the device, so the destination of what arrives is
// known.
//
// System calls on the data path are made with RawSyscall, which does not tell the Go scheduler:
// that is worth a third of the throughput, and allowed as none of them blocks (MSG_DONTWAIT).

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/count"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

type port struct {
	name string
	addr netip.Addr
	gid  wire.GID
	opt  transport.Options
	qpns wire.QPNSpace
	lane int

	fd   int
	tx   int    // to send by: fd, or another socket
	from uint16 // UDP port of tx, as frames say it
	// zone is the interface index, for link-local peers and multicast; 0: no interface has the
	// address.
	zone int
	link *host.Link // nil: the system does not tell of it
	recv receiver
	send sender

	groups struct {
		sync.Mutex
		joined map[wire.GID]*groupSocket
		// left is what the next Recv closes, which may be using them now.
		left []*groupSocket
		// list is joined and left, for Recv: it is replaced as a whole, and nil if there are none.
		list atomic.Pointer[[]*groupSocket]
		next int // where Recv begins, so that no group starves
	}

	recvBuffer int // bytes that were granted

	closed atomic.Bool
	host.Waiter
	host.Degradations
	count.Counters
}

func open(name, where string, lanes int, o transport.Options) ([]transport.Port, error) {
	addr, _, err := host.Address(name, where)
	if err != nil {
		return nil, err
	}
	var ports []*port
	for lane := range lanes {
		p := &port{name: name, addr: addr, gid: wire.GIDFrom(addr), opt: o, qpns: wire.QPNSpace{}.Lane(lane, lanes), lane: lane, fd: -1}
		if err := p.open(); err != nil {
			transport.CloseAll(ports)
			return nil, err
		}
		if ports = append(ports, p); lane > 0 {
			p.link = ports[0].link.Share()
			continue
		}
		if p.openLink(); lanes > 1 {
			p.admitLanes()
		}
	}
	if lanes > 1 {
		if err := steerSockets(ports[0].fd, lanes); err != nil {
			transport.CloseAll(ports)
			return nil, &transport.OpenError{Name: name, Reason: "this kernel can not steer packets to lanes (SO_ATTACH_REUSEPORT_CBPF): open one lane", Err: err}
		}
	}
	return transport.Ports(ports), nil
}

func (p *port) open() (err error) {
	if i, ok := host.InterfaceOf(p.addr); ok {
		p.zone = i.Index
	}
	if p.fd, err = unix.Socket(p.family(), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP); err != nil {
		return &transport.OpenError{Name: p.name, Reason: "the system gives no UDP socket", Err: err}
	}
	p.tx = p.fd
	if err := p.setUp(); err != nil {
		p.closeSockets()
		return err
	}
	return nil
}

// openLink opens the tables of the interface. A system that has none to ask can live without.
func (p *port) openLink() {
	if p.zone == 0 {
		return
	}
	var err error
	if p.link, err = host.OpenLink(p.zone, p.addr, 0); err != nil {
		p.link = nil
		p.Degrade("netlink", "nobody tells when link, address or MTU change", err)
	}
}

func (p *port) closeLink() {
	if p.link == nil {
		return
	}
	if p.lane == 0 {
		p.link.Output.Close()
	}
	p.link.Close()
}

// Events implements transport.Notifier.
func (p *port) Events() <-chan transport.Event {
	if p.lane > 0 || p.link == nil {
		return nil
	}
	return p.link.Watch()
}

func (p *port) closeSockets() error {
	if p.tx != p.fd {
		unix.Close(p.tx)
	}
	return unix.Close(p.fd)
}

func (p *port) setUp() error {
	if err := p.setOptions(p.fd); err != nil {
		return &transport.OpenError{Name: p.name, Reason: "this kernel lacks a socket option that RoCE needs", Err: err}
	}
	if p.lane > 0 {
		p.admitLanes()
	}
	if err := unix.Bind(p.fd, host.Sockaddr(p.addr, p.opt.UDPPort, p.zone)); err != nil {
		return host.BindError(p.name, p.addr, p.opt.UDPPort, err)
	}
	if err := p.chooseSender(); err != nil {
		return &transport.OpenError{Name: p.name, Reason: "the system gives no UDP socket to send by", Err: err}
	}
	p.multicastOut()
	p.growBuffers()
	gro := p.probeRuns()
	p.recv.init(p.fd, p.gid, p.opt.UDPPort, gro)
	p.send.init(p)
	if err := p.Waiter.Open(p.tx, p.fd); err != nil {
		return &transport.OpenError{Name: p.name, Reason: "the system gives nothing to sleep on", Err: err}
	}
	return nil
}

func (p *port) family() int {
	if p.addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// option is one setsockopt of an integer.
type option struct {
	name              string
	level, opt, value int
}

// setOptions sets what a socket needs to carry RoCE, the same for unicast and groups.
func (p *port) setOptions(fd int) error {
	opts := []option{
		{"IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO},
		{"IP_RECVTOS", unix.IPPROTO_IP, unix.IP_RECVTOS, 1},
		{"IP_RECVTTL", unix.IPPROTO_IP, unix.IP_RECVTTL, 1},
		{"IP_TOS", unix.IPPROTO_IP, unix.IP_TOS, int(p.opt.TrafficClass)},
		{"IP_TTL", unix.IPPROTO_IP, unix.IP_TTL, int(p.opt.HopLimit)},
		{"SO_NO_CHECK", unix.SOL_SOCKET, host.SoNoCheck, host.BoolInt(p.opt.ZeroChecksum)},
	}
	if p.addr.Is6() {
		opts = []option{
			{"IPV6_V6ONLY", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
			{"IPV6_MTU_DISCOVER", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO},
			{"IPV6_RECVTCLASS", unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1},
			{"IPV6_RECVHOPLIMIT", unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1},
			{"IPV6_TCLASS", unix.IPPROTO_IPV6, unix.IPV6_TCLASS, int(p.opt.TrafficClass)},
			{"IPV6_UNICAST_HOPS", unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, int(p.opt.HopLimit)},
			{"UDP_NO_CHECK6_TX", unix.IPPROTO_UDP, host.UDPNoCheck6TX, host.BoolInt(p.opt.ZeroChecksum)},
			// RoCE peers send checksum 0.
			{"UDP_NO_CHECK6_RX", unix.IPPROTO_UDP, host.UDPNoCheck6RX, 1},
		}
	}
	for _, o := range opts {
		if err := host.SetOption(fd, o.name, o.level, o.opt, o.value); err != nil {
			return err
		}
	}
	return nil
}

// growBuffers asks for large buffers, with the privilege first, and notes when less was granted. At
// 50 Gbit/s the usual 208 KiB hold 30 us.
func (p *port) growBuffers() {
	for _, b := range []struct{ fd, force, plain, want int }{
		{p.fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, p.opt.RecvBuffer},
		{p.tx, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, p.opt.SendBuffer},
	} {
		if unix.SetsockoptInt(b.fd, unix.SOL_SOCKET, b.force, b.want) != nil {
			// The kernel takes what the limit allows.
			unix.SetsockoptInt(b.fd, unix.SOL_SOCKET, b.plain, b.want)
		}
	}
	granted, err := unix.GetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return
	}
	p.recvBuffer = granted / 2 // the kernel counts its own overhead and doubles the figure
	if p.recvBuffer < p.opt.RecvBuffer {
		p.Degrade("receive buffer", fmt.Sprintf("%d bytes instead of %d: bursts may be lost. Raise net.core.rmem_max or give CAP_NET_ADMIN",
			p.recvBuffer, p.opt.RecvBuffer), nil)
	}
}

// probeRuns finds out whether the kernel takes and gives runs of packets as one message.
func (p *port) probeRuns() (gro bool) {
	if p.opt.MaxRun <= 1 {
		p.send.maxRun = 1
		return false
	}
	p.send.maxRun = min(p.opt.MaxRun, host.LongestRun())
	if _, err := unix.GetsockoptInt(p.fd, unix.IPPROTO_UDP, host.UDPSegment); err != nil {
		p.send.maxRun = 1
		p.Degrade("UDP_SEGMENT", "packets are sent one by one", err)
	}
	if p.opt.ZeroChecksum {
		p.send.maxRun = 1 // the kernel refuses the two together
	}
	if err := unix.SetsockoptInt(p.fd, unix.IPPROTO_UDP, host.UDPGRO, 1); err != nil {
		p.Degrade("UDP_GRO", "packets are received one by one", err)
		return false
	}
	return true
}

// Info describes the port.
func (p *port) Info() transport.Info {
	info := transport.Info{Name: p.name, Kind: "udp", Why: p.opt.Why, GIDs: []wire.GID{p.gid}, QPNs: p.qpns, SrcPort: p.from, MaxRun: p.send.runLimit(),
		RecvBuffer: p.recvBuffer, Degraded: p.Degraded()}
	if p.addr.Is4() {
		info.ICRC = transport.ICRCSolved
	}
	if p.link != nil {
		p.link.Describe(&info)
	} else {
		host.DescribeLink(&info, p.addr)
	}
	return info
}

// Stats returns the counters, the kernel's drops among them.
func (p *port) Stats() transport.Stats {
	s := p.Counters.Stats()
	s.Wakes = p.Wakes()
	if !p.closed.Load() {
		s.RecvOverflow += kernelDrops(p.fd)
	}
	return s
}

// Close frees address and port.
func (p *port) Close() error {
	if p.closed.Swap(true) {
		return transport.ErrClosed
	}
	p.closeGroups()
	p.Waiter.Close()
	p.closeLink()
	return p.closeSockets()
}
