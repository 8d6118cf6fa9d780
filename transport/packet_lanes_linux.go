// Several rings for one address: the packet sockets form a fanout group, in which a classic BPF program chooses the one that
// gets a packet, before the filter of that one decides whether it is ours at all.

package transport

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

// steer makes the lanes' sockets a fanout group; p is the first. They are numbered in the order in which they join.
func (p *packetPort) steer() error {
	const how = unix.PACKET_FANOUT_CBPF | unix.PACKET_FANOUT_FLAG_IGNORE_OUTGOING
	arg := (how | unix.PACKET_FANOUT_FLAG_UNIQUEID) << 16 // the kernel chooses a number that nobody has
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
	code := laneOfPacket(p.addr.Is4(), len(p.lanes))
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if err := unix.SetsockoptSockFprog(p.rx, unix.SOL_PACKET, unix.PACKET_FANOUT_DATA, &program); err != nil {
		return p.noFanout(err)
	}
	return nil
}

// laneOfPacket is the program: the low bits of BTH.DestQP in any packet of the interface. What is too short for that is not
// ours, and goes to lane 0, which refuses it. Steering comes before the Ethernet header is put back in front.
func laneOfPacket(ip4 bool, lanes int) []unix.SockFilter {
	bth := skfNet + wire.Head6Len
	if ip4 {
		bth = skfNet + wire.Head4Len
	}
	var p bpf
	p.add(bpfByte, bth+destQPLow, 0, 0)
	p.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, lanes-1, 0, 0)
	p.add(unix.BPF_RET|unix.BPF_A, 0, 0, 0)
	return p.code
}

// skfNet is where a filter finds the IP header (SKF_NET_OFF in linux/filter.h).
const skfNet = -0x100000

func (p *packetPort) noFanout(err error) error {
	return p.fail(fmt.Sprintf("this kernel can not steer packets to %d lanes (PACKET_FANOUT_CBPF): open one lane, or udp:%v", len(p.lanes), p.addr), err)
}
