package qp

// What an engine does, as it does it: records for people who want to see cause and effect. An
// engine without a Recorder pays one comparison where a record would be made.

import "github.com/goroce/goroce/wire"

// RecordKind says what happened.
type RecordKind uint8

// The kinds of records. Beside QPN and PSN a Record has, by kind, Op, Value and Length.
const (
	// A send work request begins: WROpcode, WRID, length of the message.
	RecordRequest RecordKind = iota + 1
	// A packet leaves: wire.Opcode, the syndrome if it has an AETH, length of the payload. QPN is
	// its destination's.
	RecordSent
	// A packet has arrived: the same.
	RecordReceived
	// It goes no further: wire.Opcode, wire.DropReason, length of the payload.
	RecordDropped
	// A request's packet was executed: wire.Opcode, the address that it wrote or reads, bytes.
	RecordExecuted
	// The requester goes back, to PSN.
	RecordRetry
	// It waits, as the peer was not ready, and will send again from PSN on.
	RecordWait
	// No retry is left for PSN.
	RecordGiveUp
	// A deadline of the queue pair has come: TimerKind, and nanoseconds: of TimerAck the ack
	// timeout, of
	// TimerProbe the round trip. PSN is the oldest that is not acknowledged.
	RecordTimer
	// A work request completes: WCOpcode, WRID, WCStatus.
	RecordCompletion
	// The queue pair has another state: QPState.
	RecordState
	// A packet arrived that a switch had marked.
	RecordMarked
	// A congestion notification arrived: Value is the rate from now on, in bytes a second.
	RecordSlowed
	// The peer says that packets are missing, Length of them from PSN on: they alone are sent
	// again (selective repeat).
	RecordGap
	// Records before this one, Value of them, were overwritten before anybody fetched them.
	RecordLost
	// The oldest packet that is not acknowledged, PSN, leaves once more: the peer is silent, and
	// its answer says what it has.
	RecordProbe
	// A request's packet has come that was executed before, or is being executed: it is not
	// executed again, but for a READ, which reads again. wire.Opcode, length of the payload.
	RecordDuplicate
	// A packet that came behind a gap is kept until the gap is filled (selective repeat): the same.
	RecordKept
	numRecordKinds
)

// TimerKind says which deadline has come.
type TimerKind uint8

// The deadlines: what has happened at each of them is in timer.go and silence.go.
const (
	TimerNone  TimerKind = iota // another one: it was put off since
	TimerReady                  // the time is over that an RNR NAK has asked for
	TimerAck                    // nothing was acknowledged for an ack timeout
	TimerProbe                  // nothing was heard for some round trips
	TimerRate                   // the rate lets a packet leave
)

var recordNames = [numRecordKinds]string{"", "request", "sent", "received", "dropped", "executed", "retry", "wait",
	"give up", "timer", "completion", "state", "marked", "slowed", "gap", "lost", "probe",
	"duplicate", "kept"}

// String is the kind's name.
func (k RecordKind) String() string {
	if k < numRecordKinds {
		return recordNames[k]
	}
	return "?"
}

// Record is one thing that happened. What its fields say depends on Kind.
type Record struct {
	At     Time
	Value  uint64
	QPN    uint32 // of the queue pair; of a packet that was dropped, its destination
	PSN    wire.PSN
	Length uint32
	Kind   RecordKind
	Op     uint8
}

// Recorder keeps an engine's newest records, in memory that is allocated once. It belongs to the
// engine's lane: whoever drives the engine may read it, nobody else.
type Recorder struct {
	ring []Record // a power of two
	n    uint64   // made so far
}

// NewRecorder makes a recorder for at least size records, 1 to 2^24; 40 bytes each.
func NewRecorder(size int) *Recorder {
	return &Recorder{ring: make([]Record, ringSize(uint32(min(max(size, 1), 1<<24))))}
}

// Append appends the records from number from on, the oldest first, and returns the number of the
// next one; from 0 on gives all that are kept. Those that were overwritten are lost: there are
// fewer than the difference of the numbers.
func (r *Recorder) Append(dst []Record, from uint64) ([]Record, uint64) {
	if kept := uint64(len(r.ring)); r.n > kept {
		from = max(from, r.n-kept)
	}
	for ; from < r.n; from++ {
		dst = append(dst, r.ring[from&uint64(len(r.ring)-1)])
	}
	return dst, r.n
}

// add makes a record. The caller has looked whether there is a recorder.
func (r *Recorder) add(x Record) {
	r.ring[r.n&uint64(len(r.ring)-1)] = x
	r.n++
}

// recordPacket records a packet that leaves or arrived.
func (e *Engine) recordPacket(kind RecordKind, f *wire.Frame, reason wire.DropReason) {
	var p wire.Packet
	x := Record{At: e.now, Kind: kind, Value: uint64(reason)}
	if wire.Parse(f, &p) == wire.DropNone {
		x.QPN, x.PSN, x.Op, x.Length = p.BTH.DestQP(), p.BTH.PSN(), uint8(p.Opcode), uint32(len(p.Payload))
		if h := p.AETH(); h != nil && kind != RecordDropped {
			x.Value = uint64(h.Syndrome())
		}
	}
	e.recorder.add(x)
}

// recordSent records the packets from number first on.
func (e *Engine) recordSent(frames []wire.Frame) {
	for i := range frames {
		e.recordPacket(RecordSent, &frames[i], 0)
	}
}

// recordState records that q has another state.
func (e *Engine) recordState(q *QP) {
	if e.recorder != nil {
		e.recorder.add(Record{At: e.now, Kind: RecordState, QPN: q.qpn, Op: uint8(q.State())})
	}
}

// recordDecision records that a requester goes back.
func (e *Engine) recordDecision(kind RecordKind, q *QP) {
	if e.recorder != nil {
		psn := q.rec.psn
		if kind == RecordGiveUp {
			psn = q.rec.una
		}
		e.recorder.add(Record{At: e.now, Kind: kind, QPN: q.qpn, PSN: psn})
	}
}

// recordTimer records that a deadline of q has come, and which.
func (e *Engine) recordTimer(q *QP) {
	if e.recorder == nil {
		return
	}
	r := &q.rec
	x := Record{At: e.now, Kind: RecordTimer, QPN: q.qpn, PSN: r.una}
	switch {
	case r.readyAt <= e.now:
		x.Op = uint8(TimerReady)
	case r.ackAt <= e.now:
		x.Op, x.Value = uint8(TimerAck), uint64(r.ackTimeout())
	case r.probeAt <= e.now:
		x.Op, x.Value = uint8(TimerProbe), uint64(r.srtt)
	case q.paused && q.rate.sendAt <= e.now:
		x.Op = uint8(TimerRate)
	}
	e.recorder.add(x)
}

// recordProbe records that the oldest packet has left once more.
func (e *Engine) recordProbe(q *QP) {
	if e.recorder != nil {
		e.recorder.add(Record{At: e.now, Kind: RecordProbe, QPN: q.qpn, PSN: q.rec.una})
	}
}

// recordRequest records what becomes of a request's packet that is not executed now.
func (e *Engine) recordRequest(kind RecordKind, q *QP, p *wire.Packet) {
	if e.recorder != nil {
		e.recorder.add(Record{At: e.now, Kind: kind, QPN: q.qpn, PSN: p.BTH.PSN(), Op: uint8(p.Opcode),
			Length: uint32(len(p.Payload))})
	}
}

// recordGap records that the peer has reported n packets missing, if they are to be sent again:
// more gaps are due than before.
func (e *Engine) recordGap(q *QP, from wire.PSN, n int32, before int) {
	if e.recorder != nil && q.rec.gaps.due > before {
		e.recorder.add(Record{At: e.now, Kind: RecordGap, QPN: q.qpn, PSN: from, Length: uint32(n)})
	}
}

// recordExecuted records a request's packet that the responder has executed.
func (e *Engine) recordExecuted(q *QP, p *wire.Packet) {
	x := Record{
		At:     e.now,
		Kind:   RecordExecuted,
		QPN:    q.qpn,
		PSN:    p.BTH.PSN(),
		Op:     uint8(p.Opcode),
		Length: uint32(len(p.Payload)),
		Value:  q.resp.va,
	}
	switch {
	case p.Op.Flags&wire.OpAtomic != 0:
		x.Value, x.Length = p.AtomicETH().VA(), 8
	case p.Op.Flags&wire.OpRead != 0:
		x.Value, x.Length = p.RETH().VA(), p.RETH().DMALen()
	case p.Op.Flags&wire.OpWrite != 0:
		x.Value += uint64(q.resp.got) - uint64(len(p.Payload))
	case p.Op.Flags&wire.OpSend != 0:
		x.Value = 0
	}
	e.recorder.add(x)
}
