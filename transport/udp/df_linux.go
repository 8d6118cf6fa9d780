package udp

import (
	"net"

	"golang.org/x/sys/unix"
)

// dontFragment sets DF on what the socket sends over IPv4. With an unconnected socket this also
// makes the Identification 0, which is what the ICRC was made for (see port_linux.go).
func dontFragment(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var opt error
	err = raw.Control(func(fd uintptr) {
		opt = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	})
	if err != nil {
		return err
	}
	return opt
}
