//go:build !linux && !darwin && !freebsd && !windows

package transport

import (
	"errors"
	"net"
)

// dontFragment is not known here.
func dontFragment(*net.UDPConn) error { return errors.ErrUnsupported }
