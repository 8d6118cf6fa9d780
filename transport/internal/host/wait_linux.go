package host

// Sleeping on sockets: packets, room to send, a deadline, and Wake.
//
// Stages: a waiter and what it watches → the alarm → watching: announce, sit down, park, look, rise
// (berth_linux.go has the places) → who has the sockets → waking.
//
// A sleeping goroutine is parked in the Go runtime's poller, which watches an epoll of ours. A
// blocking system call would hold one of GOMAXPROCS processors until the runtime notices, which
// takes it up to 20 ms: with one processor, all other goroutines, the polling application first,
// would stand still.
//
// Two goroutines can sleep, each in a berth of its own, and one of them watches: the relief if
// there is one, else the background. A berth is an epoll with an eventfd, to wake the one that
// sleeps there, and with the epoll that has the sockets and the alarm, to which the background is
// deaf while the relief has the port. Telling an epoll so takes a microsecond, waking a thread to
// tell it so takes thirty.
//
// Sockets are in their epoll only during a sleep. An entry stays in its socket's list of sleepers
// also when nobody sleeps, and whoever sends a packet to us on this machine runs the kernel's
// receive path on its own time, that list included.
//
// The order that loses no wake-up is: announce that we will sleep, then sleep; the waker changes
// the same word and, if it found the announcement, writes the eventfd, which epoll sees also when
// the sleep has not begun yet.

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
)

// DriverRetry is how long to sleep when the driver's queue was full, as nobody tells when it no
// longer is. At 10 Gbit/s that is 60 KB, a small part of any driver's queue.
const DriverRetry = 50 * time.Microsecond

// Shortage is what the last Send had too little of.
type Shortage uint32

// The shortages.
const (
	Nothing     Shortage = iota
	SendBuffer           // too much of ours is under way: the socket will become writable
	DriverQueue          // the interface takes no more at present
)

// Waiter is what the goroutines that wait for a port share. Ports embed it, and are
// transport.Watched by it.
type Waiter struct {
	tx int // socket to send to, or -1
	// timer is a timerfd, 0 until it is open: the runtime's own timers are no finer than a
	// millisecond.
	timer  int
	short  atomic.Uint32 // shortage
	epfd   int           // of the sockets and the timer; it is in the berths' epolls
	berths [2]berth      // by Watcher
	vain   atomic.Uint32 // sleeps that ended for a socket since something was received
	wakes  atomic.Uint64 // system calls that woke somebody
	ended  atomic.Bool   // closed; changes under mu

	mu       sync.Mutex
	rx       []int         // sockets to receive from
	inside   bool          // the sockets are in their epoll
	waits    Shortage      // for whose end they are watched
	both     bool          // tx, which is none of rx, is too
	relieved bool          // the relief has the port
	alarm    time.Duration // when the watcher is to wake up, since start; never: not at all
	timed    time.Duration // what the timer is set to, which may be earlier
}

// never is an alarm that does not ring. start is when the clock of alarms began.
const never = time.Duration(1<<63 - 1)

var start = time.Now()

// maxVain is how many sleeps in a row may end without anything to receive; after more of them
// errors of sockets are looked at. Other reasons for such a sleep are the alarm and room to send.
const maxVain = 1

// Open takes the socket to send to, or -1, and those to receive from.
func (w *Waiter) Open(tx int, rx ...int) (err error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	w.tx, w.timer, w.rx, w.epfd, w.alarm, w.timed = tx, fd, slices.Clone(rx), -1, never, never
	if w.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		err = os.NewSyscallError("epoll_create1", err)
	}
	if err == nil {
		err = add(w.epfd, w.timer, unix.EPOLLIN)
	}
	if err == nil {
		err = w.berths[transport.Background].open(w.epfd)
	}
	if err != nil {
		w.Close()
	}
	return err
}

// OwnThread says whether the relief has a thread of its own, before it first sleeps here.
func (w *Waiter) OwnThread(yes bool) { w.berths[transport.Relief].thread = yes }

// WatchSocket makes a wait return when fd is readable too, also one in progress.
func (w *Waiter) WatchSocket(fd int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rx = append(w.rx, fd)
	if w.inside {
		return add(w.epfd, fd, unix.EPOLLIN)
	}
	return nil
}

// UnwatchSocket is called before a watched fd is closed, or one that was sent to.
func (w *Waiter) UnwatchSocket(fd int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tx == fd {
		w.tx = -1
	}
	w.rx = slices.DeleteFunc(w.rx, func(have int) bool { return have == fd })
	if w.inside {
		unix.EpollCtl(w.epfd, unix.EPOLL_CTL_DEL, fd, nil)
	}
}

// Lack tells what to wait for beside packets. A wait in progress starts over.
func (w *Waiter) Lack(what Shortage) {
	if w.short.Load() == uint32(what) {
		return
	}
	w.short.Store(uint32(what))
	if what == Nothing {
		return
	}
	for i := range w.berths {
		if w.berths[i].state.Load() == berthSleeping {
			w.wake(transport.Watcher(i))
		}
	}
}

// LackRoom is Lack(SendBuffer), of one of several sockets to send to.
func (w *Waiter) LackRoom(tx int) {
	w.sendsTo(tx)
	w.Lack(SendBuffer)
}

// sendsTo says which socket room is waited for in, also by a wait in progress.
func (w *Waiter) sendsTo(tx int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tx == tx {
		return
	}
	inside := w.inside
	w.takeOut()
	if w.tx = tx; inside {
		w.putIn()
	}
}

// Wait sleeps until something happens or for the timeout (<0: for ever).
func (w *Waiter) Wait(timeout time.Duration) error {
	w.SetAlarm(timeout)
	return w.Watch(transport.Background)
}

// Wake ends a Wait.
func (w *Waiter) Wake() { w.Rouse(transport.Background) }

// SetAlarm says when the watcher is to wake up (<0: not at all).
func (w *Waiter) SetAlarm(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.alarm = never; d >= 0 {
		w.alarm = time.Since(start) + d
	}
	w.setTimer()
}

// setTimer sets the timer to the alarm, or to the next look at a driver's queue that was full,
// which every sleep has while it is. The caller holds w.mu.
func (w *Waiter) setTimer() {
	now, at := time.Since(start), w.alarm
	if Shortage(w.short.Load()) == DriverQueue {
		at = min(at, now+DriverRetry)
	}
	if at == never && w.timed == never || w.ended.Load() {
		return
	}
	var spec unix.ItimerSpec // zero: no more
	if w.timed = at; at != never {
		spec.Value = unix.NsecToTimespec(int64(max(at-now, 1)))
	}
	unix.TimerfdSettime(w.timer, 0, &spec, nil)
}

// Watch sleeps in the berth of a watcher until something happens that concerns it.
func (w *Waiter) Watch(who transport.Watcher) error {
	if w.ended.Load() {
		return transport.ErrClosed
	}
	e := &w.berths[who]
	if who == transport.Relief { // few ports need its berth
		if err := w.furnish(e); err != nil {
			return err
		}
	}
	if !e.state.CompareAndSwap(berthAwake, berthSleeping) {
		e.state.Store(berthAwake) // woken in advance
		return nil
	}
	err := w.sit(e)
	if err == nil {
		err = e.sleep()
	}
	if err == nil {
		w.clear(e)
	}
	if who == transport.Background {
		w.rise(who)
	}
	e.state.Store(berthAwake)
	return err
}

// furnish opens a berth the first time.
func (w *Waiter) furnish(e *berth) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended.Load():
		return transport.ErrClosed
	case e.ep != nil:
		return nil
	}
	return e.open(w.epfd)
}

// sit takes a berth.
func (w *Waiter) sit(e *berth) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.taken = true
	if w.timed != w.alarm || Shortage(w.short.Load()) == DriverQueue {
		w.setTimer()
	}
	if e == &w.berths[transport.Relief] || !w.relieved {
		if err := e.hear(true); err != nil {
			return err
		}
	}
	if w.inside && w.waits == Shortage(w.short.Load()) {
		return nil
	}
	w.takeOut()
	return w.putIn()
}

// Take gives the port to the relief: the background is deaf from here on.
func (w *Waiter) Take() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.relieved {
		w.relieved = true
		w.berths[transport.Background].hear(false)
	}
}

// Leave gives it back to the background.
func (w *Waiter) Leave() { w.rise(transport.Relief) }

// rise leaves a berth, and the relief the port. If nobody sleeps any more the sockets are taken
// out.
func (w *Waiter) rise(who transport.Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.berths[who].taken = false
	if who == transport.Relief {
		w.relieved = false
	}
	switch back := &w.berths[transport.Background]; {
	case w.relieved:
	case back.taken:
		back.hear(true)
	default:
		w.takeOut()
	}
}

// putIn puts the sockets into their epoll. The caller holds w.mu.
func (w *Waiter) putIn() (err error) {
	w.inside, w.waits = true, Shortage(w.short.Load())
	for _, fd := range w.rx {
		events := uint32(unix.EPOLLIN)
		if fd == w.tx && w.waits == SendBuffer {
			events |= unix.EPOLLOUT
		}
		if e := add(w.epfd, fd, events); err == nil {
			err = e
		}
	}
	if w.both = w.waits == SendBuffer && w.tx >= 0 && !slices.Contains(w.rx, w.tx); w.both {
		if e := add(w.epfd, w.tx, unix.EPOLLIN|unix.EPOLLOUT); err == nil {
			err = e
		}
	}
	return err
}

// takeOut takes the sockets out of their epoll. The caller holds w.mu.
func (w *Waiter) takeOut() {
	if !w.inside {
		return
	}
	for _, fd := range w.rx {
		unix.EpollCtl(w.epfd, unix.EPOLL_CTL_DEL, fd, nil)
	}
	if w.both {
		unix.EpollCtl(w.epfd, unix.EPOLL_CTL_DEL, w.tx, nil)
	}
	w.inside, w.both = false, false
}

// clear takes away what would end the next wait again.
func (w *Waiter) clear(e *berth) {
	for _, ev := range e.events[:e.found] {
		switch {
		case int(ev.Fd) == e.evfd:
			// A waker may write after we have gone on for another reason; the token then ends the
			// next wait early.
			var token [8]byte
			syscall.RawSyscall(unix.SYS_READ, uintptr(e.evfd), uintptr(unsafe.Pointer(&token)), uintptr(len(token)))
		case w.vain.Add(1) > maxVain:
			w.clearErrors()
		}
	}
}

// clearErrors takes the errors off the sockets: an interface that went down is told once.
func (w *Waiter) clearErrors() {
	var events [4]unix.EpollEvent
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(w.epfd), uintptr(unsafe.Pointer(&events)),
		uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return
	}
	for _, ev := range events[:n] {
		if ev.Events&unix.EPOLLERR != 0 {
			unix.GetsockoptInt(int(ev.Fd), unix.SOL_SOCKET, unix.SO_ERROR)
		}
	}
}

// Heard notes that something was received.
func (w *Waiter) Heard() {
	if w.vain.Load() != 0 {
		w.vain.Store(0)
	}
}

// Rouse ends a Watch.
func (w *Waiter) Rouse(who transport.Watcher) {
	if w.wake(who) {
		w.wakes.Add(1)
	}
}

// Wakes is how many calls of Rouse and Wake took a system call.
func (w *Waiter) Wakes() uint64 { return w.wakes.Load() }

// wake ends a Watch; wrote tells whether it took a system call.
func (w *Waiter) wake(who transport.Watcher) (wrote bool) {
	e := &w.berths[who]
	if e.state.Swap(berthWoken) != berthSleeping {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended.Load() {
		return false
	}
	one := [8]byte{1} // any non-zero count, in any byte order
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(e.evfd), uintptr(unsafe.Pointer(&one)), uintptr(len(one)))
	return true
}

// WakeAll ends the waits of everybody, also of the one that watches next.
func (w *Waiter) WakeAll() {
	for i := range w.berths {
		w.wake(transport.Watcher(i))
	}
}

// Close ends the waiter; no Wait may be in progress. A second Close does nothing.
func (w *Waiter) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended.Load() || w.timer == 0 {
		return
	}
	w.ended.Store(true)
	for i := range w.berths {
		w.berths[i].close()
	}
	unix.Close(w.timer)
	if w.epfd >= 0 {
		unix.Close(w.epfd)
	}
}

// Asleep tells whether a watcher sleeps, and hears of packets unless the relief has them. It is for
// tests.
func (w *Waiter) Asleep(who transport.Watcher) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := &w.berths[who]
	return e.state.Load() == berthSleeping && e.taken && (e.hears || who == transport.Background && w.relieved)
}

// Lacks tells what Lack has said last. It is for tests.
func (w *Waiter) Lacks() Shortage { return Shortage(w.short.Load()) }

// Sockets are those that are watched for packets. It is for tests.
func (w *Waiter) Sockets() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.rx)
}
