package rsocket

import (
	"os"

	"golang.org/x/sys/unix"
)

// signs are a descriptor whose events say what something is ready for: one end of a pair of
// sockets, with whose other end they are made. There are bytes to read when it is readable; it is
// not writable while its send buffer is full; and the other end is shut down when that is so of
// the connection. So a recv with MSG_PEEK, or a send, sleeps on it like poll: an application may
// want it blocking, which no call here minds. One call at a time.
type signs struct {
	app, own int // the application polls app
	shown    Readiness
	edges    int // bytes that wait at app
}

// maxEdges is how many bytes wait at the application's end, far fewer than have room there. With
// the next one they are taken back first.
const maxEdges = 64

// newSigns makes a descriptor that shows nothing.
func newSigns() (*signs, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	s := &signs{app: pair[0], own: pair[1], shown: Writable}
	if err := unix.SetsockoptInt(s.app, unix.SOL_SOCKET, unix.SO_SNDBUF, 1); err != nil {
		s.close()
		return nil, os.NewSyscallError("setsockopt", err)
	}
	s.show(0, false)
	return s, nil
}

func (s *signs) fd() int { return s.app }

// show shows what is ready now; more: something has come since. What Ended and HungUp say stays,
// and with the latter all calls return at once.
func (s *signs) show(now Readiness, more bool) {
	was := s.shown
	if now |= was & (Ended | HungUp); now&HungUp != 0 {
		now |= Readable | Writable
	}
	s.shown = now
	changed := s.shown ^ was
	if was&Ended == 0 { // from then on it is readable for ever
		switch {
		case now&Readable == 0 && changed&Readable != 0:
			s.lower()
		case now&Readable != 0 && (more || changed&Readable != 0):
			s.raise()
		}
	}
	if changed&Writable != 0 {
		var buf [1024]byte
		for err := error(nil); err == nil; { // until it is full, or empty
			if now&Writable == 0 {
				err = unix.Send(s.app, buf[:], unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
			} else {
				_, err = unix.Read(s.own, buf[:])
			}
		}
	}
	switch {
	case changed&HungUp != 0:
		unix.Shutdown(s.own, unix.SHUT_RDWR)
	case changed&Ended != 0:
		unix.Shutdown(s.own, unix.SHUT_WR)
	}
}

func (s *signs) raise() {
	if s.edges == maxEdges {
		s.lower()
	}
	unix.Send(s.own, []byte{0}, unix.MSG_NOSIGNAL)
	s.edges++
}

func (s *signs) lower() {
	var buf [maxEdges]byte
	unix.Recvfrom(s.app, buf[:], unix.MSG_DONTWAIT)
	s.edges = 0
}

func (s *signs) close() {
	unix.Close(s.own)
	unix.Close(s.app)
}
