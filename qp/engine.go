package qp

// The engine: one lane's queue pairs behind the contract of doc.go.
// Stages: configuration → input (frames, doorbells, time) → output (frames, deadline, events,
// completions). Whose turn it is to send is in sources.go.

import (
	"math"
	"slices"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// Config is what an engine is made from.
type Config struct {
	Memory *mr.Table     // keys of registered memory; shared by the lanes of a device
	Rand   func() uint64 // unpredictable numbers: queue pair numbers are drawn from it
	// GIDs are the device's addresses, the rows of its GID table. AHAttr.SGIDIndex counts them;
	// frames to others are dropped. A zero GID is an empty row. SetGIDs changes them.
	GIDs []wire.GID
	// SrcPort is the UDP source port of everything that is sent. 0 says that the port can send from
	// any, so that each connection gets one of its own.
	SrcPort uint16
	MaxMTU  wire.MTU // largest path MTU; 0 means 4096 bytes. SetMTU changes it

	QPNs       wire.QPNSpace // queue pair numbers are drawn from it
	Dealt      *Deck         // which of them have been; nil: none, and nobody goes on with them
	Congestion CongestionParams
	ECN        bool // switches may mark the packets of connected queue pairs: see ECT
	// Window is how many packets of an RC queue pair may be unacknowledged, 1..2^22. 0 stands for
	// as many as suit the path (window.go).
	Window int
	// FirstMSN is what both sides of a connection count messages from: 0, as InfiniBand has it. It
	// is for simulations only, of what lies beyond 16 million messages.
	FirstMSN wire.PSN

	// EvenPackets gives the packets of a long RC WRITE or READ one size, which is what a port needs
	// to carry them as one run: a FIRST is longer by its RETH, a READ's FIRST and LAST by their
	// AETH, so that 64 KiB at path MTU 4096 leave in two sends instead of one, a third of the
	// throughput. A WRITE then becomes one WRITE ONLY for each packet (one with immediate data
	// stays whole, as its length is told to the peer); a READ is asked for in pieces of a FIRST and
	// a LAST, if the peer remembers evenDepth of them. A peer counts each as a message of its own:
	// its MSN rises with every packet, and a WRITE that runs out of the memory it may write has
	// written what lay inside before it is refused (with FIRST, MIDDLE and LAST the whole range is
	// checked first). QPInit.WholeMessages turns it off for a queue pair.
	EvenPackets bool

	Storage *Storage // where FLUSHes wait; shared by the lanes of a device. nil: without bounds

	Purpose Purpose // what is to fail although nothing is wrong with it
	// Kept is how many places responders with selective repeat have for packets behind gaps, all
	// together. 0 stands for maxKept; less is for simulations only, of what lies beyond.
	Kept int

	Recorder *Recorder // gets a record of everything that happens; nil: nothing is recorded
}

// Engine is the protocol state of one lane. One caller at a time drives it; doc.go has the
// contract.
type Engine struct {
	cfg      Config
	cc       CongestionParams
	now      Time // as the last caller that told the time has it
	qps      qpnTable
	numbers  *qpnDeck // of queue pairs; nil until there is one
	cqs      map[*CQ]struct{}
	ahs      []*AH
	ahsUsed  int    // of ahs, rows below it are in use
	ahSerial uint64 // of the newest
	groups   map[wire.GID][]*QP
	xrc      map[uint32]xrcTarget // by number

	bells      doorbells
	timers     timers
	line       line
	urgent     bool // what the ready list owes may not wait
	sources    map[wire.GID]*source
	own        source // of queue pairs without a peer: datagrams are the application's own
	freshCQs   []*CQ
	notifyCQs  []*CQ
	heldCQs    []*CQ // whose notification comes later
	tellAt     Time  // when the first of them is due; Never if there is none
	overrunCQs []*CQ
	events     []Event
	polled     int    // of events, those that were polled
	tickets    uint64 // syncs so far
	stats      Stats

	recorder *Recorder // nil: none

	keptFrame   wire.Frame // of the kept packet at hand
	keptPlaces  int        // of Config.Kept, those that are taken
	holders     []*source  // who has some of it
	hand        int        // of holders: the next to give way
	spareBodies [][]byte
	spareStores []*reorder
	spareLong   []kept      // nil: none
	touched     uint32      // see touch
	packet      wire.Packet // of the frame at hand
	scratch     [8]byte
	grhBytes    [GRHSize]byte
}

// NewEngine makes an engine without queue pairs.
func NewEngine(cfg Config) *Engine {
	if cfg.MaxMTU == 0 {
		cfg.MaxMTU = maxMTU
	}
	if cfg.Storage == nil {
		cfg.Storage = NewStorage(math.MaxInt32, nil)
	}
	if cfg.Kept == 0 {
		cfg.Kept = maxKept
	}
	cfg.Window = min(max(cfg.Window, 0), psnSpan/2)
	return &Engine{cfg: cfg, cc: cfg.Congestion.withDefaults(), cqs: map[*CQ]struct{}{}, tellAt: Never,
		groups: map[wire.GID][]*QP{}, sources: map[wire.GID]*source{}, recorder: cfg.Recorder}
}

// HandleFrames takes frames from the network. Their payload is in its memory region before it
// returns, and no reference to a frame is kept. Every frame that goes no further is counted under
// its reason.
func (e *Engine) HandleFrames(now Time, in []wire.Frame) {
	e.now = now
	for len(in) > 0 {
		n := min(len(in), lookUps)
		pairs := e.lookUp(in[:n])
		for i := range n {
			e.stats.RcvdPkts++
			if e.recorder != nil {
				e.recordPacket(RecordReceived, &in[i], 0)
			}
			if reason := e.handleFrame(&in[i], pairs[i]); reason != wire.DropNone {
				e.stats.Drops[reason]++
				if e.recorder != nil {
					e.recordPacket(RecordDropped, &in[i], reason)
				}
			}
		}
		in = in[n:]
	}
}

// lookUps is how many queue pairs are looked up together. With thousands of them each look-up waits
// for memory, and a processor can wait for about so many places at once.
const lookUps = 16

// lookUp finds the queue pairs of frames; nil: there is none. None comes or goes while frames are
// handled.
func (e *Engine) lookUp(in []wire.Frame) (pairs [lookUps]*QP) {
	for i := range in {
		if body := in[i].Body; len(body) >= wire.BTHLen {
			pairs[i] = e.qps.find((*wire.BTH)(body).DestQP())
		}
	}
	for i := range in {
		if q := pairs[i]; q != nil && (i == 0 || q != pairs[i-1]) {
			e.touch(q)
		}
	}
	return pairs
}

// touch reads a field from each of the cache lines of q that its packets need, so that those that
// come from memory come together, instead of each when it is wanted. touched only makes it so.
func (e *Engine) touch(q *QP) {
	e.touched += uint32(q.path.TrafficClass) + uint32(q.resp.epsn) + uint32(q.resp.jobLen) +
		uint32(q.attr.AccessFlags) + uint32(q.attr.Timeout) + q.req.started + uint32(q.rec.una) +
		uint32(q.rec.timedAt) + uint32(q.rec.ackAt) + uint32(q.rec.probeTop) + uint32(q.rec.window.size) +
		uint32(q.rec.window.newest) + uint32(q.rate.sendAt)
}

// handleFrame checks, in the order of section 1.13, what must hold before a packet has any effect
// on q, which it names. The ICRC comes last, because it reads every byte.
func (e *Engine) handleFrame(f *wire.Frame, q *QP) wire.DropReason {
	p := &e.packet
	if reason := wire.Parse(f, p); reason != wire.DropNone {
		return reason
	}
	if p.BTH.PKey()&wire.PKeyNumber != wire.DefaultPKey&wire.PKeyNumber {
		return wire.DropPKey // ours is that of a full member, so theirs need not be (section 1.10)
	}
	if p.BTH.DestQP() == wire.MulticastQPN {
		return e.multicast(p)
	}
	if q == nil {
		return wire.DropUnknownQPN
	}
	if p.Op.Flags&wire.OpCNP != 0 {
		return e.cnp(q, p)
	}
	if reason := e.admit(q, p); reason != wire.DropNone {
		return reason
	}
	if !wire.Verify(f) && !(p.Op.Flags&wire.OpFlush != 0 && wire.VerifyFlush(f)) {
		return wire.DropICRC
	}
	if q.datagram {
		return e.deliver(q, p)
	}
	q.heardFrom(f.SrcPort())
	if f.ECN() == wire.ECNCongestion {
		e.congested(q)
	}
	if p.Op.Flags&wire.OpResponse != 0 {
		return e.handleResponse(q, p)
	}
	if !q.resp.met {
		q.resp.met = true
		if q.State() == StateRTR {
			e.raise(Event{Type: EventCommEst, QP: q})
		}
	}
	reason := e.respond(q, p)
	if q.resp.kept != nil {
		e.catchUp(q)
	}
	if q.resp.missed {
		e.recall(q)
	}
	return reason
}

// admit says whether the packet may be for q at all, by type, state, addresses and Q_Key.
func (e *Engine) admit(q *QP, p *wire.Packet) wire.DropReason {
	if q.opcodes != p.Opcode.Service() {
		return wire.DropQPType
	}
	if q.noSends && p.Op.Flags&wire.OpResponse != 0 || q.noRecvs && p.Op.Flags&wire.OpResponse == 0 {
		return wire.DropQPType
	}
	least := StateRTR
	if p.Op.Flags&wire.OpResponse != 0 {
		least = StateRTS
	}
	if s := q.State(); s < least || s == StateErr {
		return wire.DropQPState
	}
	if q.datagram {
		switch {
		case p.DETH().QKey() != q.attr.QKey:
			return wire.DropQKey
		case !e.isLocal(p.Frame.Dst()):
			return wire.DropAddress
		}
		return wire.DropNone
	}
	if q.away || !p.Frame.From(&q.path.Dst) || !p.Frame.To(&q.path.Src) {
		return wire.DropAddress
	}
	return wire.DropNone
}

// cnp lets a congestion notification from the peer slow q down.
func (e *Engine) cnp(q *QP, p *wire.Packet) wire.DropReason {
	switch {
	case q.datagram:
		return wire.DropQPType
	case q.State() < StateRTR || q.State() == StateErr:
		return wire.DropQPState
	case q.away || !p.Frame.From(&q.path.Dst) || !p.Frame.To(&q.path.Src):
		return wire.DropAddress
	case !wire.Verify(p.Frame):
		return wire.DropICRC
	}
	e.stats.RcvdCNP++
	q.rate.cut(e.now, q.rec.srtt, &e.cc)
	if e.recorder != nil {
		e.recorder.add(Record{At: e.now, Kind: RecordSlowed, QPN: q.qpn, Value: uint64(q.rate.current)})
	}
	return wire.DropNone
}

// HandlePosted looks at the queue pairs whose doorbells rang.
func (e *Engine) HandlePosted(now Time) {
	e.now = now
	for q := e.bells.take(); q != nil; {
		next := q.rungNext
		q.rungNext = nil
		q.rung.Store(false) // before the ring is read: a later post rings again
		e.Posted(q)
		q = next
	}
}

// Posted looks at one queue pair that was posted to. It is for a caller that posts while it drives
// the engine, and so needs no doorbell.
func (e *Engine) Posted(q *QP) {
	e.touch(q)
	switch q.State() {
	case StateRTS, StateSQD:
		e.schedule(q, dueRequest)
	case StateSQE:
		e.flushSends(q)
	case StateErr:
		e.flushSends(q)
		e.flushRecvs(q)
	}
}

// Ring tells the lane that q was posted to. Any goroutine may call it; it never blocks.
func (e *Engine) Ring(q *QP) { e.bells.ring(q) }

// DoorbellPending says whether a doorbell has rung that HandlePosted has not seen. Any goroutine
// may call it. A lane that goes to sleep first announces that, and then asks.
func (e *Engine) DoorbellPending() bool { return e.bells.pending() }

// HandleTimeout handles the deadlines that have come. To call it too early or too often is
// harmless.
func (e *Engine) HandleTimeout(now Time) {
	e.now = now
	for q := e.timers.expired(now); q != nil; q = e.timers.expired(now) {
		e.timeout(q)
	}
	if e.tellAt <= now {
		e.tellHeld()
	}
}

// PollTimeout returns when HandleTimeout must be called next, at the latest; Never if nothing
// waits.
func (e *Engine) PollTimeout() Time { return min(e.timers.next(), e.tellAt) }

// NextTimeout is PollTimeout without the deadlines that no longer exist, for a caller that is about
// to sleep and does not want to wake up in vain. It costs a little more.
func (e *Engine) NextTimeout() Time {
	e.timers.settle()
	return e.PollTimeout()
}

// complete stages a completion.
func (e *Engine) complete(c *CQ, wc *WC, solicited bool) {
	if wc.Status != WCSuccess && wc.Opcode >= WCRecv {
		e.stats.RecvErrors++
	}
	if e.recorder != nil {
		e.recorder.add(Record{
			At:     e.now,
			Kind:   RecordCompletion,
			QPN:    wc.QPN,
			Op:     uint8(wc.Opcode),
			Value:  wc.WRID,
			Length: uint32(wc.Status),
		})
	}
	if !c.push(wc, solicited) {
		if !c.overrun.Swap(true) {
			e.raise(Event{Type: EventCQErr, CQ: c})
		}
		e.failUsers(c)
		if q := e.qps.find(wc.QPN); q != nil {
			q.lost = true
		}
		e.stats.Drops[wire.DropCQFull]++
	}
	e.list(c)
}

// list has Publish look at a queue.
func (e *Engine) list(c *CQ) {
	if !c.listed {
		c.listed = true
		e.freshCQs = append(e.freshCQs, c)
	}
}

// failUsers has Publish fail the queue pairs that complete in c. It is asked for with each
// completion that is lost: one that was in RESET at the first, or did not exist yet, fails with
// its own. So does one of XRC that completes elsewhere since.
func (e *Engine) failUsers(c *CQ) {
	if !slices.Contains(e.overrunCQs, c) {
		e.overrunCQs = append(e.overrunCQs, c)
	}
}

// Publish shows applications the completions staged since the last call. The queue pairs of an
// overrun queue fail here, because their completions cannot be reported any more (class G of
// section 6.3).
func (e *Engine) Publish() {
	for len(e.overrunCQs) > 0 {
		c := e.overrunCQs[len(e.overrunCQs)-1]
		e.overrunCQs = e.overrunCQs[:len(e.overrunCQs)-1]
		e.qps.each(func(q *QP) {
			if (q.sendCQ == c || q.recvCQ == c || q.lost) && q.State() != StateErr && q.State() != StateReset {
				e.fail(q)
				e.raise(Event{Type: EventQPFatal, QP: q})
			}
			q.lost = false
		})
	}
	for _, c := range e.freshCQs {
		c.listed = false
		switch {
		case c.publish(e.now):
			e.notifyCQs = append(e.notifyCQs, c)
		case c.held > 0:
			e.hold(c)
		}
	}
	e.freshCQs = e.freshCQs[:0]
}

// PollNotify returns a completion queue that was armed and has got a completion since. Ask after
// Publish, until it returns false.
func (e *Engine) PollNotify() (*CQ, bool) {
	n := len(e.notifyCQs)
	if n == 0 {
		return nil, false
	}
	c := e.notifyCQs[n-1]
	e.notifyCQs = e.notifyCQs[:n-1]
	return c, true
}

// Notifies tells whether PollNotify has a queue to return.
func (e *Engine) Notifies() bool { return len(e.notifyCQs) > 0 }

func (e *Engine) raise(ev Event) { e.events = append(e.events, ev) }

// PollEvent returns the oldest asynchronous event. Ask until it returns false.
func (e *Engine) PollEvent() (Event, bool) {
	if len(e.events) == 0 {
		return Event{}, false
	}
	ev := e.events[e.polled]
	if e.polled++; e.polled == len(e.events) {
		clear(e.events) // what they refer to
		e.events, e.polled = e.events[:0], 0
	}
	return ev, true
}

// Stats returns the counters.
func (e *Engine) Stats() Stats { return e.stats }
