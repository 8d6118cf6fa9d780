package page

// The whole of a capture in a summary that has a bound, however long the capture is: the report of
// the analysis, flows over time, and which packets are problems.

import (
	"cmp"
	"slices"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/analysis"
	"github.com/goroce/goroce/trace/timeline"
)

// Bounds of what a page gets.
const (
	maxConnections = 300
	maxFound       = 3000  // findings of all of them
	maxProblems    = 20000 // numbers of packets
	fileGraphs     = 8     // graphs in a page that is one file
)

// Study is a whole capture. It is not for concurrent use.
type Study struct {
	a        *analysis.Analysis
	problems []int
	dropped  bool // there are more problems
}

// NewStudy begins a summary.
func NewStudy() *Study {
	s := &Study{a: analysis.New()}
	s.a.Draw()
	return s
}

// Add takes the next packet of the capture.
func (s *Study) Add(p *trace.Packet) {
	remark := s.a.Add(p)
	bad := p.Kind != trace.Other && (!p.Parsed || p.ICRC == trace.ICRCWrong) ||
		remark.Finding != nil && remark.Finding.Weight > analysis.Noted
	switch n := len(s.problems); {
	case !bad || n > 0 && s.problems[n-1] == p.Number:
	case n == maxProblems:
		s.dropped = true
	default:
		s.problems = append(s.problems, p.Number)
	}
}

// Told takes what a device has recorded beside the packets.
func (s *Study) Told(x *timeline.Entry) { s.a.Told(x) }

// verdict is what the page shows beside the ladder.
type verdict struct {
	*analysis.Report
	More     int            `json:"more_connections,omitempty"`
	Problems []int          `json:"problems"`
	Dropped  bool           `json:"more_problems,omitempty"`
	Graphs   map[int]*graph `json:"graphs,omitempty"` // by flow, of a page that is one file
}

// verdict returns the report, the worst connections first, within its bounds.
func (s *Study) verdict() *verdict {
	v := &verdict{Report: s.a.Report(), Problems: s.problems, Dropped: s.dropped}
	if v.Problems == nil {
		v.Problems = []int{}
	}
	slices.SortStableFunc(v.Connections, func(a, b analysis.Connection) int {
		return cmp.Compare(badness(&b),
			badness(&a))
	})
	if n := len(v.Connections); n > maxConnections {
		v.More, v.Connections = n-maxConnections, v.Connections[:maxConnections]
	}
	v.Datagrams = v.Datagrams[:min(len(v.Datagrams), maxConnections)]
	room := maxFound
	for i := range v.Connections {
		for k := range v.Connections[i].Ways {
			w := &v.Connections[i].Ways[k]
			n := min(len(w.Findings), room)
			w.More += len(w.Findings) - n
			w.Findings = w.Findings[:n]
			room -= n
		}
	}
	return v
}

// weights are how bad a finding is.
var weights = map[string]int{"failed": 1000, "wrong": 100, "loss": 10, "retry": 1}

func badness(c *analysis.Connection) (n int) {
	for i := range c.Ways {
		for k := range c.Ways[i].Findings {
			n += weights[c.Ways[i].Findings[k].Weight]
		}
		n += c.Ways[i].More
	}
	return n
}

// withGraphs adds the graphs of the first connections.
func (v *verdict) withGraphs(s *Study) *verdict {
	v.Graphs = map[int]*graph{}
	for i := range v.Connections {
		for k := range v.Connections[i].Ways {
			w := &v.Connections[i].Ways[k]
			if g := s.graph(w.Number); g != nil && len(v.Graphs) < fileGraphs {
				v.Graphs[w.Number] = g
			} else {
				w.HasGraphs = false
			}
		}
	}
	return v
}

// graph is a flow over time as the page draws it.
type graph struct {
	Width int64 `json:"width"` // nanoseconds of a bin
	Base  int   `json:"base"`  // the PSN at position 0
	Bins  []bin `json:"bins"`  // those in which something happened
}

// bin is what happened in a time. Spans are [count, low, high, packet].
type bin struct {
	I     int                 `json:"i"`
	N     uint64              `json:"n,omitempty"`
	Bytes uint64              `json:"b,omitempty"`
	First int                 `json:"p,omitempty"`
	Sent  *[4]int64           `json:"s,omitempty"`
	Acked *int64              `json:"a,omitempty"`
	Done  *[4]int64           `json:"d,omitempty"` // [count, least, most, packet]
	Marks map[string][4]int64 `json:"m,omitempty"`
}

// graph returns a flow's graph, nil if it has none.
func (s *Study) graph(flow int) *graph {
	if flow < 0 || flow >= len(s.a.Flows) || s.a.Flows[flow].Graph() == nil {
		return nil
	}
	from := s.a.Flows[flow].Graph()
	g := &graph{Width: from.Width, Base: int(from.Base), Bins: []bin{}}
	span := func(x analysis.Span) [4]int64 { return [4]int64{int64(x.Count), x.Low, x.High, int64(x.Packet)} }
	for i := range from.Bins {
		b := &from.Bins[i]
		x := bin{I: i, N: b.Packets, Bytes: b.Bytes, First: b.First}
		if b.Sent.Count > 0 {
			sent := span(b.Sent)
			x.Sent = &sent
		}
		if b.Acked.Count > 0 {
			x.Acked = &b.Acked.High
		}
		if b.Done > 0 {
			x.Done = &[4]int64{int64(b.Done), b.Least, b.Most, int64(b.Slowest)}
		}
		for m, name := range analysis.MarkNames {
			if b.Marks[m].Count > 0 {
				if x.Marks == nil {
					x.Marks = map[string][4]int64{}
				}
				x.Marks[name] = span(b.Marks[m])
			}
		}
		if x.N > 0 || x.Sent != nil || x.Acked != nil || x.Done != nil || x.Marks != nil {
			g.Bins = append(g.Bins, x)
		}
	}
	return g
}
