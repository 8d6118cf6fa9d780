package hub

// The shelf: a descriptor that keeps others open without a process that has them. The sockets of an
// address must outlive its hub, for the kernel steers by their places, and one that nobody has
// gives its place away (udp.MakeSlots); and the hub that comes next needs all of them. So they lie
// in the queue of a socket, beside bytes that nobody takes; each process has that socket. It is a
// stream's: the queue of another kind holds ten messages where nobody has chosen more.
//
// Stages: putting descriptors there; looking at them, which leaves them there.

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// shelfBytes lie beside each list: so many the next look skips.
const shelfBytes = 1

// FillShelf makes a shelf with some lists of descriptors, which stay the caller's; each at most
// 250.
func FillShelf(lists [][]int) (shelf int, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ends[0])
	for _, fds := range lists {
		if len(fds) > maxFiles {
			unix.Close(ends[1])
			return -1, fmt.Errorf("%d descriptors in a list, at most %d find room", len(fds), maxFiles)
		}
		beside := make([]byte, shelfBytes)
		if err := unix.Sendmsg(ends[0], beside, unix.UnixRights(fds...), nil, unix.MSG_DONTWAIT); err != nil {
			unix.Close(ends[1])
			return -1, fmt.Errorf("%d lists: %w", len(lists), err)
		}
	}
	return ends[1], nil
}

// LookAtShelf returns copies of what lies there, for the caller to close.
func LookAtShelf(shelf int) (lists []Files, err error) {
	defer func() {
		if err != nil {
			for i := range lists {
				lists[i].Close()
			}
			lists = nil
		}
	}()
	var b [shelfBytes]byte
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	for at := 0; ; at += shelfBytes {
		if err := unix.SetsockoptInt(shelf, unix.SOL_SOCKET, unix.SO_PEEK_OFF, at); err != nil {
			return lists, fmt.Errorf("SO_PEEK_OFF: %w", err)
		}
		n, oobn, flags, _, err := unix.Recvmsg(shelf, b[:], oob, unix.MSG_PEEK|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		switch {
		case err == unix.EAGAIN, err == nil && n == 0:
			return lists, nil
		case err != nil:
			return lists, err
		case n != shelfBytes || flags&unix.MSG_CTRUNC != 0:
			return lists, errors.New("the shelf is not one of ours, or there is no room for its descriptors")
		}
		files, err := rights(oob[:oobn])
		lists = append(lists, files)
		if err != nil {
			return lists, err
		}
	}
}
