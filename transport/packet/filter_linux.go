package packet

// The filter of a packet port: a classic BPF program that the kernel runs on every packet of the
// interface, so that only ours are copied into the ring.
//
//	to this host, or multicast        not what we sent ourselves, nor what a switch flooded
//	no VLAN, or VLAN 0                a VLAN is an interface of its own; 0 only carries a priority
//	IP, UDP, port 4791, no fragment   (and IHL 5: RoCEv2 has no IP options)
//	our address, or a group joined
//
// Offsets count from the Ethernet header, which a packet socket is shown: counted from the IP
// header (SKF_NET_OFF) each load would be a call of a function. The kernel has taken a VLAN tag out
// by then, so the IP header has one place.

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport/internal/ether"
	"github.com/goroce/goroce/wire"
)

// Where classic BPF finds what is not in the packet (linux/filter.h).
const (
	skfAD        = -0x1000 // SKF_AD_OFF
	skfProtocol  = skfAD + 0
	skfPktType   = skfAD + 4
	skfVLANTag   = skfAD + 44
	skfVLANThere = skfAD + 48
)

// maxFilter is how many addresses and groups of an IP version the filter tells apart; with more it
// lets all to our port through, and the engine drops what is for others. Jumps of classic BPF reach
// 255 instructions, an IPv6 address takes 8.
const maxFilter = 16

// bpf is a program in the making. Its jumps to the end are set when the end is known.
type bpf struct {
	code []unix.SockFilter
	exit []int // instructions whose jump on "false" leads to the refusal at the end
}

const (
	bpfByte = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
	bpfHalf = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
	bpfWord = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	bpfIs   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	bpfHas  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	bpfRet  = unix.BPF_RET | unix.BPF_K
)

func (p *bpf) add(code uint16, k int, jt, jf uint8) {
	p.code = append(p.code, unix.SockFilter{Code: code, K: uint32(k), Jt: jt, Jf: jf})
}

// require goes on if the field is one of the values.
func (p *bpf) require(load uint16, field int, values ...int) {
	p.add(load, field, 0, 0)
	for left := len(values) - 1; left > 0; left-- {
		p.add(bpfIs, values[len(values)-1-left], uint8(left), 0)
	}
	p.exit = append(p.exit, len(p.code))
	p.add(bpfIs, values[len(values)-1], 0, 0)
}

// refuse goes on if the field has none of the bits.
func (p *bpf) refuse(load uint16, field, bits int) {
	p.add(load, field, 0, 0)
	p.add(bpfHas, bits, 0, 1)
	p.add(bpfRet, 0, 0, 0)
}

// acceptAddress ends the program with success if the destination is addr, and goes on otherwise.
func (p *bpf) acceptAddress(addr wire.GID, at int) {
	words := addr[:]
	if addr.Is4() {
		words = addr[12:]
	}
	for left := len(words) / 4; left > 0; left-- {
		p.add(bpfWord, at, 0, 0)
		p.add(bpfIs, int(binary.BigEndian.Uint32(words)), 0, uint8(2*left-1))
		words, at = words[4:], at+4
	}
	p.add(bpfRet, 1<<30, 0, 0) // all of the packet
}

// finish appends the refusal and returns the program.
func (p *bpf) finish() []unix.SockFilter {
	end := len(p.code)
	p.add(bpfRet, 0, 0, 0)
	for _, i := range p.exit {
		p.code[i].Jf = uint8(end - i - 1)
	}
	return p.code
}

// filter lets RoCE packets to our addresses and groups pass.
func filter(addrs, groups []wire.GID) []unix.SockFilter {
	var p bpf
	p.require(bpfWord, skfPktType, unix.PACKET_HOST, unix.PACKET_MULTICAST)
	p.add(bpfWord, skfVLANThere, 0, 0)
	p.add(bpfIs, 0, 3, 0)
	p.refuse(bpfWord, skfVLANTag, 0xfff)
	// The part of IPv4 is a program of its own, which ends in accepting or refusing; that of IPv6
	// is behind it, further away than a jump with a condition reaches.
	var v4 bpf
	v4.require(bpfByte, ether.HeaderLen, 0x45)
	v4.require(bpfByte, ether.HeaderLen+9, unix.IPPROTO_UDP)
	v4.refuse(bpfHalf, ether.HeaderLen+6, 0x3fff) // more fragments, and the offset
	v4.require(bpfHalf, ether.HeaderLen+22, wire.UDPPort)
	v4.acceptDestinations(ether.HeaderLen+16, true, addrs, groups)
	four := v4.finish()
	p.add(bpfWord, skfProtocol, 0, 0)
	p.add(bpfIs, unix.ETH_P_IP, 1, 0)
	p.add(unix.BPF_JMP|unix.BPF_JA, len(four), 0, 0)
	p.code = append(p.code, four...)
	p.require(bpfWord, skfProtocol, unix.ETH_P_IPV6)
	p.require(bpfByte, ether.HeaderLen+6, unix.IPPROTO_UDP)
	p.require(bpfHalf, ether.HeaderLen+42, wire.UDPPort)
	p.acceptDestinations(ether.HeaderLen+24, false, addrs, groups)
	return p.finish()
}

// acceptDestinations accepts our addresses, which are rarely many, and the groups, of an IP
// version.
func (p *bpf) acceptDestinations(at int, four bool, addrs, groups []wire.GID) {
	of := func(list []wire.GID) (some []wire.GID) {
		for _, g := range list {
			if g.Is4() == four {
				some = append(some, g)
			}
		}
		return some
	}
	addrs, groups = of(addrs), of(groups)
	if len(addrs) > maxFilter {
		p.add(bpfRet, 1<<30, 0, 0)
		return
	}
	for _, a := range addrs {
		p.acceptAddress(a, at)
	}
	if len(addrs)+len(groups) <= maxFilter {
		for _, g := range groups {
			p.acceptAddress(g, at)
		}
		return
	}
	p.add(bpfByte, at, 0, 0)
	if four {
		p.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf0, 0, 0)
		p.add(bpfIs, 0xe0, 0, 1)
	} else {
		p.add(bpfIs, 0xff, 0, 1)
	}
	p.add(bpfRet, 1<<30, 0, 0)
}
