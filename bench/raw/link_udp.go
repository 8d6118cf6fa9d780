//go:build linux

package raw

// UDP sockets for streams: UDP_SEGMENT cuts what is sent, UDP_GRO joins what is received.

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

// EXPERIMENT
var (
	probeConnected = os.Getenv("P_CONN") != ""
	probeBusy      = os.Getenv("P_BUSY") != ""
	probeZero      = os.Getenv("P_ZERO") != ""
	probeBatch     = probeInt("P_BATCH", 1)
	probeWindow    = probeInt("P_WIN", 16)
)

func probeInt(name string, v int) int {
	fmt.Sscan(os.Getenv(name), &v)
	return v
}

// message is one of sendmmsg and recvmmsg.
type message struct {
	hdr unix.Msghdr
	n   uint32
	_   [4]byte
}

type udpLink struct {
	fd      int
	run     int // segments of a message
	out, in []message
	iovs    []unix.Iovec // of out, then of in
	ctl     [][32]byte   // likewise
	outMem  []byte
	inMem   []byte
	have    int // messages of in that were received
	at      int // the next of them
	peer    unix.RawSockaddrInet4
	zero    int
}

func overUDP(e End) (link, error) {
	l, err := openUDP(e)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func openUDP(e End) (*udpLink, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	l := &udpLink{fd: fd, peer: sockaddr(e)}
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveRam)
	if probeZero {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1)
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, receiveRam)
	}
	if probeBusy {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BUSY_POLL, 50)
	}
	unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	err = os.NewSyscallError("UDP_GRO", unix.SetsockoptInt(fd, unix.IPPROTO_UDP, udpGRO, 1))
	if err == nil {
		err = os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrInet4{Addr: e.Local.As4(), Port: Port}))
	}
	if err == nil && probeConnected {
		err = os.NewSyscallError("connect", unix.Connect(fd, &unix.SockaddrInet4{Addr: e.Peer.As4(), Port: Port}))
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	n := probeBatch
	l.out, l.in = make([]message, n), make([]message, n)
	l.iovs, l.ctl = make([]unix.Iovec, 2*n), make([][32]byte, 2*n)
	l.outMem, l.inMem = make([]byte, n*superSpace), make([]byte, n*superSpace)
	for i := range l.out {
		m := &l.out[i]
		if !probeConnected {
			m.hdr.Name, m.hdr.Namelen = (*byte)(unsafe.Pointer(&l.peer)), unix.SizeofSockaddrInet4
		}
		m.hdr.Iov = &l.iovs[i]
		m.hdr.SetIovlen(1)
		m = &l.in[i]
		m.hdr.Iov = &l.iovs[n+i]
		m.hdr.SetIovlen(1)
		l.iovs[n+i].Base = &l.inMem[i*superSpace]
		l.iovs[n+i].SetLen(superSpace)
	}
	return l, nil
}

func sockaddr(e End) unix.RawSockaddrInet4 {
	a := unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: e.Peer.As4()}
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&a.Port))[:], Port)
	return a
}

func (l *udpLink) close()        { unix.Close(l.fd) }
func (l *udpLink) room(int) bool { return true }

func (l *udpLink) segment(i, size int) []byte { return l.outMem[i*size:][:size] }

func (l *udpLink) send(n, segment int) (bool, error) {
	run := min(128, mostDatagram/segment) * segment
	if e := probeInt("P_RUN", 0); e != 0 {
		run = e * segment
	}
	count := 0
	for at := 0; at < n; at += run {
		m := &l.out[count]
		size := min(run, n-at)
		iov := &l.iovs[count]
		iov.Base = &l.outMem[at]
		iov.SetLen(size)
		m.hdr.Control = nil
		m.hdr.SetControllen(0)
		if size > segment {
			ctl := &l.ctl[count]
			c := (*unix.Cmsghdr)(unsafe.Pointer(&ctl[0]))
			c.Level, c.Type = unix.IPPROTO_UDP, udpSegment
			c.SetLen(unix.CmsgLen(2))
			binary.NativeEndian.PutUint16(ctl[unix.CmsgLen(0):], uint16(segment))
			m.hdr.Control = &ctl[0]
			m.hdr.SetControllen(unix.CmsgSpace(2))
		}
		count++
	}
	flags := uintptr(unix.MSG_DONTWAIT)
	if probeZero && n > 100 {
		flags |= unix.MSG_ZEROCOPY
		if l.zero++; l.zero%16 == 0 {
			var b [256]byte
			for {
				if _, _, _, _, err := unix.Recvmsg(l.fd, nil, b[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT); err != nil {
					break
				}
			}
		}
	}
	for sent := 0; sent < count; {
		var done uintptr
		var errno syscall.Errno
		if count == 1 {
			_, _, errno = syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(l.fd), uintptr(unsafe.Pointer(&l.out[0].hdr)), flags)
			done = 1
		} else {
			done, _, errno = syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(l.fd), uintptr(unsafe.Pointer(&l.out[sent])), uintptr(count-sent), flags, 0, 0)
		}
		switch errno {
		case 0:
			sent += int(done)
		case syscall.EAGAIN, syscall.ENOBUFS, syscall.EINTR:
			if sent == 0 {
				return false, nil
			}
		default:
			return false, fmt.Errorf("send of %d bytes in segments of %d: %w", n, segment, errno)
		}
	}
	return true, nil
}

func (l *udpLink) recv() ([]byte, int, error) {
	if l.at == l.have {
		n := len(l.in)
		for i := range max(l.have, 1) {
			h := &l.in[i].hdr
			h.Control = &l.ctl[n+i][0]
			h.SetControllen(len(l.ctl[n+i]))
		}
		if l.have == 0 {
			for i := range l.in {
				h := &l.in[i].hdr
				h.Control = &l.ctl[n+i][0]
				h.SetControllen(len(l.ctl[n+i]))
			}
		}
		l.at, l.have = 0, 0
		var got uintptr
		var errno syscall.Errno
		if n == 1 {
			got, _, errno = syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(l.fd), uintptr(unsafe.Pointer(&l.in[0].hdr)), unix.MSG_DONTWAIT)
			l.in[0].n = uint32(got)
			got = 1
		} else {
			got, _, errno = syscall.RawSyscall6(unix.SYS_RECVMMSG, uintptr(l.fd), uintptr(unsafe.Pointer(&l.in[0])), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
		}
		switch errno {
		case 0:
		case syscall.EAGAIN, syscall.EINTR:
			return nil, 0, nil
		default:
			return nil, 0, os.NewSyscallError("receive", errno)
		}
		l.have = int(got)
	}
	i := l.at
	l.at++
	m := &l.in[i]
	segment := int(m.n)
	ctl := &l.ctl[len(l.in)+i]
	if c := (*unix.Cmsghdr)(unsafe.Pointer(&ctl[0])); m.hdr.Controllen > 0 && c.Level == unix.IPPROTO_UDP && c.Type == udpGRO {
		segment = int(binary.NativeEndian.Uint32(ctl[unix.CmsgLen(0):]))
	}
	return l.inMem[i*superSpace:][:m.n], segment, nil
}
