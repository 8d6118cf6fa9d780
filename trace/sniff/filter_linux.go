package sniff

// What the socket gets: RoCEv1, RoCEv2 and what still has a VLAN tag, each packet once. Two
// programs say the same. The classic one needs no privilege, and gives packets whole. The other
// one, which takes CAP_BPF, is for Options.Snap: it can tell a run from a packet, and packets of
// the connection manager from others. TestFilters goes through both.

import (
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

const (
	longest     = 1 << 18 // of a packet; runs have 64 KiB
	etherLen    = 14
	etherRoCEv1 = 0x8915
)

// wanted is what a filter depends on.
type wanted struct {
	ip       int  // where the IP header is; 0: there is no header below it
	loopback bool // each packet comes twice: as sent, and as received
	snap     int  // 0: all
}

// attach has the socket filter what the interface sees.
func attach(fd int, ifi *net.Interface, snap int) error {
	w := wanted{loopback: ifi.Flags&net.FlagLoopback != 0, snap: snap}
	if w.loopback || len(ifi.HardwareAddr) == 6 {
		w.ip = etherLen
	}
	if snap > 0 && w.attachSnap(fd) == nil {
		return nil
	}
	program := w.classic()
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
}

const (
	loadHalf = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
	loadByte = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
	jumpIs   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	give     = unix.BPF_RET | unix.BPF_K
	pktType  = 0xfffff000 + 4 // SKF_AD_OFF + SKF_AD_PKTTYPE
)

// classic is the program in classic BPF. Jumps count the instructions to pass over.
func (w *wanted) classic() (program []unix.SockFilter) {
	ip := uint32(w.ip)
	if w.loopback {
		program = []unix.SockFilter{
			{Code: loadByte, K: pktType},
			{Code: jumpIs, K: unix.PACKET_OUTGOING, Jf: 1},
			{Code: give, K: 0},
		}
	}
	if w.ip > 0 {
		program = append(program, []unix.SockFilter{
			{Code: loadHalf, K: ip - 2}, // EtherType
			{Code: jumpIs, K: etherRoCEv1, Jt: 14},
			{Code: jumpIs, K: unix.ETH_P_8021Q, Jt: 13},
			{Code: jumpIs, K: unix.ETH_P_8021AD, Jt: 12},
			{Code: jumpIs, K: unix.ETH_P_IPV6, Jt: 6},
			{Code: jumpIs, K: unix.ETH_P_IP, Jf: 9},
		}...)
	} else {
		program = append(program, []unix.SockFilter{
			{Code: loadByte, K: 0},
			{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf0}, // version
			{Code: jumpIs, K: 6 << 4, Jt: 6},
			{Code: jumpIs, K: 4 << 4, Jf: 9},
		}...)
	}
	return append(program, []unix.SockFilter{
		{Code: loadByte, K: ip + 9}, // IPv4: protocol
		{Code: jumpIs, K: unix.IPPROTO_UDP, Jf: 7},
		{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: ip},    // length of the IP header
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: ip + 2}, // destination port
		{Code: jumpIs, K: wire.UDPPort, Jt: 5, Jf: 4},
		{Code: loadByte, K: ip + 6}, // IPv6: next header
		{Code: jumpIs, K: unix.IPPROTO_UDP, Jf: 2},
		{Code: loadHalf, K: ip + 42}, // destination port
		{Code: jumpIs, K: wire.UDPPort, Jt: 1},
		{Code: give, K: 0},
		{Code: give, K: longest},
	}...)
}

// Offsets in struct __sk_buff (linux/bpf.h).
const (
	skBuffLen     = 0
	skBuffPktType = 4
	skBuffGSOSize = 176
)

// attachSnap attaches the program that cuts what Options.Snap says.
func (w *wanted) attachSnap(fd int) error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "roce_snap",
		Type:         ebpf.SocketFilter,
		License:      "Dual MIT/GPL",
		Instructions: w.instructions(),
	})
	if err != nil {
		return fmt.Errorf("loading it: %w", err)
	}
	defer p.Close()
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ATTACH_BPF, p.FD())
}

// instructions is the same program, of today's BPF, with an end that knows runs. Loads by offset
// read the packet, as in the classic one; they want the context in R6.
func (w *wanted) instructions() asm.Instructions {
	ip := int32(w.ip)
	program := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	if w.loopback {
		program = append(program, asm.LoadMem(asm.R0, asm.R6, skBuffPktType, asm.Word),
			asm.JEq.Imm(asm.R0, unix.PACKET_OUTGOING, "no"))
	}
	if w.ip > 0 {
		program = append(program,
			asm.LoadAbs(ip-2, asm.Half), // EtherType
			asm.JEq.Imm(asm.R0, etherRoCEv1, "yes"),
			asm.JEq.Imm(asm.R0, unix.ETH_P_8021Q, "yes"),
			asm.JEq.Imm(asm.R0, unix.ETH_P_8021AD, "yes"),
			asm.JEq.Imm(asm.R0, unix.ETH_P_IPV6, "six"),
			asm.JNE.Imm(asm.R0, unix.ETH_P_IP, "no"))
	} else {
		program = append(program,
			asm.LoadAbs(0, asm.Byte),
			asm.And.Imm(asm.R0, 0xf0), // version
			asm.JEq.Imm(asm.R0, 6<<4, "six"),
			asm.JNE.Imm(asm.R0, 4<<4, "no"))
	}
	return append(program,
		asm.LoadAbs(ip+9, asm.Byte), // IPv4: protocol
		asm.JNE.Imm(asm.R0, unix.IPPROTO_UDP, "no"),
		asm.LoadAbs(ip, asm.Byte),
		asm.And.Imm(asm.R0, 0x0f),
		asm.LSh.Imm(asm.R0, 2), // length of the IP header
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.LoadInd(asm.R0, asm.R7, ip+2, asm.Half), // destination port
		asm.JNE.Imm(asm.R0, wire.UDPPort, "no"),
		asm.Add.Imm(asm.R7, 8), // the BTH, from the IP header on
		asm.Ja.Label("bth"),
		asm.LoadAbs(ip+6, asm.Byte).WithSymbol("six"), // IPv6: next header
		asm.JNE.Imm(asm.R0, unix.IPPROTO_UDP, "no"),
		asm.LoadAbs(ip+42, asm.Half), // destination port
		asm.JNE.Imm(asm.R0, wire.UDPPort, "no"),
		asm.Mov.Imm(asm.R7, 48),
		asm.LoadMem(asm.R1, asm.R6, skBuffLen, asm.Word).WithSymbol("bth"),
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Add.Imm(asm.R2, ip+wire.BTHLen),
		asm.JLT.Reg(asm.R1, asm.R2, "yes"), // there is none, and a load would end all
		asm.LoadInd(asm.R0, asm.R7, ip+4, asm.Word),
		asm.And.Imm(asm.R0, int32(wire.QPNMask)),
		asm.JEq.Imm(asm.R0, int32(wire.GSIQPN), "whole"),
		asm.LoadMem(asm.R1, asm.R6, skBuffGSOSize, asm.Word).WithSymbol("yes"),
		asm.JNE.Imm(asm.R1, 0, "whole"), // a run
		asm.Mov.Imm(asm.R0, int32(w.snap)),
		asm.Return(),
		asm.Mov.Imm(asm.R0, longest).WithSymbol("whole"),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("no"),
		asm.Return(),
	)
}
