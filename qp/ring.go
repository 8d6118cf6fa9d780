package qp

// The send queue: a ring that an application fills and a lane empties, and the doorbells that tell
// the lane which queues to look at. The receive queue (receives.go) is built like it.
//
// The application owns the slots [tail, head+size), the lane owns [head, tail). Slots have a fixed
// layout without pointers, and both indices run freely (slot = index & mask), so the same rings can
// live in memory that is shared with another process.

import (
	"sync/atomic"

	"github.com/goroce/goroce/mr"
)

// cacheLine keeps the indices of the two sides from sharing one.
const cacheLine = 64

// sendSlot is a send work request in its ring. 64 bytes.
type sendSlot struct {
	wrid       uint64
	remoteAddr uint64 // BIND_MW: address in the region
	compareAdd uint64 // BIND_MW, FLUSH: length
	swap       uint64 // BIND_MW: window key << 32 | new key
	ah         uint64 // row of the address handle table
	length     uint32 // bytes of the message
	imm        uint32 // immediate data, key to invalidate, or see bind and writeFlush
	rkey       uint32 // BIND_MW: lkey of the region
	remoteQPN  uint32 // XRC_SEND: number of the shared receive queue
	remoteQKey uint32 // BIND_MW: serial
	opcode     WROpcode
	flags      SendFlags
	numSGE     uint8
	mwType     mr.WindowType // BIND_MW
}

// bind is the slot of a BIND_MW of queue pair qpn as the memory table wants it.
func (s *sendSlot) bind(qpn uint32) mr.Bind {
	return mr.Bind{Type: s.mwType, QPN: qpn, Key: uint32(s.swap >> 32), NewKey: uint32(s.swap), LKey: s.rkey,
		Addr: s.remoteAddr, Length: s.compareAdd, Access: mr.Access(s.imm), Serial: s.remoteQKey}
}

// sendQueue is the ring of a queue pair's send work requests.
type sendQueue struct {
	slots     []sendSlot
	sges      []SGE // maxSGE a slot
	mask      uint32
	maxSGE    uint32
	maxInline uint32
	tail      atomic.Uint32 // first free slot; the application's
	_         [cacheLine]byte
	head      atomic.Uint32 // oldest slot not retired; the lane's
	inline    []byte        // maxInline a slot
}

// sgeSize is the bytes of an element in a work request (ibv_sge). Inline data takes their place in
// that of a NIC, and of rxe, so that at least as much fits, also if nobody has asked for any:
// programs rely on it.
const sgeSize = 16

func (s *sendQueue) init(wr, sge, inline uint32) {
	n := ringSize(wr)
	s.slots, s.sges = make([]sendSlot, n), make([]SGE, n*sge)
	s.mask, s.maxSGE, s.maxInline = n-1, sge, max(inline, sge*sgeSize)
	if inline > 0 {
		s.makeInline()
	}
}

func (s *sendQueue) makeInline() { s.inline = make([]byte, len(s.slots)*int(s.maxInline)) }

func (s *sendQueue) at(i uint32) *sendSlot { return &s.slots[i&s.mask] }

// sgl returns the elements of slot i.
func (s *sendQueue) sgl(i uint32) []SGE {
	at := (i & s.mask) * s.maxSGE
	return s.sges[at : at+uint32(s.at(i).numSGE)]
}

// inlineRoom returns the inline area of slot i.
func (s *sendQueue) inlineRoom(i uint32) []byte {
	at := (i & s.mask) * s.maxInline
	return s.inline[at : at+s.maxInline]
}

// reset empties the queue; the lane calls it when the queue pair is reset and nobody posts.
func (s *sendQueue) reset() { s.head.Store(s.tail.Load()) }

// ringSize is the smallest power of two that holds n entries, at least 1.
func ringSize(n uint32) uint32 {
	size := uint32(1)
	for size < n {
		size <<= 1
	}
	return size
}

// doorbells is the list of queue pairs that were posted to since the lane last looked. Any
// goroutine adds to it; the lane takes it as a whole.
type doorbells struct {
	top atomic.Pointer[QP]
}

// ring lists q unless it is listed already. It marks q first and lists it then, while the lane
// clears the mark before it reads the ring of requests: so a post that finds the mark set is seen
// by the lane.
func (d *doorbells) ring(q *QP) {
	if !q.rung.CompareAndSwap(false, true) {
		return
	}
	for {
		top := d.top.Load()
		q.rungNext = top
		if d.top.CompareAndSwap(top, q) {
			return
		}
	}
}

// take empties the list and returns its first element.
func (d *doorbells) take() *QP {
	if d.top.Load() == nil {
		return nil
	}
	return d.top.Swap(nil)
}

func (d *doorbells) pending() bool { return d.top.Load() != nil }
