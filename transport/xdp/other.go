//go:build !linux

package xdp

import (
	"runtime"

	"github.com/goroce/goroce/transport"
)

// AF_XDP is Linux's own.
func open(name, where string, _ int, _ transport.Options) ([]transport.Port, error) {
	return nil, &transport.OpenError{Name: name, Reason: "xdp ports are AF_XDP sockets, which " + runtime.GOOS +
		" does not have: use udp:" + where}
}

func openZeroCopy(string, string, int, transport.Options) ([]transport.Port, bool, error) {
	return nil, false, nil
}

func probe(name, where string, o transport.Options) error {
	_, err := open(name, where, 1, o)
	return err
}
