// Which ports this machine has: for `roce devices`.

package transport

import (
	"net"
	"net/netip"

	"github.com/goroce/goroce/wire"
)

// Listing is one port that could be opened, or that could if something were different.
type Listing struct {
	Name      string     `json:"name"` // for Open: "udp:127.0.0.1"
	Kind      string     `json:"kind"` // "udp", "packet", "xdp"
	Interface string     `json:"interface"`
	Address   netip.Addr `json:"address"`
	GID       wire.GID   `json:"-"`
	MAC       string     `json:"mac,omitempty"`
	NetMTU    int        `json:"net_mtu"`
	PathMTU   int        `json:"path_mtu"` // the largest RoCE path MTU that fits, 0 if none does
	SpeedMbps int        `json:"speed_mbps,omitempty"`
	Up        bool       `json:"up"`
	Err       error      `json:"-"`                 // nil: Open(Name) would work now; otherwise what is missing
	Problem   string     `json:"problem,omitempty"` // Err in words
}

// kindsListed are the kinds that have an address of the machine, the one that needs least first.
var kindsListed = []string{"udp", "packet", "xdp"}

// List tries every kind of port on every address of every interface. It opens and closes each, so it finds out what Open
// would; but AF_XDP only as far as that does not touch the interface.
func List() ([]Listing, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var list []Listing
	for i := range interfaces {
		for _, p := range prefixesOf(&interfaces[i]) {
			for _, kind := range kindsListed {
				list = append(list, probe(kind, &interfaces[i], p.Addr()))
			}
		}
	}
	return list, nil
}

func probe(kind string, i *net.Interface, addr netip.Addr) Listing {
	if addr.IsLinkLocalUnicast() && addr.Is6() {
		addr = addr.WithZone(i.Name)
	}
	l := Listing{
		Name: kind + ":" + addr.String(), Kind: kind, Interface: i.Name, Address: addr, GID: wire.GIDFrom(addr),
		MAC: i.HardwareAddr.String(), NetMTU: i.MTU, SpeedMbps: linkSpeed(i.Name),
		Up: i.Flags&net.FlagUp != 0 && i.Flags&net.FlagRunning != 0,
	}
	if mtu := wire.MTUForNet(i.MTU); mtu != 0 {
		l.PathMTU = mtu.Bytes()
	}
	l.Err = l.try()
	if l.Err != nil {
		l.Problem = l.Err.Error()
	}
	return l
}

// try opens the port with as little as possible.
func (l *Listing) try() error {
	if !l.Up {
		return &OpenError{Name: l.Name, Reason: "interface " + l.Interface + " is down"}
	}
	if l.PathMTU == 0 {
		return &OpenError{Name: l.Name, Reason: "the MTU of interface " + l.Interface + " is too small for RoCE: 336 is the least"}
	}
	if l.Kind == "xdp" {
		return probeXDP(l.Name, l.Address.String(), Options{}.withDefaults())
	}
	p, err := Open(l.Name, Options{MaxRun: 1, RecvBuffer: 1 << 16, SendBuffer: 1 << 16})
	if err != nil {
		return err
	}
	return p.Close()
}
