package system

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pause is a sleep of any length that is no longer than it should be. It is a timer of the kernel
// that the Go runtime's poller watches: the runtime's own timers take a millisecond more, and a
// blocking system call wakes the thread that watches over those.
type Pause struct {
	timer   *os.File
	park    syscall.RawConn
	expired func(fd uintptr) bool
	count   [8]byte
	ended   atomic.Bool // nobody is to sleep any more
}

// NewPause makes a pause. The error is that of the system, which has no timer to spare.
func NewPause() (*Pause, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	p := &Pause{timer: os.NewFile(uintptr(fd), "timerfd")}
	p.park, err = p.timer.SyscallConn()
	p.expired = p.look
	return p, err
}

func (p *Pause) look(fd uintptr) bool {
	_, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&p.count)), uintptr(len(p.count)))
	return errno != syscall.EAGAIN
}

// Sleep returns after d, which must be more than nothing, or when End is called or was. One
// goroutine at a time.
func (p *Pause) Sleep(d time.Duration) error {
	p.set(d)
	if p.ended.Load() {
		return nil
	}
	return p.park.Read(p.expired)
}

// End ends the present sleep and all that come. Any goroutine.
func (p *Pause) End() {
	p.ended.Store(true)
	p.set(1)
}

func (p *Pause) set(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	p.park.Control(func(fd uintptr) { unix.TimerfdSettime(int(fd), 0, &spec, nil) })
}

// Close gives the timer back, when nobody sleeps any more.
func (p *Pause) Close() { p.timer.Close() }
