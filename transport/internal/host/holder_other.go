//go:build !linux

package host

import "net/netip"

// portHolder can not be told without Linux's /proc.
func portHolder(addr netip.Addr, port int) string {
	return " (by another device, or another program that speaks RoCEv2)"
}
