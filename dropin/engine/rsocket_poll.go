package main

// Waiting for sockets. A call of C that has to wait does so in the engine for a while, where it
// runs the stack itself, and then sleeps in C, where signals and pthread_cancel end it: on the
// socket's number, which is made a duplicate of the descriptor that shows what the socket is ready
// for. Only while somebody sleeps is there anybody who keeps that up to date.
//
// Stages: waiting for a while; sleeping; rpoll.

// #include "rsocket.h"
import "C"

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce/rsocket"
)

// await waits for a while, on a connection that is watched only as long as somebody sleeps.
func (s *streamSocket) await(c *rsocket.Conn, what rsocket.Readiness, ms C.int) rsocket.Readiness {
	s.mu.Lock()
	if s.watched && s.sleepers == 0 {
		c.Watch(false)
		s.watched = false
	}
	s.mu.Unlock()
	return c.Await(what, time.Duration(ms)*time.Millisecond)
}

// goroce_rs_sleep has a number of C's show what the socket is ready for, or says that nobody sleeps
// on it any more. Before it sleeps the call looks once more.
//
//export goroce_rs_sleep
func goroce_rs_sleep(h C.uint32_t, number, on C.int) C.int {
	switch s, _ := find[any](handle(h)); s := s.(type) {
	case *datagramSocket:
		return s.sleep(int(number))
	case *streamSocket:
		return s.sleep(int(number), on != 0)
	}
	return C.int(unix.EBADF)
}

func (s *streamSocket) sleep(number int, on bool) C.int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !on {
		s.sleepers--
		return 0
	}
	c := s.conn.Load()
	var fd int
	var err error
	switch {
	case s.closed:
		return C.int(unix.EBADF)
	case c != nil:
		fd, err = c.FD()
		s.watched = s.watched || s.shown == 0 && err == nil // the first FD watches
	case s.listener != nil:
		fd, err = s.listener.FD()
	default:
		fd, err = s.sock.FD()
	}
	if err == nil && fd != s.shown {
		unix.SetNonblock(fd, false) // C sleeps in calls that a signal can end
		if err = unix.Dup3(fd, number, unix.O_CLOEXEC); err == nil {
			s.shown = fd
		}
	}
	if err != nil {
		return rsErrno(err)
	}
	if c != nil && !s.watched {
		c.Watch(true)
		s.watched = true
	}
	s.sleepers++
	return 0
}

// goroce_rs_poll says what sockets are ready for. If none is and there is but one, it waits for so
// many ms; if none is then and the program is to sleep, their numbers show what they become ready
// for, until goroce_rs_wake.
//
//export goroce_rs_poll
func goroce_rs_poll(polls *C.struct_goroce_rs_poll, n, waits, sleeps C.int, ready *C.int) C.int {
	list := unsafe.Slice(polls, int(n))
	*ready = 0
	for i := range list {
		p := &list[i]
		w := waits
		if n > 1 {
			w = 0
		}
		if p.revents = look(p, w); p.revents != 0 {
			*ready++
		}
	}
	if *ready > 0 || sleeps == 0 {
		return 0
	}
	for i := range list {
		if no := goroce_rs_sleep(C.uint32_t(list[i].handle), list[i].number, 1); no != 0 {
			goroce_rs_wake(polls, C.int(i))
			return no
		}
	}
	return 0
}

//export goroce_rs_wake
func goroce_rs_wake(polls *C.struct_goroce_rs_poll, n C.int) C.int {
	for _, p := range unsafe.Slice(polls, int(n)) {
		goroce_rs_sleep(C.uint32_t(p.handle), p.number, 0)
	}
	return 0
}

// look is what a socket is ready for, of what is asked. Of a listener, and of datagrams that come,
// the number alone tells.
func look(p *C.struct_goroce_rs_poll, waits C.int) C.short {
	switch s, _ := find[any](handle(p.handle)); s := s.(type) {
	case *datagramSocket:
		return s.look(p.events)
	case *streamSocket:
		_, c, _ := connOf(p.handle)
		if c == nil {
			return s.unconnected(p.events)
		}
		return connected(s, c, p.events, waits)
	}
	return C.POLLNVAL
}

// unconnected is what a socket is ready for that is no connection.
func (s *streamSocket) unconnected(events C.short) C.short {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.listener != nil:
		s.accepts.begin()
	case s.failed:
		return events&(C.POLLIN|C.POLLOUT) | C.POLLERR
	}
	return 0
}

// asked says which readiness an event is.
var asked = []struct {
	event C.short
	is    rsocket.Readiness
}{{C.POLLIN, rsocket.Readable}, {C.POLLRDNORM, rsocket.Readable}, {C.POLLOUT, rsocket.Writable},
	{C.POLLWRNORM, rsocket.Writable}, {C.POLLRDHUP, rsocket.Ended}}

// connected is what a connection is ready for, if need be after a while.
func connected(s *streamSocket, c *rsocket.Conn, events C.short, waits C.int) (is C.short) {
	what := rsocket.HungUp
	for _, a := range asked {
		if events&a.event != 0 {
			what |= a.is
		}
	}
	r := c.Readiness()
	if r&what == 0 && waits > 0 {
		r = s.await(c, what, waits)
	}
	for _, a := range asked {
		if r&a.is != 0 {
			is |= events & a.event
		}
	}
	if r&rsocket.HungUp != 0 && (is&(C.POLLIN|C.POLLRDNORM) == 0 || !unread(c)) {
		is |= C.POLLHUP
	}
	return is
}

// unread says whether bytes are there. Programs take POLLHUP for an end that they need not read to.
func unread(c *rsocket.Conn) bool {
	n, _ := c.TryPeek(make([]byte, 1))
	return n > 0
}
