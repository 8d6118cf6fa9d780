package sniff

// A packet socket with a ring. Stages: a socket that gets nothing yet → the filter, so that only
// RoCE is copied → the ring, promiscuous → bound → one packet after the other.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/trace"
)

const (
	arpLoopback = 772
	arpNone     = 65534 // no header below IP
	maxRing     = 1 << 30
	oddTime     = 1e11 // nanoseconds: a time further from now is by another clock
)

// Sniffer captures packets of one interface. It is for one goroutine, but for End and Close.
type Sniffer struct {
	// Idle, if it is not nil, is called by Next before it waits: nothing else has arrived.
	Idle func()

	name string
	file *os.File
	lost uint64
	now  clocks // when the latest block was taken

	reading sync.Mutex // over ring
	ring    ring
	closed  atomic.Bool
	end     atomic.Int64 // the time of End, 0: it was not called
}

// Open begins to capture on an interface, by its name. o may be nil. An error that is
// os.ErrPermission wants CAP_NET_RAW.
func Open(name string, o *Options) (*Sniffer, error) {
	if o == nil {
		o = &Options{}
	}
	if o.Snap < 0 || o.Ring < 0 || o.Ring > maxRing {
		return nil, fmt.Errorf("sniff: Snap %d, Ring %d: neither may be negative, and a ring has at most %d bytes",
			o.Snap, o.Ring, maxRing)
	}
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		var names []string
		all, _ := net.Interfaces()
		for _, i := range all {
			names = append(names, i.Name)
		}
		return nil, fmt.Errorf("sniff: %q is no interface of this machine; there are %s (%w)",
			name, strings.Join(names, ", "), err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("sniff: open a packet socket (CAP_NET_RAW is needed): %w", err)
	}
	s := &Sniffer{name: name}
	if err := s.prepare(fd, ifi, o); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("sniff: interface %s: %w", name, errors.Join(err, s.ring.close()))
	}
	s.file = os.NewFile(uintptr(fd), "sniff")
	return s, nil
}

// prepare makes the socket ready and binds it.
func (s *Sniffer) prepare(fd int, ifi *net.Interface, o *Options) error {
	if err := attach(fd, ifi, o.Snap); err != nil {
		return fmt.Errorf("attach the filter: %w", err)
	}
	size := o.Ring
	if size == 0 {
		size = DefaultRing
	}
	if err := s.ring.open(fd, size); err != nil {
		return err
	}
	// Without this the capture works as well, and sees less.
	_ = unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP,
		&unix.PacketMreq{Ifindex: int32(ifi.Index), Type: unix.PACKET_MR_PROMISC})
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL),
		Ifindex: ifi.Index}); err != nil {
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

// Next waits for the next packet and reads it into rec, whose Data is valid until the next call, or
// Close. A packet is there 50 ms after it has arrived, or earlier if there are many. Next returns
// os.ErrClosed after Close, and after End when all that had arrived was read.
func (s *Sniffer) Next(rec *trace.Record) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.closed.Load() {
		return s.ended()
	}
	if s.ring.unread == 0 {
		if !s.ring.take() {
			if err := s.wait(); err != nil {
				return err
			}
		}
		s.now.read()
	}
	s.read(rec)
	if end := s.end.Load(); end > 0 && rec.Time > end {
		return s.ended()
	}
	return nil
}

func (s *Sniffer) ended() error { return fmt.Errorf("sniff: %s: %w", s.name, os.ErrClosed) }

// wait waits until the ring has a packet.
func (s *Sniffer) wait() error {
	conn, err := s.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("sniff: %w", err)
	}
	var failed error
	ready := func(fd uintptr) bool {
		if s.ring.take() {
			return true
		}
		if wrong, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR); err != nil || wrong != 0 {
			failed = errors.Join(err, unix.Errno(wrong)) // such as ENETDOWN
			return true
		}
		if s.Idle != nil && s.end.Load() == 0 {
			s.Idle()
		}
		return false
	}
	for {
		err := conn.Read(ready)
		switch {
		case s.closed.Load():
			return s.ended()
		case errors.Is(err, os.ErrDeadlineExceeded): // End
			if s.ring.take() {
				return nil
			}
			if s.ring.empty() {
				return s.ended()
			}
			// The kernel will give us the block that the last packets are in.
			err = s.file.SetReadDeadline(time.Now().Add(retire * time.Millisecond))
			if err == nil {
				continue
			}
		}
		if err = errors.Join(err, failed); err != nil {
			return fmt.Errorf("sniff: %s: %w", s.name, err)
		}
		return nil
	}
}

// read reads a packet, and puts back the VLAN tag that the kernel has taken out.
func (s *Sniffer) read(rec *trace.Record) {
	h, link, data := s.ring.packet()
	*rec = trace.Record{Number: rec.Number + 1, Name: s.name, Link: trace.LinkEthernet, Direction: trace.DirReceived,
		Time: s.now.sane(int64(h.Sec)*1e9 + int64(h.Nsec)), Length: int(h.Len), Data: data[tagLen:]}
	if link.Hatype == arpNone {
		rec.Link = trace.LinkRaw
	}
	if link.Pkttype == unix.PACKET_OUTGOING {
		rec.Direction = trace.DirSent
	}
	if h.Status&unix.TP_STATUS_VLAN_VALID != 0 && rec.Link == trace.LinkEthernet && len(rec.Data) >= 12 {
		tpid := uint16(unix.ETH_P_8021Q)
		if h.Status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
			tpid = h.Hv1.Vlan_tpid
		}
		rec.Data = withTag(data, tpid, uint16(h.Hv1.Vlan_tci))
		rec.Length += tagLen
	}
}

// withTag moves the addresses of a packet into the room in front of it, and writes the tag behind
// them.
func withTag(data []byte, tpid, tci uint16) []byte {
	copy(data, data[tagLen:tagLen+12])
	binary.BigEndian.PutUint16(data[12:], tpid)
	binary.BigEndian.PutUint16(data[14:], tci)
	return data
}

// clocks are one moment by two clocks, in nanoseconds.
type clocks struct{ day, mono int64 }

func (c *clocks) read() {
	var mono unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) // Linux has it
	c.day, c.mono = time.Now().UnixNano(), mono.Nano()
}

// sane returns the kernel's time of a packet, in the time of day. A packet that came through a veth
// pair can have one by the monotonic clock, when it was sent.
func (c *clocks) sane(t int64) int64 {
	near := func(t, now int64) bool { return now-t > -oddTime && now-t < oddTime }
	if near(t, c.day) {
		return t
	}
	if near(t, c.mono) {
		return c.day - (c.mono - t)
	}
	return c.day
}

// Lost is how many packets were lost so far because nobody called Next in time.
func (s *Sniffer) Lost() (uint64, error) {
	conn, err := s.file.SyscallConn()
	if err != nil {
		return s.lost, fmt.Errorf("sniff: %w", err)
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		var st *unix.TpacketStatsV3
		if st, failed = unix.GetsockoptTpacketStatsV3(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); failed == nil {
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

// Close ends the capture at once, and a Next that waits. Any goroutine may call it. The Data of the
// last record is gone then.
func (s *Sniffer) Close() error {
	s.closed.Store(true)
	err := s.file.Close()
	s.reading.Lock()
	defer s.reading.Unlock()
	return errors.Join(err, s.ring.close())
}
