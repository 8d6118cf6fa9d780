package doctor

// What only Linux tells: by netlink whether the next hop has answered, by ethtool whether a NIC
// divides runs, and by ICMP, as errors of a socket, what became of a datagram.

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/route"
)

// neighbourOf asks for an entry in the kernel's table.
func neighbourOf(link int, hop netip.Addr) neighbour {
	l, err := netlink.LinkByIndex(link)
	switch {
	case err != nil:
		return neighbourUnknown
	case l.Attrs().RawFlags&(unix.IFF_NOARP|unix.IFF_LOOPBACK|unix.IFF_POINTOPOINT) != 0:
		return neighbourNone
	}
	family := netlink.FAMILY_V6
	if hop.Is4() {
		family = netlink.FAMILY_V4
	}
	list, err := netlink.NeighList(link, family)
	if err != nil {
		return neighbourUnknown
	}
	for _, n := range list {
		if a, ok := netip.AddrFromSlice(n.IP); !ok || a.Unmap() != hop.WithZone("") {
			continue
		}
		switch {
		case n.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) != 0:
			return neighbourSilent
		case n.State != netlink.NUD_NONE:
			return neighbourFound
		}
	}
	return neighbourUnknown
}

// cutOf asks whether the interface is a NIC that divides runs of datagrams itself. What is no
// hardware passes them on whole, or has the kernel divide them.
func cutOf(iface string) cut {
	if _, err := os.Stat("/sys/class/net/" + iface + "/device"); os.IsNotExist(err) {
		return cutByKernel
	}
	e, err := ethtool.NewEthtool()
	if err != nil {
		return cutUnknown
	}
	defer e.Close()
	features, err := e.Features(iface)
	switch {
	case err != nil:
		return cutUnknown
	case features["tx-udp-segmentation"]:
		return cutByNIC
	}
	return cutByKernel
}

// A datagram is sent knocks times, one a pace, until something is known: ICMP may be lost too, and
// Linux sends few.
const (
	knocks = 4
	pace   = 250 * time.Millisecond
)

// knock sends a datagram that may not be fragmented, and waits for the ICMP message that says what
// became of it.
func knock(ctx context.Context, r route.Route, peer netip.Addr, port uint16, datagram []byte) probe {
	from := net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.Source, 0))
	c, err := net.DialUDP("udp", from, net.UDPAddrFromAddrPort(netip.AddrPortFrom(zonedLike(peer, r), port)))
	if err != nil {
		return probe{probeFailed, err}
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
	if err := dontFragment(c, peer.Is4()); err != nil {
		return probe{probeFailed, err}
	}
	var in [1]byte
	for range knocks {
		if ctx.Err() != nil {
			break
		}
		if _, err = c.Write(datagram); err == nil {
			c.SetReadDeadline(time.Now().Add(pace))
			_, err = c.Read(in[:]) // who answers has the port, contrary to expectations
		}
		switch {
		case errors.Is(err, unix.ECONNREFUSED):
			return probe{answer: probeRefused}
		case errors.Is(err, unix.EMSGSIZE):
			return probe{answer: probeTooLong}
		case err == nil, errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, unix.EHOSTUNREACH):
			// The last is the kernel's word for a silent neighbour, which another check tells.
		default:
			return probe{probeFailed, err}
		}
	}
	return probe{answer: probeSilent}
}

// zonedLike is the peer with the route's interface as its zone if it needs one.
func zonedLike(peer netip.Addr, r route.Route) netip.Addr {
	if peer.IsLinkLocalUnicast() && peer.Is6() && peer.Zone() == "" {
		return peer.WithZone(r.Interface)
	}
	return peer
}

// dontFragment has the kernel fragment nothing, and say where a packet is too long for the path.
func dontFragment(c *net.UDPConn, four bool) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	level, option, value := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO
	if !four {
		level, option, value = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO
	}
	var opt error
	err = raw.Control(func(fd uintptr) { opt = unix.SetsockoptInt(int(fd), level, option, value) })
	return errors.Join(err, opt)
}
