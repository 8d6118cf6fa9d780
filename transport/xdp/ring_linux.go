package xdp

// The four rings of an AF_XDP socket: memory that the kernel and we share, one writes and the other
// reads.
//
//	fill        we → kernel   chunks to receive into
//	rx          kernel → we   packets received
//	tx          we → kernel   packets to send
//	completion  kernel → we   chunks that have been sent from
//
// Each side counts the entries that it has put in or taken out, modulo 2³²; entry i is in slot i
// modulo the length, a power of two. We keep our own count and the last one that we have seen of
// the kernel's, so that a batch costs one load and one store which other processors see, however
// long it is; and looking into an empty ring is one load.
//
// This file is the only one of the port that knows where things lie in memory.

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is one ring, of addresses (fill and completion) or of descriptors (rx and tx).
type ring[Entry uint64 | unix.XDPDesc] struct {
	mem      []byte
	entries  []Entry
	producer *uint32 // how many entries were put in
	consumer *uint32 // how many were taken out
	flags    *uint32

	ours, theirs uint32 // our side's count, and the other's as we last saw it
	published    uint32 // our side's count as the kernel knows it
}

// open maps a ring of the socket; length is a power of two.
func (r *ring[Entry]) open(fd int, option int, length int, at unix.XDPRingOffset, page int64) (err error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_XDP, option, length); err != nil {
		return fmt.Errorf("ring of %d entries: %w", length, err)
	}
	var entry Entry
	size := int(at.Desc) + length*int(unsafe.Sizeof(entry))
	if r.mem, err = unix.Mmap(fd, page, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return fmt.Errorf("mapping a ring of %d entries: %w", length, err)
	}
	r.entries = unsafe.Slice((*Entry)(unsafe.Pointer(&r.mem[at.Desc])), length)
	r.producer = (*uint32)(unsafe.Pointer(&r.mem[at.Producer]))
	r.consumer = (*uint32)(unsafe.Pointer(&r.mem[at.Consumer]))
	r.flags = (*uint32)(unsafe.Pointer(&r.mem[at.Flags]))
	return nil
}

func (r *ring[Entry]) close() error {
	if r.mem == nil {
		return nil
	}
	mem := r.mem
	*r = ring[Entry]{}
	return unix.Munmap(mem)
}

// slot is the entry with a number.
func (r *ring[Entry]) slot(i uint32) *Entry { return &r.entries[i&uint32(len(r.entries)-1)] }

// put adds an entry. The caller knows that there is room: no ring is shorter than what there is to
// put in.
func (r *ring[Entry]) put(e Entry) {
	*r.slot(r.ours) = e
	r.ours++
}

// publishPut shows the kernel what was put in since the last time.
func (r *ring[Entry]) publishPut() {
	if r.published != r.ours {
		atomic.StoreUint32(r.producer, r.ours)
		r.published = r.ours
	}
}

// pending says how many entries that we have published the kernel has not taken yet.
func (r *ring[Entry]) pending() uint32 { return r.published - atomic.LoadUint32(r.consumer) }

// needsWakeup says that the kernel looks at what was put in only after a system call.
func (r *ring[Entry]) needsWakeup() bool {
	return atomic.LoadUint32(r.flags)&unix.XDP_RING_NEED_WAKEUP != 0
}

// there returns how many entries we can take. It does not look again if those it knows of are
// enough.
func (r *ring[Entry]) there(enough uint32) uint32 {
	if r.theirs-r.ours < enough {
		r.theirs = atomic.LoadUint32(r.producer)
	}
	return r.theirs - r.ours
}

// peek returns entry number i of those that are there.
func (r *ring[Entry]) peek(i uint32) Entry { return *r.slot(r.ours + i) }

// take takes n entries that were peeked at.
func (r *ring[Entry]) take(n uint32) { r.ours += n }

// publishTaken shows the kernel what was taken since the last time.
func (r *ring[Entry]) publishTaken() {
	if r.published != r.ours {
		atomic.StoreUint32(r.consumer, r.ours)
		r.published = r.ours
	}
}

// ringOffsets asks where in the mapping of a ring its parts are.
func ringOffsets(fd int) (o unix.XDPMmapOffsets, err error) {
	return o, getsockopt(fd, unix.XDP_MMAP_OFFSETS, unsafe.Pointer(&o), unsafe.Sizeof(o))
}

// statistics asks for the counters of a socket.
func statistics(fd int) (s unix.XDPStatistics, err error) {
	return s, getsockopt(fd, unix.XDP_STATISTICS, unsafe.Pointer(&s), unsafe.Sizeof(s))
}

func getsockopt(fd, option int, value unsafe.Pointer, size uintptr) error {
	n := uint32(size)
	if _, _, errno := syscall.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option), uintptr(value),
		uintptr(unsafe.Pointer(&n)), 0); errno != 0 {
		return errno
	}
	return nil
}

// registerMemory makes the area the memory of a socket's packets.
func registerMemory(fd int, area []byte, chunk int, flags uint32) error {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(area)))
	reg := unix.XDPUmemReg{Addr: uint64(start), Len: uint64(len(area)), Size: uint32(chunk), Flags: flags}
	if _, _, errno := syscall.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
		uintptr(unsafe.Pointer(&reg)), unsafe.Sizeof(reg), 0); errno != 0 {
		return errno
	}
	return nil
}

// kickSend has the kernel look at the tx ring, kickReceive at the fill ring. Neither blocks.
func kickSend(fd int) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

func kickReceive(fd int) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}
