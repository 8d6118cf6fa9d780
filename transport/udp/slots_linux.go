package udp

// Several processes with one address. Whoever starts them, or one of them, binds all sockets and
// hands each process those of its slot:
//
//	MakeSlots ─┬─ slot 0: sockets of lanes 0, 1 …    the kernel steers by BTH.DestQP: the bits of
//	           ├─ slot 1                             the owner choose the slot, those of the lane
//	           └─ …                                  the socket (wire.QPNSpace)
//
// A process opens its slot (OpenSlot), and roce.Config.Ports makes a device of that. The kernel
// steers by the place that a socket has among those of its address, and one that nobody has any
// more gives its place to the last of them: then other slots would get its packets. So who made the
// slots keeps all of them until nobody uses any, as who starts processes and waits for them does;
// or each process is handed all, and keeps them. Then a slot whose process has ended can be opened
// by another one, too.
//
// Stages: a slot → making slots → opening one → what came before is dropped.
//
// Processes with slots of one address trust each other, as lanes do: each could change what the
// kernel steers by. Queue pair 1 is slot 0's; who has another needs rdmacm.Config.QP1 for RDMA CM.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// Slot is the part of one owner of addresses that several have.
type Slot struct {
	Addrs []netip.Addr // rows of the GID table
	// FDs are sockets, [row][lane], as MakeSlots has made them, bound to the address and UDP port.
	// Those of another slot or lane are refused by OpenSlot.
	FDs [][]int
	// QPNs are the numbers that are steered to them: bits of the owner only, lanes add theirs.
	QPNs wire.QPNSpace
}

// given tells whether there is a slot.
func (s *Slot) given() bool { return len(s.FDs) > 0 }

// copy is a descriptor of one of the slot's sockets.
func (s *Slot) copy(row, lane int) (fd int, err error) {
	return unix.FcntlInt(uintptr(s.FDs[row][lane]), unix.F_DUPFD_CLOEXEC, 0)
}

// Close closes the slot's descriptors, not those of its ports or of other processes. As long as
// another slot of the same addresses is used, somebody must have kept one of each socket.
func (s *Slot) Close() error {
	var errs []error
	for _, lanes := range s.FDs {
		for i, fd := range lanes {
			if fd >= 0 {
				errs = append(errs, unix.Close(fd))
				lanes[i] = -1
			}
		}
	}
	return errors.Join(errs...)
}

// Addresses are those that the name of a device means by what follows its kind: an address, or the
// name of an interface, whose addresses come in the order of a GID table. The error is an
// *transport.OpenError.
func Addresses(where string) (addrs []netip.Addr, err error) {
	addr, iface, err := host.Address("udp:"+where, where)
	if err != nil || iface == "" {
		return []netip.Addr{addr}, err
	}
	return host.AddressesOf(iface), nil
}

// MakeSlots binds the sockets of some slots, 1 to wire.MaxOwners, for each of some addresses of
// this machine, with lanes lanes each, 1 to transport.MaxLanes; both are powers of two. Of the
// options UDPPort counts. The error is an *transport.OpenError: the address is not there or taken,
// or the kernel cannot steer.
func MakeSlots(addrs []netip.Addr, slots, lanes int, o transport.Options) (made []Slot, err error) {
	bad := func(format string, args ...any) error {
		return &transport.OpenError{Name: fmt.Sprintf("udp:%v", addrs), Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case len(addrs) == 0 || len(addrs) > transport.MaxGIDs:
		return nil, bad("%d addresses, want 1 to %d", len(addrs), transport.MaxGIDs)
	case slices.ContainsFunc(addrs, func(a netip.Addr) bool {
		return !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.Is4In6()
	}):
		return nil, bad("each must be an IPv4 or IPv6 address of this machine, not all of them, and no group")
	case slots < 1 || slots > wire.MaxOwners || slots&(slots-1) != 0:
		return nil, bad("%d slots: the number must be a power of two from 1 to %d", slots, wire.MaxOwners)
	case lanes < 1 || lanes > transport.MaxLanes || lanes&(lanes-1) != 0:
		return nil, bad("%d lanes: the number must be a power of two from 1 to %d", lanes, transport.MaxLanes)
	}
	o = o.WithDefaults()
	made = make([]Slot, slots)
	for i := range made {
		made[i] = Slot{Addrs: addrs, QPNs: wire.QPNSpace{}.Owner(i, slots), FDs: make([][]int, len(addrs))}
	}
	for row, a := range addrs {
		if err = bindSlots(made, row, lanes, a, o.UDPPort); err != nil {
			for i := range made {
				made[i].Close()
			}
			return nil, err
		}
	}
	return made, nil
}

// bindSlots binds the sockets of an address, in the order by which the program numbers them. The
// address is taken by one maker at a time, as it is by one device (lanes_linux.go).
func bindSlots(slots []Slot, row, lanes int, addr netip.Addr, port int) error {
	name := "udp:" + addr.String()
	zone := 0
	on, there := host.InterfaceOf(addr)
	if there {
		zone = on.Index
	}
	first := -1
	for i := range slots {
		for lane := range lanes {
			fd, err := unix.Socket(family(addr), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
			if err != nil {
				return &transport.OpenError{Name: name, Reason: "the system gives no UDP socket", Err: err}
			}
			slots[i].FDs[row] = append(slots[i].FDs[row], fd)
			setV6Only(fd, addr)
			mark(fd, slots[i].QPNs.Lane(lane, lanes))
			if first >= 0 {
				admitLanes(fd)
			}
			if there {
				bindTentative(fd, addr)
			}
			if err := unix.Bind(fd, host.Sockaddr(addr, port, zone)); err != nil {
				return host.BindError(name, addr, port, err)
			}
			if first < 0 {
				first = fd
				admitLanes(fd)
			}
		}
	}
	if len(slots)*lanes == 1 {
		return nil
	}
	err := host.SetProgram(first, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, host.OwnerProgram(len(slots), lanes))
	if err != nil {
		return &transport.OpenError{
			Name:   name,
			Reason: "this kernel can not steer packets to slots (SO_ATTACH_REUSEPORT_CBPF)",
			Err:    err,
		}
	}
	return nil
}

// OpenSlot opens the ports of a slot, one for each lane, on copies of its descriptors. Nothing that
// had come before is received or counted. name is what the ports are called. The error is an
// *transport.OpenError; of a slot that a process has open which is alive it names that.
func OpenSlot(name string, s Slot, o transport.Options) (ports []transport.Port, err error) {
	o = o.WithDefaults()
	if err := s.check(o.UDPPort); err != nil {
		return nil, &transport.OpenError{Name: name, Reason: "the slot is not one of MakeSlots", Err: err}
	}
	if pid := s.Owner(); pid != 0 {
		return nil, &transport.OpenError{Name: name, Reason: fmt.Sprintf("process %d has the slot open", pid)}
	}
	st := &station{name: name, opt: o, addr: s.Addrs[0], slot: s}
	return st.openLanes(len(s.FDs[0]), "")
}

// check looks whether the slot is what it says.
func (s *Slot) check(port int) error {
	if len(s.Addrs) == 0 || len(s.Addrs) != len(s.FDs) {
		return fmt.Errorf("%d addresses with sockets of %d", len(s.Addrs), len(s.FDs))
	}
	lanes := len(s.FDs[0])
	if lanes < 1 || lanes > transport.MaxLanes || lanes&(lanes-1) != 0 {
		return fmt.Errorf("%d lanes: the number must be a power of two from 1 to %d", lanes, transport.MaxLanes)
	}
	if low := uint32(transport.MaxLanes - 1); s.QPNs.Mask&low != 0 || s.QPNs.Value&^s.QPNs.Mask != 0 ||
		s.QPNs.Mask&^wire.QPNMask != 0 {
		return fmt.Errorf("queue pair numbers with the bits 0x%x of 0x%x: the lowest %d are the lanes'",
			s.QPNs.Value, s.QPNs.Mask, wire.OwnerShift)
	}
	for row, a := range s.Addrs {
		if len(s.FDs[row]) != lanes {
			return fmt.Errorf("row 0 has %d lanes, row %d has %d", lanes, row, len(s.FDs[row]))
		}
		for lane, fd := range s.FDs[row] {
			at, err := unix.Getsockname(fd)
			if err != nil {
				return fmt.Errorf("descriptor %d, row %d, lane %d: %w", fd, row, lane, err)
			}
			if got, want := addrPort(at), netip.AddrPortFrom(a.WithZone(""), uint16(port)); got != want {
				return fmt.Errorf("descriptor %d, row %d, lane %d is bound to %v, want %v", fd, row, lane, got, want)
			}
			if want := s.QPNs.Lane(lane, lanes); !marked(fd, want) {
				return fmt.Errorf("descriptor %d, row %d, lane %d is not the one that queue pair numbers with the "+
					"bits 0x%x of 0x%x are steered to", fd, row, lane, want.Value, want.Mask)
			}
		}
	}
	return nil
}

// Owner is a process that has the slot open; 0: none, or it has ended.
func (s *Slot) Owner() int {
	for _, lanes := range s.FDs {
		for _, fd := range lanes {
			pid, err := unix.FcntlInt(uintptr(fd), unix.F_GETOWN, 0)
			if err == nil && pid > 0 && lives(pid) {
				return pid
			}
		}
	}
	return 0
}

// Disown says that nobody has the slot open: for who knows that its process has ended, or has done
// with it.
func (s *Slot) Disown() {
	for _, lanes := range s.FDs {
		for _, fd := range lanes {
			own(fd, 0)
		}
	}
}

// Rest has the slot take in nothing until it is opened, nor keep what it has: packets for a process
// that has ended would fill memory, which its peers may send for long.
func (s *Slot) Rest() error {
	var errs []error
	for _, lanes := range s.FDs {
		for _, fd := range lanes {
			errs = append(errs, host.AttachFilter(fd, host.DropAll), drain(fd))
		}
	}
	return errors.Join(errs...)
}

// lives tells whether a process has not ended. One that has, and that its parent does not know of
// yet, still has its number.
func lives(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err != unix.ESRCH
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n == 0 || err != nil
}

// own says that a process has a socket of a slot open; 0: none has. The kernel keeps it with what
// all copies of the descriptor share, and sends no signal for it unless it was asked to (O_ASYNC).
func own(fd, pid int) { unix.FcntlInt(uintptr(fd), unix.F_SETOWN, pid) }

// disown says that the port has done with a socket.
func (p *port) disown(s *socket) {
	if p.slot.given() {
		own(s.recv.fd, 0)
	}
}

// mark has a socket say for which numbers it is, by its linger time, which means nothing to UDP: so
// one of another slot or lane is known, to whose owner nothing would come that is its own.
func mark(fd int, own wire.QPNSpace) {
	unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: int32(own.Value)})
}

// marked tells whether that is so.
func marked(fd int, own wire.QPNSpace) bool {
	l, err := unix.GetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER)
	return err == nil && l.Onoff != 0 && l.Linger == int32(own.Value)
}

// addrPort is what a socket is bound to.
func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// empty drops what a socket has received for the process that had it before. What arrives meanwhile
// is dropped too, so that a peer that goes on sending does not keep us here.
func empty(fd int) error {
	if err := host.AttachFilter(fd, host.DropAll); err != nil {
		return err
	}
	if err := drain(fd); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
}

// drain takes what a socket has received.
func drain(fd int) error {
	var b [1]byte
	for failed := 0; failed < maxErrors; {
		_, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		if err == unix.EAGAIN {
			return nil
		}
		if err != nil {
			failed++
		}
	}
	return errors.New("the socket goes on to have errors")
}

// maxErrors is how many errors of packets that were sent, which a socket tells once, empty skips.
const maxErrors = 1000
