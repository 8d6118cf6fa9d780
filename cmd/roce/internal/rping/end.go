package rping

// One end of an rping connection: its memory, and what it does one after the other.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

// place is a message: where memory is, and by which key it opens. The server's messages mean "go
// on", whatever they hold.
type place struct {
	Addr uint64
	RKey uint32
	Size uint32
}

const placeLen = 16

// errLeft is the end of a connection that the peer has ended.
var errLeft = errors.New("the peer has disconnected")

type end struct {
	conn       *rdmacm.Conn
	mr         *roce.MR
	text, back []byte // of the client: what is read, and where it is written to
	out, in    []byte // messages
	got        bool   // a message has come that nobody has looked at
	last       place  // that message
	stall      time.Duration
}

// newEnd registers the memory of an end, whose texts have a size, and posts a receive.
func newEnd(c *rdmacm.Conn, size int, stall time.Duration) (*end, error) {
	mem := make([]byte, 2*size+2*placeLen)
	mr, err := c.PD().RegMR(mem, roce.LocalWrite|roce.RemoteRead|roce.RemoteWrite)
	if err != nil {
		return nil, err
	}
	c.AtClose(mr.Close)
	e := &end{
		conn:  c,
		mr:    mr,
		text:  mem[:size],
		back:  mem[size : 2*size],
		out:   mem[2*size:][:placeLen],
		in:    mem[2*size+placeLen:],
		stall: stall,
	}
	return e, e.postRecv()
}

// sge names a part of the end's memory.
func (e *end) sge(part []byte) roce.SGE {
	off := cap(e.mr.Bytes()) - cap(part)
	return e.mr.SGE(off, len(part))
}

// placeOf is what the peer must know of a part of the end's memory.
func (e *end) placeOf(part []byte) place {
	return place{e.sge(part).Addr, e.mr.RKey(), uint32(len(part))}
}

func (e *end) postRecv() error {
	return e.conn.QP().PostRecv(roce.RecvWR{SGL: []roce.SGE{e.sge(e.in)}})
}

// send sends a message and waits until it is out.
func (e *end) send(ctx context.Context, p place) error {
	binary.BigEndian.PutUint64(e.out, p.Addr)
	binary.BigEndian.PutUint32(e.out[8:], p.RKey)
	binary.BigEndian.PutUint32(e.out[12:], p.Size)
	return e.post(ctx, roce.SendWR{Opcode: roce.WRSend, SGL: []roce.SGE{e.sge(e.out)}})
}

// do reads or writes the peer's memory.
func (e *end) do(ctx context.Context, op roce.WROpcode, part []byte, p place) error {
	return e.post(ctx, roce.SendWR{Opcode: op, SGL: []roce.SGE{e.sge(part)}, RemoteAddr: p.Addr, RKey: p.RKey})
}

func (e *end) post(ctx context.Context, wr roce.SendWR) error {
	wr.Flags = roce.SendSignaled
	if err := e.conn.QP().PostSend(wr); err != nil {
		return e.left(err)
	}
	for {
		sent, err := e.wait(ctx)
		if sent || err != nil {
			return err
		}
	}
}

// receive waits for a message of the peer.
func (e *end) receive(ctx context.Context) (place, error) {
	for !e.got {
		if _, err := e.wait(ctx); err != nil {
			return place{}, err
		}
	}
	e.got = false
	return e.last, nil
}

// wait waits for one completion, and says whether it is that of what was posted to be sent. The
// receive of a message is posted again at once, before the peer can know that it may send another.
func (e *end) wait(ctx context.Context) (sent bool, err error) {
	if e.stall > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.stall, fmt.Errorf("nothing has come for %v", e.stall))
		defer cancel()
	}
	var wc [1]roce.WC
	if _, err := e.conn.CQ().Wait(ctx, wc[:]); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return false, err
	}
	switch {
	case wc[0].Status == roce.WCWRFlushErr:
		return false, e.left(&session.FailedError{WC: wc[0], What: wc[0].Opcode.String()})
	case wc[0].Status != roce.WCSuccess:
		return false, &session.FailedError{WC: wc[0], What: wc[0].Opcode.String()}
	case wc[0].Opcode != roce.WCRecv:
		return true, nil
	case wc[0].ByteLen != placeLen:
		return false, fmt.Errorf("a message of %d bytes, those of rping have %d", wc[0].ByteLen, placeLen)
	case e.got:
		return false, errors.New("a message before the one before it was answered")
	}
	e.last = place{binary.BigEndian.Uint64(e.in), binary.BigEndian.Uint32(e.in[8:]), binary.BigEndian.Uint32(e.in[12:])}
	e.got = true
	return false, e.left(e.postRecv())
}

// leaveTime is how long the connection manager may take to say that the peer has left, when the
// queue pair has ended: over iWARP the end of the queue pair is heard first.
const leaveTime = time.Second

// left is errLeft in place of an error that comes of the peer's leaving.
func (e *end) left(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-e.conn.Done():
		if e.conn.Err() == nil {
			return errLeft
		}
		return e.conn.Err()
	case <-time.After(leaveTime):
		return err
	}
}

// closeTime is how long the end of a connection may take.
const closeTime = 5 * time.Second

// close ends the connection. That the peer has left before is no mistake.
func (e *end) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := e.conn.Close(ctx); !errors.Is(err, rdmacm.ErrIncomplete) {
		return err
	}
	return nil
}
