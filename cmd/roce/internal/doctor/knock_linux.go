package doctor

// Datagrams that may not be fragmented, and what becomes of them: the ICMP message that comes back,
// as an error of the socket, and who has sent it.
// Stages: knocking until something is known; two sizes side by side; one knock; the ICMP message.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/route"
)

// A datagram is sent up to knocks times, one a pace, until something is known: it may be lost, and
// so may ICMP. Linux has six messages for a machine, and after them one a second: after a rest it
// has one again.
const (
	knocks = 8
	pace   = 250 * time.Millisecond
	rest   = 1200 * time.Millisecond
)

// knock sends a datagram to a port of the peer until something is known of it.
func knock(ctx context.Context, r route.Route, peer netip.Addr, port uint16, datagram []byte) (p probe) {
	d, err := newDoor(r, peer, port)
	if err != nil {
		return probe{answer: probeFailed, err: err}
	}
	defer d.Close()
	for i := 0; i < knocks && !p.known() && ctx.Err() == nil; i++ {
		p = d.knock(datagram)
	}
	return p
}

// compare sends a datagram of n bytes and then a short one, in turns, to ports that nobody has. If
// the peer has an answer to spare the long one is the first to get it. So that one is silent if the
// short one behind it was answered: twice, the second time after a rest, as the answer of the first
// time may have been one that the peer did not have a moment before. n is 0 if there is nothing to
// compare.
func compare(ctx context.Context, r route.Route, peer netip.Addr, n int) (short, long probe) {
	a, err := newDoor(r, peer, nobodysUDP)
	if err != nil {
		return probe{answer: probeFailed, err: err}, probe{}
	}
	defer a.Close()
	b, err := newDoor(r, peer, nobodysUDP+1)
	if err != nil {
		return probe{answer: probeFailed, err: err}, probe{}
	}
	defer b.Close()
	missed := 0
	for i := 0; i < knocks && missed < 2 && ctx.Err() == nil; i++ {
		if n > 0 && !long.known() {
			long = b.knock(make([]byte, n))
		}
		if long.arrived(peer) {
			return long, long
		}
		if p := a.knock(make([]byte, 1)); p.known() {
			short = p
			if missed++; n == 0 || long.known() {
				break
			}
			if missed == 1 {
				wait(ctx, rest)
			}
		}
	}
	if long.answer == probeSilent && missed < 2 {
		long = probe{}
	}
	return short, long
}

// wait sleeps until ctx ends at most.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// door is a socket for datagrams to one port of the peer.
type door struct {
	*net.UDPConn
	raw       interface{ Control(func(fd uintptr)) error }
	own, peer netip.Addr
}

func newDoor(r route.Route, peer netip.Addr, port uint16) (*door, error) {
	from := net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.Source, 0))
	c, err := net.DialUDP("udp", from, net.UDPAddrFromAddrPort(netip.AddrPortFrom(zonedLike(peer, r), port)))
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err == nil {
		err = dontFragment(raw, peer.Is4())
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &door{c, raw, r.Source.WithZone(""), peer.WithZone("")}, nil
}

// zonedLike is the peer with the route's interface as its zone if it needs one.
func zonedLike(peer netip.Addr, r route.Route) netip.Addr {
	if peer.IsLinkLocalUnicast() && peer.Is6() && peer.Zone() == "" {
		return peer.WithZone(r.Interface)
	}
	return peer
}

// dontFragment has the kernel fragment nothing, say where a packet is too long for the path, and
// keep the ICMP messages that come back.
func dontFragment(raw interface{ Control(func(fd uintptr)) error }, four bool) error {
	level, discover, do, keep := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO, unix.IP_RECVERR
	if !four {
		level, discover, do, keep = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO, unix.IPV6_RECVERR
	}
	var opt error
	err := raw.Control(func(fd uintptr) {
		opt = errors.Join(unix.SetsockoptInt(int(fd), level, discover, do), unix.SetsockoptInt(int(fd), level, keep, 1))
	})
	return errors.Join(err, opt)
}

// knock sends a datagram and waits a while for what becomes of it.
func (d *door) knock(datagram []byte) probe {
	_, err := d.Write(datagram)
	if err == nil {
		d.SetReadDeadline(time.Now().Add(pace))
		var in [1]byte
		_, err = d.Read(in[:]) // who answers has the port, contrary to expectations
	}
	by, says := d.message()
	switch {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return probe{answer: probeSilent}
	case errors.Is(err, unix.EMSGSIZE):
		return probe{answer: probeTooLong}
	case by == d.peer && errors.Is(err, unix.ECONNREFUSED):
		return probe{answer: probeRefused}
	case by.IsValid() && by != d.own:
		return probe{answer: probeBarred, by: by, err: says}
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENOBUFS):
		// Our kernel's words for a silent neighbour, which another check tells, and for a link that
		// has dropped the packet.
		return probe{answer: probeSilent}
	}
	return probe{answer: probeFailed, err: err}
}

// message takes the latest ICMP message that is kept: who has sent it, and what it says. The
// kernel's own errors have no sender.
func (d *door) message() (by netip.Addr, says error) {
	var data [1]byte
	var control [512]byte
	d.raw.Control(func(fd uintptr) {
		for {
			_, n, _, _, err := unix.Recvmsg(int(fd), data[:], control[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err != nil {
				return
			}
			list, _ := unix.ParseSocketControlMessage(control[:n])
			for _, m := range list {
				if m.Header.Type == unix.IP_RECVERR || m.Header.Type == unix.IPV6_RECVERR {
					by, says = parseError(m.Data)
				}
			}
		}
	})
	return by, says
}

// parseError reads a struct sock_extended_err and the socket address behind it.
func parseError(b []byte) (by netip.Addr, says error) {
	const size = 16 // of the struct; below: the places of its members, and of those of a sockaddr
	const origin, icmpType, icmpCode, addr4, addr6 = 4, 5, 6, size + 4, size + 8
	if len(b) < size || b[origin] != unix.SO_EE_ORIGIN_ICMP && b[origin] != unix.SO_EE_ORIGIN_ICMP6 {
		return by, nil
	}
	switch family := binary.NativeEndian.Uint16(append(b[size:len(b):len(b)], 0, 0)); {
	case family == unix.AF_INET && len(b) >= addr4+4:
		by = netip.AddrFrom4([4]byte(b[addr4:]))
	case family == unix.AF_INET6 && len(b) >= addr6+16:
		by = netip.AddrFrom16([16]byte(b[addr6:])).Unmap()
	}
	words := unreachable[[2]byte(b[icmpType:])]
	if words == "" {
		words = "ICMP"
	}
	return by, fmt.Errorf("%s (type %d, code %d)", words, b[icmpType], b[icmpCode])
}

// unreachable are what types and codes of ICMP and ICMPv6 say.
var unreachable = map[[2]byte]string{
	{3, 0}: "network unreachable", {3, 1}: "host unreachable", {3, 3}: "port unreachable",
	{3, 9}: "network prohibited", {3, 10}: "host prohibited", {3, 13}: "administratively prohibited",
	{1, 0}: "no route", {1, 1}: "administratively prohibited", {1, 3}: "address unreachable",
	{1, 4}: "port unreachable",
	{1, 5}: "source address failed policy", {1, 6}: "route rejected",
}
