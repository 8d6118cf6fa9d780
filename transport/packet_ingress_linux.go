// What a packet port has received need not go on to the kernel's own stack, where nobody wants it: a program at the
// interface's ingress, behind the packet sockets, ends it there. On a veth pair the sender runs the receiver's kernel on its
// own time, so this is up to a fifth of what a packet costs it.
//
//	to this host, no VLAN
//	IPv4 without options, no fragment, or IPv6 without extension headers
//	UDP, port 4791, our address
//
// Anything else passes. Each port has a program of its own; an interface takes several (TCX, Linux 6.6). It is attached by a
// bpf_link, which ends with the file descriptor, so with the process, however that ends.

package transport

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

// Offsets in struct __sk_buff and results of a program (linux/bpf.h).
const (
	skBuffPktType     = 4
	skBuffVLANPresent = 20
	tcxNext           = -1
	tcxDrop           = 2
)

// ingressStop is the program on an interface.
type ingressStop struct {
	program *ebpf.Program
	link    link.Link
}

// open attaches a program that ends packets to an address. It takes CAP_BPF and CAP_NET_ADMIN.
func (s *ingressStop) open(iface int, addr wire.GID) (err error) {
	s.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{Name: "roce_ingress", Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXIngress,
		License: "Dual MIT/GPL", Instructions: ingressInstructions(addr)})
	if err != nil {
		return fmt.Errorf("loading it: %w", err)
	}
	s.link, err = link.AttachTCX(link.TCXOptions{Interface: iface, Program: s.program, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		s.close()
		return fmt.Errorf("attaching it: %w", err)
	}
	return nil
}

// close lets packets pass again. It may be called without open.
func (s *ingressStop) close() {
	if s.link != nil {
		s.link.Close()
	}
	if s.program != nil {
		s.program.Close()
	}
	*s = ingressStop{}
}

func ingressInstructions(addr wire.GID) asm.Instructions {
	code := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1), // where loads by offset expect the context
		asm.LoadMem(asm.R0, asm.R6, skBuffPktType, asm.Word),
		asm.JNE.Imm(asm.R0, unix.PACKET_HOST, "pass"),
		asm.LoadMem(asm.R0, asm.R6, skBuffVLANPresent, asm.Word),
		asm.JNE.Imm(asm.R0, 0, "pass"),
	}
	field := func(offset int32, size asm.Size, want uint32) {
		code = append(code, asm.LoadAbs(offset, size), asm.JNE.Imm32(asm.R0, int32(want), "pass"))
	}
	to := addr[:]
	if addr.Is4() {
		field(12, asm.Half, unix.ETH_P_IP)
		field(etherLen, asm.Byte, 0x45)
		field(etherLen+9, asm.Byte, unix.IPPROTO_UDP)
		code = append(code, asm.LoadAbs(etherLen+6, asm.Half), asm.And.Imm(asm.R0, 0x3fff), asm.JNE.Imm(asm.R0, 0, "pass")) // fragments
		field(etherLen+22, asm.Half, wire.UDPPort)
		field(etherLen+16, asm.Word, binary.BigEndian.Uint32(addr[12:]))
		to = nil
	} else {
		field(12, asm.Half, unix.ETH_P_IPV6)
		field(etherLen+6, asm.Byte, unix.IPPROTO_UDP)
		field(etherLen+42, asm.Half, wire.UDPPort)
	}
	for at := int32(etherLen + 24); len(to) > 0; to, at = to[4:], at+4 {
		field(at, asm.Word, binary.BigEndian.Uint32(to))
	}
	return append(code,
		asm.Mov.Imm(asm.R0, tcxDrop),
		asm.Return(),
		asm.Mov.Imm(asm.R0, tcxNext).WithSymbol("pass"),
		asm.Return(),
	)
}
