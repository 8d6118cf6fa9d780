package costs

// ping: ICMP echo requests, which the peer's kernel answers; no program there takes part.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// ping is the client's end; the server's does nothing.
type ping struct {
	*side
	conn        *icmp.PacketConn
	to          net.Addr
	echo, reply icmp.Type
	protocol    int
	id          int
	payload     []byte
	in          []byte
}

func openPing(s *side, _ way) (end, error) {
	p := &ping{side: s}
	if !s.client {
		return p, nil
	}
	if err := s.fitsDatagram(); err != nil {
		return nil, err
	}
	to, err := netip.ParseAddr(s.remote)
	if err != nil {
		return nil, err
	}
	datagrams, raw, at := "udp4", "ip4:icmp", "0.0.0.0"
	p.echo, p.reply, p.protocol = ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply, 1
	if to.Is6() {
		datagrams, raw, at = "udp6", "ip6:ipv6-icmp", "::"
		p.echo, p.reply, p.protocol = ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply, 58
	}
	p.id, p.payload, p.in = os.Getpid()&0xffff, make([]byte, s.size), make([]byte, s.size+1024)
	if p.conn, err = icmp.ListenPacket(datagrams, at); err == nil {
		p.to = net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 0))
		return p, nil
	}
	var rawErr error
	if p.conn, rawErr = icmp.ListenPacket(raw, at); rawErr != nil {
		return nil, fmt.Errorf("neither unprivileged ICMP (net.ipv4.ping_group_range) nor a raw socket: %w; %w",
			err, rawErr)
	}
	p.to = &net.IPAddr{IP: to.AsSlice(), Zone: to.Zone()}
	return p, nil
}

func (p *ping) own() place                        { return place{} }
func (p *ping) meet(context.Context, place) error { return nil }

func (p *ping) ask(ctx context.Context, i int) (lost bool, err error) {
	m := icmp.Message{Type: p.echo, Body: &icmp.Echo{ID: p.id, Seq: i & 0xffff, Data: p.payload}}
	text, err := m.Marshal(nil)
	if err != nil {
		return false, err
	}
	if err := p.conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return false, err
	}
	if _, err := p.conn.WriteTo(text, p.to); err != nil {
		return false, err
	}
	for {
		n, _, err := p.conn.ReadFrom(p.in)
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return true, nil
		case err != nil:
			return false, err
		}
		if p.isReply(p.in[:n], i) {
			return false, nil
		}
	}
}

// isReply says whether a message answers question i. The kernel has changed the identifier if it
// chose the socket; a raw socket also shows what is for others.
func (p *ping) isReply(text []byte, i int) bool {
	m, err := icmp.ParseMessage(p.protocol, text)
	if err != nil || m.Type != p.reply {
		return false
	}
	e, ok := m.Body.(*icmp.Echo)
	_, raw := p.to.(*net.IPAddr)
	return ok && e.Seq == i&0xffff && (!raw || e.ID == p.id)
}

func (p *ping) answer(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (p *ping) close() error {
	if p.conn == nil {
		return nil
	}
	return p.conn.Close()
}
