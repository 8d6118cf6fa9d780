package host

// Classic BPF: the program that chooses a lane, and how sockets get programs.

import (
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// OwnerProgram chooses one of the lanes of one of several owners by the bits of BTH.DestQP
// (wire.QPNSpace): owners and lanes are powers of two, and lane j of owner i is number i*lanes+j. A
// packet that is too short is number 0's. It reads a packet from BTH on.
func OwnerProgram(owners, lanes int) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: transport.DestQPLow - 1},
		{Code: unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K, K: wire.OwnerShift},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: uint32(owners - 1)},
		{Code: unix.BPF_ALU | unix.BPF_MUL | unix.BPF_K, K: uint32(lanes)},
		{Code: unix.BPF_MISC | unix.BPF_TAX},
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: transport.DestQPLow},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: uint32(lanes - 1)},
		{Code: unix.BPF_ALU | unix.BPF_ADD | unix.BPF_X},
		{Code: unix.BPF_RET | unix.BPF_A},
	}
}

// LaneProgram chooses one of the lanes, a power of two, by the low bits of BTH.DestQP; bth is where
// the BTH begins. A packet that is too short for that is for lane 0.
func LaneProgram(bth, lanes int) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: uint32(bth + transport.DestQPLow)},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: wire.QPNSpace{}.Lane(0, lanes).Mask},
		{Code: unix.BPF_RET | unix.BPF_A},
	}
}

// DropAll is the program of a socket that shall receive nothing.
var DropAll = []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}

// AttachFilter has a program decide what a socket receives; an earlier one is replaced.
func AttachFilter(fd int, program []unix.SockFilter) error {
	return SetProgram(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, program)
}

// SetProgram sets an option of a socket that is a program.
func SetProgram(fd, level, opt int, program []unix.SockFilter) error {
	return unix.SetsockoptSockFprog(fd, level, opt, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
}
