//go:build darwin || freebsd

package udp

import (
	"net"

	"golang.org/x/sys/unix"
)

// dontFragment sets DF on what the socket sends over IPv4, as all RoCE senders do.
func dontFragment(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var opt error
	err = raw.Control(func(fd uintptr) {
		opt = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_DONTFRAG, 1)
	})
	if err != nil {
		return err
	}
	return opt
}
