// Package route finds how packets get from this machine to an IP address: the interface, the source
// address, the next hop and the path MTU, as the kernel's routing tables have it in the network
// namespace of the calling thread.
//
//	route.go        what a route is (this file)
//	route_linux.go  by netlink
//	route_other.go  by package net, where there is no netlink: without the next hop
package route

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/goroce/goroce/wire"
)

// ErrNoRoute is matched by the errors of an address that cannot be reached from here.
var ErrNoRoute = errors.New("no route")

// Route is the way to a destination.
type Route struct {
	Interface string     // "eth0"; that of the source address if Local
	Index     int        // of the interface
	Source    netip.Addr // the address to send from, with a zone if it is link-local
	// NextHop is whose Ethernet address packets are sent to: a gateway, or the destination itself.
	// It is invalid where it is not known (other systems than Linux).
	NextHop netip.Addr
	NetMTU  int  // longest IP packet in bytes: of the route if that has one, or of the interface
	Local   bool // the destination is an address of this machine
}

// MTU is the largest path MTU of RoCE that fits; 0: not even the smallest does.
func (r Route) MTU() wire.MTU { return wire.MTUForNet(r.NetMTU) }

// To finds the route to dst. src is the address to send from; if it is invalid or unspecified the
// system chooses. A link-local dst needs a zone, its own or that of src, which is the name or the
// index of an interface. The error matches ErrNoRoute if there is none, and says what the system
// said.
func To(dst, src netip.Addr) (Route, error) { return to(dst, src, Link{}) }

// Link is an interface.
type Link struct {
	Name  string // "eth0"
	Index int
	MTU   int // longest IP packet in bytes
}

// From is To for who knows the interface that has src: the system is not asked what it is like,
// which makes the answer several times faster.
func From(src netip.Addr, on Link, dst netip.Addr) (Route, error) { return to(dst, src, on) }

// Source is To's Source alone, which is as fast as From.
func Source(dst netip.Addr) (netip.Addr, error) {
	q, err := pose(dst, netip.Addr{})
	if err != nil {
		return netip.Addr{}, err
	}
	own, err := source(q)
	if err != nil {
		return netip.Addr{}, q.fail(err)
	}
	if own.IsLinkLocalUnicast() { // needs its zone
		r, err := To(dst, own)
		return r.Source, err
	}
	return own, nil
}

func to(dst, src netip.Addr, known Link) (Route, error) {
	q, err := pose(dst, src)
	if err != nil {
		return Route{}, err
	}
	if !q.src.IsValid() {
		known = Link{}
	}
	r, err := ask(q, known)
	if err != nil {
		return Route{}, q.fail(err)
	}
	return r, nil
}

// question is what the system is asked: addresses without zones, src may be invalid; and the index
// of the interface that packets must leave by, or 0.
type question struct {
	dst, src netip.Addr
	oif      int
}

func (q *question) fail(err error) error {
	from := ""
	if q.src.IsValid() {
		from = fmt.Sprintf(" from %v", q.src)
	}
	return fmt.Errorf("%w%s to %v: %w", ErrNoRoute, from, q.dst, err)
}

// pose makes the question of two addresses, or says why there can be no answer.
func pose(dst, src netip.Addr) (q question, err error) {
	dst, src = dst.Unmap(), src.Unmap()
	switch {
	case !dst.IsValid() || dst.IsUnspecified():
		return q, fmt.Errorf("%w to %v: it is not the address of a host", ErrNoRoute, dst)
	case src.IsUnspecified():
		src = netip.Addr{}
	}
	if src.IsValid() && src.Is4() != dst.Is4() {
		return q, fmt.Errorf("%w from %v to %v: one is IPv4 and one IPv6", ErrNoRoute, src, dst)
	}
	zone := dst.Zone()
	if zone == "" && dst.IsLinkLocalUnicast() {
		zone = src.Zone()
	}
	if zone == "" && dst.Is6() && (dst.IsLinkLocalUnicast() || dst.IsLinkLocalMulticast()) {
		return q, fmt.Errorf("%w to %v: a link-local address needs its interface, as in %v%%eth0", ErrNoRoute, dst, dst)
	}
	if zone != "" {
		i, err := net.InterfaceByName(zone)
		if n, bad := index(zone); err != nil && bad == nil {
			i, err = net.InterfaceByIndex(n)
		}
		if err != nil {
			return q, fmt.Errorf("%w to %v: no interface %q", ErrNoRoute, dst, zone)
		}
		q.oif = i.Index
	}
	q.dst, q.src = dst.WithZone(""), src.WithZone("")
	return q, nil
}

func index(zone string) (n int, err error) {
	_, err = fmt.Sscanf(zone, "%d", &n)
	return n, err
}

// zoned is a with the interface's name as its zone if it needs one.
func zoned(a netip.Addr, name string) netip.Addr {
	if a.Is6() && a.IsLinkLocalUnicast() {
		return a.WithZone(name)
	}
	return a
}
