package udp

// The UDP port by means of package net alone, for systems without recvmmsg. One goroutine reads the
// socket into a bounded queue; TOS and TTL of what arrives are not known. It works, and is not made
// for speed.
//
// Stages of this file: opening; the reader; Recv, which lends what the reader has queued; Send.

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

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/count"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/transport/internal/park"
	"github.com/goroce/goroce/wire"
)

const portableQueue = 1024 // packets between the reader and Recv

type portable struct {
	name   string
	addr   netip.Addr
	gid    wire.GID
	opt    transport.Options
	conn   *net.UDPConn
	parker park.Parker
	maker  headMaker
	note   []transport.Degradation

	queue  chan *datagram // from the reader
	free   chan *datagram // back to the reader
	lent   []*datagram
	closed atomic.Bool
	reader sync.WaitGroup
	count.Counters
}

type datagram struct {
	head [wire.HeadMax]byte
	body []byte
	n    int
	from netip.AddrPort
}

func openPortable(name, where string, lanes int, o transport.Options) ([]transport.Port, error) {
	if lanes > 1 {
		return nil, &transport.OpenError{Name: name,
			Reason: fmt.Sprintf("%d lanes: on %s a udp port has one, as nothing steers packets there",
				lanes, runtime.GOOS)}
	}
	addr, _, err := host.Address(name, where)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, uint16(o.UDPPort))))
	if err != nil {
		return nil, host.BindError(name, addr, o.UDPPort, err)
	}
	p := &portable{name: name, addr: addr, gid: wire.GIDFrom(addr), opt: o, conn: conn,
		queue: make(chan *datagram, portableQueue), free: make(chan *datagram, portableQueue)}
	p.parker = park.New()
	if err := conn.SetReadBuffer(o.RecvBuffer); err != nil {
		p.note = append(p.note, transport.Degradation{
			Feature: "receive buffer",
			Effect:  "the system's default: bursts may be lost",
			Err:     err,
		})
	}
	if err := dontFragment(conn); err != nil && addr.Is4() {
		p.note = append(p.note, transport.Degradation{Feature: "don't fragment",
			Effect: "the ICRC of what is sent over IPv4 is wrong for peers that check Identification and flags",
			Err:    err})
	}
	p.reader.Go(p.read)
	return []transport.Port{p}, nil
}

// read runs until the socket is closed.
func (p *portable) read() {
	for {
		d := p.buffer()
		n, from, err := p.conn.ReadFromUDPAddrPort(d.body)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// This is an ICMP message that some packet of ours has caused, or a datagram too long.
			p.RecvBad.Add(1)
			continue
		}
		d.n, d.from = n, from
		select {
		case p.queue <- d:
			p.parker.Unpark()
		default:
			p.RecvOverflow.Add(1)
		}
	}
}

// buffer takes a used buffer, or makes one until there are as many as the queue and a Recv can
// hold.
func (p *portable) buffer() *datagram {
	select {
	case d := <-p.free:
		return d
	default:
		return &datagram{body: make([]byte, 1<<16)}
	}
}

// Recv lends what the reader has queued.
func (p *portable) Recv(frames []wire.Frame) (n int, err error) {
	if p.closed.Load() {
		return 0, transport.ErrClosed
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
	p.Received(frames[:n])
	return n, nil
}

func (p *portable) frame(f *wire.Frame, d *datagram) bool {
	port := d.from.Port()
	if int(port) == p.opt.UDPPort {
		port = wire.UDPPort
	}
	n := p.maker.put(d.head[:], wire.GIDFrom(d.from.Addr().Unmap()), p.gid, port, 0, 64, d.n, 0)
	if n == 0 {
		p.RecvBad.Add(1)
		return false
	}
	*f = wire.Frame{Head: d.head[:n:n], Body: d.body[:d.n:d.n], Flags: wire.FrameSynthHead}
	return true
}

// Send sends one datagram per frame. Package net blocks where others find no room, so it always
// has.
func (p *portable) Send(b *wire.Batch) (sent int, err error) {
	if p.closed.Load() {
		return 0, transport.ErrClosed
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
			p.SendTooLong.Add(1)
		case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
			p.SendUnreachable.Add(1)
		default:
			p.SendRefused.Add(1)
		}
		p.LastError(err)
	}
	p.Sent(ok, bytes)
	return len(frames), nil
}

// Wait returns at once if something is queued.
func (p *portable) Wait(timeout time.Duration) error {
	if p.closed.Load() {
		return transport.ErrClosed
	}
	if len(p.queue) == 0 {
		p.parker.Park(timeout)
	}
	return nil
}

// Wake ends a Wait.
func (p *portable) Wake() { p.parker.Unpark() }

// Info describes the port.
func (p *portable) Info() transport.Info {
	info := transport.Info{
		Name:     p.name,
		Kind:     "udp",
		Why:      p.opt.Why,
		GIDs:     []wire.GID{p.gid},
		SrcPort:  wire.UDPPort,
		MaxRun:   1,
		Degraded: p.note,
	}
	if p.addr.Is4() {
		info.ICRC = transport.ICRCSolved
	}
	host.DescribeLink(&info, p.addr)
	return info
}

// Close frees address and port, and ends the reader.
func (p *portable) Close() error {
	if p.closed.Swap(true) {
		return transport.ErrClosed
	}
	err := p.conn.Close()
	p.reader.Wait()
	return err
}
