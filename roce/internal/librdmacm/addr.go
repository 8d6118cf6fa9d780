//go:build verbs

package librdmacm

// Addresses, to and fro.

/*
#include "glue.h"
*/
import "C"

import (
	"net"
	"net/netip"
	"strconv"
	"unsafe"
)

// sockaddr is an address as C has it.
func sockaddr(a netip.AddrPort) C.struct_sockaddr_storage {
	ip := a.Addr().Unmap().AsSlice()
	return C.goroce_addr((*C.uint8_t)(unsafe.Pointer(&ip[0])), C.size_t(len(ip)), C.uint16_t(a.Port()),
		C.uint32_t(scope(a.Addr().Zone())))
}

// scope is the index of the interface that a zone names; 0 if it names none.
func scope(zone string) int {
	if zone == "" {
		return 0
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return i.Index
	}
	index, err := strconv.Atoi(zone)
	if err != nil {
		return 0
	}
	return index
}

// addrPort reads an address of C. It has no zone, and is invalid if there is none.
func addrPort(at *C.struct_sockaddr) netip.AddrPort {
	var ip [16]byte
	var port C.uint16_t
	n := C.goroce_read_addr(at, (*C.uint8_t)(unsafe.Pointer(&ip[0])), &port)
	a, ok := netip.AddrFromSlice(ip[:n])
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(port))
}
