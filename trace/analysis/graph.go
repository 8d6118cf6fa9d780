package analysis

// A flow over time, for pictures: PSNs, what happened to them, throughput, and how long messages
// took. It is a summary that has a bound: a fixed number of bins, which become twice as wide
// whenever the capture goes on behind the last. A short capture has nearly each packet in a bin of
// its own.

import (
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// Bounds of what is drawn: bins of a graph, and flows that have one, the first ones.
const (
	maxBins   = 512
	maxGraphs = 128
)

// Mark is what can happen to a PSN.
type Mark uint8

// The marks.
const (
	MarkAgain      Mark = iota // it is sent again
	MarkNAK                    // the responder says that it is missing
	MarkRNR                    // the responder has no receive for it
	MarkRefused                // the responder refuses it
	MarkDamaged                // its ICRC is wrong
	MarkMissing                // it is not in the capture
	MarkCongestion             // a switch has marked it
	numMarks
)

// MarkNames are the marks as the JSON has them.
var MarkNames = [numMarks]string{"again", "nak", "rnr", "refused", "damaged", "missing", "congestion"}

// markOf is the mark of a NAK.
func markOf(s wire.Syndrome) Mark {
	switch {
	case s.Kind() == wire.KindRNR:
		return MarkRNR
	case s == wire.SynNAKSeq:
		return MarkNAK
	}
	return MarkRefused
}

// Graph is a flow over time. Positions are PSNs counted on beyond 2^24; Base is the PSN of 0.
type Graph struct {
	Width int64 // nanoseconds of a bin; the first begins with the capture
	Base  wire.PSN
	Bins  []Bin

	origin int64
	begun  bool
	top    int64 // position of psn
	psn    wire.PSN
}

// Bin is what happened in a time.
type Bin struct {
	Packets, Bytes uint64 // of payload
	First          int    // the number of its first packet
	Sent           Span   // what was sent for the first time
	Acked          Span   // what was acknowledged: High is the newest
	Marks          [numMarks]Span
	Done           uint64 // messages that began in it and are done
	Least, Most    int64  // how long these took, nanoseconds
	Slowest        int    // the packet that the slowest of them began with
}

// Span is some positions.
type Span struct {
	Count     uint64
	Low, High int64
	Packet    int // the first of its packets
}

func (s *Span) add(low, high int64, n uint64, packet int) {
	if s.Count == 0 {
		*s = Span{n, low, high, packet}
		return
	}
	s.Count += n
	s.Low, s.High = min(s.Low, low), max(s.High, high)
}

func (s *Span) merge(o Span) {
	if o.Count > 0 {
		s.add(o.Low, o.High, o.Count, o.Packet)
	}
}

func (b *Bin) merge(o *Bin) {
	if b.First == 0 {
		b.First = o.First
	}
	b.Packets, b.Bytes = b.Packets+o.Packets, b.Bytes+o.Bytes
	b.Sent.merge(o.Sent)
	b.Acked.merge(o.Acked)
	for m := range b.Marks {
		b.Marks[m].merge(o.Marks[m])
	}
	if o.Done > 0 {
		b.took(o.Done, o.Least, o.Most, o.Slowest)
	}
}

func (b *Bin) took(n uint64, least, most int64, packet int) {
	if b.Done == 0 || most > b.Most {
		b.Most, b.Slowest = most, packet
	}
	if b.Done == 0 || least < b.Least {
		b.Least = least
	}
	b.Done += n
}

// Draw has the analysis draw the first flows. It is called before the first packet.
func (a *Analysis) Draw() { a.graphs = maxGraphs }

// Graph returns what was drawn of the flow, nil if nothing was.
func (f *Flow) Graph() *Graph { return f.drawn }

// draws is the graph in which a packet's PSN belongs: a response has one of the other way's.
func (f *Flow) draws(p *trace.Packet) *Graph {
	if p.Wire.Op.Flags&wire.OpResponse == 0 {
		return f.drawn
	}
	if f.Peer != nil {
		return f.Peer.drawn
	}
	return nil
}

// bin returns the bin of a time.
func (g *Graph) bin(t int64) *Bin {
	for t = max(t-g.origin, 0); t/g.Width >= maxBins; g.Width *= 2 {
		n := (len(g.Bins) + 1) / 2
		for i := range g.Bins {
			if i%2 == 0 {
				g.Bins[i/2] = g.Bins[i]
			} else {
				g.Bins[i/2].merge(&g.Bins[i])
			}
		}
		clear(g.Bins[n:])
		g.Bins = g.Bins[:n]
	}
	for int64(len(g.Bins)) <= t/g.Width {
		g.Bins = append(g.Bins, Bin{})
	}
	return &g.Bins[t/g.Width]
}

func (g *Graph) count(t int64, bytes, packet int) {
	if g == nil {
		return
	}
	b := g.bin(t)
	if b.First == 0 {
		b.First = packet
	}
	b.Packets++
	b.Bytes += uint64(bytes)
}

// position is that of a PSN, near the newest.
func (g *Graph) position(psn wire.PSN) int64 {
	if !g.begun {
		g.begun, g.Base, g.psn = true, psn, psn
	}
	return g.top + int64(psn.Sub(g.psn))
}

func (g *Graph) sent(t int64, psn wire.PSN, packet int) {
	if g == nil {
		return
	}
	g.top = g.position(psn)
	g.psn = psn
	g.bin(t).Sent.add(g.top, g.top, 1, packet)
}

func (g *Graph) acked(t int64, psn wire.PSN) {
	if g == nil {
		return
	}
	at := g.position(psn)
	g.bin(t).Acked.add(at, at, 1, 0)
}

func (g *Graph) mark(m Mark, t int64, psn wire.PSN, n uint32, packet int) {
	if g == nil || n == 0 {
		return
	}
	at := g.position(psn)
	g.bin(t).Marks[m].add(at, at+int64(n)-1, uint64(n), packet)
}

func (g *Graph) message(t, took int64, packet int) {
	if g == nil {
		return
	}
	g.bin(t).took(1, took, took, packet)
}
