package udp

import (
	"net"

	"golang.org/x/sys/windows"
)

const ipDontFragment = 14 // IP_DONTFRAGMENT

// dontFragment sets DF on what the socket sends over IPv4, as all RoCE senders do.
func dontFragment(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var opt error
	err = raw.Control(func(fd uintptr) {
		opt = windows.SetsockoptInt(windows.Handle(fd), windows.IPPROTO_IP, ipDontFragment, 1)
	})
	if err != nil {
		return err
	}
	return opt
}
