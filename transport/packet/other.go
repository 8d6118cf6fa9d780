//go:build !linux

package packet

import (
	"runtime"

	"github.com/goroce/goroce/transport"
)

// Packet sockets with a ring are Linux's own.
func open(name, where string, _ int, _ transport.Options) ([]transport.Port, error) {
	return nil, &transport.OpenError{Name: name, Reason: "packet ports are AF_PACKET sockets, which " + runtime.GOOS +
		" does not have: use udp:" + where}
}
