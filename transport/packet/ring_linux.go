package packet

// A receive ring of a packet socket (TPACKET_V2): memory that the kernel and we share, cut into
// slots. This file and the message headers of send_linux.go are the only places with unsafe.
//
//	slot │ tpacket2_hdr │ … │ virtio_net_hdr │ Ethernet │ IP … │
//	      status, time    ^ tp_mac-10         ^ tp_mac   ^ tp_net
//
// A slot has one owner, whom its first word names: the kernel fills a slot and sets TP_STATUS_USER;
// we read it and set TP_STATUS_KERNEL. To look whether a packet is there is one load from memory,
// no system call: that is what makes a spinning round trip of 2 us possible.
//
// A slot holds one packet, however short: version 3 of the ring packs better, but hands over whole
// blocks after a timeout. So a port has two rings, with slots of two lengths (order_linux.go).

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport/internal/host"
)

const (
	ringBlock = 1 << 20 // the kernel allocates blocks, each in one piece if it can

	vnetHdrLen = 10 // struct virtio_net_hdr

	// ringReserve shifts what the kernel writes so that BTH of an IPv4 packet starts a cache line:
	// without it the IP header is at 90 (32 bytes of tpacket2_hdr, 20 of sockaddr_ll, 16 for a link
	// header, rounded up to 80; 10 of virtio_net_hdr).
	ringReserve = 10
	ipAt        = 90 + ringReserve
)

// slotFor is the length of slots for IP packets of a length: an odd number of cache lines, so that
// the slots of a block begin in different cache sets.
func slotFor(ip int) int {
	const line = 64
	return ((ipAt+ip+line-1)/line | 1) * line
}

// ring is the memory and whose turn it is. Slots from first to head were taken from the kernel and
// are lent out; head is the next to be looked at.
type ring struct {
	mem   []byte
	slots [][]byte
	first int
	head  int
	lent  int // how many slots lie from first to head
	// passed is how many slots of the other ring were taken while the one at head was there.
	passed int
}

// open asks the kernel for a ring of about size bytes on fd, in slots of a length, for less if
// there is no memory for that.
func (r *ring) open(fd, size, slot int) (err error) {
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
	blocks, each := max(size/ringBlock, 1), ringBlock/slot
	for {
		err = unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &unix.TpacketReq{
			Block_size: ringBlock, Block_nr: uint32(blocks), Frame_size: uint32(slot), Frame_nr: uint32(blocks * each)})
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
	r.slots = make([][]byte, blocks*each)
	for i := range r.slots {
		at := i/each*ringBlock + i%each*slot
		r.slots[i] = r.mem[at : at+slot : at+slot]
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

// filled says whether the kernel has filled the slot at head.
func (r *ring) filled() bool {
	return atomic.LoadUint32(r.word(r.head))&unix.TP_STATUS_USER != 0 && r.lent < len(r.slots)
}

// oldest is the time of the oldest packet in the slot at head and those next behind it, as many as
// ahead says; ok says that there is one. (That head is not filled does not say that the next is
// not: processors fill slots at the same time, which they took one after another.)
func (r *ring) oldest() (at uint64, ok bool) {
	at = 1<<64 - 1
	for i, left := r.head, min(ahead, len(r.slots)-r.lent); left > 0; left-- {
		if atomic.LoadUint32(r.word(i))&unix.TP_STATUS_USER != 0 {
			t := (*unix.Tpacket2Hdr)(unsafe.Pointer(unsafe.SliceData(r.slots[i])))
			at, ok = min(at, uint64(t.Sec)<<32|uint64(t.Nsec)), true
		}
		if i++; i == len(r.slots) {
			i = 0
		}
	}
	return at, ok
}

// advance makes the slot at head a lent one.
func (r *ring) advance() {
	if r.head++; r.head == len(r.slots) {
		r.head = 0
	}
	r.lent++
	r.passed = 0
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
