package rsocket

// Reading: what has come lies in the receive buffer, a ring that the other end can write at any
// time. Read copies it from there, and so does WriteTo, by way of Read; PeekShared and Discard
// leave it where it is.

import (
	"fmt"
	"io"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

// Read reads up to len(p) bytes, and waits until there is at least one. The error is io.EOF when
// the other end has ended writing, or this one reading, whatever becomes of the connection then; a
// *net.OpError otherwise.
func (c *Conn) Read(p []byte) (n int, err error) {
	c.reads.Lock()
	defer c.reads.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return 0, c.opError("read", err)
	}
	if err = c.toRead(len(p)); err == nil {
		n = c.copyOut(p, true)
	}
	c.leave()
	return n, c.readError(err)
}

// copyOut copies what there is to read, up to len(p) bytes, and has it be read or not.
func (c *Conn) copyOut(p []byte, consume bool) int {
	from, k := c.end.Pending()
	n := copy(p, c.receive[from:][:k])
	n += copy(p[n:], c.receive[:c.end.Readable()-k]) // past the end of the ring
	if consume {
		c.end.Consume(n)
		c.flush()
	}
	return n
}

// toRead waits until something can be read; an end or a deadline is an error. The caller has mu.
func (c *Conn) toRead(want int) error {
	if err := c.stopped(reading); err != nil || want == 0 {
		return err
	}
	if c.end.Readable() == 0 {
		if err := c.await(reading, (*Conn).readable); err != nil {
			return err
		}
	}
	if c.end.Readable() > 0 {
		return nil
	}
	if err := c.end.Cut(); err != nil {
		c.told = true
		return err
	}
	return io.EOF
}

// untilReadable waits until Read would return at once, or fail with the same error.
func (c *Conn) untilReadable() error {
	c.reads.Lock()
	defer c.reads.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return c.opError("read", err)
	}
	err := c.toRead(1)
	c.leave()
	return c.readError(err)
}

func (c *Conn) readable() bool { return c.end.Readable() > 0 || !c.end.State().MayRead() }

func (c *Conn) readError(err error) error {
	if err == io.EOF {
		return err
	}
	return c.opError("read", err)
}

// PeekShared waits until there is something to read, and returns what there is in a row, in place:
// memory that the other end shares. No byte is lost until Discard, or until the next call that
// reads or closes; but the other end can write these bytes again at any moment, also after they
// were counted, so that a program that looks twice may see two things: copy before you check. It
// does not wait for more, nor is there more than to the end of the ring. The errors are those of
// Read.
func (c *Conn) PeekShared() ([]byte, error) {
	c.reads.Lock()
	defer c.reads.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return nil, c.opError("read", err)
	}
	err := c.toRead(1)
	c.leave()
	if err != nil {
		return nil, c.readError(err)
	}
	c.peeked = true
	from, n := c.end.Pending()
	return c.receive[from:][:n:n], nil
}

// Discard says that n bytes of what PeekShared has returned were read: the other end may write
// there again. It returns how many it could discard, with an error if these are fewer.
func (c *Conn) Discard(n int) (int, error) {
	c.reads.Lock()
	defer c.reads.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return 0, c.opError("read", err)
	}
	var err error
	if there := c.end.Readable(); n > there {
		n, err = there, io.ErrShortBuffer
	}
	c.peeked = false
	c.end.Consume(max(n, 0))
	c.flush()
	c.leave()
	return max(n, 0), c.opError("read", err)
}

// WriteTo writes all that comes to w, until the other end has ended writing (io.WriterTo). The
// bytes that w gets are private, as those of Read are. Other reads may come in between. What w has
// not taken of them when it fails is lost, as with io.Copy.
func (c *Conn) WriteTo(w io.Writer) (n int64, err error) {
	for {
		if err := c.untilReadable(); err != nil {
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
		k, err := c.writeTo(w)
		if n += int64(k); err != nil {
			return n, err
		}
	}
}

// writeTo is a Write of what there is to read now. w is not trusted: it may return what a Writer
// must not.
func (c *Conn) writeTo(w io.Writer) (int, error) {
	chunk := chunks.Get().(*[stream.MaxTransfer]byte)
	defer chunks.Put(chunk)
	there, err := c.Read(chunk[:])
	if there == 0 {
		if err == io.EOF {
			err = nil // WriteTo sees it again
		}
		return 0, err
	}
	switch n, err := w.Write(chunk[:there]); {
	case n < 0 || n > there:
		return 0, fmt.Errorf("rsocket: WriteTo: %w: a Write of %d bytes returned %d", roce.ErrInvalid, there, n)
	case n < there && err == nil:
		return n, io.ErrShortWrite
	default:
		return n, err
	}
}

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadline(t, reading, writing) }

// SetReadDeadline sets when calls that read fail with os.ErrDeadlineExceeded, those that wait
// already as well; the zero time is never.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(t, reading) }

// SetWriteDeadline sets when calls that write fail with os.ErrDeadlineExceeded. Of a call that
// fails so, as many bytes are written as it says.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(t, writing) }

func (c *Conn) setDeadline(t time.Time, of ...side) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return c.opError("set", err)
	}
	for _, s := range of {
		c.until[s].set(c, t)
	}
	return c.opError("set", c.leave())
}
