//go:build !linux

package transport

import "runtime"

// AF_XDP is Linux's own.
func openXDP(name, rest string, _ int, _ Options) ([]Port, error) {
	return nil, &OpenError{Name: name, Reason: "xdp ports are AF_XDP sockets, which " + runtime.GOOS + " does not have: use udp:" + rest}
}

func openZeroCopy(string, string, int, Options) ([]Port, bool, error) { return nil, false, nil }

func probeXDP(name, rest string, o Options) error {
	_, err := openXDP(name, rest, 1, o)
	return err
}
