// Sleeping on sockets: packets, room to send, a deadline, and Wake.
//
// Stages: a sleeper and what it watches → wait: announce, watch, park, look, unwatch → wake.
//
// A sleeping goroutine is parked in the Go runtime's poller, which watches an epoll of ours. A blocking system call would hold one
// of GOMAXPROCS processors until the runtime notices, which takes it up to 20 ms: with one processor, all other goroutines,
// the polling application first, would stand still.
//
// Sockets are in that epoll only during a sleep. An entry stays in its socket's list of sleepers also when nobody sleeps, and
// whoever sends a packet to us on this machine runs the kernel's receive path on its own time, that list included.
//
// The order that loses no wake-up is: announce that we will sleep, then sleep; the waker changes the same word and, if it
// found the announcement, writes the eventfd, which epoll sees also when the sleep has not begun yet.

package transport

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// States of sleeper.state.
const (
	awake    = 0 // nobody sleeps, nothing to report
	sleeping = 1 // in wait, or about to be
	woken    = 2 // wake was called since the last wait
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

type sleeper struct {
	ep    *os.File // an epoll, of which the runtime's poller tells when it has something
	park  syscall.RawConn
	epfd  int
	evfd  int // readable after a wake that found us sleeping
	timer int // timerfd: the runtime's own timers are no finer than a millisecond
	tx    int // socket to send to, or -1

	state atomic.Uint32
	short atomic.Uint32 // shortage

	// Of a wait in progress; in the heap, so that a call does not allocate them.
	timed  bool // the timer may be running
	events [4]unix.EpollEvent
	found  int
	errno  syscall.Errno
	look   func(epfd uintptr) bool // for park

	mu     sync.Mutex
	rx     []int // sockets to receive from
	inside bool  // the sockets are in the epoll
	both   bool  // tx, which is none of rx, is too
	closed bool
}

// open takes the socket to send to, or -1, and those to receive from.
func (s *sleeper) open(tx int, rx ...int) (err error) {
	s.tx, s.evfd, s.timer = tx, -1, -1
	if s.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	unix.SetNonblock(s.epfd, true) // else the runtime's poller does not take it
	s.ep = os.NewFile(uintptr(s.epfd), "epoll")
	s.look = s.poll
	if s.park, err = s.ep.SyscallConn(); err == nil {
		err = s.ep.SetReadDeadline(time.Time{}) // fails if the poller did not
	}
	if err == nil {
		s.evfd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	}
	if err == nil {
		s.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	}
	if err == nil {
		err = s.add(s.evfd)
	}
	if err == nil {
		err = s.add(s.timer)
	}
	if err != nil {
		s.close()
		return err
	}
	s.rx = slices.Clone(rx)
	return nil
}

func (s *sleeper) add(fd int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if fd == s.tx && shortage(s.short.Load()) == sendBuffer {
		ev.Events |= unix.EPOLLOUT
	}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(s.epfd, unix.EPOLL_CTL_ADD, fd, &ev))
}

// watch makes wait return when fd is readable too, also one in progress.
func (s *sleeper) watch(fd int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rx = append(s.rx, fd)
	if s.inside {
		return s.add(fd)
	}
	return nil
}

// unwatch is called before a watched fd is closed.
func (s *sleeper) unwatch(fd int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rx = slices.DeleteFunc(s.rx, func(have int) bool { return have == fd })
	if s.inside {
		unix.EpollCtl(s.epfd, unix.EPOLL_CTL_DEL, fd, nil)
	}
}

// lack tells what wait is to wait for beside packets. A wait in progress starts over.
func (s *sleeper) lack(what shortage) {
	if s.short.Load() == uint32(what) {
		return
	}
	s.short.Store(uint32(what))
	if what != nothing && s.state.Load() == sleeping {
		s.wake()
	}
}

// wait sleeps until something happens or for the timeout (<0: for ever).
func (s *sleeper) wait(timeout time.Duration) error {
	if !s.state.CompareAndSwap(awake, sleeping) {
		s.state.Store(awake) // woken in advance
		return nil
	}
	if shortage(s.short.Load()) == driverQueue && (timeout < 0 || timeout > driverRetry) {
		timeout = driverRetry
	}
	s.setTimer(timeout)
	err := s.enter(true)
	if err == nil {
		err = s.park.Read(s.look)
	}
	s.enter(false)
	s.state.Store(awake)
	if err != nil {
		return err
	}
	if s.errno != 0 {
		return os.NewSyscallError("epoll_wait", s.errno)
	}
	s.clear()
	return nil
}

// setTimer starts the timer, or stops it.
func (s *sleeper) setTimer(timeout time.Duration) {
	if timeout < 0 && !s.timed {
		return
	}
	var spec unix.ItimerSpec // zero: no more
	if s.timed = timeout >= 0; s.timed {
		spec.Value = unix.NsecToTimespec(int64(max(timeout, 1)))
	}
	unix.TimerfdSettime(s.timer, 0, &spec, nil)
}

// enter puts the sockets into the epoll, or takes them out.
func (s *sleeper) enter(in bool) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside = in
	change := func(fd int) {
		if !in {
			unix.EpollCtl(s.epfd, unix.EPOLL_CTL_DEL, fd, nil)
		} else if e := s.add(fd); err == nil {
			err = e
		}
	}
	for _, fd := range s.rx {
		change(fd)
	}
	if in {
		s.both = shortage(s.short.Load()) == sendBuffer && s.tx >= 0 && !slices.Contains(s.rx, s.tx)
	}
	if s.both {
		change(s.tx)
	}
	return err
}

// poll looks, without waiting, whether there is something; if not, the runtime parks the goroutine and calls again.
func (s *sleeper) poll(epfd uintptr) bool {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, epfd, uintptr(unsafe.Pointer(&s.events)), uintptr(len(s.events)), 0, 0, 0)
	if errno == syscall.EINTR {
		n, errno = 0, 0
	}
	s.found, s.errno = int(n), errno
	return n != 0
}

// clear takes away what would end the next wait again.
func (s *sleeper) clear() {
	for _, ev := range s.events[:s.found] {
		switch {
		case int(ev.Fd) == s.evfd:
			// A waker may write after we have gone on for another reason; the token then ends the next wait early.
			var token [8]byte
			unix.Read(s.evfd, token[:])
		case ev.Events&unix.EPOLLERR != 0:
			unix.GetsockoptInt(int(ev.Fd), unix.SOL_SOCKET, unix.SO_ERROR) // the interface went down: told once is enough
		}
	}
}

// wake ends a wait; wrote tells whether it took a system call.
func (s *sleeper) wake() (wrote bool) {
	if s.state.Swap(woken) != sleeping {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	one := [8]byte{1} // any non-zero count, in any byte order
	unix.Write(s.evfd, one[:])
	return true
}

// close ends the sleeper; no wait may be in progress. A second close does nothing.
func (s *sleeper) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.ep == nil {
		return
	}
	s.closed = true
	s.ep.Close()
	for _, fd := range []int{s.evfd, s.timer} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
