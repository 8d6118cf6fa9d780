package soft

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newStandby makes the alarm that a background stands by on.
func newStandby() (alarm, error) { return newTimerFD() }

// yieldThread lets other threads have the processor.
func yieldThread() { unix.RawSyscallNoError(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// timerFD is an alarm that is a kernel timer which the Go runtime's poller watches: time.Sleep
// would take a millisecond when no other goroutine runs, and a blocking system call would keep a
// processor from other goroutines.
type timerFD struct {
	file *os.File
	// park knows whether the file is open: after its end the number may be another's
	park  syscall.RawConn
	early atomic.Bool // end was called since the last sleep
	count [8]byte
	next  time.Duration // how long the sleeper sleeps

	// for park, made once
	gone func(fd uintptr) bool // it has gone off
	set  func(fd uintptr)      // to next
	fire func(fd uintptr)      // at once
}

func newTimerFD() (alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &timerFD{file: os.NewFile(uintptr(fd), "timerfd")}
	a.park, err = a.file.SyscallConn()
	a.gone = a.read
	a.set = func(fd uintptr) { setTimer(fd, a.next) }
	a.fire = func(fd uintptr) { setTimer(fd, 1) }
	return a, err
}

// sleep returns after d, or when end is called, or was since the last sleep.
func (a *timerFD) sleep(d time.Duration) {
	a.next = d
	a.park.Control(a.set)
	if !a.early.Swap(false) {
		a.park.Read(a.gone)
	}
}

// read takes the timer's count if it has gone off. The Go scheduler need not know of a system call
// that does not block: it would wake a thread to watch over it.
func (a *timerFD) read(fd uintptr) bool {
	_, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&a.count)), uintptr(len(a.count)))
	return errno != syscall.EAGAIN && errno != syscall.EINTR
}

// end ends the present sleep or makes the next one return at once. Any goroutine.
func (a *timerFD) end() {
	a.early.Store(true)
	// a sleeper that has set its time before now is woken by this; one that sets it later sees
	// early
	a.park.Control(a.fire)
}

func setTimer(fd uintptr, d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	unix.TimerfdSettime(int(fd), 0, &spec, nil)
}

func (a *timerFD) close() { a.file.Close() }
