// The UDP port on Linux: opening, options, closing.
//
//	udp_linux.go        the socket and its options (this file)
//	udp_recv_linux.go   recvmmsg, and cutting up what UDP_GRO has merged
//	udp_send_linux.go   sendmmsg, and UDP_SEGMENT for runs
//	udp_group_linux.go  multicast
//	udp_lanes_linux.go  several sockets with one address
//	wait_linux.go       sleeping and waking
//
// The socket is not connected and has IP_MTU_DISCOVER = IP_PMTUDISC_DO: only such a socket sends an IPv4 Identification
// that is known in advance, 0 and DF, or i for the segment i of a run; and the ICRC covers it. It is bound to the address
// of the device, so the destination of what arrives is known.
//
// System calls on the data path are made with RawSyscall, which does not tell the Go scheduler: that is worth a third of
// the throughput, and allowed as none of them blocks (MSG_DONTWAIT).

package transport

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

// Options of sockets that x/sys does not name on every architecture.
const (
	soNoCheck     = 11  // SO_NO_CHECK
	udpNoCheck6TX = 101 // UDP_NO_CHECK6_TX
	udpNoCheck6RX = 102 // UDP_NO_CHECK6_RX
	udpSegment    = 103 // UDP_SEGMENT
	udpGRO        = 104 // UDP_GRO
)

type udpPort struct {
	name string
	addr netip.Addr
	gid  wire.GID
	opt  Options
	lane int

	fd    int
	tx    int    // to send by: fd, or another socket
	from  uint16 // UDP port of tx, as frames say it
	zone  uint32 // interface index: for link-local peers and multicast
	recv  udpReceiver
	send  udpSender
	sleep sleeper

	groups struct {
		sync.Mutex
		joined map[wire.GID]*groupSocket
		left   []*groupSocket                 // to be closed by the next Recv, which may be using them now
		list   atomic.Pointer[[]*groupSocket] // joined and left, for Recv; replaced as a whole, nil if there are none
		next   int                            // where Recv begins, so that no group starves
	}

	mu         sync.Mutex
	degraded   []Degradation
	recvBuffer int

	closed atomic.Bool
	counters
}

func openUDP(name, rest string, lanes int, o Options) ([]Port, error) {
	addr, err := udpAddress(name, rest)
	if err != nil {
		return nil, err
	}
	var ports []*udpPort
	for lane := range lanes {
		p := &udpPort{name: name, addr: addr, gid: wire.GIDFrom(addr), opt: o, lane: lane, fd: -1}
		if err := p.open(); err != nil {
			closeAll(ports)
			return nil, err
		}
		if ports = append(ports, p); lanes > 1 && lane == 0 {
			p.admitLanes()
		}
	}
	if lanes > 1 {
		if err := steerSockets(ports[0].fd, lanes); err != nil {
			closeAll(ports)
			return nil, &OpenError{Name: name, Reason: "this kernel can not steer packets to lanes (SO_ATTACH_REUSEPORT_CBPF): open one lane", Err: err}
		}
	}
	return portsOf(ports), nil
}

func (p *udpPort) open() (err error) {
	if i, ok := interfaceOf(p.addr); ok {
		p.zone = uint32(i.Index)
	}
	if p.fd, err = unix.Socket(p.family(), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP); err != nil {
		return &OpenError{Name: p.name, Reason: "the system gives no UDP socket", Err: err}
	}
	p.tx = p.fd
	if err := p.setUp(); err != nil {
		p.closeSockets()
		return err
	}
	return nil
}

func (p *udpPort) closeSockets() error {
	if p.tx != p.fd {
		unix.Close(p.tx)
	}
	return unix.Close(p.fd)
}

func (p *udpPort) setUp() error {
	if err := p.setOptions(p.fd); err != nil {
		return &OpenError{Name: p.name, Reason: "this kernel lacks a socket option that RoCE needs", Err: err}
	}
	if p.lane > 0 {
		p.admitLanes()
	}
	if err := unix.Bind(p.fd, p.sockaddr(p.addr, p.opt.UDPPort)); err != nil {
		return bindError(p.name, p.addr, p.opt.UDPPort, err)
	}
	if err := p.chooseSender(); err != nil {
		return &OpenError{Name: p.name, Reason: "the system gives no UDP socket to send by", Err: err}
	}
	p.multicastOut()
	p.growBuffers()
	gro := p.probeRuns()
	p.recv.init(p.fd, p.gid, p.opt.UDPPort, gro)
	p.send.init(p)
	if err := p.sleep.open(p.tx, p.fd); err != nil {
		return &OpenError{Name: p.name, Reason: "the system gives nothing to sleep on", Err: err}
	}
	return nil
}

func (p *udpPort) family() int {
	if p.addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func (p *udpPort) sockaddr(a netip.Addr, port int) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: port}
	}
	sa := &unix.SockaddrInet6{Addr: a.As16(), Port: port}
	if a.IsLinkLocalUnicast() || a.IsMulticast() {
		sa.ZoneId = p.zone
	}
	return sa
}

// option is one setsockopt of an integer.
type option struct {
	name              string
	level, opt, value int
}

// setOptions sets what a socket needs to carry RoCE, the same for unicast and groups.
func (p *udpPort) setOptions(fd int) error {
	opts := []option{
		{"IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO},
		{"IP_RECVTOS", unix.IPPROTO_IP, unix.IP_RECVTOS, 1},
		{"IP_RECVTTL", unix.IPPROTO_IP, unix.IP_RECVTTL, 1},
		{"IP_TOS", unix.IPPROTO_IP, unix.IP_TOS, int(p.opt.TrafficClass)},
		{"IP_TTL", unix.IPPROTO_IP, unix.IP_TTL, int(p.opt.HopLimit)},
		{"SO_NO_CHECK", unix.SOL_SOCKET, soNoCheck, boolInt(p.opt.ZeroChecksum)},
	}
	if p.addr.Is6() {
		opts = []option{
			{"IPV6_V6ONLY", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
			{"IPV6_MTU_DISCOVER", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO},
			{"IPV6_RECVTCLASS", unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1},
			{"IPV6_RECVHOPLIMIT", unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1},
			{"IPV6_TCLASS", unix.IPPROTO_IPV6, unix.IPV6_TCLASS, int(p.opt.TrafficClass)},
			{"IPV6_UNICAST_HOPS", unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, int(p.opt.HopLimit)},
			{"UDP_NO_CHECK6_TX", unix.IPPROTO_UDP, udpNoCheck6TX, boolInt(p.opt.ZeroChecksum)},
			{"UDP_NO_CHECK6_RX", unix.IPPROTO_UDP, udpNoCheck6RX, 1}, // RoCE peers send checksum 0
		}
	}
	for _, o := range opts {
		if err := unix.SetsockoptInt(fd, o.level, o.opt, o.value); err != nil {
			return fmt.Errorf("%s = %d: %w", o.name, o.value, err)
		}
	}
	return nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// growBuffers asks for large buffers, with the privilege first, and notes when less was granted. At 50 Gbit/s the usual
// 208 KiB hold 30 us.
func (p *udpPort) growBuffers() {
	for _, b := range []struct{ fd, force, plain, want int }{
		{p.fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, p.opt.RecvBuffer},
		{p.tx, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, p.opt.SendBuffer},
	} {
		if unix.SetsockoptInt(b.fd, unix.SOL_SOCKET, b.force, b.want) != nil {
			unix.SetsockoptInt(b.fd, unix.SOL_SOCKET, b.plain, b.want) // takes what the limit allows
		}
	}
	granted, err := unix.GetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return
	}
	p.recvBuffer = granted / 2 // the kernel counts its own overhead and doubles the figure
	if p.recvBuffer < p.opt.RecvBuffer {
		p.degrade("receive buffer", fmt.Sprintf("%d bytes instead of %d: bursts may be lost. Raise net.core.rmem_max or give CAP_NET_ADMIN",
			p.recvBuffer, p.opt.RecvBuffer), nil)
	}
}

// probeRuns finds out whether the kernel takes and gives runs of packets as one message.
func (p *udpPort) probeRuns() (gro bool) {
	if p.opt.MaxRun <= 1 {
		p.send.maxRun = 1
		return false
	}
	p.send.maxRun = min(p.opt.MaxRun, longestRun())
	if _, err := unix.GetsockoptInt(p.fd, unix.IPPROTO_UDP, udpSegment); err != nil {
		p.send.maxRun = 1
		p.degrade("UDP_SEGMENT", "packets are sent one by one", err)
	}
	if p.opt.ZeroChecksum {
		p.send.maxRun = 1 // the kernel refuses the two together
	}
	if err := unix.SetsockoptInt(p.fd, unix.IPPROTO_UDP, udpGRO, 1); err != nil {
		p.degrade("UDP_GRO", "packets are received one by one", err)
		return false
	}
	return true
}

// degrade notes, once per feature, that the port works without it.
func (p *udpPort) degrade(feature, effect string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.degraded {
		if d.Feature == feature {
			return
		}
	}
	p.degraded = append(p.degraded, Degradation{Feature: feature, Effect: effect, Err: err})
}

// Wait sleeps.
func (p *udpPort) Wait(timeout time.Duration) error {
	if p.closed.Load() {
		return ErrClosed
	}
	return p.sleep.wait(timeout)
}

// Wake ends a Wait.
func (p *udpPort) Wake() { p.Rouse(Background) }

// SetAlarm and what follows implement Watched.
func (p *udpPort) SetAlarm(d time.Duration) { p.sleep.setAlarm(d) }

// Watch sleeps in the seat of w.
func (p *udpPort) Watch(w Watcher) error {
	if p.closed.Load() {
		return ErrClosed
	}
	return p.sleep.sleepIn(w)
}

// Rouse ends a Watch.
func (p *udpPort) Rouse(w Watcher) {
	if p.sleep.wake(w) {
		p.wakes.Add(1)
	}
}

// Take makes the background deaf.
func (p *udpPort) Take() { p.sleep.take() }

// Leave has it hear again.
func (p *udpPort) Leave() { p.sleep.rise(Relief) }

// Info describes the port.
func (p *udpPort) Info() Info {
	info := Info{Name: p.name, Kind: "udp", Why: p.opt.why, GIDs: []wire.GID{p.gid}, SrcPort: p.from, MaxRun: p.send.runLimit(), RecvBuffer: p.recvBuffer}
	if p.addr.Is4() {
		info.ICRC = ICRCSolved
	}
	info.describeLink(p.addr)
	p.mu.Lock()
	defer p.mu.Unlock()
	info.Degraded = append([]Degradation(nil), p.degraded...)
	return info
}

// Stats returns the counters, the kernel's drops among them.
func (p *udpPort) Stats() Stats {
	s := p.stats()
	if !p.closed.Load() {
		s.RecvOverflow += kernelDrops(p.fd)
	}
	return s
}

// Close frees address and port.
func (p *udpPort) Close() error {
	if p.closed.Swap(true) {
		return ErrClosed
	}
	p.closeGroups()
	p.sleep.close()
	return p.closeSockets()
}
