package xdp

// What a driver says of itself before anybody binds a socket: the attributes that generic netlink's
// family "netdev" has of a device since Linux 6.3.

import (
	"encoding/binary"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport/internal/ether"
)

// Of <linux/netdev.h>.
const (
	netdevGet            = 1 // NETDEV_CMD_DEV_GET
	netdevIndex          = 1 // NETDEV_A_DEV_IFINDEX
	netdevXDPFeatures    = 3 // NETDEV_A_DEV_XDP_FEATURES
	netdevZeroCopyPieces = 4 // NETDEV_A_DEV_XDP_ZC_MAX_SEGS

	featureZeroCopy = 1 << 3 // NETDEV_XDP_ACT_XSK_ZEROCOPY
)

// driver is what a driver is able to do.
type driver struct {
	zeroCopy bool
	pieces   bool // zero-copy, also of packets longer than a chunk
}

// askDriver asks for the driver of an interface. Before Linux 6.3 nobody knows, and it says
// neither.
func askDriver(index int) (d driver) {
	family, err := netlink.GenlFamilyGet("netdev")
	if err != nil {
		return d
	}
	request := nl.NewNetlinkRequest(int(family.ID), 0)
	// nl.Genlmsg leaves its reserved bytes to chance, which this family refuses.
	header := []byte{netdevGet, uint8(family.Version), 0, 0}
	request.AddRawData(append(header, nl.NewRtAttr(netdevIndex, nl.Uint32Attr(uint32(index))).Serialize()...))
	answers, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil || len(answers) == 0 || len(answers[0]) < nl.SizeofGenlmsg {
		return d
	}
	attributes, err := nl.ParseRouteAttr(answers[0][nl.SizeofGenlmsg:])
	if err != nil {
		return d
	}
	for _, a := range attributes {
		switch {
		case a.Attr.Type == netdevXDPFeatures && len(a.Value) == 8:
			d.zeroCopy = binary.NativeEndian.Uint64(a.Value)&featureZeroCopy != 0
		case a.Attr.Type == netdevZeroCopyPieces && len(a.Value) == 4:
			d.pieces = binary.NativeEndian.Uint32(a.Value) > 1
		}
	}
	return d
}

// maxZeroCopyMTU is the longest MTU with which a driver that takes no pieces may write into our
// chunks: the kernel wants room for two VLAN tags and the frame's checksum (tried with Linux 7.3:
// 3814, and 3815 is refused).
const maxZeroCopyMTU = largeChunk - headroom - ether.HeaderLen - 2*ether.VLANLen - 4

// zeroCopies says whether the driver of an interface with this MTU is likely to receive into our
// memory.
func (d driver) zeroCopies(mtu int) bool {
	return d.zeroCopy && (d.pieces || mtu <= maxZeroCopyMTU)
}
