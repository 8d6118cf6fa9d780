package host

// The network namespace of a port: sockets belong to that of the thread that opens them, which may
// be another one later.

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// threadNamespace names the calling thread's.
const threadNamespace = "/proc/thread-self/ns/net"

// Namespace is a network namespace. The zero Namespace is whichever a thread is in.
type Namespace struct {
	fd int
	id unix.Stat_t
}

// OpenNamespace returns the calling thread's, or the zero Namespace where /proc does not tell.
func OpenNamespace() (n Namespace) {
	fd, err := unix.Open(threadNamespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return n
	}
	if unix.Fstat(fd, &n.id) != nil {
		unix.Close(fd)
		return Namespace{}
	}
	n.fd = fd
	return n
}

// Do calls f in the namespace. A thread that is in another one is taken there, which needs
// CAP_SYS_ADMIN; a process that has only ever been in one needs nothing.
func (n Namespace) Do(f func() error) error {
	runtime.LockOSThread()
	defer func() { runtime.UnlockOSThread() }()
	here := OpenNamespace()
	defer here.Close()
	if n.fd == 0 || here.fd == 0 || here.id.Dev == n.id.Dev && here.id.Ino == n.id.Ino {
		return f()
	}
	if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("setns to the port's network namespace: %w", err)
	}
	err := f()
	if unix.Setns(here.fd, unix.CLONE_NEWNET) != nil {
		runtime.LockOSThread() // for good: nobody else is to use this thread
	}
	return err
}

// Close frees the descriptor.
func (n Namespace) Close() {
	if n.fd != 0 {
		unix.Close(n.fd)
	}
}
