package rsocket

// Registered memory of the application's own: written from without a copy, and exposed to the other
// end, which writes into it directly.

import (
	"cmp"
	"context"
	"fmt"
	"syscall"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

// Buffer is registered memory of a connection. Its methods may be called from any goroutine.
type Buffer struct {
	conn   *Conn
	mr     *roce.MR
	memory []byte
	used   int // by calls that write from it; under conn.mu
}

// Alloc makes n bytes of registered memory, 1 to 2^32-1. It is the connection's, and goes with it.
func (c *Conn) Alloc(n int) (*Buffer, error) {
	if err := canRegister("Alloc", n); err != nil {
		return nil, err
	}
	return c.Register(make([]byte, n))
}

func canRegister(call string, n int) error {
	if n < 1 || int64(n) > 1<<32-1 {
		return fmt.Errorf("rsocket: %s: %w: %d bytes, want 1 to 2^32-1", call, roce.ErrInvalid, n)
	}
	return nil
}

// Register is Alloc with memory of the application's own (riomap), which may be in use in other
// ways too.
func (c *Conn) Register(memory []byte) (*Buffer, error) {
	if err := canRegister("Register", len(memory)); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return nil, c.opError("alloc", err)
	}
	defer c.leave()
	b := &Buffer{conn: c, memory: memory}
	var err error
	if b.mr, err = c.pd.RegMR(b.memory, roce.LocalWrite|roce.RemoteWrite); err != nil {
		return nil, c.opError("alloc", err)
	}
	c.allocs[b] = struct{}{}
	return b, nil
}

// Bytes is the memory.
func (b *Buffer) Bytes() []byte { return b.memory }

// Close gives the memory up. The other end cannot write it any more, if it was exposed. The error
// is roce.ErrBusy while a WriteBuffer or WriteAt writes from it, whose device reads it. A second
// Close does nothing.
func (b *Buffer) Close() error {
	c := b.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.allocs[b]; !open {
		return nil
	}
	if b.used > 0 {
		return c.opError("close", fmt.Errorf("%w: a Buffer that is being written from", roce.ErrBusy))
	}
	delete(c.allocs, b)
	c.end.Untell(b.mr.RKey())
	return b.mr.Close()
}

// checked says what is wrong with n bytes from off on.
func (b *Buffer) checked(c *Conn, off, n int) error {
	_, open := c.allocs[b]
	switch {
	case b.conn != c:
		return fmt.Errorf("%w: a Buffer of another connection", roce.ErrInvalid)
	case !open:
		return fmt.Errorf("%w: a Buffer that was closed", roce.ErrInvalid)
	case off < 0 || n < 0 || off > len(b.memory)-n:
		return fmt.Errorf("%w: %d bytes from %d on of a Buffer of %d", roce.ErrInvalid, n, off, len(b.memory))
	}
	return nil
}

// WriteBuffer writes n bytes of b from off on into the stream, without copying them, and returns
// when they are the application's again: the other end's device has them. Several at a time, from
// several goroutines, take turns; a large one is faster than many small ones. If the write deadline
// passes while the device still reads them the connection is over, as nothing else makes it stop;
// it is not known then how many have arrived, and the call returns 0.
func (c *Conn) WriteBuffer(b *Buffer, off, n int) (int, error) {
	return c.sendOwn("write", b, off, n, (*Conn).sendable, func(left int) int { return c.end.SendOwn(left, &c.req) })
}

func (c *Conn) sendable() bool { return c.end.CanSend(0) || !c.end.State().MayWrite() }

// WriteBufferAt is a WriteAt of n bytes of b from off on, without copying them. It returns as
// WriteBuffer does.
func (c *Conn) WriteBufferAt(b *Buffer, off, n int, at uint64) (int, error) {
	ready := func(c *Conn) bool { return c.end.CanWriteAt() || !c.end.State().MayWrite() }
	return c.sendOwn("write", b, off, n, ready, func(left int) int {
		return c.end.WriteAt(at+uint64(n-left), left, &c.req)
	})
}

// sendOwn sends n bytes of a Buffer with the requests that next makes, and waits for their
// completion. Without it the queue pair is brought to ERR, so that its device reads no more.
func (c *Conn) sendOwn(op string, b *Buffer, off, n int, ready func(*Conn) bool, next func(left int) int) (done int,
	err error) {
	c.writes.Lock()
	defer c.writes.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return 0, c.opError(op, err)
	}
	defer c.leave()
	c.wait.writer = true
	defer func() { c.wait.writer = false }()
	c.lookForEnd()
	if err = b.checked(c, off, n); err == nil {
		b.used++
		defer func() { b.used-- }()
		err = c.stopped(writing)
	}
	for done < n && err == nil {
		if err = c.toWrite(0, ready); err != nil {
			break
		}
		k := next(n - done)
		if k == 0 {
			err = errNotExposed
			break
		}
		c.post(b.mr, off+done)
		done += k
	}
	if done > 0 {
		upTo := c.end.Begun()
		late := c.await(owning, func(c *Conn) bool { return c.end.Finished() >= upTo || c.over() })
		if late != nil { // what has completed by now is in time
			c.look(owning)
		}
		if c.end.Finished() < upTo {
			c.qp.Modify(context.Background(), &roce.QPAttr{State: roce.StateErr}, roce.AttrState)
			c.end.Fail(fmt.Errorf("%w: what was written from a Buffer was given up", syscall.ECONNRESET))
			if done, err = 0, cmp.Or(err, late); err == nil { // else Close says why it failed
				err = cmp.Or(c.tell(), error(syscall.ECONNRESET))
			}
		}
	}
	return done, c.opError(op, err)
}

// Expose lets the other end write into b, under offsets from offset on (riomap). As many pieces may
// be exposed at a time as the other end's Config.Maps says, each until the end of its Buffer
// (riounmap). Its application has to be told by other means, such as the stream, which comes later.
// PollUntil watches the memory. roce.ErrLimit.
func (c *Conn) Expose(b *Buffer, offset uint64) error {
	c.writes.Lock()
	defer c.writes.Unlock()
	return c.expose(b, offset, func() error { return c.toWrite(0, (*Conn).sendable) })
}

// TryExpose is an Expose that does not wait: syscall.EAGAIN if the other end cannot be told now, or
// while another call writes.
func (c *Conn) TryExpose(b *Buffer, offset uint64) error {
	if !c.writes.TryLock() {
		return syscall.EAGAIN
	}
	defer c.writes.Unlock()
	return c.expose(b, offset, func() error {
		if !c.sendable() {
			c.glance()
		}
		return c.ended()
	})
}

// expose tells the other end, when room for that was looked for. syscall.EAGAIN: there is none.
func (c *Conn) expose(b *Buffer, offset uint64, room func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return c.opError("expose", err)
	}
	defer c.leave()
	c.wait.writer = true
	defer func() { c.wait.writer = false }()
	err := b.checked(c, 0, 0)
	if err == nil && c.end.MapsLeft() == 0 {
		err = fmt.Errorf("%w: the other end takes no more exposed memory", roce.ErrLimit)
	}
	if err == nil {
		err = room()
	}
	if err != nil {
		return c.opError("expose", err)
	}
	if !c.end.Tell(stream.Map{Offset: offset, SGE: stream.SGE{Addr: b.mr.Addr(), Key: b.mr.RKey(),
		Length: uint32(len(b.memory))}}, &c.req) {
		return syscall.EAGAIN
	}
	c.post(nil, 0)
	return nil
}

// PollUntil waits for memory that was exposed to change: until done says so, which is asked very
// often and has to load what it looks at atomically, as roce.CQ.PollUntil has it. The error is
// ctx's, or net.ErrClosed. Other calls may be made meanwhile.
func (c *Conn) PollUntil(ctx context.Context, done func() bool) error {
	return c.opError("poll", known(c.cq.PollUntil(ctx, done)))
}
