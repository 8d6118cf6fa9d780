// Package netthread has network namespaces without names. Each is a thread's: a goroutine locks
// itself to a thread of the system and unshares the network; from then on it runs what it is given.
// Sockets that are opened there stay in the namespace. Programs that are started there are born
// into it, and die with the thread that started them (Pdeathsig), however this process ends.
package netthread

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Thread is a thread in a network namespace of its own, which ends with the last process or thread
// in it. Its methods may be called concurrently.
type Thread struct {
	calls chan func()
	ended chan struct{} // closed by Close
	once  sync.Once
}

// ErrClosed is what a thread says that has ended.
var ErrClosed = errors.New("the network namespace is closed")

// New starts a thread in a new network namespace, which takes root or CAP_SYS_ADMIN. prepare runs
// on it first, unless it is nil; its error is New's.
func New(prepare func() error) (*Thread, error) {
	t := &Thread{calls: make(chan func()), ended: make(chan struct{})}
	started := make(chan error)
	go t.live(started, prepare)
	if err := <-started; err != nil {
		return nil, err
	}
	return t, nil
}

// live is the goroutine that owns the thread.
func (t *Thread) live(started chan<- error, prepare func() error) {
	// It is never unlocked: the thread must not serve other goroutines, and ends with this one.
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread does not end with its goroutine, and /proc/self/ns shows its namespace as
		// the process's. Another goroutine gets another thread, because this one is taken until
		// that one runs.
		inner := make(chan error)
		go t.live(inner, prepare)
		started <- <-inner
		runtime.UnlockOSThread()
		return
	}
	err := unix.Unshare(unix.CLONE_NEWNET)
	if err == nil && prepare != nil {
		err = prepare()
	}
	started <- err
	if err != nil {
		return
	}
	// Also when a function that it runs calls runtime.Goexit, as t.FailNow does.
	defer t.Close()
	for {
		select {
		case call := <-t.calls:
			call()
		case <-t.ended:
			return
		}
	}
}

// Do runs f on the thread and waits for it: the error is f's, or ErrClosed.
func (t *Thread) Do(f func() error) error {
	done := make(chan error, 1)
	select {
	case t.calls <- func() { done <- f() }:
		select {
		case err := <-done:
			return err
		case <-t.ended:
		}
		select {
		case err := <-done: // f itself closed the thread
			return err
		default:
		}
	case <-t.ended:
	}
	return ErrClosed
}

// Start starts a program in the namespace.
func (t *Thread) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return t.Do(cmd.Start)
}

// Open opens the namespace as a file, by which another one can put an interface into it.
func (t *Thread) Open() (file *os.File, err error) {
	err = t.Do(func() (err error) {
		file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return file, err
}

// Close ends the thread; the kernel kills the programs that it started. Close may be called more
// than once.
func (t *Thread) Close() { t.once.Do(func() { close(t.ended) }) }
