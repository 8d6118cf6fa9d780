//go:build !linux

package roce

import "fmt"

// eventFD stands for a file descriptor that this system does not have.
type eventFD int

const noEventFD eventFD = -1

func newEventFD() (eventFD, error) {
	return noEventFD, fmt.Errorf("%w: only Linux has event file descriptors: receive from Ready", ErrNotSupported)
}

func (eventFD) raise()       {}
func (eventFD) lower()       {}
func (eventFD) close()       {}
func (eventFD) raised() bool { return false }
