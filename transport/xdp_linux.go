// The AF_XDP port: packets taken from a network interface before the kernel's IP stack sees them, by a small program that
// leaves all others alone. It sees and makes whole IP packets, so ICRCs are checked in full and any UDP source port can be
// sent.
//
//	xdp_linux.go           opening, describing, closing (this file)
//	xdp_program_linux.go   the program on the interface, and what it looks up
//	xdp_memory_linux.go    the memory of the packets
//	xdp_queue_linux.go     a socket for each queue of the interface
//	xdp_ring_linux.go      the rings of a socket
//	xdp_recv_linux.go      frames lent from the memory
//	xdp_send_linux.go      frames copied into it
//	xdp_probe_linux.go     what is missing where it does not work
//
// Neighbours, multicast, frames to ourselves, sleeping and the UDP socket that keeps the kernel quiet are those of the packet port.

package transport

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

// etherMax is the longest Ethernet header: with a VLAN tag.
const etherMax = etherLen + vlanLen

type xdpPort struct {
	name   string
	addr   netip.Addr
	gid    wire.GID
	index  int // of the interface
	packet int // longest packet with its Ethernet header
	opt    Options

	holder  int // UDP socket
	hook    *xdpHook
	listed  bool // our address is in the hook's map
	memory  *xdpMemory
	binding xdpBinding
	queues  []*xdpQueue
	recv    xdpReceiver
	send    xdpSender
	self    selfQueue
	peers   *neighbours
	sleep   packetSleeper

	rxBlocks int // of memory, for each queue

	mu       sync.Mutex
	degraded []Degradation

	closed atomic.Bool
	counters
}

func openXDP(name, rest string, o Options) (Port, error) {
	return openXDPMode(name, rest, o, xdpMode{native: true, generic: true})
}

// openXDPMode opens "ADDRESS", "INTERFACE", or one of them and "/QUEUE".
func openXDPMode(name, rest string, o Options, mode xdpMode) (Port, error) {
	where, number, one := strings.Cut(rest, "/")
	queue := -1
	if one {
		var err error
		if queue, err = strconv.Atoi(number); err != nil || queue < 0 || queue >= maxXDPQueues {
			return nil, &OpenError{Name: name, Reason: fmt.Sprintf("%q is not the number of a queue, 0 to %d", number, maxXDPQueues-1)}
		}
	}
	addr, err := udpAddress(name, where)
	if err != nil {
		return nil, err
	}
	if o.UDPPort != wire.UDPPort {
		return nil, &OpenError{Name: name, Reason: fmt.Sprintf("xdp ports send to UDP port %d only; %d is for udp ports", wire.UDPPort, o.UDPPort)}
	}
	p := &xdpPort{name: name, addr: addr, gid: wire.GIDFrom(addr), opt: o, holder: -1}
	if err := p.setUp(queue, mode); err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// setUp opens everything; queue -1 means all queues.
func (p *xdpPort) setUp(queue int, mode xdpMode) (err error) {
	fail := func(reason string, err error) error { return &OpenError{Name: p.name, Reason: reason, Err: err} }
	iface, ok := interfaceOf(p.addr)
	if !ok {
		return fail(fmt.Sprintf("%v is not an address of this machine; its addresses are %s", p.addr, localAddresses()), nil)
	}
	p.index, p.packet = iface.Index, iface.MTU+etherMax
	queues := []int{queue}
	if queue < 0 {
		queues = queuesOf(iface.Name, 1)
	}
	h := &packetPort{name: p.name, addr: p.addr, opt: p.opt}
	if err := h.holdPort(iface.Index); err != nil {
		return err
	}
	p.holder = h.holder
	if p.peers, err = openNeighbours(iface.Index, p.addr, p.holder); err != nil {
		return fail("interface "+iface.Name+" has no routes and neighbours to ask for", err)
	}
	if kind := p.peers.encap; kind != "ether" && kind != "loopback" {
		return fail(fmt.Sprintf("interface %s is not Ethernet (%s): use udp:%v", iface.Name, kind, p.addr), nil)
	}
	if p.hook, err = useXDPHook(iface.Index, mode); err != nil {
		return fail("no XDP program on "+iface.Name, err)
	}
	if err := p.openMemory(len(queues)); err != nil {
		return fail("no memory", err)
	}
	if err := p.openQueues(queues); err != nil {
		return fail("no AF_XDP socket on "+iface.Name, err)
	}
	p.send.init(p, p.queues[0])
	for _, q := range p.queues {
		if err := p.hook.addSocket(q.number, q.fd); err != nil {
			return fail("socket map", err)
		}
	}
	if err := p.sleep.open(p.queues[0].fd, -1); err != nil {
		return fail("there is no eventfd to be woken by", err)
	}
	if err := p.hook.addAddress(p.gid); err != nil {
		return fail("address map", err)
	}
	p.listed = true
	return nil
}

// openMemory divides the memory: equal parts for the queues, and the rest for sending.
func (p *xdpPort) openMemory(queues int) (err error) {
	p.rxBlocks = max(p.opt.RecvBuffer/xdpBlock/queues, 1)
	txBlocks := max(p.opt.SendBuffer/xdpBlock, 1)
	if p.memory, err = mapXDPMemory(queues*p.rxBlocks+txBlocks, p.packet); err != nil {
		return err
	}
	p.send.free = p.memory.sendChunks(queues*p.rxBlocks, txBlocks)
	p.recv.joined = make([]byte, joinedPackets*joinedMax)
	return nil
}

func (p *xdpPort) receiveChunks(i int) []uint64 {
	return p.memory.receiveChunks(i*p.rxBlocks, p.rxBlocks)
}

// netMTU is the longest IP packet.
func (p *xdpPort) netMTU() int {
	mtu := int(p.peers.mtu.Load())
	if limit := p.memory.usable() - etherMax; mtu > limit && !p.binding.pieces {
		return limit
	}
	return mtu
}

// degrade notes, once per feature, that the port works without it.
func (p *xdpPort) degrade(feature, effect string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.degraded = append(p.degraded, Degradation{Feature: feature, Effect: effect, Err: err})
}

// Resolve implements Resolver.
func (p *xdpPort) Resolve(dst wire.GID, timeout time.Duration) error {
	if p.closed.Load() {
		return fmt.Errorf("transport: %s: resolve %v: %w", p.name, dst.Addr(), ErrClosed)
	}
	if err := p.peers.resolve(dst, timeout); err != nil {
		return fmt.Errorf("transport: %s: %w", p.name, err)
	}
	return nil
}

// Wait sleeps in ppoll.
func (p *xdpPort) Wait(timeout time.Duration) error {
	if p.closed.Load() {
		return ErrClosed
	}
	return p.sleep.wait(timeout)
}

// Wake ends a Wait.
func (p *xdpPort) Wake() {
	if p.sleep.wake() {
		p.wakes.Add(1)
	}
}

// Info describes the port.
func (p *xdpPort) Info() Info {
	info := Info{Name: p.name, GIDs: []wire.GID{p.gid}, MaxRun: 1, RecvBuffer: len(p.queues) * p.rxBlocks * xdpBlock, Mode: p.mode()}
	p.peers.describe(&info)
	info.NetMTU = min(info.NetMTU, p.netMTU())
	p.mu.Lock()
	defer p.mu.Unlock()
	info.Degraded = append([]Degradation(nil), p.degraded...)
	return info
}

// mode says how the port is attached.
func (p *xdpPort) mode() string {
	where := "native"
	if p.hook.generic {
		where = "generic"
	}
	return where + ", " + p.binding.String()
}

// Stats returns the counters, the kernel's drops among them.
func (p *xdpPort) Stats() Stats {
	s := p.stats()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queues {
		if k, err := xdpStatistics(q.fd); err == nil {
			s.RecvOverflow += k.Rx_dropped + k.Rx_ring_full
		}
	}
	return s
}

// Close frees address, port and interface.
func (p *xdpPort) Close() error {
	if p.closed.Swap(true) {
		return ErrClosed
	}
	return p.release()
}

// release closes what is open. The program comes first, so that the kernel's own stack has the packets again at once.
func (p *xdpPort) release() (err error) {
	p.sleep.close()
	if p.peers != nil {
		p.peers.close()
	}
	p.mu.Lock() // against Stats
	defer p.mu.Unlock()
	if p.hook != nil {
		if p.listed {
			p.hook.removeAddress(p.gid)
		}
		for _, q := range p.queues {
			p.hook.removeSocket(q.number)
		}
		p.hook.leave()
	}
	err = p.closeQueues()
	if p.memory != nil {
		err = errors.Join(err, p.memory.close())
	}
	if p.holder >= 0 {
		err = errors.Join(err, unix.Close(p.holder))
	}
	return err
}
