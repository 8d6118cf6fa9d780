//go:build !linux

package route

// What package net can tell: a UDP socket that is connected, and never used, has the source address
// that the system chose, and an interface has that.

import (
	"net"
	"net/netip"
)

func ask(dst, src netip.Addr, oif int) (Route, error) {
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
