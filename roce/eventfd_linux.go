package roce

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// eventFD is a file descriptor that is readable while it is raised, or noEventFD.
type eventFD int

const noEventFD eventFD = -1

func newEventFD() (eventFD, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return noEventFD, os.NewSyscallError("eventfd", err)
	}
	return eventFD(fd), nil
}

// raise makes it readable.
func (f eventFD) raise() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	unix.Write(int(f), one[:])
}

// lower makes it unreadable. It never sleeps, also if the descriptor is one that blocks, as in
// programs in C, and somebody else has read it.
func (f eventFD) lower() {
	if !f.raised() {
		return
	}
	var count [8]byte
	unix.Read(int(f), count[:])
}

// raised says whether it is readable.
func (f eventFD) raised() bool {
	p := []unix.PollFd{{Fd: int32(f), Events: unix.POLLIN}}
	n, _ := unix.Poll(p, 0)
	return n > 0
}

func (f eventFD) close() { unix.Close(int(f)) }
