// Package stream is the protocol of rsockets as one end of a connection sees it, and nothing else:
// completions and the wishes of an application go in, work requests come out. It knows no queue
// pair, reads no clock, waits for nothing and starts nothing, so that a test can be its whole
// world.
//
// Whoever drives it holds a lock: one call at a time.
package stream

// The end and its life: made, told what the other end is (Start), told of completions (Received,
// Sent), and ended. Sending is in send.go, receiving in receive.go, what is told the other end of
// it all in control.go.

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrProtocol is what the other end has done wrong.
var ErrProtocol = errors.New("the other end breaks the rsockets protocol")

// Entries is how many entries the target SGL of an end has (section 4.2).
const Entries = 2

// ControlDepth is how many control messages may be unacknowledged (section 5).
const ControlDepth = 4

// Config is how large an end is, and where its memory lies.
type Config struct {
	SendBuffer    int // bytes, at least 1
	ReceiveBuffer int // bytes, even, at least 2
	SendDepth     int // send work requests that the queue pair takes, more than ControlDepth
	Credits       int // messages that the other end may send ahead, 4 to 65535
	Maps          int // entries of the iomap table: 0 to 128, or a multiple of 256 below 2^15
	BigEndian     bool
	// Packet is the path MTU in bytes if long messages are to be of packets that a port takes
	// together, 0 if that does not matter.
	Packet int

	// Tables is registered memory of TablesSize bytes that the other end may write; TablesAt names
	// it.
	Tables   []byte
	TablesAt SGE
	BufferAt SGE // names the receive buffer, which the other end may write
}

// TablesSize is how many bytes the tables of an end with so many maps have.
func TablesSize(maps int) int { return Entries*SGESize + maps*MapSize }

// ReceiveDepth is how many receives an end with so many credits has posted: there are always enough
// for what the other end may send, and for its control messages.
func ReceiveDepth(credits int) int { return credits + repostAt(credits) + 2*ControlDepth }

// repostAt is how many receives are used up before they are posted again, together.
func repostAt(credits int) int { return credits / 4 }

// End is one end of a stream.
type End struct {
	cfg   Config
	order binary.ByteOrder // of this end's memory
	peer  binary.ByteOrder // of the other's
	state State
	err   error // why it failed
	cut   error // the same, if more could have come

	sender
	receiver
	control
	maps
}

// NewEnd makes an end that has not heard of the other one yet.
func NewEnd(cfg Config) *End {
	e := &End{cfg: cfg, order: order(cfg.BigEndian)}
	e.sender = sender{slots: cfg.SendDepth - ControlDepth, free: cfg.SendBuffer}
	e.receiver = receiver{
		half: cfg.ReceiveBuffer / 2,
		open: cfg.ReceiveBuffer / 2,
		read: cfg.ReceiveBuffer / 2,
		slot: 1,
	}
	e.control = control{spare: ControlDepth}
	return e
}

func order(big bool) binary.ByteOrder {
	if big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// ConnData is what the other end must be told.
func (e *End) ConnData() ConnData {
	sgl := e.cfg.TablesAt
	sgl.Length = Entries
	buffer := e.cfg.BufferAt
	buffer.Length = uint32(e.half)
	return ConnData{
		BigEndian: e.cfg.BigEndian,
		Credits:   uint16(e.cfg.Credits),
		Maps:      e.cfg.Maps,
		SGL:       sgl,
		Buffer:    buffer,
	}
}

// Start tells the end what the other one has sent as its connection data.
func (e *End) Start(peer ConnData) {
	e.peer = order(peer.BigEndian)
	e.target, e.limit = peer.Buffer, peer.Credits
	e.taken, e.published = 1, 1
	e.peerSGL = peer.SGL
	e.ours = make([]our, peer.Maps)
	e.theirs = make([]Map, e.cfg.Maps)
}

// State says what may still be done.
func (e *End) State() State { return e.state }

// Err is why the end failed; nil if it has not.
func (e *End) Err() error { return e.err }

// Cut is why what came is not all; nil if it is: the other end had ended writing before the end
// failed, or this one reading.
func (e *End) Cut() error { return e.cut }

// Received is told of a message: the immediate of a receive completion, and how many bytes were
// written with it. A message that breaks a rule fails the end.
func (e *End) Received(imm uint32, bytes uint32) {
	if e.reposts++; e.state.Over() {
		return
	}
	arg := imm & argument
	var err error
	switch op(imm >> opShift) {
	case opData:
		err = e.arrived(arg, bytes)
	case opUpdate:
		err = e.updated(arg, bytes)
	case opIOMap:
		err = e.mapped(arg)
	case opControl:
		switch arg {
		case sayShutdown:
			e.on(gotShutdown)
		case sayDisconnect:
			e.on(gotDisconnect)
		}
	default:
		err = fmt.Errorf("%w: a message with the immediate 0x%08x", ErrProtocol, imm)
	}
	if err != nil {
		e.Fail(err)
	}
}

// Sent is told of the completion of a signaled work request by its ID.
func (e *End) Sent(id uint64) {
	done := receipt(id)
	e.slots += done.messages()
	e.free += done.bytes()
	e.finished += uint64(done.messages())
	switch done.kind() {
	case controlSent:
		e.spare++
	case disconnectSent:
		e.spare++
		e.on(toldDisconnect)
	}
}

// Fail is told of a completion with an error, or of another end of the connection below. What comes
// after the end was told to be over is none.
func (e *End) Fail(err error) {
	if e.state.Over() {
		return
	}
	e.err = err
	if e.state.MayRead() {
		e.cut = err
	}
	e.on(connectionFails)
}

// Gone is told that the other end has ended the connection below. After its disconnect that is how
// it should be, and when this end has ended both and all that it has written is known to have
// arrived; else it is a failure.
func (e *End) Gone(err error) {
	if e.state == Closing && e.finished == e.begun {
		e.on(gotDisconnect)
	}
	e.Fail(err)
}

// EndWrite is half a close: what was written still arrives, and then the other end reads an end.
func (e *End) EndWrite() { e.on(endWrite) }

// EndRead is the other half: what arrives is forgotten.
func (e *End) EndRead() {
	e.on(endRead)
	e.forget = true
	e.drop()
}

// EndBoth begins the end: it is over when State says Disconnected or Failed.
func (e *End) EndBoth() {
	e.on(endBoth)
	e.forget = true
	e.drop()
}

// on is the one place where the state changes.
func (e *End) on(what event) {
	m := moves[e.state][what]
	e.state = m.to
	e.control.owed = max(e.control.owed, m.owes)
}
