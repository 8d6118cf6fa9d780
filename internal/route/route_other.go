//go:build !linux

package route

// What package net can tell: a UDP socket that is connected, and never used, has the source address
// that the system chose, and an interface has that.

import (
	"fmt"
	"net"
	"net/netip"
)

func ask(q question, _ Link) (Route, error) {
	dst, src, oif := q.dst, q.src, q.oif
	if link, err := net.InterfaceByIndex(oif); err == nil {
		dst = zoned(dst, link.Name)
	}
	const discard = 9 // nothing is sent
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(dst, discard))
	var from *net.UDPAddr
	if src.IsValid() {
		from = net.UDPAddrFromAddrPort(netip.AddrPortFrom(src, 0))
	}
	c, err := net.DialUDP("udp", from, to)
	if err != nil {
		return Route{}, err
	}
	defer c.Close()
	own := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	link, err := holder(own.WithZone(""), oif)
	if err != nil {
		return Route{}, err
	}
	r := Route{Interface: link.Name, Index: link.Index, Source: zoned(own.WithZone(""), link.Name), NetMTU: link.MTU}
	_, err = holder(dst.WithZone(""), oif)
	r.Local = err == nil
	return r, nil
}

// holder is the interface that has an address; of link-local ones, which several may have, the one
// with the index among, if that is not 0.
func holder(a netip.Addr, among int) (*net.Interface, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		addrs, err := i.Addrs()
		if err != nil || among != 0 && i.Index != among {
			continue
		}
		for _, have := range addrs {
			// 127.0.0.0/8 as a whole is lo's.
			if n, ok := have.(*net.IPNet); ok && (n.IP.Equal(a.AsSlice()) ||
				n.IP.IsLoopback() && n.Contains(a.AsSlice())) {
				return &i, nil
			}
		}
	}
	return nil, fmt.Errorf("no interface has the address %v", a)
}

// source asks for the source address alone.
func source(q question) (netip.Addr, error) {
	r, err := ask(q, Link{})
	return r.Source.WithZone(""), err
}
