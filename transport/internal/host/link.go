package host

// The interface below a port: which one an address belongs to, and what is known about it.

import (
	"net"
	"net/netip"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// PrefixesOf lists the addresses of an interface, without zones: a netip.Prefix has none.
func PrefixesOf(i *net.Interface) []netip.Prefix {
	addrs, err := i.Addrs()
	if err != nil {
		return nil // gone since it was listed
	}
	var list []netip.Prefix
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		addr, ok := netip.AddrFromSlice(n.IP)
		if !ok {
			continue
		}
		addr = addr.Unmap()
		bits, _ := n.Mask.Size()
		list = append(list, netip.PrefixFrom(addr, bits))
	}
	return list
}

// GIDsOf lists the addresses of an interface by its name, the best first.
func GIDsOf(iface string) (list []wire.GID) {
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return nil
	}
	var all []netip.Addr
	for _, p := range PrefixesOf(i) {
		all = append(all, p.Addr())
	}
	for _, a := range rank(all) {
		list = append(list, wire.GIDFrom(a))
	}
	return list
}

// InterfaceOf finds the interface that has the address. On loopback the whole of 127.0.0.0/8 is
// local although only 127.0.0.1 is listed.
func InterfaceOf(addr netip.Addr) (*net.Interface, bool) {
	all, _ := net.Interfaces()
	for i := range all {
		if addr.Zone() != "" && addr.Zone() != all[i].Name {
			continue
		}
		for _, p := range PrefixesOf(&all[i]) {
			local := p.Addr() == addr.WithZone("")
			if local || all[i].Flags&net.FlagLoopback != 0 && p.Contains(addr) {
				return &all[i], true
			}
		}
	}
	return nil, false
}

// DescribeLink fills in what Info says about the interface with an address.
func DescribeLink(info *transport.Info, addr netip.Addr) {
	i, ok := InterfaceOf(addr)
	if !ok {
		return
	}
	info.Interface, info.Index = i.Name, i.Index
	info.Addresses = PrefixesOf(i)
	if len(i.HardwareAddr) > 0 {
		info.MAC = i.HardwareAddr
	}
	info.Loopback = i.Flags&net.FlagLoopback != 0
	info.Up = i.Flags&net.FlagUp != 0 && i.Flags&net.FlagRunning != 0
	info.NetMTU = i.MTU
	info.SpeedMbps = LinkSpeed(i.Name)
}
