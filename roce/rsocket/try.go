package rsocket

// Calls that never wait. What has come and nobody has taken they take themselves, unless another
// call is waiting and does. Of their own they return syscall.EAGAIN as it is, so that a loop of
// them allocates nothing.

import "syscall"

// TryRead is a Read that does not wait: syscall.EAGAIN if there is nothing to read.
func (c *Conn) TryRead(p []byte) (int, error) { return c.tryRead(p, true) }

// TryPeek is a TryRead that leaves what it copies to be read again.
func (c *Conn) TryPeek(p []byte) (int, error) { return c.tryRead(p, false) }

func (c *Conn) tryRead(p []byte, consume bool) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return 0, c.opError("read", err)
	}
	if c.end.Readable() < len(p) {
		c.glance()
	}
	switch {
	case c.readable():
		if err = c.toRead(len(p)); err == nil {
			n = c.copyOut(p, consume)
		}
	case len(p) > 0:
		err = c.stopped(reading)
	}
	c.leave()
	if n == 0 && err == nil && len(p) > 0 {
		return 0, syscall.EAGAIN
	}
	return n, c.readError(err)
}

// TryWrite writes of all p, one after the other and together, as many bytes as there is room for,
// and does not wait for more: syscall.EAGAIN if that is none, or while another call writes. What
// FD shows as POLLOUT is room for a packet or some: a piece of fewer bytes may have room before.
func (c *Conn) TryWrite(p ...[]byte) (int, error) { return c.tryWrite(pieces{v: p}) }

// TryWriteAt is a WriteAt that does not wait, as TryWrite is a Write.
func (c *Conn) TryWriteAt(p []byte, offset int64) (int, error) {
	return c.tryWrite(pieces{v: [][]byte{p}, direct: true, at: uint64(offset)})
}

func (c *Conn) tryWrite(from pieces) (n int, err error) {
	left := from.len()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return 0, c.opError("write", err)
	}
	if c.wait.writer {
		c.left()
		return 0, syscall.EAGAIN
	}
	c.lookForEnd()
	if !c.end.CanSend(left) {
		c.glance()
	}
	for err = c.stopped(writing); n < left && err == nil; {
		k := c.sendSome(&from, left-n)
		if n += k; k == 0 {
			if err = c.unknown(&from); err == nil {
				err = c.ended()
			}
			break
		}
	}
	c.leave()
	switch {
	case n > 0:
		return n, nil
	case err == nil && left > 0:
		return 0, syscall.EAGAIN
	}
	return 0, c.opError("write", err)
}

// glance takes what has completed, if nobody else does.
func (c *Conn) glance() {
	if !c.wait.leading {
		c.lead(reading, true)
	}
}
