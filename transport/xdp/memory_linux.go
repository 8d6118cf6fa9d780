package xdp

// The packet memory of an AF_XDP port (UMEM): one area that the sockets of all its queues share,
// cut into chunks.
//
//	│ receive chunks of queue 0 │ of queue 1 │ … │ send chunks │
//
// Each part is some blocks of 2 MiB: huge pages, if there are any.
//
// A chunk is at most a page, and the kernel leaves its first 256 bytes free, so a packet of path
// MTU 4096 is received in two. A frame's body must be in one piece. Hence the tiled layout: each
// chunk starts where the usable part of the one before it ends, short of the 256 bytes that it does
// not use:
//
//	256 │ usable 3840 of chunk 0 │
//	               chunk 1:  256 │ usable 3840 │
//	                               chunk 2:  256 │ …
//
// So pieces in neighbouring chunks are one piece. We give the kernel the chunks in order and it
// uses them in order; where that does not work out (at the end of a block, or when a driver has
// kept a chunk for a packet that was not ours) the pieces are copied together.
//
// Tiled chunks cross pages. A driver that reads and writes the area itself needs such pages to be
// neighbours physically: in huge pages they are. Without those, zero-copy gets the plain layout,
// one chunk a page.

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	blockSize = 2 << 20 // a huge page, or what would be one
	// headroom is the 256 bytes that the kernel leaves free in a chunk it receives into.
	headroom = unix.XDP_PACKET_HEADROOM

	largeChunk = 4096 // the largest there is
	smallChunk = 2048 // the smallest there is; holds any packet of MTU 1500

	// In the layout that is not one chunk a page, the upper 16 bits of an address count from the
	// chunk's beginning.
	offsetShift = 48
	baseMask    = 1<<offsetShift - 1
)

// memory is the area and how it is cut.
type memory struct {
	mapped []byte // from mmap
	area   []byte // the part of it that is used
	huge   bool   // in huge pages, for sure
	chunk  int    // size of a chunk
	tiled  bool
}

// mapMemory gets memory for the chunks of packets up to a length, Ethernet header included.
func mapMemory(blocks, packet int) (m *memory, err error) {
	m = &memory{chunk: largeChunk}
	if packet <= smallChunk-headroom {
		m.chunk = smallChunk
	}
	size := blocks * blockSize
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	const huge = flags | unix.MAP_HUGETLB | unix.MAP_HUGE_2MB | unix.MAP_POPULATE
	if m.mapped, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, huge); err == nil {
		m.area, m.huge = m.mapped, true
		return m, nil
	}
	if m.mapped, err = unix.Mmap(-1, 0, size+blockSize, unix.PROT_READ|unix.PROT_WRITE, flags); err != nil {
		return nil, fmt.Errorf("memory for packets, %d MiB: %w", size>>20, err)
	}
	skip := -int(uintptr(unsafe.Pointer(&m.mapped[0]))) & (blockSize - 1)
	m.area = m.mapped[skip : skip+size : skip+size]
	// This most likely makes huge pages of it, but nobody promises.
	unix.Madvise(m.area, unix.MADV_HUGEPAGE)
	return m, nil
}

func (m *memory) close() error { return unix.Munmap(m.mapped) }

// register tells a socket about the memory.
func (m *memory) register(fd int) error {
	flags := uint32(0)
	if m.tiled {
		flags = unix.XDP_UMEM_UNALIGNED_CHUNK_FLAG
	}
	if err := registerMemory(fd, m.area, m.chunk, flags); err != nil {
		return fmt.Errorf("registering %d MiB of packet memory: %w", len(m.area)>>20, err)
	}
	return nil
}

// usable is how much of a packet a chunk receives.
func (m *memory) usable() int { return m.chunk - headroom }

// receiveChunks lists the chunks of some blocks to receive into, in the order in which they are to
// be used.
func (m *memory) receiveChunks(block, blocks int) (list []uint64) {
	stride := m.chunk
	if m.tiled {
		stride = m.usable()
	}
	for i := range blocks {
		start := (block + i) * blockSize
		for at := 0; at+m.chunk <= blockSize; at += stride {
			list = append(list, uint64(start+at))
		}
	}
	return list
}

// sendChunks lists the chunks of some blocks to send from. They do not overlap and do not cross
// pages.
func (m *memory) sendChunks(block, blocks int) (list []uint64) {
	for at := block * blockSize; at < (block+blocks)*blockSize; at += m.chunk {
		list = append(list, uint64(at))
	}
	return list
}

// locate finds the bytes of a descriptor, and the chunk they are in.
func (m *memory) locate(d unix.XDPDesc) (start, end int, chunk uint64) {
	chunk = d.Addr & baseMask
	start = int(chunk + d.Addr>>offsetShift)
	if !m.tiled {
		chunk &^= uint64(m.chunk - 1)
	}
	return start, start + int(d.Len), chunk
}
