package host

// What system calls on sockets are given: options, addresses, messages.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options of sockets that x/sys does not name on every architecture.
const (
	SoNoCheck     = 11  // SO_NO_CHECK
	UDPNoCheck6TX = 101 // UDP_NO_CHECK6_TX
	UDPNoCheck6RX = 102 // UDP_NO_CHECK6_RX
	UDPSegment    = 103 // UDP_SEGMENT
	UDPGRO        = 104 // UDP_GRO
)

// SetOption sets an option to an integer. The error names it.
func SetOption(fd int, name string, level, opt, value int) error {
	if err := unix.SetsockoptInt(fd, level, opt, value); err != nil {
		return fmt.Errorf("%s = %d: %w", name, value, err)
	}
	return nil
}

// BoolInt is the value of an option that is on or off.
func BoolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Sockaddr is an address as system calls want it. iface is for those that only mean something
// together with it.
func Sockaddr(a netip.Addr, port, iface int) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: port}
	}
	sa := &unix.SockaddrInet6{Addr: a.As16(), Port: port}
	if a.IsLinkLocalUnicast() || a.IsMulticast() {
		sa.ZoneId = uint32(iface)
	}
	return sa
}

// Message is struct mmsghdr.
type Message struct {
	Hdr unix.Msghdr
	N   uint32
}

// Ntohs turns a port as it stands in a sockaddr into a number, Htons a number into such a port.
func Ntohs(v uint16) uint16 { return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&v))[:]) }

// Htons is its own inverse.
func Htons(v uint16) uint16 { return Ntohs(v) }
