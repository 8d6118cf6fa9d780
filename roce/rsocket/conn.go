package rsocket

// A connection: what it is made of, its life from the making to the end.
// Stages: memory, queues and end are made → the other end's connection data is told (start) → calls
// read and write (read.go, write.go) and wait (wait.go) → Close, and the last call that is still
// inside gives all of it back.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

// Conn is a connection. All methods may be called from any goroutine; reads take turns, and so do
// writes.
type Conn struct {
	cfg           Config
	local, remote net.Addr

	pd      *roce.PD
	cq      *roce.CQ
	qp      *roce.QP
	own     *roce.MR // the send buffer
	exposed *roce.MR // the receive buffer and behind it the tables, which the other end writes
	memory  *memory
	send    []byte
	receive []byte
	// ends the connection below until then, if a connection manager made it, and gives back
	hangUp   func(by time.Time) error
	receives []roce.RecvWR // as many as are posted at a time

	reads, writes, asks sync.Mutex // held by the call whose turn it is, before mu

	mu    sync.Mutex // of all that follows
	end   *stream.End
	req   stream.Request
	sges  [2][2]roce.SGE
	wait  waiting
	until [sides]deadline
	// of Await, of each side that it may be
	patience [sides]deadline
	alive    keepAlive
	allocs   map[*Buffer]struct{}

	life   life
	users  int       // calls that are inside
	by     time.Time // of Close: when all must be over; before it the zero time
	failed error     // of giving back
	leaves sync.Cond // for Close: it is freed

	signs   *signs // of FD; nil: nobody has asked
	watched bool   // somebody may sleep on it
	more    bool   // bytes have come since it was shown

	// what the application knows
	peeked bool // it may look at the receive buffer (PeekShared)
	told   bool // a call has returned why the end failed
}

var _ net.Conn = (*Conn)(nil)

// ErrProtocol is what a peer has done that breaks the rules of rsockets. The text says what.
var ErrProtocol = stream.ErrProtocol

// receiveID marks completions of receives; the others have the ID of the stream's requests.
const receiveID = 1 << 63

// newConn makes all of a connection but the queue pair, and says what that is to be.
func newConn(dev *roce.Device, cfg Config) (c *Conn, attr roce.QPInitAttr, err error) {
	c = &Conn{cfg: cfg, allocs: map[*Buffer]struct{}{}}
	c.wait.init()
	c.leaves.L = &c.mu
	size := cfg.queuePair()
	if c.pd, err = dev.AllocPD(); err == nil {
		if c.cq, err = dev.CreateCQ(roce.CQInitAttr{CQE: int(size.MaxSendWR + size.MaxRecvWR)}); err == nil {
			err = c.register()
		}
	}
	if err != nil {
		return nil, attr, errors.Join(err, c.free())
	}
	return c, roce.QPInitAttr{Type: roce.RC, SendCQ: c.cq, Cap: size, Context: c}, nil
}

// take gives the connection its queue pair, which is in INIT, and posts the receives.
func (c *Conn) take(qp *roce.QP) error {
	c.qp = qp
	depth := int(c.cfg.queuePair().MaxRecvWR)
	c.receives = make([]roce.RecvWR, min(depth, 128))
	for i := range c.receives {
		c.receives[i].WRID = receiveID
	}
	return c.postReceives(depth)
}

// register makes the connection's memory and its end.
func (c *Conn) register() (err error) {
	tables := stream.TablesSize(c.cfg.Maps)
	c.memory = takeMemory(c.cfg.SendBuffer, c.cfg.ReceiveBuffer+tables)
	memory := c.memory.exposed
	c.send, c.receive = c.memory.own, memory[:c.cfg.ReceiveBuffer]
	if c.own, err = c.pd.RegMR(c.send, 0); err != nil {
		return err
	}
	if c.exposed, err = c.pd.RegMR(memory, roce.LocalWrite|roce.RemoteWrite); err != nil {
		return err
	}
	at := stream.SGE{Addr: c.exposed.Addr(), Key: c.exposed.RKey()}
	behind := stream.SGE{Addr: at.Addr + uint64(len(c.receive)), Key: at.Key}
	c.end = stream.NewEnd(stream.Config{SendBuffer: len(c.send), ReceiveBuffer: len(c.receive),
		SendDepth: c.cfg.Depth + stream.ControlDepth, Credits: c.cfg.Depth, Maps: c.cfg.Maps,
		BigEndian: binary.NativeEndian.Uint16([]byte{0, 1}) == 1, Packet: evenPacket(c.pd.Device()),
		Tables: memory[c.cfg.ReceiveBuffer:], TablesAt: behind, BufferAt: at})
	return nil
}

// evenPacket is stream.Config.Packet for a device. The path MTU may turn out to be smaller, which
// costs no more than some longer messages.
func evenPacket(dev *roce.Device) int {
	if dev.PortInfo().MaxRun <= 1 {
		return 0
	}
	return dev.QueryPort().ActiveMTU.Bytes()
}

// start begins the stream: data is what the other end has sent, and the queue pair is in RTS.
func (c *Conn) start(data []byte) error {
	peer, err := stream.ParseConnData(data)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end.Start(peer)
	c.flush()
	c.alive.set(c, c.cfg.KeepAlive)
	return nil
}

// LocalAddr is the address of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the address of the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Device is what the connection is on.
func (c *Conn) Device() *roce.Device { return c.pd.Device() }

// enter begins a call; the caller has mu. It fails if the connection was closed.
func (c *Conn) enter() error {
	if c.life.closed() {
		return net.ErrClosed
	}
	c.users++
	return nil
}

// leave ends it. The last one gives everything back; nobody else is there then, and mu is open, for
// the end of the connection below may wait for its peer.
func (c *Conn) leave() error {
	if c.end.Owes() {
		c.settle()
	}
	if c.over() { // perhaps by what this call has seen, and those that sleep have not
		c.wakeAll()
	}
	return c.left()
}

// left is leave of a call that leaves nothing to do.
func (c *Conn) left() error {
	c.show()
	if c.users--; c.users > 0 || !c.life.closed() {
		return nil
	}
	c.mu.Unlock()
	err := c.release()
	c.mu.Lock()
	c.endSigns()
	c.failed = err
	c.life.on(empties)
	c.leaves.Broadcast()
	return err
}

// endSigns closes the descriptor, if there is one. Who sleeps on it has been told. The caller has
// mu.
func (c *Conn) endSigns() {
	if c.signs != nil {
		c.signs.close()
		c.signs = nil
	}
}

// Close ends the connection. What was written still arrives: Close waits until the other end's
// device has it, for Config.Linger at most. The error says that this is not known; the connection
// is gone nevertheless. It is nil without that if the other end's application has closed as well,
// and would read nothing more, or if another call has returned already why the connection failed.
// Calls that are waiting return with net.ErrClosed, and so does a second Close. When Close returns
// nothing of the connection is left on the device. If Linger is less than 0 Close does not wait for
// any of it, and nobody is told.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return c.opError("close", err)
	}
	c.life.on(closes)
	c.alive.set(c, 0)
	told := c.told
	c.end.EndBoth()
	c.flush()
	c.wakeAll()
	if c.cfg.Linger >= 0 {
		return c.opError("close", c.finish(told))
	}
	c.endSigns() // the application has done with it when Close returns
	go func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.finish(told)
	}()
	return nil
}

// SetLinger sets Config.Linger. If Close has begun it is too late.
func (c *Conn) SetLinger(d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.enter()
	if err == nil {
		c.cfg.Linger = d
		err = c.left()
	}
	return c.opError("set", err)
}

// Config is what the connection is like, with what was set since it was made.
func (c *Conn) Config() Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg
}

// lingers is until when what ends now may take.
func (c *Conn) lingers() time.Time {
	if c.cfg.Linger < 0 {
		return time.Now().Add(defaultLinger)
	}
	return time.Now().Add(c.cfg.Linger)
}

// finish is the rest of Close: it waits until the other end has everything, and leaves. told: a
// call has returned already why the end failed.
func (c *Conn) finish(told bool) error {
	c.by = c.lingers()
	c.until[ending].set(c, c.by)
	err := c.await(ending, (*Conn).over)
	if err != nil { // what has completed by now is in time
		if c.look(ending); c.over() {
			err = nil
		}
	}
	for s := range c.until {
		c.until[s].stop()
		c.patience[s].stop()
	}
	switch {
	case told:
		err = nil // by another call
	case err == nil && c.end.Err() != nil:
		err = fmt.Errorf("it is not known whether all that was written has arrived: %w", c.end.Err())
	case err != nil:
		err = fmt.Errorf("it is not known after %v whether all that was written has arrived: %w", c.cfg.Linger, err)
		c.end.Fail(net.ErrClosed) // no call waits for completions any more
		c.wakeAll()
	}
	c.leave()
	for c.life != freed { // whoever leaves last gives back
		c.leaves.Wait()
	}
	if err == nil {
		err = c.failed
	}
	return err
}

// tell is why the end failed, for a call to return.
func (c *Conn) tell() error {
	c.told = true
	return c.end.Err()
}

// over says that the other end is not talked to any more.
func (c *Conn) over() bool { return c.end.State().Over() }

// release gives everything back. Nobody is inside any more.
func (c *Conn) release() error {
	if c.hangUp != nil {
		by := c.by
		if by.IsZero() {
			by = c.lingers()
		}
		return c.hangUp(by)
	}
	var err error
	if c.qp != nil {
		err = c.qp.Close()
	}
	return errors.Join(err, c.free())
}

// free gives back all but the queue pair, which is closed.
func (c *Conn) free() error {
	c.mu.Lock()
	allocs := c.allocs
	c.allocs = nil
	c.mu.Unlock()
	var errs []error
	for b := range allocs {
		errs = append(errs, b.mr.Close())
	}
	if c.own != nil && c.exposed != nil {
		err := errors.Join(c.own.Close(), c.exposed.Close())
		if errs = append(errs, err); err == nil && !c.peeked {
			c.memory.giveBack()
		}
	} else if c.own != nil {
		errs = append(errs, c.own.Close())
	}
	if c.cq != nil {
		errs = append(errs, c.cq.Close())
	}
	if c.pd != nil {
		errs = append(errs, c.pd.Close())
	}
	return errors.Join(errs...)
}

// CloseWrite ends writing: the other end reads what was written, and then an end (io.EOF). Reading
// goes on.
func (c *Conn) CloseWrite() error { return c.half("close", (*stream.End).EndWrite) }

// CloseRead ends reading: Read returns io.EOF, and what still comes is forgotten. Writing goes on.
// Until the connection is over a goroutine takes what comes, so that the other end never waits for
// room.
func (c *Conn) CloseRead() error {
	return c.half("close", func(e *stream.End) {
		e.EndRead()
		if !c.wait.forgets {
			c.wait.forgets = true
			c.attend(forgetting, (*Conn).over)
		}
	})
}

func (c *Conn) half(name string, end func(*stream.End)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.enter()
	if err != nil {
		return c.opError(name, err)
	}
	end(c.end)
	c.flush()
	c.wakeAll()
	return c.opError(name, c.leave())
}

func (c *Conn) opError(op string, err error) error { return opError(op, c.local, c.remote, err) }
