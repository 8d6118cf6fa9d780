package ports

// Which ports this machine has: for `roce devices`.

import (
	"net"
	"net/netip"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/transport/xdp"
	"github.com/goroce/goroce/wire"
)

// List tries every kind of port on every interface that has addresses, and on each of these. It
// opens and closes each, so it finds out what Open would; but AF_XDP only as far as that does not
// touch the interface.
func List() ([]transport.Listing, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var list []transport.Listing
	for i := range interfaces {
		prefixes := host.PrefixesOf(&interfaces[i])
		if len(prefixes) == 0 {
			continue
		}
		addrs := []netip.Addr{{}} // all of them
		for _, p := range prefixes {
			addrs = append(addrs, p.Addr())
		}
		for _, addr := range addrs {
			for _, k := range kinds {
				if k.probe != nil {
					list = append(list, k.list(&interfaces[i], addr))
				}
			}
		}
	}
	return list, nil
}

// list tries the kind on an address of an interface, or with none on the interface.
func (k *kind) list(i *net.Interface, addr netip.Addr) transport.Listing {
	where, gid := i.Name, wire.GID{}
	if addr.IsValid() {
		if addr.IsLinkLocalUnicast() && addr.Is6() {
			addr = addr.WithZone(i.Name)
		}
		where, gid = addr.String(), wire.GIDFrom(addr)
	} else if gids := host.GIDsOf(i.Name); len(gids) > 0 {
		gid = gids[0]
	}
	l := transport.Listing{
		Name: k.name + ":" + where, Kind: k.name, Interface: i.Name, Address: addr, GID: gid,
		MAC: i.HardwareAddr.String(), NetMTU: i.MTU, SpeedMbps: host.LinkSpeed(i.Name),
		Up: i.Flags&net.FlagUp != 0 && i.Flags&net.FlagRunning != 0,
	}
	if mtu := wire.MTUForNet(i.MTU); mtu != 0 {
		l.PathMTU = mtu.Bytes()
	}
	l.Err = k.try(&l)
	if l.Err != nil {
		l.Problem = l.Err.Error()
	}
	return l
}

// try probes unless it is clear that the port can not work.
func (k *kind) try(l *transport.Listing) error {
	if !l.Up {
		return &transport.OpenError{Name: l.Name, Reason: "interface " + l.Interface + " is down"}
	}
	if l.PathMTU == 0 {
		return &transport.OpenError{Name: l.Name, Reason: "the MTU of interface " + l.Interface +
			" is too small for RoCE: 336 is the least"}
	}
	return k.probe(l.Name)
}

// openAndClose probes by opening a port with as little as possible.
func openAndClose(open transport.Opener) func(name string) error {
	return func(name string) error {
		list, err := open(name, 1, transport.Options{MaxRun: 1, RecvBuffer: 1 << 16, SendBuffer: 1 << 16})
		if err != nil {
			return err
		}
		return transport.CloseAll(list)
	}
}

// probeXDP leaves the interface alone: a driver may take the link down for a second when a program
// is attached.
func probeXDP(name string) error { return xdp.Probe(name, transport.Options{}) }
