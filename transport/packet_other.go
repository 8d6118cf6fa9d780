//go:build !linux

package transport

import "runtime"

// Packet sockets with a ring are Linux's own.
func openPacket(name, rest string, _ int, _ Options) ([]Port, error) {
	return nil, &OpenError{Name: name, Reason: "packet ports are AF_PACKET sockets, which " + runtime.GOOS + " does not have: use udp:" + rest}
}
