package packet

// Sending: a run of frames becomes one packet with one header and a virtio_net_hdr that says how to
// cut it; up to sendSlots packets leave with one sendmmsg, a single small one with sendto, which is
// cheaper.
//
//	message │ virtio_net_hdr, Ethernet, IP, UDP │ bodies of the run, where the batch has them │
//
// The kernel, or the interface, numbers the segments: the IPv4 Identification counts on from the
// first one's, which is how the batch has numbered and sealed them. It also fills in their UDP
// checksums and wants the sum of the pseudo-header in place for that. Single packets have UDP
// checksum 0, as from RoCE hardware, until the first run has left. After that they have one too: a
// receiving Linux that merges packets (UDP_GRO) lets those without pass by those that it is
// merging, which to RC and UC is loss.
//
// A transmit ring (PACKET_TX_RING) does not pay: measured beside this, it took a quarter more time
// for a small packet, and for runs the copy into the ring cost what it saved.
//
// Frames that go nowhere, or to ourselves, are taken out one by one between two system calls.

import (
	"encoding/binary"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/count"
	"github.com/goroce/goroce/transport/internal/ether"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

const (
	sendSlots = 64 // messages of one system call
	prefixMax = vnetHdrLen + ether.HeaderLen + wire.HeadMax
	// copyMax is up to which length a body is copied behind its prefix, which is cheaper than a
	// second piece of memory.
	copyMax = 256
)

type sender struct {
	port   *port
	fd     int
	maxRun int
	single atomic.Bool // the kernel has refused runs since
	queued bool        // PACKET_QDISC_BYPASS is off, see refused
	cut    bool        // a run has left with it on
	summed bool        // every packet has a UDP checksum: there was a run

	prefixes [][prefixMax + copyMax]byte
	msgs     []host.Message
	iovs     [][2]unix.Iovec
	runs     []int // how many frames each message holds
	bytes    []int // and how many bytes
}

func (s *sender) init(p *port) {
	s.port, s.fd, s.maxRun = p, p.tx, min(p.Options.MaxRun, host.LongestRun())
	s.prefixes = make([][prefixMax + copyMax]byte, sendSlots)
	s.msgs = make([]host.Message, sendSlots)
	s.iovs = make([][2]unix.Iovec, sendSlots)
	s.runs = make([]int, sendSlots)
	s.bytes = make([]int, sendSlots)
	for i := range s.msgs {
		s.msgs[i].Hdr.Iov = &s.iovs[i][0]
		s.iovs[i][0].Base = &s.prefixes[i][0]
	}
}

// runLimit is the longest run that leaves as one message.
func (s *sender) runLimit() int {
	if s.single.Load() {
		return 1
	}
	return s.maxRun
}

// Send hands the frames of b to the interface.
func (p *port) Send(b *wire.Batch) (sent int, err error) {
	if p.Closed.Load() {
		return 0, transport.ErrClosed
	}
	var went count.Tally
	sent, short, err := p.send.send(b, &went)
	p.Sent(went.Frames, went.Bytes)
	p.SendRuns += uint64(went.Runs)
	if short != host.Nothing {
		p.SendBlocked.Add(1)
	}
	p.Lack(short)
	return sent, err
}

// send goes through the batch: messages as many as fit one system call, or one frame that is not
// for the interface alone.
func (s *sender) send(b *wire.Batch, went *count.Tally) (sent int, short host.Shortage, err error) {
	frames := b.Frames()
	for sent < len(frames) {
		n := s.lay(b, frames, sent)
		if n == 0 {
			if short, err = s.aside(&frames[sent], went); short != host.Nothing || err != nil {
				return sent, short, err
			}
			sent++
			continue
		}
		done, errno := s.sendMessages(n)
		for i := range done {
			sent += s.runs[i]
			went.Add(s.runs[i], s.bytes[i])
		}
		if done < n {
			skip, short, err := s.refused(errno, s.runs[done])
			if short != host.Nothing || err != nil {
				return sent, short, err
			}
			sent += skip
		}
	}
	return sent, host.Nothing, nil
}

// lay prepares messages for frames[at:], up to the first frame that is not for the interface alone,
// and returns how many.
func (s *sender) lay(b *wire.Batch, frames []wire.Frame, at int) (n int) {
	limit, mtu := s.runLimit(), s.port.Peers.MTU()
	for n < len(s.msgs) && at < len(frames) {
		f := &frames[at]
		header := s.port.HeaderFor(f)
		if header == nil || f.Len() > mtu || s.port.Hop.Self() {
			break
		}
		run := 1
		if limit > 1 {
			run = min(b.Run(at), limit)
		}
		s.layMessage(n, frames[at:at+run], header)
		at += run
		n++
	}
	return n
}

// layMessage prepares message i for a run. The bodies of a run are contiguous.
func (s *sender) layMessage(i int, run []wire.Frame, header *ether.Header) {
	first := &run[0]
	size := 0
	for j := range run {
		size += len(run[j].Body)
	}
	s.runs[i], s.bytes[i] = len(run), size

	prefix := &s.prefixes[i]
	vnet := (*vnetHdr)(unsafe.Pointer(prefix))
	*vnet = vnetHdr{}
	copy(prefix[vnetHdrLen:], header[:])
	n := vnetHdrLen + ether.HeaderLen
	n += copy(prefix[n:], first.Head)
	head := prefix[vnetHdrLen+ether.HeaderLen : n]
	if len(run) > 1 {
		s.layRun(head, vnet, size, len(first.Body))
		s.summed = true
	}
	if s.summed {
		s.laySum(head, vnet, size)
	}
	iov, h := &s.iovs[i], &s.msgs[i].Hdr
	if size <= copyMax {
		n += copy(prefix[n:], unsafe.Slice(unsafe.SliceData(first.Body), size))
		h.SetIovlen(1)
	} else {
		iov[1].Base = unsafe.SliceData(first.Body)
		iov[1].SetLen(size)
		h.SetIovlen(2)
	}
	iov[0].SetLen(n)
}

// layRun gives the head of the first frame, copied to head, the lengths of the whole run. vnet says
// where to cut.
func (s *sender) layRun(head []byte, vnet *vnetHdr, size, segment int) {
	if len(head) == wire.Head4Len {
		h := (*wire.IPv4)(head)
		h.SetTotalLength(uint16(len(head) + size))
		h.UpdateChecksum()
	} else {
		binary.BigEndian.PutUint16(head[4:], uint16(udpLen+size))
	}
	binary.BigEndian.PutUint16(head[len(head)-udpLen+4:], uint16(udpLen+size))
	vnet.gsoType, vnet.gsoSize, vnet.hdrLen = unix.VIRTIO_NET_HDR_GSO_UDP_L4, uint16(segment),
		uint16(ether.HeaderLen+len(head))
}

// laySum puts the sum of the pseudo-header where the UDP checksum will be. vnet says what to sum.
func (s *sender) laySum(head []byte, vnet *vnetHdr, size int) {
	udp, addresses := len(head)-udpLen, head[8:len(head)-udpLen]
	if len(head) == wire.Head4Len {
		addresses = head[12:20]
	}
	binary.BigEndian.PutUint16(head[udp+6:], fold(sum16(addresses)+unix.IPPROTO_UDP+uint32(udpLen+size)))
	vnet.flags, vnet.csumStart, vnet.csumOffset = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, uint16(ether.HeaderLen+udp), 6
}

// sendMessages sends n messages and returns how many went; errno is why the next one did not.
func (s *sender) sendMessages(n int) (done int, errno syscall.Errno) {
	for done < n {
		var r uintptr
		var e syscall.Errno
		if iov := &s.iovs[done]; n-done == 1 && s.msgs[done].Hdr.Iovlen == 1 {
			_, _, e = syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(iov[0].Base)),
				uintptr(iov[0].Len), unix.MSG_DONTWAIT, 0, 0)
			r = 1
		} else {
			r, _, e = syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.msgs[done])),
				uintptr(n-done), unix.MSG_DONTWAIT, 0, 0)
		}
		switch e {
		case 0:
			done += int(r)
		case syscall.EINTR:
		default:
			return done, e
		}
	}
	return done, 0
}

// refused deals with the first message of what could not be sent: wait, try another way, or skip
// its frames. The error is one of the socket as a whole.
func (s *sender) refused(errno syscall.Errno, run int) (skip int, short host.Shortage, err error) {
	switch errno {
	case syscall.EAGAIN, syscall.ENOMEM:
		return 0, host.SendBuffer, nil
	case syscall.ENOBUFS:
		if run > 1 && s.throughQueue() {
			return 0, host.Nothing, nil
		}
		return 0, host.DriverQueue, nil
	// ENXIO says that the interface is gone.
	case syscall.EBADF, syscall.ENOTSOCK, syscall.EFAULT, syscall.ENXIO, syscall.ENODEV:
		return 0, host.Nothing, errno
	case syscall.EINVAL, syscall.EIO, syscall.EOPNOTSUPP:
		if run > 1 {
			s.single.Store(true)
			s.port.Degrade("UDP segmentation", "packets are sent one by one", errno)
			return 0, host.Nothing, nil
		}
	}
	s.port.Lost(errno, run)
	return run, host.Nothing, nil
}

// throughQueue turns PACKET_QDISC_BYPASS off. What bypasses the queue must be such that the driver
// takes it as it is; runs that it can not cut itself are dropped, with the same error as when it
// has no room. So the first run that is refused decides: from then on the queue's side of the
// kernel cuts them.
func (s *sender) throughQueue() bool {
	if s.queued || s.cut {
		return false
	}
	s.queued = unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 0) == nil
	if s.queued {
		s.port.Degrade("PACKET_QDISC_BYPASS",
			"packets pass the interface's queue, as it has no UDP segmentation of its own", nil)
	}
	return s.queued
}

// aside deals with a frame that is not for the interface, or not only.
func (s *sender) aside(f *wire.Frame, went *count.Tally) (short host.Shortage, err error) {
	p := s.port
	header := p.HeaderFor(f)
	switch {
	case p.Hop.Self() && !p.Hop.Multicast():
		if !p.ToSelf(f) {
			return host.DriverQueue, nil // until the next Recv
		}
		went.Add(1, len(f.Body))
	case header == nil && p.Peers.Gone():
		return host.Nothing, unix.ENXIO
	case header == nil:
		p.Unreachable()
	case f.Len() > p.Peers.MTU():
		p.Lost(syscall.EMSGSIZE, 1)
	default: // to a group that we have joined: as on any interface, what is lost on the way is lost
		s.layMessage(0, unsafe.Slice(f, 1), header)
		if _, errno := s.sendMessages(1); errno != 0 {
			if _, short, err = s.refused(errno, 1); short != host.Nothing || err != nil {
				return short, err
			}
		} else {
			went.Add(1, len(f.Body))
		}
		if !p.ToSelf(f) {
			p.RecvOverflow.Add(1)
		}
	}
	return host.Nothing, nil
}
