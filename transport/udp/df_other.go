//go:build !linux && !darwin && !freebsd && !windows

package udp

import (
	"errors"
	"net"
)

// dontFragment is not known here.
func dontFragment(*net.UDPConn) error { return errors.ErrUnsupported }
