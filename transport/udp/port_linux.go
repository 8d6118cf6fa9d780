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
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/count"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/transport/internal/rota"
	"github.com/goroce/goroce/wire"
)

type port struct {
	*station
	qpns wire.QPNSpace
	lane int
	from atomic.Uint32 // UDP port that all sockets send from, as frames say it; 0: none is open yet

	sockets sockets
	hot     int       // of the sockets, the one that had something last
	streak  int       // Recvs that looked at no other
	order   rota.Rota // of the sockets, when a Recv looks at all
	found   [8]unix.EpollEvent
	send    sender

	recvBuffer atomic.Int64 // bytes that were granted

	closed atomic.Bool
	host.Waiter
	host.Degradations
	count.Counters
}

func open(name, where string, lanes int, o transport.Options) ([]transport.Port, error) {
	addr, iface, err := host.Address(name, where)
	if err != nil {
		return nil, err
	}
	st := &station{name: name, opt: o, addr: addr, all: iface != ""}
	return st.openLanes(lanes, iface)
}

// openLanes opens the ports of a station.
func (st *station) openLanes(lanes int, iface string) (ports []transport.Port, err error) {
	st.where = host.OpenNamespace()
	if i, ok := host.InterfaceOf(st.addr); ok {
		st.zone = i.Index
	}
	for lane := range lanes {
		p := &port{station: st, qpns: st.slot.QPNs.Lane(lane, lanes), lane: lane}
		st.lanes = append(st.lanes, p)
		if err = p.open(); err != nil {
			break
		}
	}
	if err == nil {
		err = st.open(iface)
	}
	if err != nil {
		transport.CloseAll(st.lanes)
		return nil, err
	}
	return transport.Ports(st.lanes), nil
}

// open makes a lane, whose sockets come later.
func (p *port) open() error {
	p.sockets.epoll = -1
	p.publish()
	p.send.init(p)
	p.Waiter.OwnThread(p.opt.OwnThread)
	if err := p.Waiter.Open(-1); err != nil {
		return &transport.OpenError{Name: p.name, Reason: "the system gives nothing to sleep on", Err: err}
	}
	return nil
}

// open opens the sockets of all lanes, and follows the interface from then on if all its addresses
// are the device's.
func (st *station) open(iface string) error {
	st.openLink()
	if err := st.openRows(iface); err != nil {
		return err
	}
	if st.all && st.link != nil {
		st.link.Serve = st.serve
		st.link.Watch()
	}
	return nil
}

// openLink opens the tables of the interface. A system that has none to ask can live without.
func (st *station) openLink() {
	if st.zone == 0 {
		return
	}
	only := []netip.Addr{st.addr}
	switch {
	case st.all:
		only = nil
	case st.slot.given():
		only = st.slot.Addrs
		st.apart = slices.ContainsFunc(only, func(a netip.Addr) bool {
			i, ok := host.InterfaceOf(a)
			return !ok || i.Index != st.zone
		})
	}
	var err error
	if st.link, err = host.OpenLink(st.zone, only, 0); err != nil {
		st.link = nil
		st.lanes[0].Degrade("netlink", "nobody tells when link, addresses or MTU change", err)
		return
	}
	for range len(st.lanes) - 1 {
		st.link.Share()
	}
}

func (p *port) closeLink() {
	p.station.mu.Lock()
	p.station.closed++
	last := p.station.closed == len(p.station.lanes)
	p.station.mu.Unlock()
	if p.link != nil {
		if p.lane == 0 {
			p.link.Output.Close()
		}
		p.link.Close()
	}
	if last {
		p.where.Close()
	}
}

// Events implements transport.Notifier.
func (p *port) Events() <-chan transport.Event {
	if p.lane > 0 || p.link == nil {
		return nil
	}
	return p.link.Watch()
}

// family is that of the sockets of an address.
func family(a netip.Addr) int {
	if a.Is4() {
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
func (p *port) setOptions(fd int, addr netip.Addr) error {
	opts := []option{
		{"IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO},
		{"IP_RECVTOS", unix.IPPROTO_IP, unix.IP_RECVTOS, 1},
		{"IP_RECVTTL", unix.IPPROTO_IP, unix.IP_RECVTTL, 1},
		{"IP_TOS", unix.IPPROTO_IP, unix.IP_TOS, int(p.opt.TrafficClass)},
		{"IP_TTL", unix.IPPROTO_IP, unix.IP_TTL, int(p.opt.HopLimit)},
		{"SO_NO_CHECK", unix.SOL_SOCKET, host.SoNoCheck, host.BoolInt(p.opt.ZeroChecksum)},
	}
	if addr.Is6() {
		opts = []option{
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
func (p *port) growBuffers(s *socket) {
	grow(s.recv.fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, p.opt.RecvBuffer)
	grow(s.tx, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, p.opt.SendBuffer)
	granted, err := unix.GetsockoptInt(s.recv.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return
	}
	granted /= 2 // the kernel counts its own overhead and doubles the figure
	p.recvBuffer.Store(int64(granted))
	if granted < p.opt.RecvBuffer {
		p.Degrade("receive buffer",
			fmt.Sprintf("%d bytes instead of %d: bursts may be lost. Raise net.core.rmem_max or give CAP_NET_ADMIN",
				granted, p.opt.RecvBuffer), nil)
	}
}

// grow asks for one, and takes what the limit allows.
func grow(fd, force, plain, want int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, want) != nil {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, want)
	}
}

// probeRuns finds out whether the kernel takes and gives runs of packets as one message.
func (p *port) probeRuns(fd int) (gro bool) {
	if p.opt.MaxRun <= 1 {
		// the process that had the slot before may have set it
		unix.SetsockoptInt(fd, unix.IPPROTO_UDP, host.UDPGRO, 0)
		return false
	}
	if _, err := unix.GetsockoptInt(fd, unix.IPPROTO_UDP, host.UDPSegment); err != nil {
		p.send.single.Store(true)
		p.Degrade("UDP_SEGMENT", "packets are sent one by one", err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, host.UDPGRO, 1); err != nil {
		p.Degrade("UDP_GRO", "packets are received one by one", err)
		return false
	}
	return true
}

// Info describes the port.
func (p *port) Info() transport.Info {
	info := transport.Info{Name: p.name, Kind: "udp", Why: p.opt.Why, QPNs: p.qpns, SrcPort: uint16(p.from.Load()),
		MaxRun: p.send.runLimit(), RecvBuffer: int(p.recvBuffer.Load()), Degraded: p.Degraded()}
	if p.link != nil {
		p.link.Describe(&info)
	} else {
		host.DescribeLink(&info, p.addr)
	}
	if p.link == nil || p.apart {
		p.station.mu.Lock()
		info.GIDs = slices.Clone(p.station.rows)
		p.station.mu.Unlock()
	}
	if slices.ContainsFunc(info.GIDs, wire.GID.Is4) {
		info.ICRC = transport.ICRCSolved
	}
	return info
}

// Stats returns the counters, the kernel's drops among them.
func (p *port) Stats() transport.Stats {
	p.sockets.Lock() // none leaves meanwhile
	defer p.sockets.Unlock()
	s := p.Counters.Stats()
	s.Wakes = p.Wakes()
	for _, receiving := range p.sockets.list.Load().all {
		s.RecvOverflow += receiving.kernelDrops()
	}
	return s
}

// Close frees address and port.
func (p *port) Close() error {
	if p.closed.Swap(true) {
		return transport.ErrClosed
	}
	p.closeLink() // first: nobody opens sockets any more
	err := p.closeSockets()
	p.Waiter.Close()
	return err
}
