package rsocket

// Writing: bytes are copied to the send buffer, a ring, and sent from there when the other end has
// room.

import (
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

// Write writes p, and waits as long as there is no room for all of it at the other end. When it
// returns, p is the caller's again, and what was written is on its way. An error is a *net.OpError.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.writev([][]byte{p})
	return int(n), err
}

// WriteBuffers writes all of v, as net.Buffers.WriteTo does for a TCP connection: many small pieces
// leave together. v is left with what was not written.
func (c *Conn) WriteBuffers(v *net.Buffers) (int64, error) {
	n, err := c.writev(*v)
	rest := *v
	for left := n; len(rest) > 0; rest = rest[1:] {
		if left < int64(len(rest[0])) {
			rest[0] = rest[0][left:]
			break
		}
		left -= int64(len(rest[0]))
	}
	*v = rest
	return n, err
}

func (c *Conn) writev(v [][]byte) (n int64, err error) {
	left := 0
	for _, p := range v {
		left += len(p)
	}
	c.writes.Lock()
	defer c.writes.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return 0, c.opError("write", err)
	}
	c.lookForEnd()
	into := 0 // of v[0], what was sent
	err = c.stopped(writing)
	for left > 0 && err == nil {
		k := c.end.Send(left, &c.req)
		if k == 0 {
			err = c.toWrite(left, (*Conn).writable)
			continue
		}
		for done := 0; done < k; {
			m := c.fill((c.req.From+done)%len(c.send), v[0][into:], k-done)
			done += m
			if into += m; into == len(v[0]) {
				v, into = v[1:], 0
			}
		}
		c.post(c.own, c.req.From)
		n += int64(k)
		if left -= k; left > 0 {
			err = c.stopped(writing)
		}
	}
	c.leave()
	return n, c.opError("write", err)
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
