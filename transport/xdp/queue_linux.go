package xdp

// The AF_XDP sockets of a port: one for each queue of the interface, as packets of a queue can only
// go to a socket of the same queue. The first one also sends. They share the packet memory; each
// has a fill ring of its own, so chunks that one queue has run out of do not make another one lose
// packets.
//
// What a driver is able to do shows when a socket is bound. The best comes first:
//
//	zero-copy        the driver receives into our memory and sends from it; tiled chunks,
//	                 then one a page
//	copy             the kernel copies; with packets of several chunks (6.6), then without,
//	                 which limits the path MTU

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport/internal/ether"
)

// releaseTime is how long the kernel may take to free a queue after its socket was closed. It does
// that in the background, in milliseconds, but on a machine with three busy loops for two
// processors it has taken more than half a second. Whose queue really belongs to another program
// waits for nothing; those have an XDP program nearly always, which is seen before.
const releaseTime = 5 * time.Second

// queue is the socket of one queue.
type queue struct {
	fd     int
	number int

	fill       ring[uint64]
	rx         ring[unix.XDPDesc]
	tx         ring[unix.XDPDesc] // of the first queue of a port
	completion ring[uint64]       // used by the first; the kernel wants one for each

	lent []uint64 // chunks that the last Recv gave out, in the order they came
}

// errNoZeroCopy is what has to be zero-copy behind a program that another port had attached in
// generic mode.
var errNoZeroCopy = errors.New("the interface's XDP program is in generic mode, which has no zero-copy")

// binding is one way to bind.
type binding struct{ zeroCopy, tiled, pieces bool }

// String describes it in words for Info.
func (b binding) String() string {
	if b.zeroCopy {
		return "zero-copy"
	}
	return "copy"
}

// bindings lists the ways that are worth trying. pieces are needed when packets are longer than a
// chunk.
func (p *port) bindings() (list []binding) {
	pieces := p.packet > p.memory.usable() && p.hook.frags
	if p.want.plain {
		return []binding{{pieces: pieces}}
	}
	if !p.hook.generic {
		if p.memory.huge {
			list = append(list, binding{zeroCopy: true, tiled: true, pieces: pieces})
		}
		list = append(list, binding{zeroCopy: true, pieces: pieces})
	}
	if p.want.zeroCopy {
		return list
	}
	list = append(list, binding{tiled: true, pieces: pieces})
	if pieces {
		list = append(list, binding{tiled: true})
	}
	return list
}

// openQueues opens sockets for all queues in the best way there is.
func (p *port) openQueues(queues []int) error {
	var first error
	last := errNoZeroCopy
	for _, p.binding = range p.bindings() {
		err := p.tryQueues(queues)
		if err == nil {
			p.noteBinding(first, last)
			return nil
		}
		p.closeQueues()
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EPERM) {
			return err // not a matter of the way
		}
		if last = err; first == nil {
			first = err
		}
	}
	return last
}

// noteBinding says what better ways would have been, and why the first and the last of them did not
// work.
func (p *port) noteBinding(first, last error) {
	if p.hook.generic {
		p.Degrade("native XDP",
			"the program runs behind the driver, after a socket buffer was made for each packet; from a sender on "+
				"this machine come runs (UDP_SEGMENT) in one piece, and are lost: it must send with MaxRun 1",
			p.hook.nativeErr)
	} else if !p.binding.zeroCopy {
		effect := "the driver does not use our memory: the kernel copies each packet"
		if p.packet-ether.HeaderMax > maxZeroCopyMTU && askDriver(p.index).zeroCopies(maxZeroCopyMTU) {
			effect += fmt.Sprintf(". It does with an interface MTU of at most %d", maxZeroCopyMTU)
		}
		p.Degrade("zero-copy", effect, first)
	}
	if limit := p.memory.usable(); p.packet > limit && !p.binding.pieces {
		p.Degrade("multi-buffer packets",
			fmt.Sprintf("packets are limited to %d bytes: path MTU 4096 does not fit. Linux 6.6 has them",
				limit-ether.HeaderMax), last)
	}
}

func (p *port) tryQueues(queues []int) error {
	p.memory.tiled = p.binding.tiled
	for i, number := range queues {
		q := &queue{number: number, fd: -1}
		p.queues = append(p.queues, q)
		err := q.open(p, p.receiveChunks(i), i == 0)
		if i > 0 && errors.Is(err, unix.EINVAL) {
			p.queues = p.queues[:i] // the interface has fewer queues than it could have
			q.close()
			break
		}
		if err != nil {
			return fmt.Errorf("queue %d: %w", number, err)
		}
	}
	return nil
}

// open makes the socket. Only the first one of a port sends, and brings the memory.
func (q *queue) open(p *port, chunks []uint64, first bool) (err error) {
	if q.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return err
	}
	if first {
		if err := p.memory.register(q.fd); err != nil {
			return err
		}
	}
	if err := q.openRings(len(chunks), len(p.send.free), first); err != nil {
		return err
	}
	for _, c := range chunks {
		q.fill.put(c)
	}
	q.fill.publishPut()
	q.lent = make([]uint64, 0, len(chunks))
	if err := q.bind(p); err != nil {
		return fmt.Errorf("bind (%v): %w", p.binding, err)
	}
	return nil
}

func (q *queue) openRings(receive, send int, first bool) error {
	at, err := ringOffsets(q.fd)
	if err != nil {
		return err
	}
	receive, send = powerOfTwo(receive), powerOfTwo(send)
	if !first {
		return errors.Join(
			q.fill.open(q.fd, unix.XDP_UMEM_FILL_RING, receive, at.Fr, unix.XDP_UMEM_PGOFF_FILL_RING),
			q.completion.open(q.fd, unix.XDP_UMEM_COMPLETION_RING, 2, at.Cr, unix.XDP_UMEM_PGOFF_COMPLETION_RING),
			q.rx.open(q.fd, unix.XDP_RX_RING, receive, at.Rx, unix.XDP_PGOFF_RX_RING))
	}
	return errors.Join(
		q.fill.open(q.fd, unix.XDP_UMEM_FILL_RING, receive, at.Fr, unix.XDP_UMEM_PGOFF_FILL_RING),
		q.completion.open(q.fd, unix.XDP_UMEM_COMPLETION_RING, send, at.Cr, unix.XDP_UMEM_PGOFF_COMPLETION_RING),
		q.rx.open(q.fd, unix.XDP_RX_RING, receive, at.Rx, unix.XDP_PGOFF_RX_RING),
		q.tx.open(q.fd, unix.XDP_TX_RING, send, at.Tx, unix.XDP_PGOFF_TX_RING))
}

// bind ties the socket to its queue. The sockets after the first take over how that one was bound.
func (q *queue) bind(p *port) (err error) {
	addr := unix.SockaddrXDP{
		Ifindex: uint32(p.index),
		QueueID: uint32(q.number),
		Flags:   unix.XDP_USE_NEED_WAKEUP | unix.XDP_COPY,
	}
	if p.binding.zeroCopy {
		addr.Flags = unix.XDP_USE_NEED_WAKEUP | unix.XDP_ZEROCOPY
	}
	if p.binding.pieces {
		addr.Flags |= unix.XDP_USE_SG
	}
	if owner := p.queues[0]; owner != q {
		addr.Flags, addr.SharedUmemFD = unix.XDP_SHARED_UMEM, uint32(owner.fd)
	}
	for deadline := time.Now().Add(releaseTime); ; time.Sleep(time.Millisecond) {
		if err = unix.Bind(q.fd, &addr); !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
	}
}

func (q *queue) close() error {
	err := errors.Join(q.fill.close(), q.completion.close(), q.rx.close(), q.tx.close())
	if q.fd >= 0 {
		err = errors.Join(err, unix.Close(q.fd))
		q.fd = -1
	}
	return err
}

func (p *port) closeQueues() (err error) {
	for _, q := range p.queues {
		err = errors.Join(err, q.close())
	}
	p.queues = nil
	return err
}

// powerOfTwo is the least power of two that is not less than n.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }

// queuesOf lists the queues of an interface that packets may come by.
func queuesOf(iface string) (list []int) {
	channels, _ := ethtoolChannels(iface) // an interface that knows no queues has one
	for i := range min(max(channels, 1), maxQueues) {
		list = append(list, i)
	}
	return list
}

// ethtoolChannels is the number of receive queues in use, as `ethtool -l` prints it.
func ethtoolChannels(iface string) (int, error) {
	const getChannels = 0x3c // ETHTOOL_GCHANNELS
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	// struct ethtool_channels: the largest possible numbers, then those in use
	channels := struct{ cmd, maxRX, maxTX, maxOther, maxCombined, rx, tx, other, combined uint32 }{cmd: getChannels}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // the rest of struct ifreq
	}{data: unsafe.Pointer(&channels)}
	copy(request.name[:unix.IFNAMSIZ-1], iface)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&request))); errno != 0 {
		return 0, errno
	}
	return int(channels.rx + channels.combined), nil
}
