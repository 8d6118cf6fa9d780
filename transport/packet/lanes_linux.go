package packet

// Which ring a packet comes to: the packet sockets of an address, two of each lane, form a fanout
// group, in which a classic BPF program chooses the one that gets a packet, before the filter of
// that one decides whether it is ours at all.
//
//	lane  the low bits of BTH.DestQP
//	ring  whether the packet fits into a short slot
//
// On a veth pair this adds a twentieth to what a packet alone costs its sender in the kernel. Two
// sockets without a group, each of which is shown each packet and has a filter for lengths, added a
// tenth.

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// steer makes the lanes' sockets a fanout group; p is the first. They are numbered in the order in
// which they join. When the interface goes down the kernel takes all of them out, and when it is up
// again puts them back in the order in which they were made: so they were made in that order.
func (p *port) steer() error {
	const how = unix.PACKET_FANOUT_CBPF | unix.PACKET_FANOUT_FLAG_IGNORE_OUTGOING
	// The kernel chooses a number that nobody has.
	arg := (how | unix.PACKET_FANOUT_FLAG_UNIQUEID) << 16
	short := longSlot
	for _, lane := range p.lanes {
		short = min(short, lane.recv.rings.shortest()) // the MTU may have changed meanwhile
		for _, fd := range lane.rx {
			err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_FANOUT, arg)
			if err != nil && fd == p.rx[0] && len(p.lanes) == 1 {
				// A kernel that knows no groups, or (6.12) none while the interface is down.
				p.oneRing = true
				p.Degrade("short ring", "packets that come alone have room for 240: bursts of them may be lost", err)
				return nil
			}
			if err != nil {
				return p.noFanout(err)
			}
			if fd != p.rx[0] {
				continue
			}
			id, err := unix.GetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_FANOUT)
			if err != nil {
				return p.noFanout(err)
			}
			arg = how<<16 | id&0xffff
		}
	}
	program := ringProgram(len(p.lanes), short-ipAt)
	if err := host.SetProgram(p.rx[0], unix.SOL_PACKET, unix.PACKET_FANOUT_DATA, program); err != nil {
		return p.noFanout(err)
	}
	return nil
}

// ringProgram chooses a socket: of lane i, number 2i is for IP packets that are at most short bytes
// long, 2i+1 for the others. A packet begins with its IP header here: steering comes before the
// Ethernet header is put back in front. What is too short to have a BTH is not ours, and number 0
// refuses it.
func ringProgram(lanes, short int) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: bpfByte, K: 0}, // begins with the IP version
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf0},
		{Code: bpfIs, K: 0x60, Jt: 2},
		{Code: bpfByte, K: wire.Head4Len + transport.DestQPLow},
		{Code: unix.BPF_JMP | unix.BPF_JA, K: 1},
		{Code: bpfByte, K: wire.Head6Len + transport.DestQPLow},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: uint32(lanes - 1)},
		{Code: unix.BPF_ALU | unix.BPF_LSH | unix.BPF_K, K: 1},
		{Code: unix.BPF_MISC | unix.BPF_TAX},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_LEN},
		{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: uint32(short), Jt: 2},
		{Code: unix.BPF_MISC | unix.BPF_TXA},
		{Code: unix.BPF_RET | unix.BPF_A},
		{Code: unix.BPF_MISC | unix.BPF_TXA},
		{Code: unix.BPF_ALU | unix.BPF_ADD | unix.BPF_K, K: 1},
		{Code: unix.BPF_RET | unix.BPF_A},
	}
}

func (p *port) noFanout(err error) error {
	return p.Fail(fmt.Sprintf("this kernel can not steer packets to several rings (PACKET_FANOUT_CBPF): "+
		"use udp:%v", p.Addr), err)
}
