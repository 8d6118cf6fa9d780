package qptest

// The oracle's picture of traffic: an operation is a send work request with the packets it becomes;
// a stream is all operations from one queue pair to its peer, with what each side has done about
// them. Packets are numbered from 0.

import (
	"slices"
	"sort"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// op is a send work request.
type op struct {
	wr       qp.SendWR
	signaled bool
	length   int
	first    uint64 // number of its first packet
	// packets is how many numbers it takes: a READ as many as its replies; none if it stays local.
	packets uint64
	ssn     int    // number of its (last) message; 0: nothing of it was sent
	data    []byte // SEND, WRITE: the message
	good    bool   // the local elements are what they must be

	executed bool            // the responder has done it
	asked    uint64          // READ, atomic: replies that the responder knows it has to send
	result   []byte          // READ, atomic: what arrives in the local elements
	progress uint64          // READ, atomic: replies that the requester has taken, in a row
	came     map[uint64]bool // READ: those beyond
	cut      uint64          // READ: packets that each of its requests asks for; 0: none was sent
	reread   uint64          // the progress at which a NIC last asked for the rest of a READ again
	answered uint64          // READ, atomic: replies that the responder has sent
	syncing  bool            // FLUSH: its responder waits for storage,
	begun    bool            // and has said so
}

func (o *op) is(kinds ...qp.WROpcode) bool { return slices.Contains(kinds, o.wr.Opcode) }
func (o *op) send() bool                   { return o.is(qp.WRSend, qp.WRSendWithImm, qp.WRSendWithInv) }
func (o *op) write() bool                  { return o.is(qp.WRWrite, qp.WRWriteWithImm) }
func (o *op) read() bool                   { return o.is(qp.WRRead) }
func (o *op) atomic() bool                 { return o.is(qp.WRAtomicCmpAndSwp, qp.WRAtomicFetchAndAdd) }
func (o *op) takes() bool                  { return o.send() || o.is(qp.WRWriteWithImm) }
func (o *op) atomicWrite() bool            { return o.is(qp.WRAtomicWrite) }
func (o *op) flush() bool                  { return o.is(qp.WRFlush) }
func (o *op) fetches() bool                { return o.read() || o.atomic() || o.atomicWrite() || o.flush() }
func (o *op) local() bool                  { return o.is(qp.WRLocalInv, qp.WRBindMW) }
func (o *op) end() uint64                  { return o.first + o.packets }

// piece is how many packets of the operation are a message of their own on the wire: all, or what
// keeps packets even.
func (s *stream) piece(o *op) uint64 {
	switch {
	case !s.from.Node.cfg.Engine.EvenPackets || s.from.Cfg.WholeMessages || !s.from.reliable():
	case o.is(qp.WRWrite):
		return 1
	}
	if o.cut > 0 {
		return o.cut
	}
	return o.packets
}

// cuts takes note of the first request of a READ: those behind it ask for as much.
func (s *stream) cuts(o *op, packets uint64, bad func(string, ...any)) {
	o.cut = packets
	if packets < o.packets && (packets < 2 || s.from.Cfg.WholeMessages || s.from.Cfg.RdAtomic < 8) {
		bad("it asks for %d packets of %d", packets, o.packets)
	}
}

// pieceEnd is the end of the piece that packet k is in.
func (s *stream) pieceEnd(o *op, k uint64) uint64 {
	n := s.piece(o)
	return min(k-k%n+n, o.packets)
}

// part returns the payload of packet k of the message.
func (o *op) part(k uint64, mtu int) []byte {
	from := min(int(k)*mtu, o.length)
	return o.data[from:min(from+mtu, o.length)]
}

// recvOp is a receive work request.
type recvOp struct {
	wr   qp.RecvWR
	room int
}

// want is a receive completion that must come now.
type want struct {
	wc       qp.WC
	statuses uint32 // set of 1<<WCStatus
}

// counts says what the peer has said of its credits.
type counts uint8

const (
	countsUnknown counts = iota
	countsCredits
	countsNothing // it has said that it does not count them
)

// owed is what the responder replies to one request: up to reply number end of a READ, or the value
// of an atomic.
type owed struct {
	*op
	from, end uint64
}

// stream is one direction of a connection.
type stream struct {
	from, to *QP
	psn0     wire.PSN
	mtu      int
	ops      []*op  // all operations posted, oldest first
	end      uint64 // their packets

	// requester
	nxt     uint64 // the first packet that was never sent
	acked   uint64 // everything before it has been acknowledged
	ackable uint64 // and this much the requester may, but need not, take as acknowledged
	heard   uint64 // the newest packet that responses have named
	known   uint64 // responses say that everything before it was executed
	rnrs    int    // RNR NAKs since the last progress
	failing bool   // a fatal NAK has arrived
	ssn     int    // messages sent
	lsn     int    // flow control: those that the credits of the peer are for
	counts  counts // whether they are
	// since is when a response acknowledged something last or, if later, when the oldest
	// unacknowledged packet was first sent; reports how many have come from then on that can have
	// said that this packet is lost.
	since   qp.Time
	reports int

	// responder
	epsn    uint64
	msn     int     // messages executed, counted on from Config.FirstMSN
	slot    *recvOp // the receive in use, or kept for re-use by UC
	got     int     // bytes of the message so far
	skip    bool    // UC: the rest of the message is dropped
	gap     bool    // RC: a packet from the future has arrived since the last progress
	behind  bool    // the very next packet has
	naked   bool    // and has been NAKed
	away    bool    // the expected packet has to come again, and may be asked for once
	starved bool    // a packet found no receive
	refused wire.Syndrome
	replied uint64 // one past the newest reply to a READ that was sent
	owed    []owed // replies that the responder has not sent in full
	syncing []*op  // FLUSHes that wait for storage, in their order
	early   *early // selective repeat: what came after a gap
}

func newStream(from, to *QP) *stream {
	s := &stream{from: from, to: to, psn0: from.Cfg.PSN, mtu: from.Cfg.MTU.Bytes()}
	s.msn, s.ssn = int(to.Node.cfg.Engine.FirstMSN), int(from.Node.cfg.Engine.FirstMSN)
	if to.Cfg.Selective {
		s.early = &early{kept: map[uint64]uint64{}, places: map[uint64]int{}}
	}
	return s
}

func (s *stream) psn(n uint64) wire.PSN { return s.psn0.Add(uint32(n)) }

// number returns which packet a PSN means, given one nearby.
func (s *stream) number(p wire.PSN, near uint64) int64 {
	return int64(near) + int64(p.Sub(s.psn(near)))
}

// messages returns how many messages an MSN says were executed, in numbers that do not wrap.
func (s *stream) messages(a *wire.AETH) int {
	return s.msn + int(a.MSN().Sub(wire.PSN(s.msn)&wire.PSNMask))
}

// locate returns the operation that packet n belongs to, and which of its packets it is.
func (s *stream) locate(n uint64) (*op, uint64) {
	ops := s.ops
	i := sort.Search(len(ops), func(i int) bool { return ops[i].end() > n })
	if i == len(ops) {
		return nil, 0
	}
	return ops[i], n - ops[i].first
}

// modelled says whether the oracle follows this queue pair: its peer is in the world, or it sends
// datagrams.
func (q *QP) modelled() bool { return q.out != nil || q.gram != nil }

// posted takes note of a send work request.
func (q *QP) posted(wr qp.SendWR) {
	if !q.modelled() {
		return
	}
	wr.SGL, wr.Inline = slices.Clone(wr.SGL), slices.Clone(wr.Inline)
	o := &op{wr: wr, signaled: q.Cfg.SQSigAll || wr.Flags&qp.SendSignaled != 0, good: true}
	for _, s := range wr.SGL {
		o.length += int(s.Length)
	}
	switch {
	case wr.Flags&qp.SendInline != 0:
		o.data, o.length = wr.Inline, len(wr.Inline)
	case o.fetches():
		o.good = q.writable(wr.SGL)
	default:
		o.data, o.good = q.Node.gather(q.Cfg.PD, wr.SGL)
	}
	if q.gram != nil {
		o.good = o.good && o.length <= q.gramMTU()
		o.first, o.packets = q.gram.end, 1
		if !o.good {
			o.packets = 0
		}
		q.gram.end += o.packets
	} else {
		o.first = q.out.end
		if !o.local() {
			o.packets = uint64(max(1, (o.length+q.out.mtu-1)/q.out.mtu))
		}
		q.out.end = o.end()
		q.out.ops = append(q.out.ops, o)
	}
	if o.fetches() && o.good && q.down == "" {
		q.fetching = append(q.fetching, o)
	}
	q.sends = append(q.sends, o)
}

// writable says whether data may be scattered into the elements.
func (q *QP) writable(sgl []qp.SGE) bool {
	for _, s := range sgl {
		if s.Length > 0 && q.Node.span(q.Cfg.PD, s.LKey, s.Addr, int(s.Length), mr.LocalWrite) == nil {
			return false
		}
	}
	return true
}

// postedRecv takes note of a receive work request.
func (q *QP) postedRecv(wr qp.RecvWR) {
	if !q.modelled() {
		return
	}
	wr.SGL = slices.Clone(wr.SGL)
	r := newRecvOp(wr)
	q.recvs = append(q.recvs, r)
	if q.down != "" {
		q.flushRecv(r)
		q.taken = len(q.recvs)
	}
}

func newRecvOp(wr qp.RecvWR) *recvOp {
	r := &recvOp{wr: wr}
	for _, s := range wr.SGL {
		r.room += int(s.Length)
	}
	return r
}

// takeRecv returns the oldest receive that no message has, nil if there is none for a message, of
// which there is more to come or not.
func (q *QP) takeRecv(more bool) *recvOp {
	if s := q.Cfg.SRQ; s != nil {
		return s.take(q, more)
	}
	if q.taken == len(q.recvs) {
		return nil
	}
	q.taken++
	return q.recvs[q.taken-1]
}

// returnRecv undoes takeRecv.
func (q *QP) returnRecv(r *recvOp) {
	if s := q.Cfg.SRQ; s != nil {
		s.putBack(r)
		return
	}
	q.taken--
}

// putBack gives the receive of a message that came to nothing back, if it is not the queue pair's.
func (s *stream) putBack() {
	if s.slot != nil && s.to.Cfg.SRQ != nil {
		s.to.returnRecv(s.slot)
		s.slot = nil
	}
}

func (q *QP) flushRecv(r *recvOp) {
	q.wantRecv = append(q.wantRecv, want{qp.WC{WRID: r.wr.WRID}, 1 << qp.WCWRFlushErr})
}

// fail is the oracle's ERR state: whatever is outstanding must be flushed, and the peer will hear
// no more.
func (q *QP) fail(why string) { q.failWith(why, 0) }

// failWith is fail for a receive in use that may end with a status of its own.
func (q *QP) failWith(why string, statuses uint32) {
	if q.down != "" || !q.modelled() {
		return
	}
	q.down = why
	if q.Peer != nil && q.Peer.silent == "" {
		q.Peer.silent = "its peer is in ERR: " + why
	}
	if s := q.in; s != nil {
		s.emptied()
		if s.slot != nil {
			q.wantRecv = append(q.wantRecv, want{qp.WC{WRID: s.slot.wr.WRID}, 1<<qp.WCWRFlushErr | statuses})
			s.slot = nil
		} else if statuses != 0 && q.taken < len(q.recvs) {
			// The message would have taken the next one.
			q.wantRecv = append(q.wantRecv, want{qp.WC{WRID: q.recvs[q.taken].wr.WRID}, 1<<qp.WCWRFlushErr | statuses})
			q.taken++
		}
	}
	for _, r := range q.recvs[q.taken:] {
		q.flushRecv(r)
	}
	q.taken = len(q.recvs)
}
