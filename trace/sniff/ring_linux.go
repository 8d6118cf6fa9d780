package sniff

// The ring that the kernel captures into (TPACKET_V3): memory that it and we share, cut into
// blocks, so that no packet takes a system call. Stages: the kernel fills a block with packets, one
// behind the other → it gives the block to us when it is full, or a while after the first packet →
// we walk through it → and give it back. If we have given none back it drops what arrives, and
// counts it.
//
//	block │ status, packets, first │ … │ packet │ packet │ …
//	                                     tpacket3_hdr │ sockaddr_ll │ … │ Ethernet │ IP …
//	                                     next, time, lengths             ^ mac
//
// This file is the only place with unsafe.

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	blockSize = 1 << 20 // a run of packets has 64 KiB, and lies in one block
	retire    = 50      // milliseconds after which a block is given to us that is not full
	frameSize = 2048    // the kernel wants one, and does not use it with this version
	tagLen    = 4       // of a VLAN tag
	// linkOffset is where struct sockaddr_ll is, from the packet's header on.
	linkOffset = (unix.SizeofTpacket3Hdr + 15) &^ 15
)

// ring is the blocks, and where we are in them.
type ring struct {
	mem    []byte
	at     int    // the block that we read, or wait for, from mem's beginning
	ours   bool   // the kernel has given it to us
	unread uint32 // packets in it
	next   uint32 // where the next one is in it
}

// open asks the kernel for a ring on fd, for a smaller one if there is no memory for that.
func (r *ring) open(fd, size int) (err error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3); err != nil {
		return fmt.Errorf("PACKET_VERSION: %w", err)
	}
	// Room for the tag that is put back in front of a packet.
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_RESERVE, tagLen); err != nil {
		return fmt.Errorf("PACKET_RESERVE: %w", err)
	}
	blocks := max((size+blockSize-1)/blockSize, 2)
	for {
		err = unix.SetsockoptTpacketReq3(fd, unix.SOL_PACKET, unix.PACKET_RX_RING,
			&unix.TpacketReq3{Block_size: blockSize, Block_nr: uint32(blocks),
				Frame_size: frameSize, Frame_nr: uint32(blocks * (blockSize / frameSize)), Retire_blk_tov: retire})
		if err != unix.ENOMEM || blocks == 2 {
			break
		}
		blocks /= 2
	}
	if err != nil {
		return fmt.Errorf("PACKET_RX_RING of %d MiB: %w", blocks, err)
	}
	if r.mem, err = unix.Mmap(fd, 0, blocks*blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("mapping a ring of %d MiB: %w", blocks, err)
	}
	return nil
}

func (r *ring) close() error {
	if r.mem == nil {
		return nil
	}
	mem := r.mem
	r.mem = nil
	return unix.Munmap(mem)
}

// block is the block at hand.
func (r *ring) block() *unix.TpacketHdrV1 {
	return (*unix.TpacketHdrV1)(unsafe.Pointer(&r.mem[r.at+int(unsafe.Offsetof(unix.TpacketBlockDesc{}.Hdr))]))
}

// take says whether there is a packet to read: in the block at hand, or in the next one if the
// kernel has given it to us.
func (r *ring) take() bool {
	for r.unread == 0 {
		b := r.block()
		if r.ours {
			b.Num_pkts = 0 // so that empty is right until the kernel begins it again
			atomic.StoreUint32(&b.Block_status, unix.TP_STATUS_KERNEL)
			r.ours = false
			r.at = (r.at + blockSize) % len(r.mem)
			continue
		}
		if atomic.LoadUint32(&b.Block_status)&unix.TP_STATUS_USER == 0 {
			return false
		}
		r.ours, r.unread, r.next = true, b.Num_pkts, b.Offset_to_first_pkt
	}
	return true
}

// empty says whether nothing has arrived that take does not give.
func (r *ring) empty() bool { return !r.take() && atomic.LoadUint32(&r.block().Num_pkts) == 0 }

// packet returns the next packet. There must be one.
func (r *ring) packet() (h *unix.Tpacket3Hdr, link *unix.RawSockaddrLinklayer, data []byte) {
	lies := r.mem[r.at+int(r.next) : r.at+blockSize : r.at+blockSize]
	h = (*unix.Tpacket3Hdr)(unsafe.Pointer(unsafe.SliceData(lies)))
	link = (*unix.RawSockaddrLinklayer)(unsafe.Pointer(&lies[linkOffset]))
	r.unread--
	r.next += h.Next_offset
	return h, link, lies[h.Mac-tagLen:][:tagLen+h.Snaplen]
}
