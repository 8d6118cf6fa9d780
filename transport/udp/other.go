//go:build !linux

package udp

import "github.com/goroce/goroce/transport"

// Outside Linux the portable port is the UDP port.
func open(name, where string, lanes int, o transport.Options) ([]transport.Port, error) {
	return openPortable(name, where, lanes, o)
}
