//go:build linux

package raw

// UDP sockets, unconnected, as a stack with many peers has them. For streams UDP_SEGMENT cuts what is sent and UDP_GRO joins
// what is received; single packets go with sendto and recvfrom, which cost less.

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	udpSegment = 103 // UDP_SEGMENT, and the type of its control message
	udpGRO     = 104
	superSpace = 1 << 16
	receiveRam = 64 << 20
)

// mode is how a socket is used.
type mode int

const (
	merged   mode = iota // super-frames, non-blocking
	spinning             // single packets, non-blocking
	sleeping             // single packets, a receive waits
)

type udpLink struct {
	fd   int
	mode mode

	out, in       []byte
	msgOut, msgIn unix.Msghdr
	iovOut, iovIn unix.Iovec
	ctlOut, ctlIn [64]byte
	peer          unix.RawSockaddrInet4
}

func overUDP(e End) (link, error)         { return openUDP(e, merged) }
func overSpinningUDP(e End) (link, error) { return openUDP(e, spinning) }
func overBlockingUDP(e End) (link, error) { return openUDP(e, sleeping) }

func openUDP(e End, m mode) (link, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	l := &udpLink{fd: fd, mode: m, out: make([]byte, superSpace), in: make([]byte, superSpace)}
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveRam)
	unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	if m == merged {
		err = os.NewSyscallError("UDP_GRO", unix.SetsockoptInt(fd, unix.IPPROTO_UDP, udpGRO, 1))
	}
	if err == nil {
		err = os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrInet4{Addr: e.Local.As4(), Port: Port}))
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	l.peer = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: e.Peer.As4()}
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&l.peer.Port))[:], Port)
	l.msgOut = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&l.peer)), Namelen: unix.SizeofSockaddrInet4, Iov: &l.iovOut}
	l.msgOut.SetIovlen(1)
	l.iovOut.Base = &l.out[0]
	l.msgIn.Iov = &l.iovIn
	l.msgIn.SetIovlen(1)
	l.iovIn.Base = &l.in[0]
	l.iovIn.SetLen(len(l.in))
	return l, nil
}

func (l *udpLink) close()        { unix.Close(l.fd) }
func (l *udpLink) room(int) bool { return true }

func (l *udpLink) segment(i, size int) []byte { return l.out[i*size:][:size] }

func (l *udpLink) send(n, segment int) (bool, error) {
	var errno syscall.Errno
	if n > segment {
		errno = l.sendMerged(n, segment)
	} else {
		_, _, errno = syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(l.fd), uintptr(unsafe.Pointer(&l.out[0])), uintptr(n), unix.MSG_DONTWAIT,
			uintptr(unsafe.Pointer(&l.peer)), unix.SizeofSockaddrInet4)
	}
	switch errno {
	case 0:
		return true, nil
	case syscall.EAGAIN, syscall.ENOBUFS, syscall.EINTR:
		return false, nil
	}
	return false, fmt.Errorf("send of %d bytes in segments of %d: %w", n, segment, errno)
}

func (l *udpLink) sendMerged(n, segment int) syscall.Errno {
	l.iovOut.SetLen(n)
	c := (*unix.Cmsghdr)(unsafe.Pointer(&l.ctlOut[0]))
	c.Level, c.Type = unix.IPPROTO_UDP, udpSegment
	c.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(l.ctlOut[unix.CmsgLen(0):], uint16(segment))
	l.msgOut.Control = &l.ctlOut[0]
	l.msgOut.SetControllen(unix.CmsgSpace(2))
	_, _, errno := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(l.fd), uintptr(unsafe.Pointer(&l.msgOut)), unix.MSG_DONTWAIT)
	return errno
}

func (l *udpLink) recv() ([]byte, int, error) {
	var n uintptr
	var errno syscall.Errno
	switch l.mode {
	case merged:
		l.msgIn.Control = &l.ctlIn[0]
		l.msgIn.SetControllen(len(l.ctlIn))
		n, _, errno = syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(l.fd), uintptr(unsafe.Pointer(&l.msgIn)), unix.MSG_DONTWAIT)
	case spinning:
		n, _, errno = syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(l.fd), uintptr(unsafe.Pointer(&l.in[0])), uintptr(len(l.in)), unix.MSG_DONTWAIT, 0, 0)
	case sleeping:
		n, _, errno = syscall.Syscall6(unix.SYS_RECVFROM, uintptr(l.fd), uintptr(unsafe.Pointer(&l.in[0])), uintptr(len(l.in)), 0, 0, 0)
	}
	switch errno {
	case 0:
	case syscall.EAGAIN, syscall.EINTR:
		return nil, 0, nil
	default:
		return nil, 0, os.NewSyscallError("receive", errno)
	}
	segment := int(n)
	if c := (*unix.Cmsghdr)(unsafe.Pointer(&l.ctlIn[0])); l.mode == merged && l.msgIn.Controllen > 0 && c.Level == unix.IPPROTO_UDP && c.Type == udpGRO {
		segment = int(binary.NativeEndian.Uint32(l.ctlIn[unix.CmsgLen(0):]))
	}
	return l.in[:n], segment, nil
}
