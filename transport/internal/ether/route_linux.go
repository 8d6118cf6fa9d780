package ether

// Which neighbour leads to an address, and how the kernel is made to look for it.

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// route asks the kernel which neighbour on our interface leads to dst.
func (t *Neighbours) route(dst wire.GID) (via netip.Addr, err error) {
	// The question is asked without naming our interface at first: when it is named and no route
	// leads there, the kernel assumes that dst is on the link, whatever the routes say.
	r, err := t.askRoute(dst, 0)
	if err == nil && r.LinkIndex != t.link.Index && r.Type != unix.RTN_LOCAL || dst.Addr().IsLinkLocalUnicast() {
		r, err = t.askRoute(dst, t.link.Index)
	}
	if err != nil {
		return via, fmt.Errorf("no route to %v by interface %d: %w", dst.Addr(), t.link.Index, err)
	}
	if r.Type == unix.RTN_LOCAL {
		return via, fmt.Errorf("%v is another address of this machine, to which no packet goes by interface %d: use "+
			"udp ports for both: %w",
			dst.Addr(), t.link.Index, unix.EHOSTUNREACH)
	}
	gw := r.Gw
	if v, ok := r.Via.(*netlink.Via); ok && gw == nil {
		gw = v.Addr
	}
	if gw == nil {
		return dst.Addr(), nil
	}
	via, _ = netip.AddrFromSlice(gw)
	return via.Unmap(), nil
}

// askRoute asks for the route from our address to dst, with oif only for routes by that interface.
func (t *Neighbours) askRoute(dst wire.GID, oif int) (r netlink.Route, err error) {
	own, ok := t.sourceFor(dst)
	if !ok {
		return r, unix.EADDRNOTAVAIL
	}
	routes, err := t.link.Handle.RouteGetWithOptions(dst.Addr().AsSlice(),
		&netlink.RouteGetOptions{OifIndex: oif, SrcAddr: own.gid.Addr().AsSlice()})
	if err != nil {
		return r, err
	}
	if len(routes) == 0 {
		return r, unix.ENETUNREACH
	}
	return routes[0], nil
}

// nudge sends an empty datagram, which makes the kernel look for the neighbour. Our own sending is
// invisible to it.
func (t *Neighbours) nudge(dst wire.GID) {
	own, ok := t.sourceFor(dst)
	if !ok {
		return
	}
	control := unix.PktInfo4(&unix.Inet4Pktinfo{Ifindex: int32(t.link.Index)})
	if !dst.Is4() {
		control = unix.PktInfo6(&unix.Inet6Pktinfo{Ifindex: uint32(t.link.Index)})
	}
	unix.Sendmsg(own.nudger, nil, control, host.Sockaddr(dst.Addr(), discardPort, t.link.Index), unix.MSG_DONTWAIT)
}
