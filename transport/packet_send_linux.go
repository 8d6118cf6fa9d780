// Sending: a run of frames becomes one packet with one header and a virtio_net_hdr that says how to cut it; up to
// sendSlots packets leave with one sendmmsg, a single small one with sendto, which is cheaper.
//
//	message │ prefix: virtio_net_hdr, Ethernet, IP, UDP │ bodies of the run, where the batch has them │
//
// The kernel, or the interface, numbers the segments: the IPv4 Identification counts on from the first one's, which is how
// the batch has numbered and sealed them. It also fills in their UDP checksums and wants the sum of the pseudo-header in
// place for that. Single packets have UDP checksum 0, as from RoCE hardware, until the first run has left. After that they have one
// too: a receiving Linux that merges packets (UDP_GRO) lets those without pass by those that it is merging, which to RC and UC is loss.
//
// A transmit ring (PACKET_TX_RING) does not pay: measured beside this, it took a quarter more time for a small packet, and
// for runs the copy into the ring cost what it saved.
//
// Frames that go nowhere, or to ourselves, are taken out one by one between two system calls.

package transport

import (
	"encoding/binary"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

const (
	prefixMax = vnetHdrLen + etherLen + wire.HeadMax
	// copyMax is up to which length a body is copied behind its prefix, which is cheaper than a second piece of memory.
	copyMax = 256
)

type packetSender struct {
	port   *packetPort
	fd     int
	maxRun int
	single atomic.Bool // the kernel has refused runs since
	queued bool        // PACKET_QDISC_BYPASS is off, see refused
	cut    bool        // a run has left with it on
	summed bool        // every packet has a UDP checksum: there was a run

	prefixes [][prefixMax + copyMax]byte
	msgs     []message
	iovs     [][2]unix.Iovec
	runs     []int // how many frames each message holds
	bytes    []int // and how many bytes
}

func (s *packetSender) init(p *packetPort) {
	s.port, s.fd, s.maxRun = p, p.tx, min(p.opt.MaxRun, longestRun())
	s.prefixes = make([][prefixMax + copyMax]byte, sendSlots)
	s.msgs = make([]message, sendSlots)
	s.iovs = make([][2]unix.Iovec, sendSlots)
	s.runs = make([]int, sendSlots)
	s.bytes = make([]int, sendSlots)
	for i := range s.msgs {
		s.msgs[i].hdr.Iov = &s.iovs[i][0]
		s.iovs[i][0].Base = &s.prefixes[i][0]
	}
}

// runLimit is the longest run that leaves as one message.
func (s *packetSender) runLimit() int {
	if s.single.Load() {
		return 1
	}
	return s.maxRun
}

// tally is what one Send has handed over.
type tally struct{ frames, bytes, runs int }

func (t *tally) add(frames, bytes int) {
	t.frames += frames
	t.bytes += bytes
	if frames > 1 {
		t.runs++
	}
}

// Send hands the frames of b to the interface.
func (p *packetPort) Send(b *wire.Batch) (sent int, err error) {
	if p.closed.Load() {
		return 0, ErrClosed
	}
	var went tally
	sent, short, err := p.send.send(b, &went)
	p.sent(went.frames, went.bytes)
	p.sendRuns += uint64(went.runs)
	if short != nothing {
		p.sendBlocked.Add(1)
	}
	p.sleep.lack(short)
	return sent, err
}

// send goes through the batch: messages as many as fit one system call, or one frame that is not for the interface alone.
func (s *packetSender) send(b *wire.Batch, went *tally) (sent int, short shortage, err error) {
	frames := b.Frames()
	for sent < len(frames) {
		n := s.lay(b, frames, sent)
		if n == 0 {
			if short, err = s.aside(&frames[sent], went); short != nothing || err != nil {
				return sent, short, err
			}
			sent++
			continue
		}
		done, errno := s.sendMessages(n)
		for i := range done {
			sent += s.runs[i]
			went.add(s.runs[i], s.bytes[i])
		}
		if done < n {
			skip, short, err := s.refused(errno, s.runs[done])
			if short != nothing || err != nil {
				return sent, short, err
			}
			sent += skip
		}
	}
	return sent, nothing, nil
}

// lay prepares messages for frames[at:], up to the first frame that is not for the interface alone, and returns how many.
func (s *packetSender) lay(b *wire.Batch, frames []wire.Frame, at int) (n int) {
	limit, mtu := s.runLimit(), int(s.port.peers.mtu.Load())
	for n < len(s.msgs) && at < len(frames) {
		f := &frames[at]
		header := s.port.headerFor(f)
		if header == nil || f.Len() > mtu || s.port.hop.self.Load() {
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
func (s *packetSender) layMessage(i int, run []wire.Frame, header *etherHeader) {
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
	n := vnetHdrLen + etherLen
	n += copy(prefix[n:], first.Head)
	head := prefix[vnetHdrLen+etherLen : n]
	if len(run) > 1 {
		s.layRun(head, vnet, size, len(first.Body))
		s.summed = true
	}
	if s.summed {
		s.laySum(head, vnet, size)
	}
	iov, h := &s.iovs[i], &s.msgs[i].hdr
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

// layRun gives the head of the first frame, copied to head, the lengths of the whole run. vnet says where to cut.
func (s *packetSender) layRun(head []byte, vnet *vnetHdr, size, segment int) {
	if len(head) == wire.Head4Len {
		h := (*wire.IPv4)(head)
		h.SetTotalLength(uint16(len(head) + size))
		h.UpdateChecksum()
	} else {
		binary.BigEndian.PutUint16(head[4:], uint16(udpLen+size))
	}
	binary.BigEndian.PutUint16(head[len(head)-udpLen+4:], uint16(udpLen+size))
	vnet.gsoType, vnet.gsoSize, vnet.hdrLen = unix.VIRTIO_NET_HDR_GSO_UDP_L4, uint16(segment), uint16(etherLen+len(head))
}

// laySum puts the sum of the pseudo-header where the UDP checksum will be. vnet says what to sum.
func (s *packetSender) laySum(head []byte, vnet *vnetHdr, size int) {
	udp, addresses := len(head)-udpLen, head[8:len(head)-udpLen]
	if len(head) == wire.Head4Len {
		addresses = head[12:20]
	}
	binary.BigEndian.PutUint16(head[udp+6:], fold(sum16(addresses)+unix.IPPROTO_UDP+uint32(udpLen+size)))
	vnet.flags, vnet.csumStart, vnet.csumOffset = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, uint16(etherLen+udp), 6
}

// sendMessages sends n messages and returns how many went; errno is why the next one did not.
func (s *packetSender) sendMessages(n int) (done int, errno syscall.Errno) {
	for done < n {
		var r uintptr
		var e syscall.Errno
		if iov := &s.iovs[done]; n-done == 1 && s.msgs[done].hdr.Iovlen == 1 {
			_, _, e = syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(iov[0].Base)), uintptr(iov[0].Len), unix.MSG_DONTWAIT, 0, 0)
			r = 1
		} else {
			r, _, e = syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.msgs[done])), uintptr(n-done), unix.MSG_DONTWAIT, 0, 0)
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

// refused deals with the first message of what could not be sent: wait, try another way, or skip its frames. The error is
// one of the socket as a whole.
func (s *packetSender) refused(errno syscall.Errno, run int) (skip int, short shortage, err error) {
	switch errno {
	case syscall.EAGAIN, syscall.ENOMEM:
		return 0, sendBuffer, nil
	case syscall.ENOBUFS:
		if run > 1 && s.throughQueue() {
			return 0, nothing, nil
		}
		return 0, driverQueue, nil
	case syscall.EBADF, syscall.ENOTSOCK, syscall.EFAULT, syscall.ENXIO, syscall.ENODEV: // ENXIO: the interface is gone
		return 0, nothing, errno
	case syscall.EINVAL, syscall.EIO, syscall.EOPNOTSUPP:
		if run > 1 {
			s.single.Store(true)
			s.port.degrade("UDP segmentation", "packets are sent one by one", errno)
			return 0, nothing, nil
		}
	}
	s.port.lost(errno, run)
	return run, nothing, nil
}

// throughQueue turns PACKET_QDISC_BYPASS off. What bypasses the queue must be such that the driver takes it as it is; runs
// that it can not cut itself are dropped, with the same error as when it has no room. So the first run that is refused
// decides: from then on the queue's side of the kernel cuts them.
func (s *packetSender) throughQueue() bool {
	if s.queued || s.cut {
		return false
	}
	s.queued = unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 0) == nil
	if s.queued {
		s.port.degrade("PACKET_QDISC_BYPASS", "packets pass the interface's queue, as it has no UDP segmentation of its own", nil)
	}
	return s.queued
}

// aside deals with a frame that is not for the interface, or not only.
func (s *packetSender) aside(f *wire.Frame, went *tally) (short shortage, err error) {
	p := s.port
	header := p.headerFor(f)
	switch {
	case p.hop.self.Load() && !p.hop.dst.IsMulticast():
		if !p.toSelf(f) {
			return driverQueue, nil // until the next Recv
		}
		went.add(1, len(f.Body))
	case header == nil && p.peers.gone.Load():
		return nothing, unix.ENXIO
	case header == nil:
		p.unreachable()
	case f.Len() > int(p.peers.mtu.Load()):
		p.lost(syscall.EMSGSIZE, 1)
	default: // to a group that we have joined: as on any interface, what is lost on the way is lost
		s.layMessage(0, unsafe.Slice(f, 1), header)
		if _, errno := s.sendMessages(1); errno != 0 {
			if _, short, err = s.refused(errno, 1); short != nothing || err != nil {
				return short, err
			}
		} else {
			went.add(1, len(f.Body))
		}
		if !p.toSelf(f) {
			p.recvOverflow.Add(1)
		}
	}
	return nothing, nil
}
