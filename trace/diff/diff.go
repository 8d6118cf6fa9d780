package diff

// What is kept of packets, and what is found out about them. Stages: packets by their way → pairs
// of ways → who is where, and the clocks → each packet's counterpart → what has none, or came in
// another order.

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// MaxPackets is how many packets of one capture are compared.
const MaxPackets = 1 << 22

// way is who sends to whom.
type way struct{ src, dst wire.GID }

// key is what a packet has at both ends.
type key struct {
	way  int32
	qp   uint32
	psn  wire.PSN
	icrc uint32
	op   wire.Opcode
}

// sighting is a packet in one of the captures.
type sighting struct {
	key
	time   int64
	number int32
	as     trace.Direction
	marked bool // by a switch
	bad    bool // its ICRC is wrong
}

// Diff is two captures. It is not for concurrent use.
type Diff struct {
	ways  []way
	index map[way]int32
	seen  [2][]sighting
	cut   bool // ICRCs are cut off: packets are known without them
}

// New begins a comparison.
func New() *Diff { return &Diff{index: map[way]int32{}} }

// Add takes the next packet of a capture, 0 or 1.
func (d *Diff) Add(capture int, p *trace.Packet) error {
	if !p.Parsed {
		return nil
	}
	if len(d.seen[capture]) == MaxPackets {
		return fmt.Errorf("diff: more than %d packets of RoCE: a filter chooses fewer", MaxPackets)
	}
	src, dst := p.GIDs()
	w, ok := d.index[way{src, dst}]
	if !ok {
		w = int32(len(d.ways))
		d.ways = append(d.ways, way{src, dst})
		d.index[way{src, dst}] = w
	}
	d.cut = d.cut || p.Cut > 0
	d.seen[capture] = append(d.seen[capture], sighting{
		key:    key{w, p.Wire.BTH.DestQP(), p.Wire.BTH.PSN(), p.Wire.ICRC(), p.Wire.Opcode},
		time:   p.Time,
		number: int32(p.Number),
		as:     p.Direction,
		marked: p.Kind == trace.RoCEv2 && p.Frame.ECN() == wire.ECNCongestion,
		bad:    p.ICRC == trace.ICRCWrong,
	})
	return nil
}

// Result is what was found out. Captures are A and B.
type Result struct {
	Packets [2]int `json:"packets"`
	Same    bool   `json:"same"` // both have the same packets at the same times
	Pairs   []Pair `json:"pairs"`
}

// Pair is two addresses that talk to each other.
type Pair struct {
	Addresses [2]string `json:"addresses"` // A was captured at the first, B at the second
	Known     string    `json:"known"`     // how it was found out which was captured where
	Guess     bool      `json:"guess"`     // it was not
	Clock     *Clock    `json:"clock"`     // nil: there are packets of one way only
	Ways      []Way     `json:"ways"`
}

// Clock is what the two ways say of the clocks. Delays are right up to a constant: the fastest
// packets of both ways are taken to be as fast as each other. If they are not, all delays of one
// way are too long by the same time, at most RoundTrip/2, and those of the other too short by as
// much.
type Clock struct {
	Offset    int64   `json:"offset_ns"`     // how far B's is ahead of A's
	RoundTrip int64   `json:"round_trip_ns"` // the fastest there and the fastest back
	Drift     float64 `json:"drift_ppm"`     // how fast B's gains on A's, taken out; 0: none seen
	Guess     bool    `json:"guess"`         // there is a drift: Offset is that of one moment
	Unsteady  bool    `json:"unsteady"`      // and it is no line: nothing is known of delays
}

// Way is what went from one address to the other.
type Way struct {
	From     string  `json:"from"`
	To       string  `json:"to"`
	Sent     int     `json:"sent"`    // in the sender's capture
	Arrived  int     `json:"arrived"` // of these, in the receiver's
	Guess    bool    `json:"guess"`   // alike packets are so close that another could be missing
	Outside  int     `json:"outside"` // of these, before or behind all that the other capture has
	Lost     []Event `json:"lost"`
	Twice    []Event `json:"twice"`
	Overtook []Event `json:"overtaken"`
	Marked   []Event `json:"marked"`
	Damaged  []Event `json:"damaged"`
	Strange  []Event `json:"only_at_receiver"` // the sender's capture does not have them
	Delay    *Delay  `json:"delay_ns"`         // nil: nothing arrived, or clocks are unsteady
}

// Delay is how long packets took. Without a Clock they are counted from the fastest.
type Delay struct {
	Min    int64 `json:"min"`
	Median int64 `json:"median"`
	P99    int64 `json:"p99"`
	Max    int64 `json:"max"`
}

// Event is something that happened to a packet between the two captures. A number is 0 if the
// packet is not in that capture.
type Event struct {
	Sent    int    `json:"sent_packet"`
	Arrived int    `json:"arrived_packet"`
	By      int    `json:"by_packet,omitempty"` // that has overtaken it, or came before it
	What    string `json:"what"`
}

// event is an Event of a packet that was sent, or has arrived, or both.
func event(sent, arrived *sighting) Event {
	var e Event
	x := arrived
	if arrived != nil {
		e.Arrived = int(arrived.number)
	}
	if sent != nil {
		e.Sent, x = int(sent.number), sent
	}
	e.What = fmt.Sprintf("%v qp 0x%06x psn %v", x.op, x.qp, x.psn)
	return e
}

// Compare compares what was added.
func (d *Diff) Compare() *Result {
	r := &Result{Packets: [2]int{len(d.seen[0]), len(d.seen[1])}, Pairs: []Pair{}}
	if d.cut {
		for _, all := range d.seen {
			for i := range all {
				all[i].icrc = 0
			}
		}
	}
	r.Same = len(d.seen[0]) > 0 && slices.Equal(d.seen[0], d.seen[1])
	seen, span := d.gather(), d.span()
	for i, w := range d.ways {
		back, both := d.index[way{w.dst, w.src}]
		if both && int(back) < i {
			continue
		}
		p := pairing{there: seen[i], name: w}
		if both && w.src != w.dst {
			p.back = seen[back]
		}
		if len(p.there[0]) == 0 && len(p.back[0]) == 0 || len(p.there[1]) == 0 && len(p.back[1]) == 0 {
			continue // only one capture has it
		}
		r.Pairs = append(r.Pairs, p.compare(span))
	}
	return r
}

// gather returns the packets of each way in both captures, in their order.
func (d *Diff) gather() [][2][]*sighting {
	all := make([][2][]*sighting, len(d.ways))
	for c := range d.seen {
		for i := range d.seen[c] {
			s := &d.seen[c][i]
			all[s.way][c] = append(all[s.way][c], s)
		}
	}
	return all
}

// span is the first and the last time of each capture.
func (d *Diff) span() (all [2][2]int64) {
	for c := range d.seen {
		for i := range d.seen[c] {
			t := d.seen[c][i].time
			if i == 0 {
				all[c] = [2]int64{t, t}
			}
			all[c][0], all[c][1] = min(all[c][0], t), max(all[c][1], t)
		}
	}
	return all
}
