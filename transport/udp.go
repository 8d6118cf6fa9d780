// What every UDP port has in common, on any system.
//
// Stages of this file: which address a name means; the head in front of what a socket receives; opening errors in words.
//
// A socket that is bound to port 4791 sends from 4791. RoCE would like a source port per connection, for networks that
// spread flows by it, and receivers must accept any; but the ICRC covers the source port, so the engine has to use the
// one that will be sent: Info.SrcPort.

package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/goroce/goroce/wire"
)

// udpAddress resolves what follows "udp:": an address of this machine, or an interface, of which the best address is
// taken.
func udpAddress(name, rest string) (netip.Addr, error) {
	if addr, err := netip.ParseAddr(rest); err == nil {
		return checkAddress(name, addr.Unmap())
	}
	iface, err := net.InterfaceByName(rest)
	if err != nil {
		return netip.Addr{}, &OpenError{Name: name, Err: err, Reason: fmt.Sprintf(
			"%q is neither an IP address nor an interface; interfaces are %s", rest, interfaceNames())}
	}
	prefixes := prefixesOf(iface)
	if len(prefixes) == 0 {
		return netip.Addr{}, &OpenError{Name: name, Reason: fmt.Sprintf("interface %s has no IP address: give it one, or name another interface of %s",
			rest, interfaceNames())}
	}
	best := prefixes[0].Addr()
	for _, p := range prefixes[1:] {
		if addressRank(p.Addr()) < addressRank(best) {
			best = p.Addr()
		}
	}
	if best.Is6() && best.IsLinkLocalUnicast() {
		best = best.WithZone(rest)
	}
	return best, nil
}

// addressRank orders the addresses of an interface by how likely a peer can use them: IPv4, IPv6, link-local.
func addressRank(a netip.Addr) int {
	switch {
	case a.Is4():
		return 0
	case !a.IsLinkLocalUnicast():
		return 1
	}
	return 2
}

// checkAddress refuses what can be bound, but can not be the address of a device.
func checkAddress(name string, a netip.Addr) (netip.Addr, error) {
	why := ""
	switch {
	case a.IsUnspecified():
		why = "stands for all addresses, but the ICRC of each packet covers its source address, so a device has exactly one"
	case a.IsMulticast():
		why = "is a multicast group, not an address of this machine"
	case a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "":
		why = "is link-local and needs an interface, as in udp:" + a.String() + "%eth0"
	default:
		return a, nil
	}
	return a, &OpenError{Name: name, Reason: a.String() + " " + why}
}

// headMaker makes the heads of received packets: addresses and port as the socket reports them, TOS and TTL from its
// ancillary data, lengths computed. It keeps the last path, as packets of one sender come together.
type headMaker struct {
	path wire.Path
	made bool
}

// put writes a head for a body of n bytes into dst and returns its length, 0 if there can be none. id is the guess for
// the Identification that the sender used.
func (m *headMaker) put(dst []byte, src, local wire.GID, srcPort uint16, tos, ttl uint8, n int, id uint16) int {
	p := &m.path
	if !m.made || p.Src != src || p.Dst != local || p.SrcPort != srcPort || p.TrafficClass != tos || p.HopLimit != ttl {
		var err error
		if m.path, err = wire.NewPath(src, local, srcPort, tos, ttl, 0); err != nil {
			m.made = false
			return 0
		}
		m.made = true
	}
	return m.path.PutHead(dst, n, id)
}

// bindError says in words why a socket could not be bound, and what to do.
func bindError(name string, addr netip.Addr, port int, err error) error {
	e := &OpenError{Name: name, Err: err}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		e.Reason = fmt.Sprintf("UDP port %d of %v is in use%s: close it, or take another address for this device "+
			"(all of 127.0.0.0/8 is free for use on one machine)", port, addr, portHolder(addr, port))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		e.Reason = fmt.Sprintf("%v is not an address of this machine; its addresses are %s", addr, localAddresses())
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		e.Reason = fmt.Sprintf("binding UDP port %d of %v is not allowed to this process", port, addr)
	default:
		e.Reason = fmt.Sprintf("binding UDP port %d of %v failed", port, addr)
	}
	return e
}

func interfaceNames() string {
	all, _ := net.Interfaces()
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	return strings.Join(names, ", ")
}

func localAddresses() string {
	all, _ := net.Interfaces()
	var list []string
	for i := range all {
		for _, p := range prefixesOf(&all[i]) {
			list = append(list, p.Addr().String()+" ("+all[i].Name+")")
		}
	}
	return strings.Join(list, ", ")
}
