package host

// A berth: where one goroutine sleeps, parked in the Go runtime's poller, or in the kernel with its
// thread.
//
// Stages: opening and closing; whether the sleeper hears of the sockets; sleeping.

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// States of berth.state.
const (
	berthAwake    = 0 // nobody sleeps, nothing to report
	berthSleeping = 1 // in watch, or about to be
	berthWoken    = 2 // wake was called since the last watch
)

// berth is where one goroutine sleeps.
type berth struct {
	ep     *os.File // an epoll, of which the runtime's poller tells when it has something
	park   syscall.RawConn
	epfd   int
	evfd   int // readable after a wake that found us sleeping
	state  atomic.Uint32
	inner  int  // the sockets' epoll
	thread bool // who sleeps has a thread of its own
	taken  bool // somebody sleeps here, or is about to; under Waiter.mu
	hears  bool // of what happens in the sockets' epoll; under Waiter.mu

	// Of a wait in progress; in the heap, so that a call does not allocate them.
	events [4]unix.EpollEvent
	found  int
	errno  syscall.Errno
	look   func(epfd uintptr) bool // for park
}

// open makes a berth, which has the sockets' epoll in its own.
func (e *berth) open(inner int) (err error) {
	e.inner, e.evfd = inner, -1
	if e.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	unix.SetNonblock(e.epfd, !e.thread) // else the runtime's poller does not take it
	e.ep = os.NewFile(uintptr(e.epfd), "epoll")
	e.look = e.poll
	if e.park, err = e.ep.SyscallConn(); err == nil && !e.thread {
		err = e.ep.SetReadDeadline(time.Time{}) // fails if the poller did not
	}
	if err == nil {
		e.evfd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	}
	if err == nil {
		err = add(e.epfd, e.evfd, unix.EPOLLIN)
	}
	if err == nil {
		err = add(e.epfd, inner, 0)
	}
	if err != nil { // it can be tried again
		e.close()
	}
	return err
}

// add has an epoll tell of events of fd.
func add(epfd, fd int, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, fd, &ev))
}

// close frees the descriptors that there are.
func (e *berth) close() {
	if e.ep == nil {
		return
	}
	e.ep.Close()
	if e.evfd >= 0 {
		unix.Close(e.evfd)
	}
	e.ep, e.evfd = nil, -1
}

// hear says whether the sleeper hears of the sockets and the alarm. The caller holds Waiter.mu.
func (e *berth) hear(yes bool) error {
	if e.hears == yes {
		return nil
	}
	ev := unix.EpollEvent{Fd: int32(e.inner)}
	if yes {
		ev.Events = unix.EPOLLIN
	}
	err := unix.EpollCtl(e.epfd, unix.EPOLL_CTL_MOD, e.inner, &ev)
	if err == nil {
		e.hears = yes
	}
	return os.NewSyscallError("epoll_ctl", err)
}

// sleep waits until there is something, or a signal has come.
func (e *berth) sleep() error {
	if !e.thread {
		if err := e.park.Read(e.look); err != nil {
			return err
		}
	} else {
		e.saw(syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(e.epfd), uintptr(unsafe.Pointer(&e.events)),
			uintptr(len(e.events)), ^uintptr(0), 0, 0))
	}
	if e.errno != 0 {
		return os.NewSyscallError("epoll_wait", e.errno)
	}
	return nil
}

// poll looks, without waiting, whether there is something; if not, the runtime parks the goroutine
// and calls again.
func (e *berth) poll(epfd uintptr) bool {
	e.saw(syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, epfd, uintptr(unsafe.Pointer(&e.events)),
		uintptr(len(e.events)), 0, 0, 0))
	return e.found != 0
}

// saw keeps what the kernel has said.
func (e *berth) saw(n, _ uintptr, errno syscall.Errno) {
	if errno == syscall.EINTR {
		n, errno = 0, 0
	}
	e.found, e.errno = int(n), errno
}
