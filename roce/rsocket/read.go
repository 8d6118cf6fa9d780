package rsocket

// Reading: what has come lies in the receive buffer, a ring. Read copies it from there; Peek,
// Discard and WriteTo use it where it is.

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
		for n < len(p) && c.end.Readable() > 0 {
			from, k := c.end.Pending()
			k = copy(p[n:], c.receive[from:][:k])
			c.end.Consume(k)
			n += k
		}
		c.flush()
	}
	c.leave()
	return n, c.readError(err)
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

func (c *Conn) readable() bool { return c.end.Readable() > 0 || !c.end.State().MayRead() }

func (c *Conn) readError(err error) error {
	if err == io.EOF {
		return err
	}
	return c.opError("read", err)
}

// Peek waits until there is something to read, and returns what there is in a row, in place: the
// bytes are the caller's until Discard, or until the next call that reads or closes. It does not
// wait for more, nor is there more than to the end of the ring. The errors are those of Read.
func (c *Conn) Peek() ([]byte, error) {
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

// Discard says that n bytes of what Peek has returned were read: the other end may write there
// again. It returns how many it could discard, with an error if these are fewer.
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

// WriteTo writes all that comes to w, out of the receive buffer, until the other end has ended
// writing (io.WriterTo). Other reads wait until it returns.
func (c *Conn) WriteTo(w io.Writer) (n int64, err error) {
	c.reads.Lock()
	defer c.reads.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return 0, c.opError("read", err)
	}
	defer c.leave()
	for {
		if err = c.toRead(1); err != nil {
			if err == io.EOF {
				return n, nil
			}
			return n, c.readError(err)
		}
		from, k := c.end.Pending()
		k = min(k, stream.MaxTransfer)
		k, err = c.writeTo(w, c.receive[from:][:k])
		c.flush()
		if n += int64(k); err != nil {
			return n, err
		}
	}
}

// writeTo is a Write of p, which is what is pending, while others may use the connection. w is not
// trusted: it may panic, and it may return what a Writer must not.
func (c *Conn) writeTo(w io.Writer, p []byte) (n int, err error) {
	c.end.Hold()
	c.away++
	c.leaves.Broadcast()
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.away--
		c.end.Release(n)
	}()
	switch n, err = w.Write(p); {
	case n < 0 || n > len(p):
		return 0, fmt.Errorf("rsocket: WriteTo: %w: a Write of %d bytes returned %d", roce.ErrInvalid, len(p), n)
	case n < len(p) && err == nil:
		err = io.ErrShortWrite
	}
	return n, err
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
		c.until[s].set(c, s, t)
	}
	return c.opError("set", c.leave())
}
