package perf

// Meeting by the RDMA connection manager (-R): the messages of the two ends are SENDs on a queue
// pair of their own, as perftest has it (section 9.12).
//
// Stages: what carries messages, by TCP or so; meeting; a message each way; the peer's absence; the
// end.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/oob"
	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/wire"
)

// carrier carries the messages between the ends: an oob.Conn, whose methods these are, or control.
type carrier interface {
	Send(msg []byte) error
	RecvWithin(limit time.Duration, msg []byte) error
	Pending() int
	Watch(ctx context.Context) (context.Context, context.CancelFunc)
	Local() netip.Addr
	Remote() netip.Addr
	Finish(limit time.Duration) error
	Close() error
}

const (
	controlSlot  = 64 // bytes; no message is longer
	controlRecvs = 4  // an end sends no second message before it has the answer to the first
)

// control is a connection whose messages are SENDs.
type control struct {
	conn   *rdmacm.Conn
	ctx    context.Context // of the run
	client bool
	came   [][]byte // messages that RecvWithin has not taken
	err    error    // why nothing more will come
}

// meetCM opens the device and connects to the peer: as a client with a host, otherwise as the
// server.
func (r *rig) meetCM(ctx context.Context) (err error) {
	if r.s, err = session.Meet(ctx, r.o.Options, "", r.o.Host); err != nil {
		return err
	}
	c := &control{ctx: ctx, client: r.o.Host != ""}
	r.link = &link{carrier: c, client: c.client, cm: true}
	cfg := rdmacm.ConnConfig{Cap: roce.QPCap{MaxSendWR: 2, MaxRecvWR: controlRecvs, MaxSendSGE: 1, MaxRecvSGE: 1},
		Prepare: prepare, TOS: uint8(r.o.TClass), AckTimeout: uint8(r.o.QPTimeout),
		Param: &rdmacm.ConnParam{RetryCount: 7, RNRRetryCount: 7}}
	if r.s != nil {
		cfg.Devices = []*roce.Device{r.s.Device}
	}
	if c.client {
		return r.dialControl(ctx, c, &cfg)
	}
	return r.acceptControl(ctx, c, &cfg)
}

func (r *rig) dialControl(ctx context.Context, c *control, cfg *rdmacm.ConnConfig) error {
	if r.o.GIDIndex != 0 {
		cfg.Local = r.s.GID.Addr()
	}
	conn, err := rdmacm.Dial(ctx, net.JoinHostPort(r.o.Host, strconv.Itoa(r.o.Port)), cfg)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("connect to the server: %w; is its end running, with -R and the same --port (%d)?",
			err, r.o.Port)
	}
	c.conn = conn
	return nil
}

func (r *rig) acceptControl(ctx context.Context, c *control, cfg *rdmacm.ConnConfig) error {
	own := ""
	if r.s != nil {
		own = r.s.GID.Addr().String()
	}
	l, err := rdmacm.Listen(ctx, net.JoinHostPort(own, strconv.Itoa(r.o.Port)),
		&rdmacm.ListenConfig{ConnConfig: *cfg, Backlog: 1})
	if err != nil {
		return err
	}
	defer l.Close()
	r.waiting()
	if c.conn, err = l.Accept(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("wait for the peer on RDMA port %d: %w", r.o.Port, err)
	}
	if r.s == nil {
		r.s, err = session.On(c.conn.Device())
	}
	return err
}

// prepare makes the memory, a slot for each receive and behind them one to send from, and posts the
// receives, before the peer can send.
func prepare(conn *rdmacm.Conn) error {
	mr, err := conn.PD().RegMR(make([]byte, (controlRecvs+1)*controlSlot), roce.LocalWrite)
	if err != nil {
		return err
	}
	conn.AtClose(mr.Close)
	conn.Context = mr
	for i := range controlRecvs {
		if err := conn.QP().PostRecv(recvSlot(mr, i)); err != nil {
			return err
		}
	}
	return nil
}

// recvSlot is the receive of a slot.
func recvSlot(mr *roce.MR, i int) roce.RecvWR {
	return roce.RecvWR{WRID: uint64(i), SGL: []roce.SGE{mr.SGE(i*controlSlot, controlSlot)}}
}

// Send sends one message, and waits until the peer's device has it.
func (c *control) Send(msg []byte) error {
	mr := c.conn.Context.(*roce.MR)
	n := copy(mr.Bytes()[controlRecvs*controlSlot:], msg)
	err := c.conn.QP().PostSend(roce.SendWR{WRID: controlRecvs, Opcode: roce.WRSend, Flags: roce.SendSignaled,
		SGL: []roce.SGE{mr.SGE(controlRecvs*controlSlot, n)}})
	for sent := false; !sent && err == nil; {
		sent, err = c.wait(c.ctx)
	}
	if err != nil && !errors.Is(err, oob.ErrClosed) {
		return fmt.Errorf("send %d bytes to the peer over the control queue pair: %w", n, err)
	}
	return err
}

// RecvWithin waits for a message of exactly len(msg) bytes, for no longer than limit (0: no limit).
func (c *control) RecvWithin(limit time.Duration, msg []byte) error {
	ctx := c.ctx
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit,
			fmt.Errorf("the peer sent no message within %v: is it the same program, with the same options?", limit))
		defer cancel()
	}
	for len(c.came) == 0 {
		if _, err := c.wait(ctx); err != nil {
			return err
		}
	}
	got := c.came[0]
	c.came = c.came[1:]
	if len(got) != len(msg) {
		return fmt.Errorf("the peer's message has %d bytes, want %d: is it the same program, with the same options?",
			len(got), len(msg))
	}
	copy(msg, got)
	return nil
}

// Pending says whether a message has come: how many bytes wait to be taken.
func (c *control) Pending() (n int) {
	var wc [1]roce.WC
	for {
		k, err := c.conn.CQ().Poll(wc[:])
		if k == 0 || err != nil {
			break
		}
		if _, err := c.completed(&wc[0]); err != nil {
			break
		}
	}
	for _, m := range c.came {
		n += len(m)
	}
	return n
}

// wait waits for one completion, and says whether it is that of what was sent.
func (c *control) wait(ctx context.Context) (sent bool, err error) {
	if c.err != nil {
		return false, c.err
	}
	var wc [1]roce.WC
	if _, err := c.conn.CQ().Wait(ctx, wc[:]); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return false, err
	}
	return c.completed(&wc[0])
}

// completed takes in a completion. The receive of a message is posted again at once.
func (c *control) completed(wc *roce.WC) (sent bool, err error) {
	mr := c.conn.Context.(*roce.MR)
	switch {
	case wc.Status == roce.WCWRFlushErr:
		c.err = fmt.Errorf("%w (control queue pair)", oob.ErrClosed)
		return false, c.err
	case wc.Status != roce.WCSuccess:
		c.err = &session.FailedError{WC: *wc, What: "a message of the control queue pair"}
		return false, c.err
	case wc.WRID == controlRecvs:
		return true, nil
	case len(c.came) == controlRecvs: // they would be without number
		c.err = fmt.Errorf("the peer has sent %d messages without an answer: is it the same program, with "+
			"the same options?", controlRecvs+1)
		return false, c.err
	}
	i := int(wc.WRID)
	c.came = append(c.came, append([]byte(nil), mr.Bytes()[i*controlSlot:][:wc.ByteLen]...))
	return false, c.conn.QP().PostRecv(recvSlot(mr, i))
}

// Watch returns a context that ends, with oob.ErrPeerLeft as its cause, soon after the peer has
// disconnected.
func (c *control) Watch(parent context.Context) (context.Context, context.CancelFunc) {
	return oob.WatchDone(parent, c.conn.Done(), func() error { return oob.ErrPeerLeft })
}

// Local is this end's IP address.
func (c *control) Local() netip.Addr { return c.conn.LocalAddr().Addr() }

// Remote is the peer's.
func (c *control) Remote() netip.Addr { return c.conn.RemoteAddr().Addr() }

// Finish ends the connection: the client leaves first, and the server waits for that, or for the
// limit.
func (c *control) Finish(limit time.Duration) error {
	if !c.client {
		select {
		case <-c.conn.Done():
		case <-time.After(limit):
		}
	}
	return c.Close()
}

// Close ends the connection. All messages have arrived by then, so that it is enough to tell the
// peer; its answer changes nothing.
func (c *control) Close() error {
	if c.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), linger)
	defer cancel()
	if err := c.conn.Close(ctx); !errors.Is(err, rdmacm.ErrIncomplete) {
		return err
	}
	return nil
}

// cmKeyLen is the length of a key as a SEND: a C structure with a gap before the address.
const cmKeyLen = 56

// appendCM appends the key as -R has it: the fields of the text, each a number of its own, in
// network order, and last the row of the GID table, which is 0.
func (k key) appendCM(dst []byte) []byte {
	for _, v := range []uint32{uint32(k.LID), uint32(k.Outs), k.QPN, uint32(k.PSN), k.RKey, 0} {
		dst = binary.BigEndian.AppendUint32(dst, v)
	}
	dst = binary.BigEndian.AppendUint64(dst, k.VAddr)
	dst = append(dst, k.GID[:]...)
	dst = binary.BigEndian.AppendUint32(dst, k.SRQN)
	return binary.BigEndian.AppendUint32(dst, 0)
}

// parseCM reads the peer's key. Numbers that do not fit are a peer's of another kind.
func parseCM(msg []byte) (k key, err error) {
	if len(msg) != cmKeyLen {
		return k, fmt.Errorf("the peer's key has %d bytes, want %d", len(msg), cmKeyLen)
	}
	u32 := func(at int, bits uint) uint32 {
		v := binary.BigEndian.Uint32(msg[at:])
		if bits < 32 && v>>bits != 0 && err == nil {
			err = fmt.Errorf("the peer's key has 0x%x at byte %d, want %d bits: is its end a program of perftest?",
				v, at, bits)
		}
		return v
	}
	k = key{LID: uint16(u32(0, 16)), Outs: uint16(u32(4, 16)), QPN: u32(8, 24), PSN: wire.PSN(u32(12, 24)),
		RKey: u32(16, 32), VAddr: binary.BigEndian.Uint64(msg[24:]), SRQN: u32(48, 32)}
	copy(k.GID[:], msg[32:])
	return k, err
}
