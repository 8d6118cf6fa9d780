package route

// The kernel's answer to "how would you send from here to there" (RTM_GETROUTE).

import (
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ask asks the kernel. src may be invalid, oif 0.
func ask(dst, src netip.Addr, oif int) (Route, error) {
	o := &netlink.RouteGetOptions{OifIndex: oif}
	if src.IsValid() {
		o.SrcAddr = src.AsSlice()
	}
	routes, err := netlink.RouteGetWithOptions(dst.AsSlice(), o)
	if err != nil {
		return Route{}, err
	}
	if len(routes) == 0 {
		return Route{}, unix.ENETUNREACH
	}
	found := routes[0]
	r := Route{Index: found.LinkIndex, Source: src, NextHop: dst, Local: found.Type == unix.RTN_LOCAL}
	if from, ok := netip.AddrFromSlice(found.Src); ok && !src.IsValid() {
		r.Source = from.Unmap()
	}
	if via := nextHop(&found); via.IsValid() {
		r.NextHop = via
	}
	link, err := net.InterfaceByIndex(r.Index)
	if err != nil {
		return Route{}, err
	}
	if r.Local { // the kernel says lo, whose address it is not
		if own, err := holder(r.Source, oif); err == nil {
			link = own
		}
	}
	r.Interface, r.Index, r.NetMTU = link.Name, link.Index, link.MTU
	if found.MTU > 0 {
		r.NetMTU = min(found.MTU, link.MTU)
	}
	r.Source, r.NextHop = zoned(r.Source, link.Name), zoned(r.NextHop, link.Name)
	return r, nil
}

// nextHop is the gateway; invalid if there is none.
func nextHop(r *netlink.Route) netip.Addr {
	gw := r.Gw
	if v, ok := r.Via.(*netlink.Via); ok && gw == nil {
		gw = v.Addr
	}
	via, _ := netip.AddrFromSlice(gw)
	return via.Unmap()
}
