package packet

// Several rings for one address: the packet sockets form a fanout group, in which a classic BPF
// program chooses the one that gets a packet, before the filter of that one decides whether it is
// ours at all.

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// steer makes the lanes' sockets a fanout group; p is the first. They are numbered in the order in
// which they join.
func (p *port) steer() error {
	const how = unix.PACKET_FANOUT_CBPF | unix.PACKET_FANOUT_FLAG_IGNORE_OUTGOING
	// The kernel chooses a number that nobody has.
	arg := (how | unix.PACKET_FANOUT_FLAG_UNIQUEID) << 16
	for _, lane := range p.lanes {
		if err := unix.SetsockoptInt(lane.rx, unix.SOL_PACKET, unix.PACKET_FANOUT, arg); err != nil {
			return p.noFanout(err)
		}
		if lane == p {
			id, err := unix.GetsockoptInt(p.rx, unix.SOL_PACKET, unix.PACKET_FANOUT)
			if err != nil {
				return p.noFanout(err)
			}
			arg = how<<16 | id&0xffff
		}
	}
	program := laneProgram(len(p.lanes))
	if err := host.SetProgram(p.rx, unix.SOL_PACKET, unix.PACKET_FANOUT_DATA, program); err != nil {
		return p.noFanout(err)
	}
	return nil
}

// laneProgram finds the BTH of any packet of the interface from the IP header on: steering comes
// before the Ethernet header is put back in front. What is too short to have one is not ours, and
// lane 0 refuses it.
func laneProgram(lanes int) []unix.SockFilter {
	const ipHeader = -0x100000 // SKF_NET_OFF in linux/filter.h
	v4, v6 := host.LaneProgram(ipHeader+wire.Head4Len, lanes), host.LaneProgram(ipHeader+wire.Head6Len, lanes)
	start := ipHeader // its first byte begins with the IP version
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: uint32(start)},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0x60, Jt: uint8(len(v4))},
	}
	return append(append(program, v4...), v6...)
}

func (p *port) noFanout(err error) error {
	return p.Fail(fmt.Sprintf("this kernel can not steer packets to %d lanes (PACKET_FANOUT_CBPF): open one "+
		"lane, or udp:%v", len(p.lanes), p.Addr), err)
}
