//go:build !linux

package transport

// Outside Linux the portable port is the UDP port.
func openUDP(name, rest string, lanes int, o Options) ([]Port, error) {
	return openPortableUDP(name, rest, lanes, o)
}
