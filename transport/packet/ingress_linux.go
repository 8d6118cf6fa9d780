package packet

// What a packet port has received need not go on to the kernel's own stack, where nobody wants it:
// a program at the interface's ingress, behind the packet sockets, ends it there. On a veth pair
// the sender runs the receiver's kernel on its own time, so this is up to a fifth of what a packet
// costs it.
//
//	to this host, no VLAN
//	IPv4 without options, no fragment, or IPv6 without extension headers
//	UDP, port 4791, our address
//
// Anything else passes. Each port has a program of its own; an interface takes several (TCX, Linux
// 6.6). It is attached by a bpf_link, which ends with the file descriptor, so with the process,
// however that ends.

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport/internal/ether"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// Offsets in struct __sk_buff and results of a program (linux/bpf.h).
const (
	skBuffPktType     = 4
	skBuffVLANPresent = 20
	skBuffData        = 76
	skBuffDataEnd     = 80
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
	s.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{Name: "roce_ingress", Type: ebpf.SchedCLS,
		AttachType: ebpf.AttachTCXIngress, License: "Dual MIT/GPL", Instructions: ingressInstructions(addr)})
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

// ingressInstructions reads the headers where they lie: a load by offset would be a call of a
// function. The kernel keeps headers in one piece; of a packet that has them otherwise nothing is
// known, and it passes.
func ingressInstructions(addr wire.GID) asm.Instructions {
	headers := ether.HeaderLen + wire.Head6Len
	if addr.Is4() {
		headers = ether.HeaderLen + wire.Head4Len
	}
	code := asm.Instructions{
		asm.LoadMem(asm.R0, asm.R1, skBuffPktType, asm.Word),
		asm.JNE.Imm(asm.R0, unix.PACKET_HOST, "pass"),
		asm.LoadMem(asm.R0, asm.R1, skBuffVLANPresent, asm.Word),
		asm.JNE.Imm(asm.R0, 0, "pass"),
		asm.LoadMem(asm.R2, asm.R1, skBuffData, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, skBuffDataEnd, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, int32(headers)),
		asm.JGT.Reg(asm.R4, asm.R3, "pass"),
	}
	octet := func(at int, want byte) {
		code = append(code, asm.LoadMem(asm.R0, asm.R2, int16(at), asm.Byte), asm.JNE.Imm(asm.R0, int32(want), "pass"))
	}
	half := func(at int, want uint16) { // in network order
		code = append(code, asm.LoadMem(asm.R0, asm.R2, int16(at), asm.Half),
			asm.JNE.Imm(asm.R0, int32(host.Htons(want)), "pass"))
	}
	words := func(at int, want []byte) {
		for ; len(want) > 0; want, at = want[4:], at+4 {
			code = append(code, asm.LoadMem(asm.R0, asm.R2, int16(at), asm.Word),
				asm.JNE.Imm32(asm.R0, int32(binary.NativeEndian.Uint32(want)), "pass"))
		}
	}
	if addr.Is4() {
		half(12, unix.ETH_P_IP)
		octet(ether.HeaderLen, 0x45)
		octet(ether.HeaderLen+9, unix.IPPROTO_UDP)
		// Fragments pass.
		code = append(code, asm.LoadMem(asm.R0, asm.R2, ether.HeaderLen+6, asm.Half),
			asm.And.Imm(asm.R0, int32(host.Htons(0x3fff))), asm.JNE.Imm(asm.R0, 0, "pass"))
		half(ether.HeaderLen+22, wire.UDPPort)
		words(ether.HeaderLen+16, addr[12:])
	} else {
		half(12, unix.ETH_P_IPV6)
		octet(ether.HeaderLen+6, unix.IPPROTO_UDP)
		half(ether.HeaderLen+42, wire.UDPPort)
		words(ether.HeaderLen+24, addr[:])
	}
	return append(code,
		asm.Mov.Imm(asm.R0, tcxDrop),
		asm.Return(),
		asm.Mov.Imm(asm.R0, tcxNext).WithSymbol("pass"),
		asm.Return(),
	)
}
