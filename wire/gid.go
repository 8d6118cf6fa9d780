package wire

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// GID is the address of a RoCEv2 port: an IPv6 address, or an IPv4 address written as
// ::ffff:a.b.c.d (section 1.9). It is comparable, so it can be a map key. The zero GID is no
// address.
type GID [16]byte

// v4Prefix is what makes a GID an IPv4 address.
var v4Prefix = [12]byte{10: 0xff, 11: 0xff}

// GIDFrom returns the GID of an IP address. Zones are dropped: a GID has none. An invalid address
// gives the zero GID.
func GIDFrom(a netip.Addr) GID {
	if !a.IsValid() {
		return GID{}
	}
	return GID(a.As16())
}

// gid4 is the GID of the four bytes of an IPv4 address.
func gid4(b *[4]byte) (g GID) {
	g[10], g[11] = 0xff, 0xff
	copy(g[12:], b[:])
	return g
}

// Addr returns the IP address: 4-byte when Is4, otherwise 16-byte without a zone.
func (g GID) Addr() netip.Addr {
	return netip.AddrFrom16(g).Unmap()
}

// Is4 says whether the GID holds an IPv4 address.
func (g GID) Is4() bool {
	return [12]byte(g[:12]) == v4Prefix
}

// IsZero says whether this is no address at all.
func (g GID) IsZero() bool {
	return g == GID{}
}

// IsMulticast says whether the address is a multicast group: ff00::/8, or 224.0.0.0/4 in IPv4 form
// (section 1.9).
func (g GID) IsMulticast() bool {
	if g.Is4() {
		return g[12]>>4 == 0xe
	}
	return g[0] == 0xff
}

// String prints the GID as ibv_devinfo does for RoCEv2: "::ffff:10.0.0.1", "fe80::1". ParseGID
// reads it back.
func (g GID) String() string {
	return netip.AddrFrom16(g).String()
}

const gidForms = "not a GID (want 10.0.0.1, ::ffff:10.0.0.1, fe80::1 or 0000:...:0a00:0001)"

// ParseGID reads what verbs tools print and people type: an IPv4 address, an IPv6 address in any of
// its spellings (the eight full groups of sysfs among them). A zone is refused.
func ParseGID(s string) (GID, error) {
	a, err := netip.ParseAddr(strings.TrimSpace(s))
	if err != nil || a.Zone() != "" {
		return GID{}, errors.New("wire: " + strconv.Quote(s) + ": " + gidForms)
	}
	return GIDFrom(a), nil
}
