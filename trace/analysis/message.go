package analysis

// Messages in flight, and what is known of those that are done.

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/goroce/goroce/wire"
)

// Kind is what a message does.
type Kind uint8

// The kinds of messages.
const (
	Send Kind = iota
	Write
	Read
	Atomic
	Flush
	AtomicWrite
	numKinds
)

var kindNames = [numKinds]string{"SEND", "RDMA_WRITE", "RDMA_READ", "ATOMIC", "FLUSH", "ATOMIC_WRITE"}

// String is the kind's name.
func (k Kind) String() string { return kindNames[k] }

// kindFlags are in the order of the kinds.
var kindFlags = [numKinds]wire.OpFlags{wire.OpSend, wire.OpWrite, wire.OpRead, wire.OpAtomic, wire.OpFlush,
	wire.OpAtomicWrite}

func kindOf(op *wire.OpInfo) Kind {
	for k, flag := range kindFlags {
		if op.Flags&flag != 0 {
			return Kind(k)
		}
	}
	return Send
}

// answered says whether such a message has an answer of its own, so that an ACK is not enough.
func (k Kind) answered() bool { return k >= Read }

// Requests is what is known of the messages of a flow.
type Requests struct {
	Messages  [numKinds]uint64 // that were seen to their ends, by Kind
	Bytes     [numKinds]uint64
	Repeated  uint64            // packets that were sent again
	Retries   [numCauses]uint64 // times that the sender went back, by Cause
	Guessed   uint64            // of these: the cause is a guess
	Missing   uint64            // packets that the capture does not have
	Broken    uint64            // messages whose beginning or whose middle it does not have
	Forgotten uint64            // messages beyond maxFlight
	Refused   uint64            // messages that a NAK has failed
	Flushed   uint64            // messages behind those: their queue pair is in ERR
	latency   *hdrhistogram.Histogram
}

// done notes a message; ns is its latency, less than 0 if that is not known.
func (r *Requests) done(k Kind, bytes uint64, ns int64) {
	r.Messages[k]++
	r.Bytes[k] += bytes
	if ns < 0 {
		return
	}
	if r.latency == nil {
		r.latency = hdrhistogram.New(100, 1e12, 2)
	}
	_ = r.latency.RecordValue(min(max(ns, 100), 1e12))
}

// Latency returns the q-th percentile of the time from a message's first packet to its
// acknowledgement or its answer, in nanoseconds, to two digits; 0 if no message has one.
func (r *Requests) Latency(q float64) int64 {
	if r.latency == nil {
		return 0
	}
	return r.latency.ValueAtQuantile(q)
}

// message is one in flight.
type message struct {
	kind        Kind
	first, last wire.PSN
	whole       bool // its last packet was seen, so last is right
	number      int  // of its first packet in the capture
	at          int64
	bytes       uint64 // seen so far; of a READ: asked for
}

// seen is the packet that it begins with.
func (m *message) seen() seen { return seen{m.number, m.at, m.first} }

// How many messages are followed at a time: of a flow, and of all flows together. Of a capture with
// one direction only none is ever done.
const (
	maxFlight  = 1 << 14
	maxFlights = 1 << 20
)

// flight is the messages that are not done, the oldest first.
type flight struct {
	all  []message
	head int
	sum  *int // of all flows
}

func (q *flight) len() int          { return len(q.all) - q.head }
func (q *flight) at(i int) *message { return &q.all[q.head+i] }
func (q *flight) newest() *message {
	if q.len() == 0 {
		return nil
	}
	return &q.all[len(q.all)-1]
}

// push adds a message and says whether the oldest had to go.
func (q *flight) push(m message) (full bool) {
	if full = q.len() == maxFlight || *q.sum >= maxFlights && q.len() > 0; full {
		q.pop()
	}
	*q.sum++
	if q.head > 64 && q.head > len(q.all)/2 {
		q.all = q.all[:copy(q.all, q.all[q.head:])]
		q.head = 0
	}
	q.all = append(q.all, m)
	return full
}

// pop takes the oldest.
func (q *flight) pop() message {
	m := q.all[q.head]
	*q.sum--
	if q.head++; q.head == len(q.all) {
		q.all, q.head = q.all[:0], 0
	}
	return m
}

// clear forgets all.
func (q *flight) clear() {
	*q.sum -= q.len()
	q.all, q.head = nil, 0
}

// dropNewest forgets the newest.
func (q *flight) dropNewest() {
	*q.sum--
	if q.all = q.all[:len(q.all)-1]; q.head == len(q.all) {
		q.all, q.head = q.all[:0], 0
	}
}
