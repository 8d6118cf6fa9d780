package rsocket

// Writing: bytes are copied to the send buffer, a ring, and sent from there when the other end has
// room.

import (
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

// pieces are bytes to be written: of the slices, from an offset in the first one on; into the
// stream, or to memory that the other end has exposed.
type pieces struct {
	v      [][]byte
	into   int
	direct bool
	at     uint64
}

func (from *pieces) len() (n int) {
	for _, p := range from.v {
		n += len(p)
	}
	return n
}

// Write writes p, and waits as long as there is no room for all of it at the other end. When it
// returns, p is the caller's again, and what was written is on its way. An error is a *net.OpError.
func (c *Conn) Write(p []byte) (int, error) {
	return c.write(pieces{v: [][]byte{p}})
}

// WriteBuffers writes all of v, as net.Buffers.WriteTo does for a TCP connection: many small pieces
// leave together. v is left with what was not written.
func (c *Conn) WriteBuffers(v *net.Buffers) (int64, error) {
	n, err := c.write(pieces{v: *v})
	rest := *v
	for left := n; len(rest) > 0; rest = rest[1:] {
		if left < len(rest[0]) {
			rest[0] = rest[0][left:]
			break
		}
		left -= len(rest[0])
	}
	*v = rest
	return int64(n), err
}

// WriteAt writes p to memory that the other end's application has exposed, from this offset on
// (riowrite): a negative one is 2^64 more. That application learns nothing of it; what is written
// to the stream later arrives later. When it returns, p is the caller's again, and what was written
// is on its way. roce.ErrInvalid: there is no such memory.
func (c *Conn) WriteAt(p []byte, offset int64) (int, error) {
	return c.write(pieces{v: [][]byte{p}, direct: true, at: uint64(offset)})
}

func (c *Conn) write(from pieces) (n int, err error) {
	left := from.len()
	c.writes.Lock()
	defer c.writes.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return 0, c.opError("write", err)
	}
	c.wait.writer = true
	c.lookForEnd()
	ready := (*Conn).writable
	if from.direct {
		ready = (*Conn).writableAt
	}
	for err = c.stopped(writing); left > 0 && err == nil; {
		k := c.sendSome(&from, left)
		if k == 0 {
			if err = c.unknown(&from); err == nil {
				err = c.toWrite(left, ready)
			}
			continue
		}
		n += k
		if left -= k; left > 0 {
			err = c.stopped(writing)
		}
	}
	c.wait.writer = false
	c.leave()
	return n, c.opError("write", err)
}

// sendSome sends the next message of up to so many bytes, and returns how many: 0 if it has to
// wait, or may not.
func (c *Conn) sendSome(from *pieces, left int) (k int) {
	if from.direct {
		k = c.end.SendAt(from.at, left, &c.req)
		from.at += uint64(k)
	} else {
		k = c.end.Send(left, &c.req)
	}
	if k > 0 {
		c.gatherPieces(from, k)
		c.post(c.own, c.req.From)
	}
	return k
}

// unknown says that the memory that is to be written was not exposed.
func (c *Conn) unknown(from *pieces) error {
	if from.direct && c.end.Find(from.at).Length == 0 {
		return errNotExposed
	}
	return nil
}

var errNotExposed = fmt.Errorf("%w: the other end has not exposed such memory", roce.ErrInvalid)

// gatherPieces copies the next k bytes to where c.req sends them from.
func (c *Conn) gatherPieces(from *pieces, k int) {
	for done := 0; done < k; {
		m := c.fill((c.req.From+done)%len(c.send), from.v[0][from.into:], k-done)
		done += m
		if from.into += m; from.into == len(from.v[0]) {
			from.v, from.into = from.v[1:], 0
		}
	}
}

// fill copies up to n bytes of p to the send buffer from at on, round the end, and returns how
// many.
func (c *Conn) fill(at int, p []byte, n int) int {
	p = p[:min(len(p), n)]
	k := copy(c.send[at:], p)
	copy(c.send, p[k:])
	return len(p)
}

// toWrite waits until want bytes, or many of them, may be sent; the end is an error. The caller has
// mu.
func (c *Conn) toWrite(want int, ready func(*Conn) bool) error {
	c.wait.want = want
	if err := c.await(writing, ready); err != nil {
		return err
	}
	return c.ended()
}

// ended says why nothing may be written any more; nil if it may.
func (c *Conn) ended() error {
	switch state := c.end.State(); {
	case state.MayWrite():
		return nil
	case state == stream.Failed:
		return c.tell()
	case state == stream.Disconnected:
		return syscall.ECONNRESET
	}
	return syscall.EPIPE
}

func (c *Conn) writableAt() bool {
	return c.end.CanSendAt(c.wait.want) || !c.end.State().MayWrite()
}

func (c *Conn) writable() bool { return c.end.CanSend(c.wait.want) || !c.end.State().MayWrite() }

// chunks are what ReadFrom reads into.
var chunks = sync.Pool{New: func() any { return new([stream.MaxTransfer]byte) }}

// ReadFrom writes all that r has, until io.EOF (io.ReaderFrom). Other writes may come in between.
func (c *Conn) ReadFrom(r io.Reader) (n int64, err error) {
	chunk := chunks.Get().(*[stream.MaxTransfer]byte)
	defer chunks.Put(chunk)
	for {
		k, readErr := r.Read(chunk[:])
		if k > 0 {
			k, err = c.Write(chunk[:k])
			n += int64(k)
		}
		switch {
		case err != nil:
			return n, err
		case readErr == io.EOF:
			return n, nil
		case readErr != nil:
			return n, readErr
		}
	}
}
