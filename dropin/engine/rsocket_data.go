package main

// What a socket of streams does all the time: bytes, and waiting for them. One call of C is one
// call here, which allocates nothing.
//
// Stages: receiving; sending; memory that the other end may write; writing into that of the other
// end. Waiting is in rsocket_poll.go.

// #include "rsocket.h"
import "C"

import (
	"errors"
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket"
)

// exposed is memory of the program's that the other end may write (riomap). Until it was told,
// which each call that writes tries first, told is false.
type exposed struct {
	addr   unsafe.Pointer
	n      int
	offset uint64
	memory *rsocket.Buffer
	told   bool
}

// most is how many bytes of a piece of memory one call moves at most.
const most = 1 << 30

// memoryOf is a program's memory; false: it is none.
func memoryOf(at unsafe.Pointer, n C.size_t) ([]byte, bool) {
	if n == 0 {
		return nil, true
	}
	if at == nil {
		return nil, false
	}
	return unsafe.Slice((*byte)(at), int(min(n, most))), true
}

//export goroce_rs_recv
func goroce_rs_recv(h C.uint32_t, to unsafe.Pointer, n C.size_t, peek, waits C.int, got *C.size_t) C.int {
	s, c, no := connOf(h)
	if no != 0 {
		return no
	}
	p, ok := memoryOf(to, n)
	if !ok {
		return C.int(unix.EFAULT)
	}
	for {
		var k int
		var err error
		if peek != 0 {
			k, err = c.TryPeek(p)
		} else {
			k, err = c.TryRead(p)
		}
		*got = C.size_t(k)
		if err != syscall.EAGAIN {
			return s.result(err)
		}
		if waits == 0 {
			return C.int(unix.EAGAIN)
		}
		s.await(c, rsocket.Readable, waits)
		waits = 0
	}
}

// result is an errno of a connection's, which SO_ERROR tells too.
func (s *streamSocket) result(err error) C.int {
	if err == nil || err == io.EOF {
		return 0
	}
	no := rsErrno(err)
	s.mu.Lock()
	s.failure = syscall.Errno(no)
	s.mu.Unlock()
	return no
}

// goroce_rs_send sends what of n pieces of memory is behind the first from bytes, and says how much
// of it was sent.
//
//export goroce_rs_send
func goroce_rs_send(h C.uint32_t, v *C.struct_iovec, n C.int, from C.size_t, waits C.int, sent *C.size_t) C.int {
	s, c, no := connOf(h)
	if no != 0 {
		return no
	}
	left, ok := s.gather(unsafe.Slice(v, int(n)), uint64(from))
	if !ok {
		return C.int(unix.EFAULT)
	}
	rest := s.pieces
	for patient := waits; left > 0; {
		k, err := 0, s.tellMaps(c)
		if err == nil {
			k, err = c.TryWrite(rest...)
		}
		*sent += C.size_t(k)
		left -= k
		switch {
		case err == nil:
			rest, patient = behind(rest, k), waits
		case err != syscall.EAGAIN:
			return s.result(err)
		case patient == 0:
			return C.int(unix.EAGAIN)
		default:
			s.await(c, rsocket.Writable, waits)
			patient = 0
		}
	}
	return 0
}

// gather has s.pieces be what is behind so many bytes of some memory.
func (s *streamSocket) gather(v []C.struct_iovec, from uint64) (left int, ok bool) {
	s.pieces = s.pieces[:0]
	for i := range v {
		skip := min(from, uint64(v[i].iov_len))
		from -= skip
		if n := uint64(v[i].iov_len) - skip; n > 0 {
			if v[i].iov_base == nil {
				return 0, false
			}
			p, _ := memoryOf(unsafe.Add(v[i].iov_base, skip), C.size_t(n))
			s.pieces = append(s.pieces, p)
			if left += len(p); len(p) < int(n) || left > most {
				return left, true // C calls again
			}
		}
	}
	return left, true
}

// behind is what is behind k bytes.
func behind(v [][]byte, k int) [][]byte {
	for ; len(v) > 0 && k >= len(v[0]); v = v[1:] {
		k -= len(v[0])
	}
	if len(v) > 0 {
		v[0] = v[0][k:]
	}
	return v
}

// goroce_rs_map lets the other end write memory of the program's, of which it learns before what is
// sent afterwards.
//
//export goroce_rs_map
func goroce_rs_map(h C.uint32_t, at unsafe.Pointer, n C.size_t, offset C.uint64_t) C.int {
	s, c, no := connOf(h)
	if no != 0 {
		return invalid
	}
	if at == nil || n == 0 || n >= 1<<32 {
		return invalid
	}
	b, err := c.Register(unsafe.Slice((*byte)(at), int(n)))
	if err != nil {
		return rsErrno(err)
	}
	s.maps = append(s.maps, exposed{at, int(n), uint64(offset), b, false})
	if err := s.tellMaps(c); err != nil && err != syscall.EAGAIN {
		s.unmap(len(s.maps) - 1)
		return rsErrno(err)
	}
	return 0
}

// tellMaps tells the other end of memory that it does not know of yet.
func (s *streamSocket) tellMaps(c *rsocket.Conn) error {
	for i := range s.maps {
		if m := &s.maps[i]; !m.told {
			if err := c.TryExpose(m.memory, m.offset); err != nil {
				return err
			}
			m.told = true
		}
	}
	return nil
}

func (s *streamSocket) unmap(i int) error {
	b := s.maps[i].memory
	s.maps = append(s.maps[:i], s.maps[i+1:]...)
	return b.Close()
}

//export goroce_rs_unmap
func goroce_rs_unmap(h C.uint32_t, at unsafe.Pointer, n C.size_t) C.int {
	s, no := streamOf(h)
	if no != 0 {
		return no
	}
	for i, m := range s.maps {
		if m.addr == at && m.n == int(n) {
			return rsErrno(s.unmap(i))
		}
	}
	return invalid
}

// goroce_rs_write_at writes into memory that the other end has exposed. EINVAL: there is none.
//
//export goroce_rs_write_at
func goroce_rs_write_at(h C.uint32_t, from unsafe.Pointer, n C.size_t, offset C.uint64_t, waits C.int,
	sent *C.size_t) C.int {
	s, c, no := connOf(h)
	if no != 0 {
		return no
	}
	p, ok := memoryOf(from, n)
	if !ok {
		return C.int(unix.EFAULT)
	}
	for patient := waits; len(p) > 0; {
		k, err := 0, s.tellMaps(c)
		if err == nil {
			k, err = c.TryWriteAt(p, int64(offset)+int64(*sent))
		}
		*sent += C.size_t(k)
		p = p[k:]
		switch {
		case err == nil:
			patient = waits
		case errors.Is(err, roce.ErrInvalid):
			return invalid
		case err != syscall.EAGAIN:
			return s.result(err)
		case patient == 0:
			return C.int(unix.EAGAIN)
		default:
			s.await(c, rsocket.Writable, waits)
			patient = 0
		}
	}
	return 0
}
