package host

// Which address of this machine a port has, and why it can not have it.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/goroce/goroce/transport"
)

// Address resolves what follows the kind in the name of a port: an address of this machine, or an
// interface, of which the best address is returned, and its name. Errors are *transport.OpenError.
func Address(name, where string) (addr netip.Addr, iface string, err error) {
	if addr, err := netip.ParseAddr(where); err == nil {
		addr, err = checkAddress(name, addr.Unmap())
		return addr, "", err
	}
	i, err := net.InterfaceByName(where)
	if err != nil {
		return addr, "", &transport.OpenError{Name: name, Err: err, Reason: fmt.Sprintf(
			"%q is neither an IP address nor an interface; interfaces are %s", where, interfaceNames())}
	}
	var all []netip.Addr
	for _, p := range PrefixesOf(i) {
		all = append(all, p.Addr())
	}
	if len(all) == 0 {
		return addr, "", &transport.OpenError{Name: name,
			Reason: fmt.Sprintf("interface %s has no IP address: give it one, or name another interface of %s",
				where, interfaceNames())}
	}
	if addr = rank(all)[0]; addr.Is6() && addr.IsLinkLocalUnicast() {
		addr = addr.WithZone(where)
	}
	return addr, where, nil
}

// AddressesOf are those of an interface, the best first; none if it is not there.
func AddressesOf(iface string) (all []netip.Addr) {
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return nil
	}
	for _, p := range PrefixesOf(i) {
		a := p.Addr()
		if a.Is6() && a.IsLinkLocalUnicast() {
			a = a.WithZone(iface)
		}
		all = append(all, a)
	}
	return rank(all)
}

// rank sorts addresses by how likely a peer can use them.
func rank(all []netip.Addr) []netip.Addr {
	slices.SortStableFunc(all, func(a, b netip.Addr) int { return addressRank(a) - addressRank(b) })
	return all
}

// addressRank orders the addresses of an interface by how likely a peer can use them: IPv4, IPv6,
// link-local.
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
		why = "stands for all addresses of the machine: name an interface, as in udp:eth0, for all of its own"
	case a.IsMulticast():
		why = "is a multicast group, not an address of this machine"
	case a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "":
		why = "is link-local and needs an interface, as in udp:" + a.String() + "%eth0"
	default:
		return a, nil
	}
	return a, &transport.OpenError{Name: name, Reason: a.String() + " " + why}
}

// BindError says in words why a socket could not be bound, and what to do.
func BindError(name string, addr netip.Addr, port int, err error) error {
	e := &transport.OpenError{Name: name, Err: err}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		e.Reason = fmt.Sprintf("UDP port %d of %v is in use%s: close it, or take another address for this device "+
			"(all of 127.0.0.0/8 is free for use on one machine)", port, addr, portHolder(addr, port))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		e.Reason = fmt.Sprintf("%v is not an address of this machine; its addresses are %s", addr, LocalAddresses())
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		e.Reason = fmt.Sprintf("binding UDP port %d of %v is not allowed to this process", port, addr)
	default:
		e.Reason = fmt.Sprintf("binding UDP port %d of %v failed", port, addr)
	}
	return e
}

// interfaceNames are for errors.
func interfaceNames() string {
	all, _ := net.Interfaces()
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	return strings.Join(names, ", ")
}

// LocalAddresses lists the addresses of this machine, for errors.
func LocalAddresses() string {
	all, _ := net.Interfaces()
	var list []string
	for i := range all {
		for _, p := range PrefixesOf(&all[i]) {
			list = append(list, p.Addr().String()+" ("+all[i].Name+")")
		}
	}
	return strings.Join(list, ", ")
}
