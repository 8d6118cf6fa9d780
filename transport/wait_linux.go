// Sleeping on sockets: epoll for packets and for room, an eventfd for Wake.
//
// The order that loses no wake-up is: announce that we will sleep, then sleep; the waker changes the same word and, if it
// found the announcement, writes the eventfd, which epoll sees also when the sleep has not begun yet.

package transport

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// States of waiter.state.
const (
	awake    = 0 // nobody sleeps, nothing to report
	sleeping = 1 // in Wait, or about to be
	woken    = 2 // Wake was called since the last Wait
)

// timespec is the kernel's 64-bit struct __kernel_timespec, on every architecture.
type timespec struct{ sec, nsec int64 }

type waiter struct {
	epfd, evfd int
	state      atomic.Uint32
	events     [4]unix.EpollEvent // what the kernel reports; in the heap, so that a call does not allocate it
	timeout    timespec
	coarse     bool // no epoll_pwait2 here (before Linux 5.11)

	mu     sync.Mutex // Wake against close
	closed bool
}

func (w *waiter) open() (err error) {
	if w.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if w.evfd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		unix.Close(w.epfd)
		return err
	}
	return w.watch(w.evfd)
}

// watch makes wait return when fd is readable.
func (w *waiter) watch(fd int) error {
	return unix.EpollCtl(w.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// watchRoom makes wait return also when fd is writable, or no longer. It works on a wait in progress.
func (w *waiter) watchRoom(fd int, on bool) {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if on {
		ev.Events |= unix.EPOLLOUT
	}
	unix.EpollCtl(w.epfd, unix.EPOLL_CTL_MOD, fd, &ev)
}

// wait sleeps until something happens or for the timeout (<0: for ever).
func (w *waiter) wait(timeout time.Duration) error {
	if !w.state.CompareAndSwap(awake, sleeping) {
		w.state.Store(awake) // woken in advance
		return nil
	}
	n, errno := w.sleep(timeout)
	w.state.Store(awake)
	if errno == syscall.EINTR {
		return nil // a spurious return
	}
	if errno != 0 {
		return errno
	}
	for _, ev := range w.events[:n] {
		if int(ev.Fd) == w.evfd {
			// A waker may write after we have gone on for another reason; the token then ends the next wait early.
			var token [8]byte
			unix.Read(w.evfd, token[:])
		}
	}
	return nil
}

func (w *waiter) sleep(timeout time.Duration) (n int, errno syscall.Errno) {
	events := unsafe.Pointer(&w.events)
	if !w.coarse {
		var deadline unsafe.Pointer // nil: none
		if timeout >= 0 {
			w.timeout = timespec{int64(timeout / time.Second), int64(timeout % time.Second)}
			deadline = unsafe.Pointer(&w.timeout)
		}
		r, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(w.epfd), uintptr(events), uintptr(len(w.events)), uintptr(deadline), 0, 0)
		if errno != syscall.ENOSYS {
			return int(r), errno
		}
		w.coarse = true
	}
	ms := -1
	if timeout >= 0 {
		ms = int((timeout + time.Millisecond - 1) / time.Millisecond) // up: waking early would spin
	}
	r, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(w.epfd), uintptr(events), uintptr(len(w.events)), uintptr(ms), 0, 0)
	return int(r), errno
}

// wake ends a wait; wrote tells whether it took a system call.
func (w *waiter) wake() (wrote bool) {
	if w.state.Swap(woken) != sleeping {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	one := [8]byte{1} // any non-zero count, in any byte order
	unix.Write(w.evfd, one[:])
	return true
}

func (w *waiter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	unix.Close(w.epfd)
	unix.Close(w.evfd)
}
