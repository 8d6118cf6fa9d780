package doctor

// What only Linux tells: by netlink whether the next hop has answered, and by ethtool whether a NIC
// divides runs.

import (
	"net/netip"
	"os"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// neighbourOf asks for an entry in the kernel's table.
func neighbourOf(link int, hop netip.Addr) neighbour {
	l, err := netlink.LinkByIndex(link)
	switch {
	case err != nil:
		return neighbourUnknown
	case l.Attrs().RawFlags&(unix.IFF_NOARP|unix.IFF_LOOPBACK|unix.IFF_POINTOPOINT) != 0:
		return neighbourNone
	}
	family := netlink.FAMILY_V6
	if hop.Is4() {
		family = netlink.FAMILY_V4
	}
	list, err := netlink.NeighList(link, family)
	if err != nil {
		return neighbourUnknown
	}
	for _, n := range list {
		if a, ok := netip.AddrFromSlice(n.IP); !ok || a.Unmap() != hop.WithZone("") {
			continue
		}
		switch {
		case n.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) != 0:
			return neighbourSilent
		case n.State != netlink.NUD_NONE:
			return neighbourFound
		}
	}
	return neighbourUnknown
}

// cutOf asks whether the interface is a NIC that divides runs of datagrams itself. What is no
// hardware passes them on whole, or has the kernel divide them.
func cutOf(iface string) cut {
	if _, err := os.Stat("/sys/class/net/" + iface + "/device"); os.IsNotExist(err) {
		return cutByKernel
	}
	e, err := ethtool.NewEthtool()
	if err != nil {
		return cutUnknown
	}
	defer e.Close()
	features, err := e.Features(iface)
	switch {
	case err != nil:
		return cutUnknown
	case features["tx-udp-segmentation"]:
		return cutByNIC
	}
	return cutByKernel
}
