//go:build linux

package stage

// The marks of a switch: a program on the way out of an interface that sets "congestion
// experienced" on packets of ECN-capable transports, as switches of RoCE networks do (RED on the
// instantaneous queue): never below a length of the queue, always above another, and between the
// two with a probability that grows to a greatest value.
//
// There are qdiscs that mark (red, codel), but kernels of small virtual machines often lack them,
// and have the token bucket and eBPF. The program keeps account of the queue in front of the
// bucket: the same packets go in, and they go out at the same rate, so that it knows when the last
// of them will have left. It needs no look at the queue itself, which the kernel would not allow.

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Queue is a bottleneck's.
type Queue struct {
	Rate     uint64  // bits per second
	MarkFrom int     // bytes that wait before the first mark
	MarkAll  int     // bytes that wait from which everything is marked; 0: nothing ever is
	MarkMost float64 // probability of a mark just below MarkAll, 0..1
	Limit    int     // bytes that may wait; what comes then is lost
}

// wait is how long so many bytes take to leave.
func (q *Queue) wait(bytes int) time.Duration {
	return time.Duration(float64(bytes) * 8e9 / float64(q.Rate))
}

// marker is the attached program with its memory: three numbers.
type marker struct {
	memory  *ebpf.Map
	program *ebpf.Program
}

// Offsets in the marker's memory.
const (
	emptyAt    = 0  // when the last packet will have left, in nanoseconds of the monotonic clock
	marked     = 8  // packets that were marked
	unmarkable = 16 // packets that would have been but belong to no ECN-capable transport
	memorySize = 24
)

// attachMarker puts a marker on the interface, in the calling thread's namespace. It is gone with
// the interface.
func attachMarker(iface int, q Queue) (m *marker, err error) {
	m = &marker{}
	if m.memory, err = ebpf.NewMap(&ebpf.MapSpec{
		Name:       "bench_queue",
		Type:       ebpf.Array,
		KeySize:    4,
		ValueSize:  memorySize,
		MaxEntries: 1,
	}); err != nil {
		return nil, fmt.Errorf("memory of the marker: %w", err)
	}
	if m.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{Name: "bench_marker", Type: ebpf.SchedCLS,
		License: "Dual MIT/GPL", Instructions: q.instructions(m.memory.FD())}); err != nil {
		m.close()
		return nil, fmt.Errorf("loading the marker: %w", err)
	}
	handle := netlink.MakeHandle(0xffff, 0)
	clsact := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: iface,
		Handle:    handle,
		Parent:    netlink.HANDLE_CLSACT,
	}}
	if err = netlink.QdiscAdd(clsact); err == nil {
		err = netlink.FilterAdd(&netlink.BpfFilter{Fd: m.program.FD(), Name: "bench_marker", DirectAction: true,
			FilterAttrs: netlink.FilterAttrs{
				LinkIndex: iface,
				Parent:    netlink.HANDLE_MIN_EGRESS,
				Handle:    1,
				Protocol:  unix.ETH_P_ALL,
				Priority:  1,
			}})
	}
	if err != nil {
		m.close()
		return nil, fmt.Errorf("attaching the marker: %w", err)
	}
	return m, nil
}

func (m *marker) close() {
	if m.program != nil {
		m.program.Close()
	}
	m.memory.Close()
}

// instructions of the marker. R6 is the packet, R7 now, R8 the memory, R9 how long the queue is, in
// nanoseconds.
func (q *Queue) instructions(memory int) asm.Instructions {
	from, all := q.wait(q.MarkFrom).Nanoseconds(), q.wait(q.MarkAll).Nanoseconds()
	// slope is that of the probability, in 2^-32 a nanosecond.
	slope := int64(q.MarkMost * (1 << 32) / float64(all-from))
	const lengthOfPacket = 0 // in struct __sk_buff
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.LoadMapValue(asm.R8, memory, 0),

		// The queue is empty at the earliest now; this packet makes it longer.
		asm.LoadMem(asm.R9, asm.R8, emptyAt, asm.DWord),
		asm.JGE.Reg(asm.R9, asm.R7, "waiting"),
		asm.Mov.Reg(asm.R9, asm.R7),
		asm.LoadMem(asm.R1, asm.R6, lengthOfPacket, asm.Word).WithSymbol("waiting"),
		asm.LoadImm(asm.R2, 8e9, asm.DWord),
		asm.Mul.Reg(asm.R1, asm.R2),
		asm.LoadImm(asm.R2, int64(q.Rate), asm.DWord),
		asm.Div.Reg(asm.R1, asm.R2),
		asm.Add.Reg(asm.R9, asm.R1),
		asm.StoreMem(asm.R8, emptyAt, asm.R9, asm.DWord),
		asm.Sub.Reg(asm.R9, asm.R7),

		// To mark or not.
		asm.LoadImm(asm.R1, from, asm.DWord),
		asm.JLT.Reg(asm.R9, asm.R1, "pass"),
		asm.Sub.Reg(asm.R9, asm.R1),
		asm.LoadImm(asm.R1, all-from, asm.DWord),
		asm.JGE.Reg(asm.R9, asm.R1, "mark"),
		asm.FnGetPrandomU32.Call(),
		asm.LoadImm(asm.R1, slope, asm.DWord),
		asm.Mul.Reg(asm.R9, asm.R1),
		asm.JGE.Reg(asm.R0, asm.R9, "pass"),

		asm.Mov.Reg(asm.R1, asm.R6).WithSymbol("mark"),
		asm.FnSkbEcnSetCe.Call(),
		asm.Mov.Imm(asm.R1, 1),
		asm.JEq.Imm(asm.R0, 0, "unmarkable"),
		asm.AddAtomic.Mem(asm.R8, asm.R1, asm.DWord, marked),
		asm.Ja.Label("pass"),
		asm.AddAtomic.Mem(asm.R8, asm.R1, asm.DWord, unmarkable).WithSymbol("unmarkable"),

		asm.Mov.Imm(asm.R0, int32(netlink.TC_ACT_OK)).WithSymbol("pass"),
		asm.Return(),
	}
}

// counts tells how many packets were marked, and how many could not be.
func (m *marker) counts() (yes, no uint64, err error) {
	var v [3]uint64
	err = m.memory.Lookup(uint32(0), &v)
	return v[marked/8], v[unmarkable/8], err
}
