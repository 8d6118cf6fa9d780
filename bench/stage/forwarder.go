//go:build linux

package stage

// The switch between the ends, as a program. It takes every packet off its cables at once, so that
// it pushes back on no sender: a bridge of the kernel does, as a packet that waits in a queue of
// its own machine stays charged to the socket that sent it.
//
// Its thread takes turns by raw system calls only. After any other the Go runtime lets a thread go
// on when it has a processor of the runtime's for it, and one that held such a processor while
// programs under test kept it from running had the switch stand still for half a second.
//
// Stages: a raw socket on each cable (plugIn) → in turns, what has come is taken in (take) → a
// packet to the receiver is lost, or finds its place in the queue in front of the slow link, or no
// room; it may be marked (queue) → everything has a time when it is to arrive (fly), and leaves by
// the cable of its destination then (deliver) → nothing to do: sleep until the next one is due, or
// comes.

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Queue is the bottleneck's, and what the path is like behind it.
type Queue struct {
	Rate     uint64  // bits per second, with Ethernet's preamble, FCS and gap
	MarkFrom int     // bytes that wait before the first mark
	MarkAll  int     // bytes that wait from which everything is marked; 0: nothing ever is
	MarkMost float64 // probability of a mark just below MarkAll, 0..1
	Limit    int     // bytes that may wait; what comes then is lost

	Delay   time.Duration // that a packet is under way, in either direction
	Loss    float64       // share of the packets to the receiver that are lost by chance
	Late    float64       // share of them that come LateBy later than the others
	LateBy  time.Duration
	Longest int // bytes of the longest IP packet that comes through; 0: any
}

const (
	vnetHeader   = 10 // of the kernel, in front of each packet: what checksums are to be made
	etherHeader  = 14
	etherRest    = 8 + 4 + 12            // bytes of time besides the frame: preamble, FCS and gap
	batch        = 64                    // packets that are taken from a cable in a row
	nap          = 20 * time.Microsecond // the shortest sleep: what is due then leaves together
	longNap      = 10 * time.Millisecond // the longest, as nobody wakes up the switch
	socketBuffer = 64 << 20              // of a cable; what finds no room is counted: Refused
)

// forwarder is the switch.
type forwarder struct {
	Queue
	cables []cable // one for each sender, and the receiver's
	mtu    int

	mu      sync.Mutex // held for a turn
	reading Reading    // but for At
	queued  []leaving  // in the queue, in their order
	waiting int        // bytes of them
	free    time.Time  // when the last of them will have left
	flying  []*flight  // a heap, by the time when they are to arrive
	serial  uint64
	spare   []*flight
	closed  bool
	ended   chan struct{}
}

// cable is one of the switch's interfaces.
type cable struct {
	fd  int
	mac [6]byte // of the end
}

// leaving is a packet that waits, and when it will have left.
type leaving struct {
	at    time.Time
	bytes int
}

// flight is a packet on its way.
type flight struct {
	at     time.Time
	serial uint64
	to     int    // index of the cable
	slow   bool   // it goes through the bottleneck
	frame  []byte // with the kernel's header
	room   []byte
}

// newForwarder starts a switch on the processor of the namespace that the calling thread is in.
// ports are the names of its interfaces, ends whom they lead to.
func newForwarder(q Queue, mtu, cpu int, ports []string, ends []*End) (f *forwarder, err error) {
	f = &forwarder{Queue: q, mtu: mtu, ended: make(chan struct{})}
	f.reading.Bytes = make([]uint64, len(ends)-1)
	for i, name := range ports {
		fd, err := plugIn(name)
		if err != nil {
			f.unplug()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		f.cables = append(f.cables, cable{fd, [6]byte(ends[i].MAC)})
	}
	go f.run(cpu)
	return f, nil
}

// plugIn opens a raw socket on an interface.
func plugIn(name string) (fd int, err error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return -1, err
	}
	fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("a raw socket: %w", err)
	}
	for _, o := range []struct{ level, name, value int }{
		{unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1},
		{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1},
		{unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1},
		{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer},
		{unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, socketBuffer},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("socket option %d: %w", o.name, err)
		}
	}
	every := binary.NativeEndian.Uint16([]byte{unix.ETH_P_ALL >> 8, unix.ETH_P_ALL & 0xff})
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: every, Ifindex: link.Index}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (f *forwarder) unplug() {
	for _, c := range f.cables {
		unix.Close(c.fd)
	}
}

// close ends the switch.
func (f *forwarder) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	<-f.ended
}

// read returns what the switch has counted.
func (f *forwarder) read() Reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.cables { // the kernel counts from 0 again after each look
		if st, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			f.reading.Refused += int(st.Drops)
		}
	}
	r := f.reading
	r.At, r.Backlog, r.Bytes = time.Now(), f.backlog(time.Now()), slices.Clone(r.Bytes)
	return r
}

// run takes turns until the switch is closed. It goes before the programs that it serves, as a
// machine of its own would.
func (f *forwarder) run(cpu int) {
	defer close(f.ended)
	defer f.unplug()
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	var one unix.CPUSet
	one.Set(cpu)
	unix.SchedSetaffinity(0, &one)
	// Without the right to it the switch takes its turns with the others, and figures waver more.
	unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
	polls := make([]unix.PollFd, len(f.cables))
	for i, c := range f.cables {
		polls[i] = unix.PollFd{Fd: int32(c.fd), Events: unix.POLLIN}
	}
	for {
		taken, wait, closed := f.turn()
		switch {
		case closed:
			return
		case taken:
			continue
		}
		sleep := unix.NsecToTimespec(int64(wait))
		if wait == nap { // what comes may wait as long
			unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&sleep)), 0, 0)
			continue
		}
		unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&polls[0])), uintptr(len(polls)),
			uintptr(unsafe.Pointer(&sleep)), 0, 0, 0)
	}
}

// turn takes in what has come, and sends on what is due. It tells whether there was anything, and
// for how long there will be nothing to do unless something comes.
func (f *forwarder) turn() (taken bool, wait time.Duration, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.cables {
		for range batch {
			if !f.take(i, time.Now()) {
				break
			}
			taken = true
		}
	}
	now := time.Now()
	for len(f.flying) > 0 && !f.flying[0].at.After(now) {
		f.deliver(heap.Pop(f).(*flight))
	}
	wait = longNap
	if len(f.flying) > 0 {
		wait = min(max(f.flying[0].at.Sub(now), nap), wait)
	}
	return taken, wait, f.closed
}

// take takes a packet off a cable; false: there is none.
func (f *forwarder) take(from int, now time.Time) bool {
	p := f.flight()
	got, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(f.cables[from].fd), uintptr(unsafe.Pointer(&p.room[0])),
		uintptr(len(p.room)))
	n := int(got)
	if errno != 0 || n < vnetHeader+etherHeader {
		f.spare = append(f.spare, p)
		return errno == 0
	}
	p.frame = p.room[:n]
	mac := [6]byte(p.frame[vnetHeader:])
	p.to = slices.IndexFunc(f.cables, func(c cable) bool { return c.mac == mac })
	p.slow = p.to == len(f.cables)-1
	if from < len(f.reading.Bytes) {
		f.reading.Bytes[from] += uint64(n - vnetHeader)
	}
	switch {
	case p.to < 0: // to nobody that is here
		f.spare = append(f.spare, p)
	case p.slow && !f.queue(p, now):
		f.reading.Drops++
		f.spare = append(f.spare, p)
	default:
		f.fly(p, now)
	}
	return true
}

// flight returns an empty one.
func (f *forwarder) flight() *flight {
	if n := len(f.spare); n > 0 {
		p := f.spare[n-1]
		f.spare = f.spare[:n-1]
		return p
	}
	return &flight{room: make([]byte, vnetHeader+etherHeader+f.mtu)}
}

// backlog is how many bytes wait for the slow link.
func (f *forwarder) backlog(now time.Time) int {
	for len(f.queued) > 0 && !f.queued[0].at.After(now) {
		f.waiting -= f.queued[0].bytes
		f.queued = f.queued[1:]
	}
	return f.waiting
}

// queue puts a packet behind the others that wait for the slow link; false: it is lost.
func (f *forwarder) queue(p *flight, now time.Time) bool {
	bytes := len(p.frame) - vnetHeader
	waiting := f.backlog(now)
	switch {
	case waiting+bytes > f.Limit,
		f.Loss > 0 && rand.Float64() < f.Loss,
		f.Longest > 0 && bytes-etherHeader > f.Longest:
		return false
	}
	if f.marks(waiting) {
		if mark(p.frame[vnetHeader+etherHeader:]) {
			f.reading.Marked++
		} else {
			f.reading.Unmarkable++
		}
	}
	if f.free.Before(now) {
		f.free = now
	}
	f.free = f.free.Add(time.Duration(float64(bytes+etherRest) * 8e9 / float64(f.Rate)))
	f.queued, f.waiting = append(f.queued, leaving{f.free, bytes}), f.waiting+bytes
	return true
}

// marks draws whether a packet is to be marked that finds so many bytes waiting: never below a
// length of the queue, always above another, and between them with a probability that grows, as
// switches of RoCE networks do it (RED on the instantaneous queue).
func (f *forwarder) marks(waiting int) bool {
	switch {
	case f.MarkAll == 0 || waiting < f.MarkFrom:
		return false
	case waiting >= f.MarkAll:
		return true
	}
	return rand.Float64() < f.MarkMost*float64(waiting-f.MarkFrom)/float64(f.MarkAll-f.MarkFrom)
}

// mark sets "congestion experienced" on an IPv4 packet whose transport understands it.
func mark(packet []byte) bool {
	const tos, sum = 1, 10
	if len(packet) < 20 || packet[0]>>4 != 4 || packet[tos]&3 == 0 {
		return false
	}
	before := binary.BigEndian.Uint16(packet)
	packet[tos] |= 3
	// RFC 1624: the checksum changes with the word that does.
	s := uint32(^binary.BigEndian.Uint16(packet[sum:])) + uint32(^before) + uint32(binary.BigEndian.Uint16(packet))
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	binary.BigEndian.PutUint16(packet[sum:], ^uint16(s))
	return true
}

// fly gives a packet the time when it is to arrive.
func (f *forwarder) fly(p *flight, now time.Time) {
	p.at = now
	if p.slow {
		p.at = f.free
		if f.Late > 0 && rand.Float64() < f.Late {
			p.at = p.at.Add(f.LateBy)
		}
	}
	p.at = p.at.Add(f.Delay)
	f.serial++
	p.serial = f.serial
	heap.Push(f, p)
}

// deliver sends a packet on.
func (f *forwarder) deliver(p *flight) {
	if _, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(f.cables[p.to].fd), uintptr(unsafe.Pointer(&p.frame[0])),
		uintptr(len(p.frame))); errno != 0 {
		f.reading.Refused++
	}
	if p.slow {
		f.reading.Passed++
	}
	f.spare = append(f.spare, p)
}

// Len, Less, Swap, Push and Pop make the flying ones a heap.
func (f *forwarder) Len() int { return len(f.flying) }

func (f *forwarder) Less(i, j int) bool {
	a, b := f.flying[i], f.flying[j]
	return a.at.Before(b.at) || a.at.Equal(b.at) && a.serial < b.serial
}

func (f *forwarder) Swap(i, j int) { f.flying[i], f.flying[j] = f.flying[j], f.flying[i] }

func (f *forwarder) Push(p any) { f.flying = append(f.flying, p.(*flight)) }

func (f *forwarder) Pop() any {
	last := len(f.flying) - 1
	p := f.flying[last]
	f.flying[last], f.flying = nil, f.flying[:last]
	return p
}
