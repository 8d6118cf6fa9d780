// Sleeping on sockets: packets, room to send, a deadline, and Wake.
//
// Stages: a sleeper and what it watches → the alarm → wait: announce, sit down, park, look, rise →
// who has the sockets → wake.
//
// A sleeping goroutine is parked in the Go runtime's poller, which watches an epoll of ours. A blocking system call would hold one
// of GOMAXPROCS processors until the runtime notices, which takes it up to 20 ms: with one processor, all other goroutines,
// the polling application first, would stand still.
//
// Two goroutines can sleep, each in a seat of its own, and one of them watches: the relief if there
// is one, else the background. A seat is an epoll with an eventfd, to wake who sleeps there, and
// with the epoll that has the sockets and the alarm, to which the background is deaf while the relief
// has the port. Telling an epoll so takes a microsecond, waking a thread to tell it so takes thirty.
//
// Sockets are in their epoll only during a sleep. An entry stays in its socket's list of sleepers also when nobody sleeps, and
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

// States of seat.state.
const (
	awake    = 0 // nobody sleeps, nothing to report
	sleeping = 1 // in watch, or about to be
	woken    = 2 // wake was called since the last watch
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

// sleeper is what the goroutines that wait for a port share.
type sleeper struct {
	tx    int           // socket to send to, or -1
	timer int           // timerfd: the runtime's own timers are no finer than a millisecond; 0: not open
	short atomic.Uint32 // shortage
	epfd  int           // of the sockets and the timer; it is in the seats' epolls
	seats [2]seat       // by Watcher
	vain  atomic.Uint32 // sleeps that ended for a socket since something was received

	mu       sync.Mutex
	rx       []int         // sockets to receive from
	inside   bool          // the sockets are in their epoll
	waits    shortage      // for whose end they are watched
	both     bool          // tx, which is none of rx, is too
	relieved bool          // the relief has the port
	alarm    time.Duration // when the watcher is to wake up, since start; never: not at all
	timed    time.Duration // what the timer is set to, which may be earlier
	closed   bool
}

// never is an alarm that does not ring. start is when the clock of alarms began.
const never = time.Duration(1<<63 - 1)

var start = time.Now()

// maxVain is how many sleeps in a row may end without anything to receive; after more of them errors
// of sockets are looked at. Other reasons for such a sleep are the alarm and room to send.
const maxVain = 1

// seat is where one goroutine sleeps.
type seat struct {
	ep    *os.File // an epoll, of which the runtime's poller tells when it has something
	park  syscall.RawConn
	epfd  int
	evfd  int // readable after a wake that found us sleeping
	state atomic.Uint32
	inner int  // the sockets' epoll
	taken bool // somebody sleeps here, or is about to; under sleeper.mu
	hears bool // of what happens in the sockets' epoll; under sleeper.mu

	// Of a wait in progress; in the heap, so that a call does not allocate them.
	events [4]unix.EpollEvent
	found  int
	errno  syscall.Errno
	look   func(epfd uintptr) bool // for park
}

// open takes the socket to send to, or -1, and those to receive from.
func (s *sleeper) open(tx int, rx ...int) (err error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	s.tx, s.timer, s.rx, s.epfd, s.alarm, s.timed = tx, fd, slices.Clone(rx), -1, never, never
	if s.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		err = os.NewSyscallError("epoll_create1", err)
	}
	if err == nil {
		err = add(s.epfd, s.timer, unix.EPOLLIN)
	}
	if err == nil {
		err = s.seats[Background].open(s.epfd)
	}
	if err != nil {
		s.close()
	}
	return err
}

func (e *seat) open(inner int) (err error) {
	e.inner, e.evfd = inner, -1
	if e.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	unix.SetNonblock(e.epfd, true) // else the runtime's poller does not take it
	e.ep = os.NewFile(uintptr(e.epfd), "epoll")
	e.look = e.poll
	if e.park, err = e.ep.SyscallConn(); err == nil {
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

// hear says whether who sleeps here hears of the sockets and the alarm. The caller holds sleeper.mu.
func (e *seat) hear(yes bool) error {
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

// close frees the descriptors that there are.
func (e *seat) close() {
	if e.ep == nil {
		return
	}
	e.ep.Close()
	if e.evfd >= 0 {
		unix.Close(e.evfd)
	}
	e.ep, e.evfd = nil, -1
}

// watch makes a wait return when fd is readable too, also one in progress.
func (s *sleeper) watch(fd int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rx = append(s.rx, fd)
	if s.inside {
		return add(s.epfd, fd, unix.EPOLLIN)
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
	if what == nothing {
		return
	}
	for i := range s.seats {
		if s.seats[i].state.Load() == sleeping {
			s.wake(Watcher(i))
		}
	}
}

// wait sleeps until something happens or for the timeout (<0: for ever).
func (s *sleeper) wait(timeout time.Duration) error {
	s.setAlarm(timeout)
	return s.sleepIn(Background)
}

// setAlarm says when the watcher is to wake up (<0: not at all).
func (s *sleeper) setAlarm(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alarm = never; d >= 0 {
		s.alarm = time.Since(start) + d
	}
	s.setTimer()
}

// setTimer sets the timer to the alarm, or to the next look at a driver's queue that was full, which
// every sleep has while it is. The caller holds s.mu.
func (s *sleeper) setTimer() {
	now, at := time.Since(start), s.alarm
	if shortage(s.short.Load()) == driverQueue {
		at = min(at, now+driverRetry)
	}
	if at == never && s.timed == never || s.closed {
		return
	}
	var spec unix.ItimerSpec // zero: no more
	if s.timed = at; at != never {
		spec.Value = unix.NsecToTimespec(int64(max(at-now, 1)))
	}
	unix.TimerfdSettime(s.timer, 0, &spec, nil)
}

// sleepIn sleeps in a seat until something happens that concerns it.
func (s *sleeper) sleepIn(w Watcher) error {
	e := &s.seats[w]
	if w == Relief { // few ports need its seat
		if err := s.furnish(e); err != nil {
			return err
		}
	}
	if !e.state.CompareAndSwap(awake, sleeping) {
		e.state.Store(awake) // woken in advance
		return nil
	}
	err := s.sit(e)
	if err == nil {
		err = e.park.Read(e.look)
	}
	if err == nil && e.errno != 0 {
		err = os.NewSyscallError("epoll_wait", e.errno)
	}
	if err == nil {
		s.clear(e)
	}
	if w == Background {
		s.rise(w)
	}
	e.state.Store(awake)
	return err
}

// furnish opens a seat the first time.
func (s *sleeper) furnish(e *seat) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case e.ep != nil:
		return nil
	}
	return e.open(s.epfd)
}

// sit takes a seat, and with the relief's the port.
func (s *sleeper) sit(e *seat) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.taken = true
	if s.timed != s.alarm || shortage(s.short.Load()) == driverQueue {
		s.setTimer()
	}
	relief := &s.seats[Relief]
	if e == relief {
		s.relieve()
	}
	if e == relief || !s.relieved {
		if err := e.hear(true); err != nil {
			return err
		}
	}
	if s.inside && s.waits == shortage(s.short.Load()) {
		return nil
	}
	s.takeOut()
	return s.putIn()
}

// take gives the port to the relief.
func (s *sleeper) take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relieve()
}

// relieve makes the background deaf. The caller holds s.mu.
func (s *sleeper) relieve() {
	if !s.relieved {
		s.relieved = true
		s.seats[Background].hear(false)
	}
}

// rise leaves a seat, and the relief the port. If nobody sleeps any more the sockets are taken out.
func (s *sleeper) rise(w Watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seats[w].taken = false
	if w == Relief {
		s.relieved = false
	}
	switch back := &s.seats[Background]; {
	case s.relieved:
	case back.taken:
		back.hear(true)
	default:
		s.takeOut()
	}
}

// putIn puts the sockets into their epoll. The caller holds s.mu.
func (s *sleeper) putIn() (err error) {
	s.inside, s.waits = true, shortage(s.short.Load())
	for _, fd := range s.rx {
		events := uint32(unix.EPOLLIN)
		if fd == s.tx && s.waits == sendBuffer {
			events |= unix.EPOLLOUT
		}
		if e := add(s.epfd, fd, events); err == nil {
			err = e
		}
	}
	if s.both = s.waits == sendBuffer && s.tx >= 0 && !slices.Contains(s.rx, s.tx); s.both {
		if e := add(s.epfd, s.tx, unix.EPOLLIN|unix.EPOLLOUT); err == nil {
			err = e
		}
	}
	return err
}

// takeOut takes the sockets out of their epoll. The caller holds s.mu.
func (s *sleeper) takeOut() {
	if !s.inside {
		return
	}
	for _, fd := range s.rx {
		unix.EpollCtl(s.epfd, unix.EPOLL_CTL_DEL, fd, nil)
	}
	if s.both {
		unix.EpollCtl(s.epfd, unix.EPOLL_CTL_DEL, s.tx, nil)
	}
	s.inside, s.both = false, false
}

// poll looks, without waiting, whether there is something; if not, the runtime parks the goroutine and calls again.
func (e *seat) poll(epfd uintptr) bool {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, epfd, uintptr(unsafe.Pointer(&e.events)), uintptr(len(e.events)), 0, 0, 0)
	if errno == syscall.EINTR {
		n, errno = 0, 0
	}
	e.found, e.errno = int(n), errno
	return n != 0
}

// clear takes away what would end the next wait again.
func (s *sleeper) clear(e *seat) {
	for _, ev := range e.events[:e.found] {
		switch {
		case int(ev.Fd) == e.evfd:
			// A waker may write after we have gone on for another reason; the token then ends the next wait early.
			var token [8]byte
			syscall.RawSyscall(unix.SYS_READ, uintptr(e.evfd), uintptr(unsafe.Pointer(&token)), uintptr(len(token)))
		case s.vain.Add(1) > maxVain:
			s.clearErrors()
		}
	}
}

// clearErrors takes the errors off the sockets: an interface that went down is told once.
func (s *sleeper) clearErrors() {
	var events [4]unix.EpollEvent
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(s.epfd), uintptr(unsafe.Pointer(&events)), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return
	}
	for _, ev := range events[:n] {
		if ev.Events&unix.EPOLLERR != 0 {
			unix.GetsockoptInt(int(ev.Fd), unix.SOL_SOCKET, unix.SO_ERROR)
		}
	}
}

// heard notes that something was received.
func (s *sleeper) heard() {
	if s.vain.Load() != 0 {
		s.vain.Store(0)
	}
}

// wake ends a wait; wrote tells whether it took a system call.
func (s *sleeper) wake(w Watcher) (wrote bool) {
	e := &s.seats[w]
	if e.state.Swap(woken) != sleeping {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	one := [8]byte{1} // any non-zero count, in any byte order
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(e.evfd), uintptr(unsafe.Pointer(&one)), uintptr(len(one)))
	return true
}

// wakeAll ends the waits of everybody, also of who watches next.
func (s *sleeper) wakeAll() {
	for i := range s.seats {
		s.wake(Watcher(i))
	}
}

// close ends the sleeper; no wait may be in progress. A second close does nothing.
func (s *sleeper) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.timer == 0 {
		return
	}
	s.closed = true
	for i := range s.seats {
		s.seats[i].close()
	}
	unix.Close(s.timer)
	if s.epfd >= 0 {
		unix.Close(s.epfd)
	}
}
