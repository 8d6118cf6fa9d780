package sniff

// A packet socket. Stages: a socket that gets nothing yet → the filter, so that only RoCE is copied
// → promiscuous, times, VLAN tags → bound → one packet after the other.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/trace"
)

const (
	bufferSize  = 64 << 20 // of the socket, as far as the system gives it
	longest     = 1 << 18  // of a packet; runs that the kernel has not cut have 64 KiB
	vlanValid   = 1 << 4   // TP_STATUS_VLAN_VALID
	auxDataLen  = 20       // struct tpacket_auxdata
	arpLoopback = 772
	arpNone     = 65534 // no header below IP
	oddTime     = 1e11  // nanoseconds: a time further from now is by another clock
)

// Sniffer captures packets of one interface. It is for one goroutine, but for End and Close.
type Sniffer struct {
	// Idle, if it is not nil, is called by Next before it waits: nothing else has arrived.
	Idle func()

	name  string
	file  *os.File
	index int
	buf   []byte
	oob   [256]byte
	lost  uint64

	closed atomic.Bool
	end    atomic.Int64 // the time of End, 0: it was not called
}

// Open begins to capture on an interface, by its name. An error that is os.ErrPermission wants
// CAP_NET_RAW.
func Open(name string) (*Sniffer, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		var names []string
		all, _ := net.Interfaces()
		for _, i := range all {
			names = append(names, i.Name)
		}
		return nil, fmt.Errorf("sniff: %q is no interface of this machine; there are %s (%w)", name, strings.Join(names, ", "), err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("sniff: open a packet socket (CAP_NET_RAW is needed): %w", err)
	}
	if err := prepare(fd, ifi); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("sniff: interface %s: %w", name, err)
	}
	return &Sniffer{name: name, file: os.NewFile(uintptr(fd), "sniff"), index: ifi.Index, buf: make([]byte, longest+4)}, nil
}

// prepare makes the socket ready and binds it.
func prepare(fd int, ifi *net.Interface) error {
	if len(ifi.HardwareAddr) == 6 || ifi.Flags&net.FlagLoopback != 0 {
		prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog); err != nil {
			return fmt.Errorf("attach the filter: %w", err)
		}
	}
	// Without these the capture works as well: it loses more, or sees less.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bufferSize) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferSize)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1)
	_ = unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP,
		&unix.PacketMreq{Ifindex: int32(ifi.Index), Type: unix.PACKET_MR_PROMISC})
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: ifi.Index}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

// bigEndian is a number whose bytes in memory are v's, most significant first.
func bigEndian(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

const (
	loadHalf = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
	loadByte = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
	jumpIs   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	give     = unix.BPF_RET | unix.BPF_K
)

// filter lets RoCEv1, RoCEv2 and what still has a VLAN tag pass. Offsets count from the Ethernet
// header. TestLoopback goes through it.
var filter = []unix.SockFilter{
	{Code: loadHalf, K: 12}, // EtherType
	{Code: jumpIs, K: 0x8915, Jt: 14},
	{Code: jumpIs, K: unix.ETH_P_8021Q, Jt: 13},
	{Code: jumpIs, K: unix.ETH_P_8021AD, Jt: 12},
	{Code: jumpIs, K: unix.ETH_P_IPV6, Jt: 6},
	{Code: jumpIs, K: unix.ETH_P_IP, Jf: 9},
	{Code: loadByte, K: 23}, // IPv4: protocol
	{Code: jumpIs, K: unix.IPPROTO_UDP, Jf: 7},
	{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: 14}, // length of the IP header
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: 16},  // destination port
	{Code: jumpIs, K: 4791, Jt: 5, Jf: 4},
	{Code: loadByte, K: 20}, // IPv6: next header
	{Code: jumpIs, K: unix.IPPROTO_UDP, Jf: 2},
	{Code: loadHalf, K: 56}, // destination port
	{Code: jumpIs, K: 4791, Jt: 1},
	{Code: give, K: 0},
	{Code: give, K: longest},
}

// Next waits for the next packet and reads it into rec, whose Data is valid until the next call. It
// returns os.ErrClosed after Close, and after End when all that had arrived was read.
func (s *Sniffer) Next(rec *trace.Record) error {
	conn, err := s.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("sniff: %w", err)
	}
	for number := rec.Number; ; {
		*rec = trace.Record{Number: number + 1, Name: s.name}
		var taken bool
		var failed error
		read := func(fd uintptr) bool {
			taken, failed = s.receive(int(fd), rec)
			if failed == unix.EAGAIN && s.Idle != nil {
				s.Idle()
			}
			return failed != unix.EAGAIN
		}
		err := conn.Read(read)
		if errors.Is(err, os.ErrDeadlineExceeded) { // End: what is there, without waiting
			err = conn.Control(func(fd uintptr) { read(fd) })
		}
		if end := s.end.Load(); s.closed.Load() || failed == unix.EAGAIN || taken && end > 0 && rec.Time > end {
			return fmt.Errorf("sniff: %s: %w", s.name, os.ErrClosed)
		}
		if err = errors.Join(err, failed); err != nil {
			return fmt.Errorf("sniff: %s: %w", s.name, err)
		}
		if taken {
			return nil
		}
	}
}

// receive reads a packet. It leaves out what the loopback interface shows a second time.
func (s *Sniffer) receive(fd int, rec *trace.Record) (taken bool, err error) {
	n, oobn, _, from, err := unix.Recvmsg(fd, s.buf[4:], s.oob[:], unix.MSG_TRUNC)
	if err != nil {
		return false, err
	}
	link, _ := from.(*unix.SockaddrLinklayer)
	if link == nil || link.Pkttype == unix.PACKET_OUTGOING && link.Hatype == arpLoopback {
		return false, nil
	}
	rec.Time, rec.Length = time.Now().UnixNano(), n
	rec.Data = s.buf[4:][:min(n, longest)]
	rec.Link, rec.Direction = trace.LinkEthernet, trace.DirReceived
	if link.Hatype == arpNone {
		rec.Link = trace.LinkRaw
	}
	if link.Pkttype == unix.PACKET_OUTGOING {
		rec.Direction = trace.DirSent
	}
	messages, err := unix.ParseSocketControlMessage(s.oob[:oobn])
	for i := range messages {
		s.control(&messages[i], rec)
	}
	return true, err
}

// control reads the time of a packet, and puts back the VLAN tag that the kernel has taken out.
func (s *Sniffer) control(m *unix.SocketControlMessage, rec *trace.Record) {
	ne := binary.NativeEndian
	switch {
	case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) == 16:
		rec.Time = sane(int64(ne.Uint64(m.Data))*1e9+int64(ne.Uint64(m.Data[8:])), rec.Time)
	case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= auxDataLen:
		if ne.Uint32(m.Data)&vlanValid == 0 || len(rec.Data) < 12 || rec.Link != trace.LinkEthernet {
			return
		}
		copy(s.buf, s.buf[4:16])
		binary.BigEndian.PutUint16(s.buf[12:], ne.Uint16(m.Data[18:]))
		binary.BigEndian.PutUint16(s.buf[14:], ne.Uint16(m.Data[16:]))
		rec.Data, rec.Length = s.buf[:len(rec.Data)+4], rec.Length+4
	}
}

// sane returns the kernel's time of a packet, in the time of day. A packet that came through a veth
// pair can have one by the monotonic clock, when it was sent.
func sane(t, now int64) int64 {
	near := func(t, now int64) bool { return now-t > -oddTime && now-t < oddTime }
	if near(t, now) {
		return t
	}
	var mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) == nil && near(t, mono.Nano()) {
		return now - (mono.Nano() - t)
	}
	return now
}

// Lost is how many packets were lost so far because nobody called Next in time.
func (s *Sniffer) Lost() (uint64, error) {
	conn, err := s.file.SyscallConn()
	if err != nil {
		return s.lost, fmt.Errorf("sniff: %w", err)
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		var st *unix.TpacketStats
		if st, failed = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); failed == nil {
			s.lost += uint64(st.Drops) // the kernel counts from 0 again
		}
	})
	return s.lost, errors.Join(err, failed)
}

// End ends the capture: Next does not wait any more, and gives what has arrived. Any goroutine may
// call it.
func (s *Sniffer) End() error {
	s.end.CompareAndSwap(0, time.Now().UnixNano())
	return s.file.SetReadDeadline(time.Unix(1, 0))
}

// Close ends the capture at once, and a Next that waits. Any goroutine may call it.
func (s *Sniffer) Close() error {
	s.closed.Store(true)
	return s.file.Close()
}
