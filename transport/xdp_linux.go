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
// What it shares with the packet port (neighbours, multicast, frames to ourselves, sleeping) begins in ether_linux.go.

package transport

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/goroce/goroce/wire"
)

// etherMax is the longest Ethernet header: with a VLAN tag.
const etherMax = etherLen + vlanLen

// maxXDPReceive bounds the memory to receive into, whatever Options.RecvBuffer says. The kernel goes round in it, so every
// packet meets memory that is not in the cache any more: a stream of 4 KiB packets loses 10 to 15 % with 64 MiB. 16 MiB hold
// 3 ms of 20 Gbit/s in packets of 4 KiB.
const maxXDPReceive = 16 << 20

type xdpPort struct {
	etherPort
	want   xdpMode
	lanes  []*xdpPort // all ports of the address; this is the one with number lane
	lane   int
	queue  int // the only one, or -1 for all
	index  int // of the interface
	packet int // longest packet with its Ethernet header

	hook     *xdpHook
	memory   *xdpMemory
	rxBlocks int // of it, for each queue
	binding  xdpBinding
	queues   []*xdpQueue
	recv     xdpReceiver
	send     xdpSender
}

func openXDP(name, rest string, lanes int, o Options) ([]Port, error) {
	return openXDPMode(name, rest, lanes, o, xdpMode{native: true, generic: true})
}

// openZeroCopy opens a port as far as the driver of the interface says that it will be zero-copy, and it then is. tried: it was not
// clear beforehand that this would not work.
func openZeroCopy(name, rest string, lanes int, o Options) (ports []Port, tried bool, err error) {
	addr, err := udpAddress(name, rest)
	if err != nil {
		return nil, false, err
	}
	i, ok := interfaceOf(addr)
	if !ok || !askXDPDriver(i.Index).zeroCopies(i.MTU) {
		return nil, false, nil
	}
	ports, err = openXDPMode(name, rest, lanes, o, xdpMode{native: true, zeroCopy: true})
	return ports, true, err
}

// openXDPMode opens "ADDRESS", "INTERFACE", or one of them and "/QUEUE".
func openXDPMode(name, rest string, lanes int, o Options, mode xdpMode) ([]Port, error) {
	where, number, one := strings.Cut(rest, "/")
	queue := -1
	if one {
		var err error
		if queue, err = strconv.Atoi(number); err != nil || queue < 0 || queue >= maxXDPQueues {
			return nil, &OpenError{Name: name, Reason: fmt.Sprintf("%q is not the number of a queue, 0 to %d", number, maxXDPQueues-1)}
		}
	}
	if one && lanes > 1 {
		return nil, &OpenError{Name: name, Reason: fmt.Sprintf("one queue is one lane, not %d: name the interface or its address alone", lanes)}
	}
	ports := make([]*xdpPort, lanes)
	for lane := range ports {
		ports[lane] = &xdpPort{lanes: ports, lane: lane, queue: queue, want: mode}
	}
	first := ports[0]
	if err := first.initEther("xdp", name, where, o); err != nil {
		return nil, err
	}
	first.admit = first.admitGroup
	for lane, p := range ports {
		if lane > 0 {
			p.initLane(&first.etherPort)
		}
		if err := p.setUp(); err != nil {
			closeAll(ports[:lane+1])
			return nil, err
		}
	}
	return portsOf(ports), nil
}

// admitGroup has packets of a group come to the lane whose queue they come by.
func (p *xdpPort) admitGroup(group wire.GID, in bool) (err error) {
	for _, lane := range p.lanes {
		err = errors.Join(err, lane.hook.admit(group, lane, in))
	}
	return err
}

func (p *xdpPort) setUp() error {
	iface, err := p.prepare()
	if err != nil {
		return err
	}
	if p.hook, err = useXDPHook(iface.Index, p.want); err != nil {
		return p.noHook(iface.Name, err)
	}
	queues := []int{p.queue}
	if p.queue < 0 {
		if queues = p.share(queuesOf(iface.Name)); len(queues) == 0 {
			return p.fail(fmt.Sprintf("interface %s has fewer than %d queues (`ethtool -l %s`), and each lane needs one",
				iface.Name, len(p.lanes), iface.Name), nil)
		}
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

// share is which queues of all are the lane's.
func (p *xdpPort) share(all []int) (mine []int) {
	for i := p.lane; i < len(all); i += len(p.lanes) {
		mine = append(mine, all[i])
	}
	return mine
}

// prepare does what leaves the interface alone.
func (p *xdpPort) prepare() (*net.Interface, error) {
	if err := p.allowed(); err != nil {
		return nil, err
	}
	iface, err := p.iface()
	if err != nil {
		return nil, err
	}
	if iface.Flags&net.FlagLoopback != 0 {
		return nil, p.fail(fmt.Sprintf("interface %s brings what AF_XDP sends to no other program, because the kernel takes packets "+
			"from a local address for forged: use udp:%v", iface.Name, p.addr), nil)
	}
	p.index, p.packet = iface.Index, iface.MTU+etherMax
	if p.lane > 0 {
		return iface, nil
	}
	return iface, p.hold(iface, holding{shared: p.queue >= 0})
}

// start makes packets come. The address is last: what comes before everything is ready is the kernel's.
func (p *xdpPort) start() error {
	p.send.init(p, p.queues[0])
	p.recv.martians = &p.martians
	fds := make([]int, len(p.queues))
	for i, q := range p.queues {
		fds[i] = q.fd
	}
	if err := p.sleep.open(-1, fds...); err != nil {
		return p.fail("the system gives nothing to sleep on", err)
	}
	for _, q := range p.queues {
		if err := p.hook.addSocket(q.number, q.fd); err != nil {
			return p.fail("the XDP program's map takes no socket", err)
		}
	}
	if err := p.hook.admit(p.gid, p, true); err != nil {
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

// Info describes the port.
func (p *xdpPort) Info() Info {
	info := p.describe()
	info.MaxRun, info.Mode = 1, p.mode()
	info.NetMTU = min(info.NetMTU, p.netMTU())
	p.mu.Lock() // against Close
	defer p.mu.Unlock()
	info.RecvBuffer = len(p.queues) * p.rxBlocks * xdpBlock
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
func (p *xdpPort) release() error {
	if p.hook != nil {
		p.hook.release(p)
		p.hook.leave()
	}
	err := p.letGo()
	p.mu.Lock() // against Info and Stats
	defer p.mu.Unlock()
	err = errors.Join(err, p.closeQueues())
	if p.memory != nil {
		err = errors.Join(err, p.memory.close())
	}
	return err
}
