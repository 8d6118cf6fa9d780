package route

// The kernel's answer to "how would you send from here to there" (RTM_GETROUTE), and what it says
// of the interface, unless the caller knows that already. All questions go by one socket, which is
// opened for them: the calling thread may be in another network namespace than the last.

import (
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ask asks the kernel. known is the interface that has the source address, or the zero Link.
func ask(q question, known Link) (Route, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return Route{}, err
	}
	defer h.Close()
	r, found, err := lookUp(h, q)
	if err != nil {
		return Route{}, err
	}
	index, link := found.LinkIndex, known
	switch {
	case r.Local && known.Index != 0:
		index = known.Index
	case r.Local: // the kernel says lo, whose address it is not
		index = holder(h, r.Source, q.oif, index)
	}
	if index != known.Index {
		l, err := h.LinkByIndex(index)
		if err != nil {
			return Route{}, err
		}
		link = Link{Name: l.Attrs().Name, Index: index, MTU: l.Attrs().MTU}
	}
	r.Interface, r.Index, r.NetMTU = link.Name, link.Index, link.MTU
	if found.MTU > 0 {
		r.NetMTU = min(found.MTU, link.MTU)
	}
	r.Source, r.NextHop = zoned(r.Source, link.Name), zoned(r.NextHop, link.Name)
	return r, nil
}

// source asks for the source address alone, without its zone.
func source(q question) (netip.Addr, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return netip.Addr{}, err
	}
	defer h.Close()
	r, _, err := lookUp(h, q)
	return r.Source, err
}

// lookUp is the kernel's answer, and what it says of the addresses.
func lookUp(h *netlink.Handle, q question) (r Route, found *netlink.Route, err error) {
	o := &netlink.RouteGetOptions{OifIndex: q.oif}
	if q.src.IsValid() {
		o.SrcAddr = q.src.AsSlice()
	}
	routes, err := h.RouteGetWithOptions(q.dst.AsSlice(), o)
	if err != nil {
		return r, nil, err
	}
	if len(routes) == 0 {
		return r, nil, unix.ENETUNREACH
	}
	found = &routes[0]
	r = Route{Source: q.src, NextHop: q.dst, Local: found.Type == unix.RTN_LOCAL}
	if from, ok := netip.AddrFromSlice(found.Src); ok && !q.src.IsValid() {
		r.Source = from.Unmap()
	}
	if via := nextHop(found); via.IsValid() {
		r.NextHop = via
	}
	return r, found, nil
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

// holder is the interface that has an address; of link-local ones, which several may have, the one
// with the index among, if that is not 0. If none has it, it is otherwise.
func holder(h *netlink.Handle, a netip.Addr, among, otherwise int) int {
	list, err := h.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return otherwise
	}
	for _, have := range list {
		// 127.0.0.0/8 as a whole is lo's.
		local := have.IP.Equal(a.AsSlice()) || have.IP.IsLoopback() && have.Contains(a.AsSlice())
		if local && (among == 0 || have.LinkIndex == among) {
			return have.LinkIndex
		}
	}
	return otherwise
}
