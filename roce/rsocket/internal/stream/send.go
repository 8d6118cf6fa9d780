package stream

// Sending: how much may be sent (credits, room at the other end, the send buffer, the queue), the
// next message, and what its completion gives back.

import "fmt"

// MaxTransfer is how many bytes one message has at most.
const MaxTransfer = 64 << 10

// MaxOwn is how many bytes one message of the application's own memory has at most: what is behind
// it is not delayed by more, and it is less than an immediate can say and a queue pair can send.
const MaxOwn = 1 << 28

// What a message of more than one packet costs depends on the lengths of its packets, where a port
// takes packets of one length as one (a run, of which only the last packet may be shorter): the
// first packet of a WRITE WITH IMMEDIATE is longer than those behind it, and so is the last. So
// there all but the last packet goes as a WRITE, without immediate, whose packets are as long as
// each other; and the most that a message has are the packets of a run, less what the immediate
// adds.
const (
	runBytes = 65507       // of a run: the payload of a UDP datagram over IPv4
	perWrite = 12 + 16 + 4 // bytes of BTH, RETH and ICRC
	immBytes = 4
)

// mostOf is how many bytes a message has at most, if packets of so many bytes come in runs; 0: they
// do not.
func mostOf(packet int) int {
	if packet == 0 {
		return MaxTransfer
	}
	return runBytes/(packet+perWrite)*packet - immBytes
}

// lead is how many of n bytes are written before the message, without immediate.
func (e *End) lead(n int) int {
	if e.cfg.Packet == 0 || n <= e.cfg.Packet || e.slots < 2 {
		return 0
	}
	return (n - 1) / e.cfg.Packet * e.cfg.Packet
}

// lowWater is how many bytes of the send buffer are waited for, if more are wanted than are free.
// It is at most half of the buffer: a quarter may be taken by messages whose completions nobody has
// asked for yet (due).
const lowWater = 2048

// A Request is a work request: an RDMA WRITE, with immediate if HasImm. The bytes are Inline, or
// Length bytes of the send buffer from From on, which go on at its beginning if they pass its end,
// or, if From is -1, Length bytes of the application's own. If Lead is not 0, it is two work
// requests: the first Lead of the bytes are an unsignaled WRITE without immediate.
type Request struct {
	ID       uint64 // for Sent
	Signaled bool
	HasImm   bool
	Imm      uint32
	To       uint64 // address at the other end
	RKey     uint32

	From, Length, Lead int
	Inline             []byte

	entry [MapSize]byte // what Inline is of
}

// sender is the half of an end that sends.
type sender struct {
	target           SGE    // where the next byte goes, and how many have room there
	taken, published uint32 // entries of the target SGL: used by this end, written by the other

	seq, limit uint16 // messages sent; where to stop (section 5)
	slots      int    // messages that the send queue still takes
	finished   uint64 // messages that were acknowledged, and told of
	begun      uint64 // messages that were sent

	// of the send buffer: where the next byte goes, how many are free
	next, free int

	unsignaledMessages, unsignaledBytes int
}

// updated is told of more credits, and perhaps of another buffer (section 3.3).
func (e *End) updated(credits, bytes uint32) error {
	e.limit = uint16(credits)
	switch bytes {
	case 0:
		return nil
	case SGESize:
		e.published++
	default:
		return fmt.Errorf("%w: an update of %d bytes", ErrProtocol, bytes)
	}
	if e.published-e.taken > Entries {
		return fmt.Errorf("%w: more receive buffers than the %d entries of the target SGL", ErrProtocol, Entries)
	}
	return e.retarget()
}

// retarget goes on to the next receive buffer of the other end, if this one is full.
func (e *End) retarget() error {
	if e.target.Length > 0 || e.taken == e.published {
		return nil
	}
	e.target = readSGE(e.order, e.cfg.Tables[e.taken%Entries*SGESize:])
	e.taken++
	if e.target.Length == 0 {
		return fmt.Errorf("%w: an update to a receive buffer of no bytes", ErrProtocol)
	}
	return nil
}

// CanSend says whether Send or SendOwn would send something of so many bytes.
func (e *End) CanSend(want int) bool {
	return e.canSendMessage() && e.target.Length > 0 && e.hasBuffer(want)
}

func (e *End) hasBuffer(want int) bool {
	return e.free >= min(want, lowWater, max(e.cfg.SendBuffer/2, 1))
}

func (e *End) canSendMessage() bool {
	return e.state.MayWrite() && e.seq != e.limit && e.slots > 0
}

// Send makes the next message of up to want bytes, which the caller copies to the send buffer
// before it posts r. It returns how many there are: 0 if it has to wait, or the end may not send.
func (e *End) Send(want int, r *Request) int {
	if !e.CanSend(want) {
		return 0
	}
	n := min(want, e.free, mostOf(e.cfg.Packet))
	n = int(min(uint32(n), e.target.Length))
	r.From, r.Length, r.Inline = e.buffer(n), n, nil
	e.write(n, r)
	r.sign(e, e.due())
	return n
}

// buffer takes n bytes of the send buffer, and says where they begin.
func (e *End) buffer(n int) (from int) {
	from = e.next
	e.free -= n
	if e.next += n; e.next >= e.cfg.SendBuffer {
		e.next -= e.cfg.SendBuffer
	}
	e.unsignaledBytes += n
	return from
}

// SendOwn is Send from the application's own memory. Finished tells when it has been acknowledged.
func (e *End) SendOwn(want int, r *Request) int {
	if !e.canSendMessage() || e.target.Length == 0 {
		return 0
	}
	n := min(want, int(min(e.target.Length, MaxOwn)))
	r.From, r.Length, r.Inline = -1, n, nil
	e.write(n, r)
	r.sign(e, true)
	return n
}

// Begun counts the messages that were sent, Finished those that were acknowledged: when it has
// reached what Begun was, the memory of SendOwn is the application's again.
func (e *End) Begun() uint64    { return e.begun }
func (e *End) Finished() uint64 { return e.finished }

// write addresses a message of n bytes, and moves on in the receive buffer of the other end.
func (e *End) write(n int, r *Request) {
	r.HasImm, r.Imm = true, opData.with(uint32(n))
	r.To, r.RKey = e.target.Addr, e.target.Key
	e.target.Addr += uint64(n)
	e.target.Length -= uint32(n)
	if r.Lead = e.lead(n); r.Lead > 0 {
		e.countDirect()
	}
	e.count()
	if err := e.retarget(); err != nil {
		e.Fail(err)
	}
}

// count is for a message that takes a credit, count Direct for one that takes none.
func (e *End) count() {
	e.seq++
	e.countDirect()
}

func (e *End) countDirect() {
	e.slots--
	e.begun++
	e.unsignaledMessages++
}

// due says whether a completion is wanted: while the queue and the buffer are in use, at least one
// that is on its way gives a part of them back.
func (e *End) due() bool {
	return e.unsignaledMessages >= (e.cfg.SendDepth-ControlDepth+3)/4 || e.unsignaledBytes >= e.cfg.SendBuffer/4
}

// A receipt is the ID of a work request: what kind it is, and what its completion gives back, its
// own and that of all unsignaled ones before it.
type receipt uint64

// The kinds. Of messages that were sent without one nothing is to be done but to count them.
const (
	messageSent uint64 = iota
	controlSent
	disconnectSent
)

func (r receipt) kind() uint64  { return uint64(r) >> 56 }
func (r receipt) messages() int { return int(uint64(r) >> 32 & 0xffffff) }
func (r receipt) bytes() int    { return int(uint64(r) & 0xffffffff) }

// sign asks for the completion of a message or not.
func (r *Request) sign(e *End, signaled bool) {
	if r.Signaled = signaled; signaled {
		r.signAs(e, messageSent)
	}
}

func (r *Request) signAs(e *End, kind uint64) {
	r.Signaled = true
	r.ID = kind<<56 | uint64(e.unsignaledMessages)<<32 | uint64(e.unsignaledBytes)
	e.unsignaledMessages, e.unsignaledBytes = 0, 0
}
