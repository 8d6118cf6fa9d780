//go:build linux

package raw

// AF_XDP sockets in copy mode, as on veth: a program that hands over every packet, memory shared
// with the kernel, and four rings of it. There is no segmentation here: each segment is a packet in
// a chunk of memory of its own. Packets that fit a chunk allow a path MTU of 2048.

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	ebpflink "github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

const (
	chunk  = 4096
	chunks = 1024 // in each direction
	kick   = 64   // packets sent with one system call
)

// xskRing is one of the four rings: entries of 8 bytes (addresses) or of 16 (descriptors).
type xskRing struct {
	mem                []byte
	entries            unsafe.Pointer
	producer, consumer *uint32
	at                 uint32 // our count
}

type xdpLink struct {
	fd       int
	parked   int // a UDP socket
	umem     []byte
	fill, rx xskRing
	tx, sent xskRing
	busy     uint32 // chunks that are being sent
	held     uint64 // chunk that recv lent, or none
	lent     bool

	head    [ethLen + ipLen + udpLen]byte
	sockets *ebpf.Map
	program *ebpf.Program
	hook    ebpflink.Link
}

func overXDP(e End) (link, error) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("AF_XDP socket", err)
	}
	l := &xdpLink{fd: fd, parked: -1}
	if err := l.open(e); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *xdpLink) open(e End) error {
	ifi, err := net.InterfaceByName(e.Interface)
	if err != nil {
		return err
	}
	copy(l.head[:], header(e, ifi.HardwareAddr))
	if err := l.share(); err != nil {
		return err
	}
	for i := range uint64(chunks) {
		*(*uint64)(l.fill.slot(uint32(i), 8)) = i * chunk
	}
	l.fill.at = chunks
	atomic.StoreUint32(l.fill.producer, chunks)
	if err := l.bind(ifi.Index); err != nil {
		return err
	}
	if err := l.redirect(ifi.Index); err != nil {
		return err
	}
	l.parked, err = park(e)
	return err
}

// bind takes queue 0. The kernel frees it some time after the last user's end.
func (l *xdpLink) bind(index int) (err error) {
	for range 200 {
		err = unix.Bind(l.fd, &unix.SockaddrXDP{Ifindex: uint32(index), Flags: unix.XDP_COPY})
		if err != unix.EBUSY {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return os.NewSyscallError("bind", err)
}

// share gives the kernel the memory and maps the rings.
func (l *xdpLink) share() (err error) {
	if l.umem, err = unix.Mmap(-1, 0, 2*chunks*chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	reg := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&l.umem[0]))), Len: uint64(len(l.umem)), Size: chunk}
	if _, _, errno := syscall.Syscall6(unix.SYS_SETSOCKOPT, uintptr(l.fd), unix.SOL_XDP, unix.XDP_UMEM_REG, uintptr(unsafe.Pointer(&reg)), unsafe.Sizeof(reg), 0); errno != 0 {
		return os.NewSyscallError("XDP_UMEM_REG", errno)
	}
	rings := []struct {
		ring   *xskRing
		option int
		size   uintptr
		page   int64
	}{
		{&l.fill, unix.XDP_UMEM_FILL_RING, 8, unix.XDP_UMEM_PGOFF_FILL_RING},
		{&l.sent, unix.XDP_UMEM_COMPLETION_RING, 8, unix.XDP_UMEM_PGOFF_COMPLETION_RING},
		{&l.rx, unix.XDP_RX_RING, 16, unix.XDP_PGOFF_RX_RING},
		{&l.tx, unix.XDP_TX_RING, 16, unix.XDP_PGOFF_TX_RING},
	}
	for _, r := range rings {
		if err := unix.SetsockoptInt(l.fd, unix.SOL_XDP, r.option, chunks); err != nil {
			return os.NewSyscallError("size of a ring", err)
		}
	}
	var o unix.XDPMmapOffsets
	n := uint32(unsafe.Sizeof(o))
	if _, _, errno := syscall.Syscall6(unix.SYS_GETSOCKOPT, uintptr(l.fd), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS, uintptr(unsafe.Pointer(&o)), uintptr(unsafe.Pointer(&n)), 0); errno != 0 {
		return os.NewSyscallError("XDP_MMAP_OFFSETS", errno)
	}
	for i, at := range []unix.XDPRingOffset{o.Fr, o.Cr, o.Rx, o.Tx} {
		r := rings[i]
		if err := r.ring.mmap(l.fd, r.page, at, r.size); err != nil {
			return err
		}
	}
	return nil
}

func (r *xskRing) mmap(fd int, page int64, at unix.XDPRingOffset, size uintptr) (err error) {
	if r.mem, err = unix.Mmap(fd, page, int(at.Desc)+chunks*int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return os.NewSyscallError("mmap of a ring", err)
	}
	r.entries = unsafe.Pointer(&r.mem[at.Desc])
	r.producer, r.consumer = (*uint32)(unsafe.Pointer(&r.mem[at.Producer])), (*uint32)(unsafe.Pointer(&r.mem[at.Consumer]))
	return nil
}

// slot is entry i of a ring whose entries have size bytes.
func (r *xskRing) slot(i uint32, size uintptr) unsafe.Pointer {
	return unsafe.Add(r.entries, uintptr(i%chunks)*size)
}

// redirect attaches a program that hands every packet of queue 0 to the socket.
func (l *xdpLink) redirect(index int) (err error) {
	if l.sockets, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: 1}); err != nil {
		return err
	}
	if err = l.sockets.Put(uint32(0), uint32(l.fd)); err != nil {
		return err
	}
	l.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "Dual MIT/GPL", Flags: unix.BPF_F_XDP_HAS_FRAGS, Instructions: asm.Instructions{
		asm.LoadMapPtr(asm.R1, l.sockets.FD()),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Imm(asm.R3, 2), // XDP_PASS where there is no socket
		asm.FnRedirectMap.Call(),
		asm.Return(),
	}})
	if err != nil {
		return err
	}
	l.hook, err = ebpflink.AttachXDP(ebpflink.XDPOptions{Program: l.program, Interface: index, Flags: ebpflink.XDPDriverMode})
	return err
}

func (l *xdpLink) close() {
	unix.Close(l.fd)
	if l.parked >= 0 {
		unix.Close(l.parked)
	}
	if l.hook != nil {
		l.hook.Close()
	}
	if l.program != nil {
		l.program.Close()
	}
	if l.sockets != nil {
		l.sockets.Close()
	}
	for _, m := range [][]byte{l.fill.mem, l.rx.mem, l.tx.mem, l.sent.mem, l.umem} {
		if m != nil {
			unix.Munmap(m)
		}
	}
}

func (l *xdpLink) room(segments int) bool {
	l.collect()
	return l.busy+uint32(segments) <= chunks
}

// place of the packet with a number: the kernel takes and gives back in order, so packet i is in
// the i-th chunk of the sending half.
func place(i uint32) uint64 { return uint64(chunks+i%chunks) * chunk }

func (l *xdpLink) segment(i, size int) []byte {
	return l.umem[place(l.tx.at+uint32(i))+uint64(len(l.head)):][:size]
}

// send makes a packet of each segment.
func (l *xdpLink) send(n, size int) (bool, error) {
	for at := 0; at < n; at += size {
		body, addr := min(size, n-at), place(l.tx.at)
		frame := l.umem[addr:]
		copy(frame, l.head[:])
		setLengths(frame, body)
		*(*unix.XDPDesc)(l.tx.slot(l.tx.at, 16)) = unix.XDPDesc{Addr: addr, Len: uint32(len(l.head) + body)}
		l.tx.at++
		l.busy++
	}
	atomic.StoreUint32(l.tx.producer, l.tx.at)
	// Also where nobody asks for room: the kernel stops when the ring of what was sent is full.
	l.collect()
	return true, l.kick()
}

// collect takes back chunks that were sent.
func (l *xdpLink) collect() {
	there := atomic.LoadUint32(l.sent.producer)
	l.busy -= there - l.sent.at
	l.sent.at = there
	atomic.StoreUint32(l.sent.consumer, there)
}

func (l *xdpLink) kick() error {
	for range chunks / kick { // the kernel takes some tens with a call
		_, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(l.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0, syscall.EAGAIN, syscall.EBUSY, syscall.ENOBUFS:
		default:
			return fmt.Errorf("sendto: %w", errno)
		}
		if atomic.LoadUint32(l.tx.consumer) == l.tx.at {
			return nil
		}
	}
	return nil
}

// recv gives the last chunk back and looks at the next packet.
func (l *xdpLink) recv() ([]byte, int, error) {
	if l.lent {
		*(*uint64)(l.fill.slot(l.fill.at, 8)) = l.held
		l.fill.at++
		atomic.StoreUint32(l.fill.producer, l.fill.at)
		l.lent = false
	}
	if atomic.LoadUint32(l.rx.producer) == l.rx.at {
		return nil, 0, nil
	}
	d := *(*unix.XDPDesc)(l.rx.slot(l.rx.at, 16))
	l.rx.at++
	atomic.StoreUint32(l.rx.consumer, l.rx.at)
	l.held, l.lent = d.Addr&^(chunk-1), true
	frame := l.umem[d.Addr:][:d.Len]
	n := int(binary.BigEndian.Uint16(frame[ethLen+ipLen+4:])) - udpLen
	return frame[ethLen+ipLen+udpLen:][:n], n, nil
}
