package xdp

// The XDP program of an interface: it runs on every packet before the IP stack sees it, hands ours
// to the AF_XDP socket of the queue that they came by, and lets everything else pass.
//
//	Ethernet, no VLAN or VLAN 0      a VLAN is an interface of its own; 0 only carries a priority
//	IPv4 without options, no fragment, or IPv6 without extension headers
//	UDP, port 4791
//	to one of our addresses          a map from GID, with the queues whose port it is; groups
//	                                 that are joined are in it too
//
// One instance serves all ports of this process on the interface: a port takes some queues, all or
// one, and adds its address. A second process can not attach another one.
//
// It is attached by a bpf_link. That ends with the file descriptor, so with the process, however
// the process ends.

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport/internal/ether"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

const (
	maxQueues    = 64   // queues of one interface that can have a socket: one bit each
	maxAddresses = 4096 // addresses and groups on one interface
)

// hook is the program on an interface, and what it looks up.
type hook struct {
	key     hookKey
	users   int                 // ports
	address map[wire.GID]uint64 // what is in the map wanted
	queues  [maxQueues]*port    // whose they are

	wanted  *ebpf.Map // GID → a bit for each queue whose port has this address
	sockets *ebpf.Map // queue → socket
	program *ebpf.Program
	link    link.Link

	generic   bool  // attached behind the driver, not in it
	nativeErr error // why
	frags     bool  // packets may have more than one buffer
}

type hookKey struct {
	namespace string // index numbers are unique in it
	index     int
}

// hooks are the hooks of this process.
var hooks = struct {
	sync.Mutex
	of map[hookKey]*hook
}{of: map[hookKey]*hook{}}

// mode says where a program may be attached, and whether the port has to be zero-copy. plain is for
// tests: the layout of memory that only zero-copy needs.
type mode struct{ native, generic, zeroCopy, plain bool }

// useHook returns the hook of an interface, a new one if there is none. Every user calls leave.
func useHook(index int, mode mode) (*hook, error) {
	namespace, _ := os.Readlink("/proc/thread-self/ns/net")
	key := hookKey{namespace, index}
	hooks.Lock()
	defer hooks.Unlock()
	h := hooks.of[key]
	if h == nil {
		h = &hook{key: key, address: map[wire.GID]uint64{}}
		if err := h.attach(mode); err != nil {
			h.detach()
			return nil, err
		}
		hooks.of[key] = h
	}
	h.users++
	return h, nil
}

func (h *hook) leave() {
	hooks.Lock()
	defer hooks.Unlock()
	if h.users--; h.users == 0 {
		delete(hooks.of, h.key)
		h.detach()
	}
}

func (h *hook) attach(mode mode) (err error) {
	if err := h.load(); err != nil {
		return err
	}
	if mode.native {
		err = h.attachAs(link.XDPDriverMode)
		if err == nil || errors.Is(err, unix.EBUSY) || !mode.generic {
			return err
		}
		h.nativeErr = err
	}
	h.generic = true
	return h.attachAs(link.XDPGenericMode)
}

func (h *hook) attachAs(mode link.XDPAttachFlags) (err error) {
	h.link, err = link.AttachXDP(link.XDPOptions{Program: h.program, Interface: h.key.index, Flags: mode})
	return err
}

// load makes maps and program without attaching them.
func (h *hook) load() (err error) {
	if h.wanted, err = ebpf.NewMap(&ebpf.MapSpec{Name: "roce_addresses", Type: ebpf.Hash, KeySize: 16, ValueSize: 8,
		MaxEntries: maxAddresses}); err != nil {
		return fmt.Errorf("map of addresses: %w", err)
	}
	if h.sockets, err = ebpf.NewMap(&ebpf.MapSpec{Name: "roce_sockets", Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4,
		MaxEntries: maxQueues}); err != nil {
		return fmt.Errorf("map of AF_XDP sockets: %w", err)
	}
	if h.program, h.frags, err = loadProgram(h.wanted, h.sockets); err != nil {
		return fmt.Errorf("loading the XDP program: %w", err)
	}
	return nil
}

func (h *hook) detach() {
	if h.link != nil {
		h.link.Close()
	}
	if h.program != nil {
		h.program.Close()
	}
	for _, m := range []*ebpf.Map{h.wanted, h.sockets} {
		if m != nil {
			m.Close()
		}
	}
}

// admit has packets to an address or group redirected to the port, or no longer.
func (h *hook) admit(gid wire.GID, owner *port, in bool) error {
	hooks.Lock()
	defer hooks.Unlock()
	if in {
		return h.setAddress(gid, h.address[gid]|h.queuesOf(owner))
	}
	return h.setAddress(gid, h.address[gid]&^h.queuesOf(owner))
}

func (h *hook) setAddress(gid wire.GID, queues uint64) error {
	if queues == 0 {
		delete(h.address, gid)
		return h.wanted.Delete(gid)
	}
	h.address[gid] = queues
	return h.wanted.Put(gid, queues)
}

// queuesOf has a bit set for each queue of a port.
func (h *hook) queuesOf(owner *port) (bits uint64) {
	for q := range h.queues {
		if h.queues[q] == owner {
			bits |= 1 << q
		}
	}
	return bits
}

// claim reserves queues for a port: a queue can have only one socket that all packets of it go to.
func (h *hook) claim(queues []int, owner *port) error {
	hooks.Lock()
	defer hooks.Unlock()
	for _, q := range queues {
		if other := h.queues[q]; other != nil {
			return fmt.Errorf("queue %d belongs to %s", q, other.Name)
		}
	}
	for _, q := range queues {
		h.queues[q] = owner
	}
	return nil
}

// addSocket has our packets of a queue go to a bound socket.
func (h *hook) addSocket(queue, fd int) error { return h.sockets.Put(uint32(queue), uint32(fd)) }

// release gives up the queues of a port and its addresses. It comes before the sockets are closed:
// until then packets go to them, afterwards they pass.
func (h *hook) release(owner *port) {
	hooks.Lock()
	defer hooks.Unlock()
	mine := h.queuesOf(owner)
	for gid, queues := range h.address {
		if queues&mine != 0 {
			h.setAddress(gid, queues&^mine)
		}
	}
	for q := range h.queues {
		if h.queues[q] == owner {
			h.queues[q] = nil
			h.sockets.Delete(uint32(q)) // an error says that it was not in
		}
	}
}

// loadProgram loads the program, for packets of several buffers if the kernel can (5.18).
func loadProgram(wanted, sockets *ebpf.Map) (p *ebpf.Program, frags bool, err error) {
	const hasFrags = 1 << 5 // BPF_F_XDP_HAS_FRAGS
	spec := &ebpf.ProgramSpec{Name: "roce", Type: ebpf.XDP, AttachType: ebpf.AttachXDP, License: "Dual MIT/GPL",
		Instructions: instructions(wanted.FD(), sockets.FD()), Flags: hasFrags}
	if p, err = ebpf.NewProgram(spec); err == nil {
		return p, true, nil
	}
	if errors.Is(err, unix.EINVAL) {
		spec.Flags = 0
		if p, err := ebpf.NewProgram(spec); err == nil {
			return p, false, nil
		}
	}
	return nil, false, err
}

// Registers of the program.
const (
	rPacket  = asm.R2 // start of the Ethernet header, 4 later if there is a VLAN tag
	rEnd     = asm.R3 // of what the program may look at
	rProbe   = asm.R4
	rField   = asm.R5
	rContext = asm.R6 // struct xdp_md
)

// Offsets in struct xdp_md and results of a program (linux/bpf.h).
const (
	mdData     = 0
	mdDataEnd  = 4
	mdQueue    = 16
	actionPass = 2
)

// gidOnStack is where the program builds the key of the address map.
const gidOnStack = -16

// instructions is the program. Fields are loaded in the byte order of the network and compared with
// constants in that order: htons. A label names what has been proven when a jump arrives there.
func instructions(wanted, sockets int) asm.Instructions {
	return concat(frameHeader(), ipv4Header(), ipv6Header(), lookup(wanted, sockets))
}

// frameHeader goes on behind the Ethernet header, to "ipv6" for that.
func frameHeader() asm.Instructions {
	return concat(
		asm.Instructions{
			asm.Mov.Reg(rContext, asm.R1),
			asm.LoadMem(rPacket, rContext, mdData, asm.Word),
			asm.LoadMem(rEnd, rContext, mdDataEnd, asm.Word),
		},
		within(ether.HeaderLen),
		asm.Instructions{
			asm.LoadMem(rField, rPacket, 12, asm.Half),
			asm.JNE.Imm(rField, int32(host.Htons(unix.ETH_P_8021Q)), "untagged"),
		},
		within(ether.HeaderLen+ether.VLANLen),
		asm.Instructions{
			asm.LoadMem(rField, rPacket, ether.HeaderLen, asm.Half),
			asm.And.Imm(rField, int32(host.Htons(0xfff))),
			asm.JNE.Imm(rField, 0, "pass"),
			asm.LoadMem(rField, rPacket, ether.HeaderLen+2, asm.Half),
			asm.Add.Imm(rPacket, ether.VLANLen),

			asm.JEq.Imm(rField, int32(host.Htons(unix.ETH_P_IPV6)), "ipv6").WithSymbol("untagged"),
			asm.JNE.Imm(rField, int32(host.Htons(unix.ETH_P_IP)), "pass"),
		},
	)
}

// ipv4Header leaves the destination on the stack, as a GID.
func ipv4Header() asm.Instructions {
	return concat(
		within(ether.HeaderLen+wire.Head4Len),
		require(ether.HeaderLen, asm.Byte, 0x45),
		asm.Instructions{
			asm.LoadMem(rField, rPacket, ether.HeaderLen+6, asm.Half),
			asm.And.Imm(rField, int32(host.Htons(0x3fff))), // more fragments, and the offset
			asm.JNE.Imm(rField, 0, "pass"),
		},
		require(ether.HeaderLen+9, asm.Byte, unix.IPPROTO_UDP),
		require(ether.HeaderLen+22, asm.Half, int32(host.Htons(wire.UDPPort))),
		asm.Instructions{
			asm.StoreImm(asm.RFP, gidOnStack, 0, asm.Word), // ::ffff:a.b.c.d
			asm.StoreImm(asm.RFP, gidOnStack+4, 0, asm.Word),
			asm.StoreImm(asm.RFP, gidOnStack+8, 0, asm.Half),
			asm.StoreImm(asm.RFP, gidOnStack+10, 0xffff, asm.Half),
			asm.LoadMem(rField, rPacket, ether.HeaderLen+16, asm.Word),
			asm.StoreMem(asm.RFP, gidOnStack+12, rField, asm.Word),
			asm.Ja.Label("lookup"),
		},
	)
}

// ipv6Header does the same.
func ipv6Header() asm.Instructions {
	return concat(
		labelled("ipv6", within(ether.HeaderLen+wire.Head6Len)),
		require(ether.HeaderLen+6, asm.Byte, unix.IPPROTO_UDP),
		require(ether.HeaderLen+42, asm.Half, int32(host.Htons(wire.UDPPort))),
		copyToStack(ether.HeaderLen+24, gidOnStack, 16),
	)
}

// lookup redirects the packet if its destination is wanted of the queue that it came by.
func lookup(wanted, sockets int) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, wanted).WithSymbol("lookup"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, gidOnStack),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.LoadMem(rField, asm.R0, 0, asm.DWord),
		asm.LoadMem(asm.R2, rContext, mdQueue, asm.Word),
		asm.JGE.Imm(asm.R2, maxQueues, "pass"),
		asm.RSh.Reg(rField, asm.R2),
		asm.And.Imm(rField, 1),
		asm.JEq.Imm(rField, 0, "pass"),

		asm.LoadMapPtr(asm.R1, sockets),
		asm.Mov.Imm(asm.R3, actionPass), // for a queue without a socket
		asm.FnRedirectMap.Call(),
		asm.Return(),

		asm.Mov.Imm(asm.R0, actionPass).WithSymbol("pass"),
		asm.Return(),
	}
}

// within passes packets of less than n bytes. The kernel's verifier wants to see it before any
// load.
func within(n int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(rProbe, rPacket),
		asm.Add.Imm(rProbe, n),
		asm.JGT.Reg(rProbe, rEnd, "pass"),
	}
}

// require passes packets that have another value in a field.
func require(offset int16, size asm.Size, value int32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(rField, rPacket, offset, size),
		asm.JNE.Imm(rField, value, "pass"),
	}
}

// copyToStack copies n bytes of the packet, a multiple of 4.
func copyToStack(from, to int16, n int16) (code asm.Instructions) {
	for i := int16(0); i < n; i += 4 {
		code = append(code, asm.LoadMem(rField, rPacket, from+i, asm.Word),
			asm.StoreMem(asm.RFP, to+i, rField, asm.Word))
	}
	return code
}

func labelled(name string, code asm.Instructions) asm.Instructions {
	code[0] = code[0].WithSymbol(name)
	return code
}

func concat(parts ...asm.Instructions) (all asm.Instructions) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
