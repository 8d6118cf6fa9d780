package conformance

// An end: what a case works with. Everything that fails ends the case.
// Stages: saying so; talking to the other end; making and connecting a queue pair; posting and
// waiting; patterns.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/goroce/goroce/roce"
)

// End is one end of a case.
type End struct {
	*roce.Device
	Acts bool // this is the end that acts

	// made by Make
	PD  *roce.PD
	Ch  *roce.CompChannel
	CQ  *roce.CQ
	MR  *roce.MR
	QP  *roce.QP
	Buf []byte // what MR is of

	Peer Card // of the other end, by Swap

	patience time.Duration // Options.Patience
	ctx      context.Context
	line     *line
	closers  []func() error
}

// Card is what an end must know of the other.
type Card struct {
	Endpoint roce.Endpoint
	Addr     uint64 // of its memory
	RKey     uint32
	SRQN     uint32 // of its shared receive queue, XRC
}

// Fail ends the case.
func (e *End) Fail(format string, args ...any) {
	panic(stopped{Failed: fmt.Sprintf(format, args...)})
}

// Skip ends the case, as a device has no such thing.
func (e *End) Skip(format string, args ...any) {
	panic(stopped{Skip: fmt.Sprintf(format, args...)})
}

// Must ends the case if there is an error. If the cause is that the other end has stopped, that one
// says why.
func (e *End) Must(err error) {
	switch {
	case err == nil:
	case errors.Is(err, errPeerStopped), errors.Is(context.Cause(e.ctx), errPeerStopped):
		panic(stopped{})
	case e.ctx.Err() != nil && errors.Is(err, e.ctx.Err()):
		e.Fail("%v", context.Cause(e.ctx))
	default:
		e.Fail("%v", err)
	}
}

// Refused ends the case unless err is of the kind.
func (e *End) Refused(what string, err, kind error) {
	if !errors.Is(err, kind) {
		e.Fail("%s: the error is %v, want %v", what, err, kind)
	}
}

// Check ends the case unless ok.
func (e *End) Check(ok bool, format string, args ...any) {
	if !ok {
		e.Fail(format, args...)
	}
}

// Tell says a value to the other end, which Hears it.
func (e *End) Tell(v any) {
	text, err := json.Marshal(v)
	e.Must(err)
	e.Must(e.line.send(message{Case: e.line.number, Value: text}))
}

// Hear waits for what the other end Tells.
func (e *End) Hear(v any) {
	text, err := e.line.value(e.ctx)
	e.Must(err)
	e.Must(json.Unmarshal(text, v))
}

// Sync waits until the other end has got as far.
func (e *End) Sync() {
	e.Tell("sync")
	var s string
	e.Hear(&s)
	e.Check(s == "sync", "the other end says %q", s)
}

// later closes something when the case ends, the last first.
func (e *End) later(f func() error) { e.closers = append(e.closers, f) }

// Depth is the length of the queues that Make makes.
const Depth = 64

// Make makes a queue pair in RESET, with size bytes of memory that peers have all rights to.
func (e *End) Make(typ roce.QPType, size int) {
	e.Furnish(size)
	e.QP = e.Queue(typ)
}

// Furnish makes all but the queue pair.
func (e *End) Furnish(size int) {
	var err error
	e.PD, err = e.AllocPD()
	e.Must(err)
	e.later(e.PD.Close)
	e.Ch, err = e.CreateCompChannel()
	e.Must(err)
	e.later(e.Ch.Close)
	e.CQ, err = e.CreateCQ(roce.CQInitAttr{CQE: 16 * Depth, Channel: e.Ch})
	e.Must(err)
	e.later(e.CQ.Close)
	e.Buf = make([]byte, max(size, 8))
	e.MR = e.Region(e.Buf, roce.LocalWrite|roce.RemoteRead|roce.RemoteWrite|roce.RemoteAtomic)
}

// Region registers memory.
func (e *End) Region(buf []byte, access roce.Access) *roce.MR {
	m, err := e.PD.RegMR(buf, access)
	e.Must(err)
	e.later(m.Close)
	return m
}

// Queue makes a queue pair, of which all sends yield completions only if they ask for it.
func (e *End) Queue(typ roce.QPType) *roce.QP { return e.queue(typ, nil) }

// queue is Queue with receives of a shared queue, unless s is nil.
func (e *End) queue(typ roce.QPType, s *roce.SRQ) *roce.QP {
	q, err := e.PD.CreateQP(roce.QPInitAttr{Type: typ, SendCQ: e.CQ, SRQ: s,
		Cap: roce.QPCap{MaxSendWR: Depth, MaxRecvWR: Depth, MaxSendSGE: 3, MaxRecvSGE: 3, MaxInlineData: 64}})
	e.Must(err)
	e.later(q.Close)
	return q
}

// Swap exchanges cards with the other end.
func (e *End) Swap() {
	e.Tell(Card{Endpoint: e.QP.Endpoint(), Addr: e.MR.Addr(), RKey: e.MR.RKey()})
	e.Hear(&e.Peer)
}

// options are those of connections here: patient, as one end may be an emulated machine.
func options() roce.ConnectOptions {
	o := roce.DefaultConnectOptions()
	o.Timeout, o.MaxRdAtomic, o.MaxDestRdAtomic = 17, 8, 8
	return o
}

// Join makes a queue pair and connects it with the other end's, which Joins too.
func (e *End) Join(typ roce.QPType, size int) {
	e.Make(typ, size)
	e.Connect(options())
}

// Connect connects the queue pair with the other end's. The MTU is the smaller one of both ports.
func (e *End) Connect(o roce.ConnectOptions) {
	e.Swap()
	mine, theirs := e.QueryPort().ActiveMTU, roce.MTU(0)
	e.Tell(mine)
	e.Hear(&theirs)
	o.MTU = min(mine, theirs)
	e.Must(e.QP.Connect(e.ctx, e.Peer.Endpoint, &o))
	e.Sync()
}

// Send posts send work requests.
func (e *End) Send(wrs ...roce.SendWR) { e.Must(e.QP.PostSend(wrs...)) }

// reach is a request that works on the other end's memory, from its beginning, with n bytes at off
// of ours.
func (e *End) reach(op roce.WROpcode, off, n int) roce.SendWR {
	return roce.SendWR{
		Opcode:     op,
		Flags:      roce.SendSignaled,
		SGL:        []roce.SGE{e.MR.SGE(off, n)},
		RemoteAddr: e.Peer.Addr,
		RKey:       e.Peer.RKey,
	}
}

// Recv posts a receive for n bytes at off.
func (e *End) Recv(id uint64, off, n int) {
	e.Must(e.QP.PostRecv(roce.RecvWR{WRID: id, SGL: []roce.SGE{e.MR.SGE(off, n)}}))
}

// Any waits for the next completion.
func (e *End) Any() roce.WC {
	var wcs [1]roce.WC
	_, err := e.CQ.Wait(e.ctx, wcs[:])
	e.Must(err)
	return wcs[0]
}

// Good waits for the next completion, which must be a success of the operation.
func (e *End) Good(op roce.WCOpcode) roce.WC {
	wc := e.Any()
	e.Check(wc.Status == roce.WCSuccess, "request %d ended with %v, vendor error %d; want %v", wc.WRID, wc.Status,
		wc.VendorErr, op)
	e.Check(wc.Opcode == op, "request %d completed as %v, want %v", wc.WRID, wc.Opcode, op)
	return wc
}

// Bad waits for the next completion, which must have one of the statuses.
func (e *End) Bad(statuses ...roce.WCStatus) roce.WC {
	wc := e.Any()
	for _, s := range statuses {
		if wc.Status == s {
			return wc
		}
	}
	e.Fail("request %d ended with %v (%d), want %v", wc.WRID, wc.Status, wc.Status, statuses)
	return wc
}

// pattern makes n bytes that differ with seed and position.
func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8*13 + seed*31 + 1)
	}
	return b
}

// Same ends the case unless the bytes are those of a pattern.
func (e *End) Same(got []byte, seed int) {
	want := pattern(len(got), seed)
	if bytes.Equal(got, want) {
		return
	}
	for i := range got {
		e.Check(got[i] == want[i], "byte %d of %d is 0x%02x, want 0x%02x", i, len(got), got[i], want[i])
	}
}
