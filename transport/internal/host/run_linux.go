package host

// The longest run: how many packets the kernel takes as one message.

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
)

// sureRun is how many segments every kernel takes that knows UDP_SEGMENT.
const sureRun = 64

// LongestRun is 64, or 128 since Linux 6.9 and wherever that was carried back; so the kernel is
// asked, once, with a message of that many segments from a socket on loopback to itself. Where
// loopback is down the answer is the safe one.
var LongestRun = sync.OnceValue(func() int {
	if takesRun(transport.MaxRun) {
		return transport.MaxRun
	}
	return sureRun
})

// takesRun says whether the kernel takes n segments as one message. GSO packets on packet sockets
// have the same limit.
func takesRun(n int) bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return false
	}
	self, err := unix.Getsockname(fd)
	if err != nil || unix.SetsockoptInt(fd, unix.IPPROTO_UDP, UDPSegment, 1) != nil {
		return false
	}
	return unix.Sendto(fd, make([]byte, n), 0, self) == nil
}
