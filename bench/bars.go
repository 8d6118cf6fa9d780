package main

// The bars: what goroce must reach, each as a ratio to something measured in the same run, or as a plain limit.

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Bar is one demand.
type Bar struct {
	What    string
	Ours    string   // the case that must reach it
	Against []string // the best of these is 1; none: Factor is the limit itself
	Rule    Rule
	Factor  float64
}

// Rule is the way of a bar.
type Rule string

const (
	atLeast Rule = "≥"
	atMost  Rule = "≤"
)

// Verdict is a bar with what was found.
type Verdict struct {
	What   string  `json:"what"`
	Demand string  `json:"demand"`
	Ours   float64 `json:"ours"`
	Theirs float64 `json:"theirs,omitempty"`
	Ratio  float64 `json:"ratio"`          // of the medians, or the figure itself
	Low    float64 `json:"ratio_min"`      // over the rounds
	High   float64 `json:"ratio_max"`      //
	State  string  `json:"state"`          // "pass", "fail", "not measured"
	Note   string  `json:"note,omitempty"` // why it was not measured
}

// bars that hold on each port, with %s for the port.
var portBars = []Bar{
	{"RC WRITE 64 KiB against the raw path with copy and CRC", "ours/%s/write-bw/64K", []string{"raw/%s-stream-work"}, atLeast, 0.80},
	{"RC WRITE 64 KiB against iperf3 TCP, the better of -l 128K and -l 1M", "ours/%s/write-bw/64K", []string{"iperf3/tcp/128K", "iperf3/tcp/1M"}, atLeast, 1.05},
	{"RC WRITE 64 KiB against UCX put over tcp", "ours/%s/write-bw/64K", []string{"ucx/put-bw/64K"}, atLeast, 3},
	{"RC WRITE 64 KiB against UCX tag over tcp", "ours/%s/write-bw/64K", []string{"ucx/tag-bw/64K"}, atLeast, 1.8},
	{"RC READ 64 KiB against our WRITE", "ours/%s/read-bw/64K", []string{"ours/%s/write-bw/64K"}, atLeast, 0.9},
	{"RC SEND 64 KiB against our WRITE", "ours/%s/send-bw/64K", []string{"ours/%s/write-bw/64K"}, atLeast, 0.9},
	{"RC WRITE 8 B latency, polling, against the raw path's spinning ping-pong", "ours/%s/write-lat/8", []string{"raw/%s-pingpong"}, atMost, 1.3},
	{"RC WRITE 64 KiB one at a time against fi_pingpong msg 64 KiB", "ours/%s/write-lat/64K", []string{"fi_pingpong/msg/64K"}, atMost, 1},
	{"SEND 8 B latency, event-driven, against blocking UDP sockets", "ours/%s/send-lat-events/8", []string{"raw/udp-blocking"}, atMost, 1.15},
	{"RC WRITE 8 B message rate against UCX put over tcp", "ours/%s/write-rate/8", []string{"ucx/put-bw/8"}, atLeast, 10},
	{"UD SEND 8 B message rate against UCX put over tcp", "ours/%s/ud-rate/8", []string{"ucx/put-bw/8"}, atLeast, 10},
}

// bars of one port alone.
var onePortBars = map[string][]Bar{"udp": {
	{"RC WRITE 8 B latency against UCX put over tcp", "ours/udp/write-lat/8", []string{"ucx/put-lat/8"}, atMost, 0.5},
	{"RC WRITE 8 B latency against fi_pingpong msg", "ours/udp/write-lat/8", []string{"fi_pingpong/msg/64"}, atMost, 1},
	{"RC WRITE 8 B message rate against the raw path with copy and CRC", "ours/udp/write-rate/8", []string{"raw/udp-small-work"}, atLeast, 0.45},
	{"UD SEND 8 B message rate against the raw path with copy and CRC", "ours/udp/ud-rate/8", []string{"raw/udp-small-work"}, atLeast, 0.45},
}, "packet": {
	{"RC WRITE 8 B latency against UCX put over tcp", "ours/packet/write-lat/8", []string{"ucx/put-lat/8"}, atMost, 1.0 / 5},
	{"RC WRITE 8 B latency against fi_pingpong msg", "ours/packet/write-lat/8", []string{"fi_pingpong/msg/64"}, atMost, 1.0 / 3},
}}

// bars inside the guest, beside rxe.
var guestBars = []Bar{
	{"beside rxe: RC WRITE 64 KiB", "guest/ours/%s/write-bw/64K", []string{"guest/rxe/write-bw/64K"}, atLeast, 3},
	{"beside rxe: RC WRITE 8 B latency", "guest/ours/%s/write-lat/8", []string{"guest/rxe/write-lat/8"}, atMost, 0.5},
	{"beside rxe: RC WRITE 8 B message rate", "guest/ours/%s/write-rate/8", []string{"guest/rxe/write-rate/8"}, atLeast, 5},
	{"beside rxe: RC WRITE 64 KiB, 100 us round trip, 0.1 % loss", "guest/ours/%s/loss-0.1%%/64K", []string{"guest/rxe/loss-0.1%%/64K"}, atLeast, 3},
	{"beside rxe: RC WRITE 64 KiB, 100 us round trip, 1 % loss", "guest/ours/%s/loss-1%%/64K", []string{"guest/rxe/loss-1%%/64K"}, atLeast, 3},
}

// bars of what only shows from inside a process.
var insideBars = []Bar{
	{"cost of a message with 10,000 connected QPs against 1", "inside/scale/10000", []string{"inside/scale/1"}, atMost, 1.3},
	{"messages of two lanes on two processors against one lane", "inside/lanes/2", []string{"inside/lanes/1"}, atLeast, 1.6},
	{"memory of an idle QP beyond its queues", "inside/memory", nil, atMost, 8192},
	{"registering 1 GiB", "inside/register", nil, atMost, 1000},
	{"registering 1 GiB, pinned, against mlock alone", "inside/pinned", []string{"inside/mlock"}, atMost, 1.2},
	{"an idle device", "inside/idle", nil, atMost, 1},
	{"allocations on the hot path", "inside/allocs", nil, atMost, 0},
}

// bars of two flows through one bottleneck. The queue may not be longer than twice the length from which everything is marked:
// it goes beyond that while marks are on their way.
var fairBars = []Bar{
	{"two flows through one marked bottleneck, the smaller to the larger", "fair/%s/ratio", nil, atLeast, 0.9},
	{"two flows through one marked bottleneck, packets lost once converged", "fair/%s/drops", nil, atMost, 0},
	{"two flows through one marked bottleneck, longest queue once converged", "fair/%s/backlog", nil, atMost, 2 * fairMarkAll >> 10},
}

// ports that goroce has; xdp is measured where it can be and has no bar of its own.
var (
	allPorts    = []string{"udp", "packet", "xdp"}
	barredPorts = []string{"udp", "packet"}
)

func allBars() (bars []Bar) {
	for _, port := range barredPorts {
		bars = append(bars, onPort(slices.Concat(portBars, onePortBars[port], fairBars), port)...)
	}
	bars = append(bars, insideBars...)
	for _, port := range barredPorts {
		bars = append(bars, onPort(guestBars, port)...)
	}
	return bars
}

// onPort fills a port in; bars of several ports say which one they are about.
func onPort(bars []Bar, port string) (filled []Bar) {
	fill := func(name string) string {
		if strings.Contains(name, "%") {
			name = strings.NewReplacer("%s", port, "%%", "%").Replace(name)
		}
		return name
	}
	for _, b := range bars {
		b.What, b.Ours = port+": "+b.What, fill(b.Ours)
		against := make([]string, len(b.Against))
		for i := range against {
			against[i] = fill(b.Against[i])
		}
		b.Against = against
		filled = append(filled, b)
	}
	return filled
}

// judge holds the results against the bars.
func (r *Results) judge(bars []Bar) {
	r.Verdicts = nil
	for i := range bars {
		r.Verdicts = append(r.Verdicts, bars[i].judge(r))
	}
}

func (b *Bar) judge(r *Results) Verdict {
	v := Verdict{What: b.What, Demand: fmt.Sprintf("%s %s", b.Rule, number(b.Factor)), State: "not measured"}
	ours := r.figure(b.Ours)
	if !ours.measured() {
		v.Note = b.Ours + ": " + why(ours)
		return v
	}
	v.Ours = ours.median()
	if len(b.Against) == 0 {
		v.Demand += " " + ours.Unit.Name
		v.Ratio = v.Ours
		v.Low, v.High = ours.spread()
	} else {
		theirs := best(r, b.Against)
		if theirs == nil {
			v.Note = b.Against[0] + ": " + why(r.figure(b.Against[0]))
			return v
		}
		v.Demand += " × " + theirs.Case
		v.Theirs = theirs.median()
		v.Ratio = v.Ours / v.Theirs
		v.Low, v.High = ratioSpread(ours, theirs)
	}
	v.State = "fail"
	if b.Rule == atLeast && v.Ratio >= b.Factor || b.Rule == atMost && v.Ratio <= b.Factor {
		v.State = "pass"
	}
	return v
}

// extremes are the cases of ours on this machine that do best and worst by their bars.
func (r *Results) extremes(bars []Bar) (best, worst string) {
	most, least := 0.0, math.Inf(1)
	for i := range bars {
		b := &bars[i]
		v := b.judge(r)
		if v.State == "not measured" || len(b.Against) == 0 || !strings.HasPrefix(b.Ours, "ours/") {
			continue
		}
		margin := v.Ratio / b.Factor
		if b.Rule == atMost {
			margin = 1 / margin
		}
		if margin > most {
			most, best = margin, b.Ours
		}
		if margin < least {
			least, worst = margin, b.Ours
		}
	}
	return best, worst
}

// best of several figures by their medians.
func best(r *Results, names []string) (best *Figure) {
	for _, name := range names {
		f := r.figure(name)
		if f.measured() && (best == nil || f.Unit.Lower == (f.median() < best.median())) {
			best = f
		}
	}
	return best
}

// ratioSpread is the range of the ratios within rounds.
func ratioSpread(ours, theirs *Figure) (low, high float64) {
	var ratios []float64
	for _, s := range ours.Samples {
		if t, ok := theirs.at(s.Round); ok && t > 0 {
			ratios = append(ratios, s.Value/t)
		}
	}
	if len(ratios) == 0 {
		return math.NaN(), math.NaN()
	}
	return slices.Min(ratios), slices.Max(ratios)
}

func why(f *Figure) string {
	switch {
	case f == nil:
		return "not played"
	case len(f.Errors) > 0:
		return f.Errors[0]
	}
	return "no samples"
}
