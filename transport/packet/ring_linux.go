package packet

// The receive ring of a packet port (TPACKET_V2): memory that the kernel and we share, cut into
// slots. This file and the message headers of send_linux.go are the only places with unsafe.
//
//	slot │ tpacket2_hdr │ … │ virtio_net_hdr │ Ethernet │ IP … │
//	      status          ^ tp_mac-10         ^ tp_mac   ^ tp_net
//
// A slot has one owner, whom its first word names: the kernel fills a slot and sets TP_STATUS_USER;
// we read it and set TP_STATUS_KERNEL. To look whether a packet is there is one load from memory,
// no system call: that is what makes a spinning round trip of 2 us possible.
//
// A slot must hold a super-frame of 64 KiB, whatever the packet: version 3 of the ring packs
// better, but hands over whole blocks after a timeout.

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport/internal/host"
)

const (
	ringBlock     = 1 << 20 // the kernel allocates blocks, each in one piece if it can
	slotsPerBlock = 15
	// ringSlot is an odd number of cache lines, so that the slots of a block begin in different
	// cache sets.
	ringSlot = 69_824

	// maxRing bounds the ring, whatever Options.RecvBuffer says: 240 slots. The kernel goes round
	// in it, so all of it passes through the cache: a stream of super-frames with copy and ICRC ran
	// at 58 Gbit/s with 16 MiB, 56 with 32, 54 with 64.
	maxRing = 16 << 20

	vnetHdrLen = 10 // struct virtio_net_hdr

	// ringReserve shifts what the kernel writes so that BTH of an IPv4 packet starts a cache line:
	// without it the IP header is at 90 (32 bytes of tpacket2_hdr, 20 of sockaddr_ll, 16 for a link
	// header, rounded up to 80; 10 of virtio_net_hdr).
	ringReserve = 10
)

// packetRing is the memory and whose turn it is. Slots from first to head were taken from the
// kernel and are lent out; head is the next to be looked at.
type ring struct {
	mem   []byte
	slots [][]byte
	first int
	head  int
	lent  int // how many slots lie from first to head
}

// open asks the kernel for a ring of about size bytes on fd, for less if there is no memory for
// that.
func (r *ring) open(fd, size int) (err error) {
	for _, o := range []struct {
		name              string
		level, opt, value int
	}{
		{"PACKET_VERSION", unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2},
		{"PACKET_VNET_HDR", unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1},
		{"PACKET_RESERVE", unix.SOL_PACKET, unix.PACKET_RESERVE, ringReserve},
	} {
		if err := host.SetOption(fd, o.name, o.level, o.opt, o.value); err != nil {
			return err
		}
	}
	blocks := max(min(size, maxRing)/ringBlock, 1)
	for {
		err = unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &unix.TpacketReq{
			Block_size: ringBlock, Block_nr: uint32(blocks), Frame_size: ringSlot,
			Frame_nr: uint32(blocks * slotsPerBlock)})
		if err != unix.ENOMEM || blocks == 1 {
			break
		}
		blocks /= 2
	}
	if err != nil {
		return fmt.Errorf("PACKET_RX_RING of %d MiB: %w", blocks, err)
	}
	if r.mem, err = unix.Mmap(fd, 0, blocks*ringBlock, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return fmt.Errorf("mapping a ring of %d MiB: %w", blocks, err)
	}
	r.slots = make([][]byte, blocks*slotsPerBlock)
	for i := range r.slots {
		at := i/slotsPerBlock*ringBlock + i%slotsPerBlock*ringSlot
		r.slots[i] = r.mem[at : at+ringSlot : at+ringSlot]
	}
	return nil
}

func (r *ring) close() error {
	if r.mem == nil {
		return nil
	}
	return unix.Munmap(r.mem)
}

// word is the first word of a slot: who owns it.
func (r *ring) word(i int) *uint32 {
	return (*uint32)(unsafe.Pointer(unsafe.SliceData(r.slots[i])))
}

// peek returns the slot at head if the kernel has filled it.
func (r *ring) peek() (slot []byte, ok bool) {
	if atomic.LoadUint32(r.word(r.head))&unix.TP_STATUS_USER == 0 || r.lent == len(r.slots) {
		return nil, false
	}
	return r.slots[r.head], true
}

// advance makes the slot at head a lent one.
func (r *ring) advance() {
	if r.head++; r.head == len(r.slots) {
		r.head = 0
	}
	r.lent++
}

// giveBack returns all lent slots to the kernel.
func (r *ring) giveBack() {
	for ; r.lent > 0; r.lent-- {
		atomic.StoreUint32(r.word(r.first), unix.TP_STATUS_KERNEL)
		if r.first++; r.first == len(r.slots) {
			r.first = 0
		}
	}
}

// vnetHdr is what a packet socket says about a packet besides its bytes (struct virtio_net_hdr, in
// the machine's byte order): on receive, whether it is several in one; on send, how to cut it.
type vnetHdr struct {
	flags, gsoType                         uint8
	hdrLen, gsoSize, csumStart, csumOffset uint16
}

// slotPacket finds the parts of a filled slot: the IP packet, which may be padded, and how it was
// merged. cut says that the packet did not fit.
func slotPacket(slot []byte) (ip []byte, h vnetHdr, cut bool) {
	t := (*unix.Tpacket2Hdr)(unsafe.Pointer(unsafe.SliceData(slot)))
	mac, network, end := int(t.Mac), int(t.Net), int(t.Mac)+int(t.Snaplen)
	if mac < vnetHdrLen || network < mac || end < network || end > len(slot) || t.Snaplen < t.Len {
		return nil, h, true
	}
	h = *(*vnetHdr)(unsafe.Pointer(&slot[mac-vnetHdrLen]))
	return slot[network:end:end], h, false
}
