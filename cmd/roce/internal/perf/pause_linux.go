package perf

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pause is a sleep of any length that is no longer than it should be. It is a timer of the kernel
// that the Go runtime's poller watches: the runtime's own timers take a millisecond more, and a
// blocking system call wakes the thread that watches over those.
type pause struct {
	timer   *os.File
	park    syscall.RawConn
	expired func(fd uintptr) bool
	count   [8]byte
	ended   atomic.Bool // nobody is to sleep any more
}

func newPause() (*pause, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	p := &pause{timer: os.NewFile(uintptr(fd), "timerfd")}
	p.park, err = p.timer.SyscallConn()
	p.expired = p.look
	return p, err
}

func (p *pause) look(fd uintptr) bool {
	_, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&p.count)), uintptr(len(p.count)))
	return errno != syscall.EAGAIN
}

// sleep returns after d, which must be more than nothing, or when end is called or was.
func (p *pause) sleep(d time.Duration) error {
	p.set(d)
	if p.ended.Load() {
		return nil
	}
	return p.park.Read(p.expired)
}

// end ends the present sleep and all that come. Any goroutine.
func (p *pause) end() {
	p.ended.Store(true)
	p.set(1)
}

func (p *pause) set(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	p.park.Control(func(fd uintptr) { unix.TimerfdSettime(int(fd), 0, &spec, nil) })
}

func (p *pause) close() { p.timer.Close() }
