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
	"net"
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

// maxXDPReceive bounds the memory to receive into. The kernel goes round in it, so every packet meets memory that is not in
// the cache any more: a stream of 4 KiB packets loses 10 to 15 % with 64 MiB. 16 MiB hold 3 ms of 20 Gbit/s in packets of 4 KiB.
const maxXDPReceive = 16 << 20

type xdpPort struct {
	name   string
	addr   netip.Addr
	gid    wire.GID
	queue  int // the only one, or -1 for all
	index  int // of the interface
	packet int // longest packet with its Ethernet header
	opt    Options

	holder  int // UDP socket
	hook    *xdpHook
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
	p := &xdpPort{name: name, addr: addr, gid: wire.GIDFrom(addr), opt: o, queue: queue, holder: -1}
	if err := p.setUp(mode); err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

func (p *xdpPort) setUp(mode xdpMode) (err error) {
	if err := p.allowed(); err != nil {
		return err
	}
	iface, ok := interfaceOf(p.addr)
	if !ok {
		return p.fail(fmt.Sprintf("%v is not an address of this machine; its addresses are %s", p.addr, localAddresses()), nil)
	}
	if err := p.holdInterface(iface); err != nil {
		return err
	}
	if p.hook, err = useXDPHook(iface.Index, mode); err != nil {
		return p.noHook(iface.Name, err)
	}
	queues := []int{p.queue}
	if p.queue < 0 {
		queues = queuesOf(iface.Name)
	}
	if err := p.hook.claim(queues, p); err != nil {
		return p.fail(fmt.Sprintf("the queues of interface %s are not all free; xdp:%v/QUEUE takes a single one", iface.Name, p.addr), err)
	}
	if err := p.openMemory(len(queues)); err != nil {
		return p.fail("there is no memory for packets", err)
	}
	if err := p.openQueues(queues); err != nil {
		return p.noQueues(iface.Name, err)
	}
	return p.start()
}

// holdInterface takes what the port needs besides AF_XDP: the UDP port, routes and neighbours.
func (p *xdpPort) holdInterface(iface *net.Interface) (err error) {
	p.index, p.packet = iface.Index, iface.MTU+etherMax
	h := &packetPort{name: p.name, addr: p.addr, opt: p.opt}
	if err := h.holdPort(iface.Index); err != nil {
		return err
	}
	p.holder = h.holder
	if p.peers, err = openNeighbours(iface.Index, p.addr, p.holder); err != nil {
		return p.fail("interface "+iface.Name+" has no routes and neighbours to ask for", err)
	}
	if kind := p.peers.encap; kind != "ether" && kind != "loopback" {
		return p.fail(fmt.Sprintf("interface %s is not Ethernet (%s): use udp:%v", iface.Name, kind, p.addr), nil)
	}
	return nil
}

// start makes packets come. The address is last: what comes before everything is ready is the kernel's.
func (p *xdpPort) start() error {
	p.send.init(p, p.queues[0])
	fds := make([]int, len(p.queues))
	for i, q := range p.queues {
		fds[i] = q.fd
	}
	if err := p.sleep.open(fds[0], -1, fds[1:]...); err != nil {
		return p.fail("there is no eventfd to be woken by", err)
	}
	for _, q := range p.queues {
		if err := p.hook.addSocket(q.number, q.fd); err != nil {
			return p.fail("the XDP program's map takes no socket", err)
		}
	}
	if err := p.hook.addAddress(p.gid, p); err != nil {
		return p.fail("the XDP program's map takes no address", err)
	}
	return nil
}

// openMemory divides the memory: equal parts for the queues, and the rest for sending.
func (p *xdpPort) openMemory(queues int) (err error) {
	p.rxBlocks = max(min(p.opt.RecvBuffer, maxXDPReceive)/xdpBlock/queues, 1)
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
		p.hook.release(p)
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
