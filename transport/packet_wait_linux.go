// Sleeping on packet and AF_XDP sockets. Not with epoll as for UDP sockets: an epoll entry stays in the socket's list of
// sleepers when nobody sleeps, and whoever sends a packet to us on this machine runs the kernel's receive path on its own
// time, that list included. ppoll is in it only while it sleeps.
//
// The order that loses no wake-up is that of wait_linux.go, and so are the states.

package transport

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// driverRetry is how long to sleep when the driver's queue was full, as nobody tells when it no longer is. At 10 Gbit/s
// that is 60 KB, a small part of any driver's queue.
const driverRetry = 50 * time.Microsecond

// shortage is what the last Send had too little of.
type shortage uint32

const (
	nothing     shortage = iota
	sendBuffer           // too much of ours is under way: the socket will become writable
	driverQueue          // the interface takes no more at present
)

type packetSleeper struct {
	tx, evfd int
	state    atomic.Uint32
	short    atomic.Uint32 // shortage

	// Of a wait in progress; in the heap, so that a call does not allocate them.
	fds      []unix.PollFd // evfd, tx, and the sockets that receive
	deadline unix.Timespec

	mu   sync.Mutex // wake against close
	live bool
}

// open takes the sockets to receive from and to send to; more are further ones to receive from.
func (s *packetSleeper) open(rx, tx int, more ...int) (err error) {
	if s.evfd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	s.tx, s.live = tx, true
	s.fds = []unix.PollFd{{Fd: int32(s.evfd), Events: unix.POLLIN}, {Fd: -1, Events: unix.POLLOUT}, {Fd: int32(rx), Events: unix.POLLIN}}
	for _, fd := range more {
		s.fds = append(s.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return nil
}

// lack tells what Wait is to wait for. A wait in progress starts over.
func (s *packetSleeper) lack(what shortage) {
	if s.short.Load() == uint32(what) {
		return
	}
	s.short.Store(uint32(what))
	if what != nothing && s.state.Load() == sleeping {
		s.wake()
	}
}

// wait sleeps until something happens or for the timeout (<0: for ever).
func (s *packetSleeper) wait(timeout time.Duration) error {
	if !s.state.CompareAndSwap(awake, sleeping) {
		s.state.Store(awake) // woken in advance
		return nil
	}
	s.fds[1].Fd = -1 // ignored
	switch shortage(s.short.Load()) {
	case sendBuffer:
		s.fds[1].Fd = int32(s.tx)
	case driverQueue:
		if timeout < 0 || timeout > driverRetry {
			timeout = driverRetry
		}
	}
	errno := s.poll(timeout)
	s.state.Store(awake)
	if errno == syscall.EINTR {
		return nil // a spurious return
	}
	if errno != 0 {
		return errno
	}
	if s.fds[0].Revents != 0 {
		// A waker may write after we have gone on for another reason; the token then ends the next wait early.
		var token [8]byte
		unix.Read(s.evfd, token[:])
	}
	for i := range s.fds[2:] {
		if rx := &s.fds[2+i]; rx.Revents&unix.POLLERR != 0 {
			unix.GetsockoptInt(int(rx.Fd), unix.SOL_SOCKET, unix.SO_ERROR) // the interface went down: told once is enough
		}
	}
	return nil
}

func (s *packetSleeper) poll(timeout time.Duration) syscall.Errno {
	var deadline unsafe.Pointer // nil: none
	if timeout >= 0 {
		s.deadline = unix.NsecToTimespec(int64(timeout))
		deadline = unsafe.Pointer(&s.deadline)
	}
	_, _, errno := syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&s.fds[0])), uintptr(len(s.fds)), uintptr(deadline), 0, 0, 0)
	return errno
}

// wake ends a wait; wrote tells whether it took a system call.
func (s *packetSleeper) wake() (wrote bool) {
	if s.state.Swap(woken) != sleeping {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		return false
	}
	one := [8]byte{1} // any non-zero count, in any byte order
	unix.Write(s.evfd, one[:])
	return true
}

func (s *packetSleeper) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live {
		s.live = false
		unix.Close(s.evfd)
	}
}
