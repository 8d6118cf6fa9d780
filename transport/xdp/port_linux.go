package xdp

// Opening, describing, closing.

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/ether"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// maxReceive bounds the memory to receive into, whatever Options.RecvBuffer says. The kernel goes
// round in it, so every packet meets memory that is not in the cache any more: a stream of 4 KiB
// packets loses 10 to 15 % with 64 MiB. 16 MiB hold 3 ms of 20 Gbit/s in packets of 4 KiB.
const maxReceive = 16 << 20

type port struct {
	ether.Port
	want   mode
	lanes  []*port // all ports of the address; this is the one with number lane
	lane   int
	queue  int // the only one, or -1 for all
	index  int // of the interface
	packet int // longest packet with its Ethernet header

	hook     *hook
	memory   *memory
	rxBlocks int // of it, for each queue
	binding  binding
	queues   []*queue
	recv     receiver
	send     sender
	mu       sync.Mutex // Close against Info and Stats
}

func open(name, where string, lanes int, o transport.Options) ([]transport.Port, error) {
	return openMode(name, where, lanes, o, mode{native: true, generic: true})
}

func openZeroCopy(name, where string, lanes int, o transport.Options) (ports []transport.Port, tried bool, err error) {
	addr, _, err := host.Address(name, where)
	if err != nil {
		return nil, false, err
	}
	i, ok := host.InterfaceOf(addr)
	if !ok || !askDriver(i.Index).zeroCopies(i.MTU) {
		return nil, false, nil
	}
	ports, err = openMode(name, where, lanes, o, mode{native: true, zeroCopy: true})
	return ports, true, err
}

// openMode opens "ADDRESS", "INTERFACE", or one of them and "/QUEUE".
func openMode(name, where string, lanes int, o transport.Options, mode mode) ([]transport.Port, error) {
	where, number, one := strings.Cut(where, "/")
	queue := -1
	if one {
		var err error
		if queue, err = strconv.Atoi(number); err != nil || queue < 0 || queue >= maxQueues {
			return nil, &transport.OpenError{Name: name, Reason: fmt.Sprintf("%q is not the number of a queue, 0 to %d",
				number, maxQueues-1)}
		}
	}
	if one && lanes > 1 {
		return nil, &transport.OpenError{Name: name,
			Reason: fmt.Sprintf("one queue is one lane, not %d: name the interface or its address alone", lanes)}
	}
	ports := make([]*port, lanes)
	for lane := range ports {
		ports[lane] = &port{lanes: ports, lane: lane, queue: queue, want: mode}
	}
	first := ports[0]
	if err := first.Init("xdp", name, where, o); err != nil {
		return nil, err
	}
	first.Admit = first.admit
	for lane, p := range ports {
		if lane > 0 {
			p.InitLane(&first.Port)
		}
		p.QPNs = p.QPNs.Lane(lane, lanes)
		if err := p.setUp(); err != nil {
			transport.CloseAll(ports[:lane+1])
			return nil, err
		}
	}
	if err := first.Ready(); err != nil {
		transport.CloseAll(ports)
		return nil, first.Fail("the XDP program's map takes no address", err)
	}
	return transport.Ports(ports), nil
}

// admit has packets to an address or group come to the lane whose queue they come by.
func (p *port) admit(dst wire.GID, in bool) (err error) {
	for _, lane := range p.lanes {
		err = errors.Join(err, lane.hook.admit(dst, lane, in))
	}
	return err
}

func (p *port) setUp() error {
	iface, err := p.prepare()
	if err != nil {
		return err
	}
	if p.hook, err = useHook(iface.Index, p.want); err != nil {
		return p.noHook(iface.Name, err)
	}
	queues := []int{p.queue}
	if p.queue < 0 {
		if queues = p.share(queuesOf(iface.Name)); len(queues) == 0 {
			return p.Fail(fmt.Sprintf("interface %s has fewer than %d queues (`ethtool -l %s`), and each "+
				"lane needs one",
				iface.Name, len(p.lanes), iface.Name), nil)
		}
	}
	if err := p.hook.claim(queues, p); err != nil {
		return p.Fail(fmt.Sprintf("the queues of interface %s are not all free; xdp:%v/QUEUE takes a single one",
			iface.Name, p.Addr), err)
	}
	if err := p.openMemory(len(queues)); err != nil {
		return p.Fail("there is no memory for packets", err)
	}
	if err := p.openQueues(queues); err != nil {
		return p.noQueues(iface.Name, err)
	}
	return p.start()
}

// share is which queues of all are the lane's.
func (p *port) share(all []int) (mine []int) {
	for i := p.lane; i < len(all); i += len(p.lanes) {
		mine = append(mine, all[i])
	}
	return mine
}

// prepare does what leaves the interface alone.
func (p *port) prepare() (*net.Interface, error) {
	if err := p.allowed(); err != nil {
		return nil, err
	}
	iface, err := p.Interface()
	if err != nil {
		return nil, err
	}
	if iface.Flags&net.FlagLoopback != 0 {
		return nil, p.Fail(fmt.Sprintf("interface %s brings what AF_XDP sends to no other program, because the "+
			"kernel takes packets "+
			"from a local address for forged: use udp:%v", iface.Name, p.Addr), nil)
	}
	p.index, p.packet = iface.Index, iface.MTU+ether.HeaderMax
	if p.lane > 0 {
		return iface, nil
	}
	return iface, p.Hold(iface, ether.Holding{Shared: p.queue >= 0})
}

// start makes packets come. The address is last: what comes before everything is ready is the
// kernel's.
func (p *port) start() error {
	p.send.init(p, p.queues[0])
	p.recv.station = p.Station
	fds := make([]int, len(p.queues))
	for i, q := range p.queues {
		fds[i] = q.fd
	}
	p.Waiter.OwnThread(p.Options.OwnThread)
	if err := p.Waiter.Open(-1, fds...); err != nil {
		return p.Fail("the system gives nothing to sleep on", err)
	}
	for _, q := range p.queues {
		if err := p.hook.addSocket(q.number, q.fd); err != nil {
			return p.Fail("the XDP program's map takes no socket", err)
		}
	}
	return nil
}

// openMemory divides the memory: equal parts for the queues, and the rest for sending.
func (p *port) openMemory(queues int) (err error) {
	p.rxBlocks = max(min(p.Options.RecvBuffer, maxReceive)/blockSize/queues, 1)
	txBlocks := max(p.Options.SendBuffer/blockSize, 1)
	if p.memory, err = mapMemory(queues*p.rxBlocks+txBlocks, p.packet); err != nil {
		return err
	}
	p.send.free = p.memory.sendChunks(queues*p.rxBlocks, txBlocks)
	p.recv.joined = make([]byte, joinedPackets*joinedMax)
	return nil
}

func (p *port) receiveChunks(i int) []uint64 {
	return p.memory.receiveChunks(i*p.rxBlocks, p.rxBlocks)
}

// netMTU is the longest IP packet.
func (p *port) netMTU() int {
	mtu := p.Peers.MTU()
	if limit := p.memory.usable() - ether.HeaderMax; mtu > limit && !p.binding.pieces {
		return limit
	}
	return mtu
}

// Info describes the port.
func (p *port) Info() transport.Info {
	info := p.Describe()
	info.MaxRun, info.Mode = 1, p.mode()
	info.NetMTU = min(info.NetMTU, p.netMTU())
	p.mu.Lock() // against Close
	defer p.mu.Unlock()
	info.RecvBuffer = len(p.queues) * p.rxBlocks * blockSize
	return info
}

// mode says how the port is attached.
func (p *port) mode() string {
	where := "native"
	if p.hook.generic {
		where = "generic"
	}
	return where + ", " + p.binding.String()
}

// Stats returns the counters, the kernel's drops among them.
func (p *port) Stats() transport.Stats {
	s := p.Port.Stats()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queues {
		if k, err := statistics(q.fd); err == nil {
			s.RecvOverflow += k.Rx_dropped + k.Rx_ring_full
		}
	}
	return s
}

// Close frees address, port and interface.
func (p *port) Close() error {
	if p.Closed.Swap(true) {
		return transport.ErrClosed
	}
	return p.release()
}

// release closes what is open. The program comes first, so that the kernel's own stack has the
// packets again at once.
func (p *port) release() error {
	if p.hook != nil {
		p.hook.release(p)
		p.hook.leave()
	}
	err := p.LetGo()
	p.mu.Lock() // against Info and Stats
	defer p.mu.Unlock()
	err = errors.Join(err, p.closeQueues())
	if p.memory != nil {
		err = errors.Join(err, p.memory.close())
	}
	return err
}
