// The UDP port by means of package net alone, for systems without recvmmsg. One goroutine reads the socket into a bounded
// queue; TOS and TTL of what arrives are not known. It works, and is not made for speed.
//
// Stages of this file: opening; the reader; Recv, which lends what the reader has queued; Send.

package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goroce/goroce/wire"
)

const portableQueue = 1024 // packets between the reader and Recv

type portableUDP struct {
	name   string
	addr   netip.Addr
	gid    wire.GID
	opt    Options
	conn   *net.UDPConn
	parker parker
	maker  headMaker
	note   []Degradation

	queue  chan *datagram // from the reader
	free   chan *datagram // back to the reader
	lent   []*datagram
	closed atomic.Bool
	reader sync.WaitGroup
	counters
}

type datagram struct {
	head [wire.HeadMax]byte
	body []byte
	n    int
	from netip.AddrPort
}

func openPortableUDP(name, rest string, lanes int, o Options) ([]Port, error) {
	if lanes > 1 {
		return nil, &OpenError{Name: name, Reason: fmt.Sprintf("%d lanes: on %s a udp port has one, as nothing steers packets there", lanes, runtime.GOOS)}
	}
	addr, err := udpAddress(name, rest)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, uint16(o.UDPPort))))
	if err != nil {
		return nil, bindError(name, addr, o.UDPPort, err)
	}
	p := &portableUDP{name: name, addr: addr, gid: wire.GIDFrom(addr), opt: o, conn: conn,
		queue: make(chan *datagram, portableQueue), free: make(chan *datagram, portableQueue)}
	p.parker.init()
	if err := conn.SetReadBuffer(o.RecvBuffer); err != nil {
		p.note = append(p.note, Degradation{"receive buffer", "the system's default: bursts may be lost", err})
	}
	if err := dontFragment(conn); err != nil && addr.Is4() {
		p.note = append(p.note, Degradation{"don't fragment", "the ICRC of what is sent over IPv4 is wrong for peers that check Identification and flags", err})
	}
	p.reader.Go(p.read)
	return []Port{p}, nil
}

// read runs until the socket is closed.
func (p *portableUDP) read() {
	for {
		d := p.buffer()
		n, from, err := p.conn.ReadFromUDPAddrPort(d.body)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			p.recvBad.Add(1) // an ICMP message that some packet of ours has caused, or a datagram too long
			continue
		}
		d.n, d.from = n, from
		select {
		case p.queue <- d:
			p.parker.unpark()
		default:
			p.recvOverflow.Add(1)
		}
	}
}

// buffer takes a used buffer, or makes one until there are as many as the queue and a Recv can hold.
func (p *portableUDP) buffer() *datagram {
	select {
	case d := <-p.free:
		return d
	default:
		return &datagram{body: make([]byte, 1<<16)}
	}
}

// Recv lends what the reader has queued.
func (p *portableUDP) Recv(frames []wire.Frame) (n int, err error) {
	if p.closed.Load() {
		return 0, ErrClosed
	}
	for _, d := range p.lent {
		select {
		case p.free <- d:
		default: // there are enough
		}
	}
	p.lent = p.lent[:0]
	for n < len(frames) {
		select {
		case d := <-p.queue:
			p.lent = append(p.lent, d)
			if p.frame(&frames[n], d) {
				n++
			}
			continue
		default:
		}
		break
	}
	p.received(frames[:n])
	return n, nil
}

func (p *portableUDP) frame(f *wire.Frame, d *datagram) bool {
	port := d.from.Port()
	if int(port) == p.opt.UDPPort {
		port = wire.UDPPort
	}
	n := p.maker.put(d.head[:], wire.GIDFrom(d.from.Addr().Unmap()), p.gid, port, 0, 64, d.n, 0)
	if n == 0 {
		p.recvBad.Add(1)
		return false
	}
	*f = wire.Frame{Head: d.head[:n:n], Body: d.body[:d.n:d.n], Flags: wire.FrameSynthHead}
	return true
}

// Send sends one datagram per frame. Package net blocks where others find no room, so it always has.
func (p *portableUDP) Send(b *wire.Batch) (sent int, err error) {
	if p.closed.Load() {
		return 0, ErrClosed
	}
	frames := b.Frames()
	ok, bytes := 0, 0
	for i := range frames {
		f := &frames[i]
		to := f.Dst().Addr()
		if to.Is6() && to.IsLinkLocalUnicast() {
			to = to.WithZone(p.addr.Zone())
		}
		_, err := p.conn.WriteToUDPAddrPort(f.Body, netip.AddrPortFrom(to, uint16(p.opt.UDPPort)))
		switch {
		case err == nil:
			ok++
			bytes += len(f.Body)
			continue
		case errors.Is(err, net.ErrClosed):
			return i, err
		case errors.Is(err, syscall.EMSGSIZE):
			p.sendTooLong.Add(1)
		case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
			p.sendUnreachable.Add(1)
		default:
			p.sendRefused.Add(1)
		}
		p.lastSendError.Store(&err)
	}
	p.sent(ok, bytes)
	return len(frames), nil
}

// Wait returns at once if something is queued.
func (p *portableUDP) Wait(timeout time.Duration) error {
	if p.closed.Load() {
		return ErrClosed
	}
	if len(p.queue) == 0 {
		p.parker.park(timeout)
	}
	return nil
}

// Wake ends a Wait.
func (p *portableUDP) Wake() { p.parker.unpark() }

// Info describes the port.
func (p *portableUDP) Info() Info {
	info := Info{Name: p.name, Kind: "udp", Why: p.opt.why, GIDs: []wire.GID{p.gid}, SrcPort: wire.UDPPort, MaxRun: 1, Degraded: p.note}
	if p.addr.Is4() {
		info.ICRC = ICRCSolved
	}
	info.describeLink(p.addr)
	return info
}

// Stats returns the counters.
func (p *portableUDP) Stats() Stats { return p.stats() }

// Close frees address and port, and ends the reader.
func (p *portableUDP) Close() error {
	if p.closed.Swap(true) {
		return ErrClosed
	}
	err := p.conn.Close()
	p.reader.Wait()
	return err
}
