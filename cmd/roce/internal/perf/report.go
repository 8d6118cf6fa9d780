package perf

// What a run prints of its results: perftest's lines and columns, or with --json one object at the
// end (docs/measuring.md has its fields).

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/goroce/goroce/roce"
)

// report is what --json prints.
type report struct {
	Test     string   `json:"test"`
	Tool     string   `json:"perftest"`
	Role     string   `json:"role"`
	Device   string   `json:"device"`
	Peer     string   `json:"peer"`
	Type     string   `json:"connection"`
	MTU      int      `json:"mtu"`
	QPs      int      `json:"qps"`
	TxDepth  int      `json:"tx_depth"`
	RxDepth  int      `json:"rx_depth,omitempty"`
	CQMod    int      `json:"cq_mod"`
	PostList int      `json:"post_list"`
	Inline   int      `json:"inline"`
	Bidi     bool     `json:"bidirectional"`
	Events   bool     `json:"events"`
	Repeat   string   `json:"repeat,omitempty"` // RC: "go-back-N" or "selective"
	Rate     string   `json:"rate_limit,omitempty"`
	Duration float64  `json:"duration_seconds,omitempty"`
	Gap      float64  `json:"gap_seconds,omitempty"`
	Results  any      `json:"results"`
	Notes    []string `json:"notes,omitempty"`
	// Costs are "client" and "server"; that of a foreign peer is not known.
	Costs map[string]*costResult `json:"cpu"`
	Paths []pathResult           `json:"paths,omitempty"` // with --verbose
	// Counters are the device's.
	Counters map[string]uint64 `json:"counters"`
}

type bwResult struct {
	Size  uint64  `json:"bytes"`
	Iters uint64  `json:"iterations"`
	Peak  float64 `json:"bw_peak"`
	Avg   float64 `json:"bw_average"`
	Unit  string  `json:"bw_unit"`
	Rate  float64 `json:"msg_rate_mpps"`
	Gbits float64 `json:"bw_gbps"`
	// Own and Peer are the two directions of a bidirectional test.
	Own  *float64    `json:"bw_own,omitempty"`
	Peer *float64    `json:"bw_peer,omitempty"`
	CPU  *costResult `json:"cpu,omitempty"`
}

type latResult struct {
	Size      int                `json:"bytes"`
	Iters     int                `json:"iterations"`
	Min       float64            `json:"t_min_usec"`
	Max       float64            `json:"t_max_usec"`
	Typical   float64            `json:"t_typical_usec"`
	Avg       float64            `json:"t_avg_usec"`
	StdDev    float64            `json:"t_stdev_usec"`
	Percent   map[string]float64 `json:"percentiles_usec"`
	TPS       float64            `json:"tps_average"`
	CPU       *costResult        `json:"cpu"`
	Histogram []bar              `json:"histogram,omitempty"`

	tally tally
}

// bar is a part of a histogram: so many messages took up to so long, which is longer than a part of
// all.
type bar struct {
	Upto    float64 `json:"usec"`
	Count   int64   `json:"count"`
	Percent float64 `json:"percentile"`
}

// say prints text for people; the live line makes room.
func (r *rig) say(text string) {
	if r.o.JSON {
		return
	}
	r.eye.clear()
	io.WriteString(r.out, text)
}

// unitName is the unit of bandwidths in the columns, as perftest has it, and in full.
func (o *Options) unitName() (column, full string) {
	if o.Gbits {
		return "Gb", "Gb/s"
	}
	return "MB", "MiB/s"
}

// header prints the names of the columns; ends that only answer have none.
func (r *rig) header() {
	text := ""
	switch {
	case !r.t.Lat:
		unit, _ := r.o.unitName()
		text = fmt.Sprintf(" #bytes     #iterations    BW peak[%s/sec]    BW average[%s/sec]   MsgRate[Mpps]",
			unit, unit)
	case r.t.respOp && !r.link.client:
		r.say(ruler)
		return
	case r.o.Duration > 0:
		text = " #bytes        #iterations       t_avg[usec]    tps average" + morePercentiles
	default:
		text = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   " +
			"99% percentile[usec]   99.9% percentile[usec] " + morePercentiles
	}
	if r.o.CPUUtil {
		text += costColumns
	}
	r.say(ruler + text + "\n")
}

// morePercentiles are our columns after perftest's.
const morePercentiles = "  90% percentile[usec]   99.99% percentile[usec]"

// row prints a line of results.
func (r *rig) row(line string, c *costResult) {
	if r.o.CPUUtil && c != nil {
		line = strings.TrimSuffix(line, "\n") + c.columns() + "\n"
	}
	r.say(line)
}

// bandwidth reports a line of a bandwidth test. The cost is this end's, if it took part.
func (r *rig) bandwidth(f figures) { r.bothBandwidths(f, nil, nil) }

func (r *rig) bothBandwidths(f figures, own, peer *float64) {
	_, unit := r.o.unitName()
	b := bwResult{Size: f.Size, Iters: f.Iters, Peak: f.Peak, Avg: f.Avg, Unit: unit, Rate: f.Rate,
		Gbits: f.Rate * float64(f.Size) * 8 / 1e3, Own: own, Peer: peer}
	if f.spent.Elapsed > 0 {
		b.CPU = f.spent.result()
	}
	r.bandwidths = append(r.bandwidths, b)
	r.row(f.line(r.o.Gbits), b.CPU)
}

func (f figures) line(gbits bool) string {
	if gbits && f.Avg < 0.1 {
		return fmt.Sprintf(" %-7d    %d           %-7.6f            %-7.6f            %-7.6f\n",
			f.Size, f.Iters, f.Peak, f.Avg, f.Rate)
	}
	return fmt.Sprintf(" %-7d    %-10d       %-7.2f            %-7.2f\t\t   %-7.6f\n",
		f.Size, f.Iters, f.Peak, f.Avg, f.Rate)
}

// percentiles that --json prints.
var percentiles = []float64{50, 90, 99, 99.9, 99.99}

// latency reports a line of a latency test.
func (r *rig) latency(t tally) {
	l := t.result()
	if r.o.Histogram {
		l.Histogram = t.bars()
	}
	r.latencies = append(r.latencies, l)
	r.row(l.line(r.o.Duration > 0), l.CPU)
	if r.o.Histogram {
		r.say(histogramText(l.Histogram))
	}
}

// usec turns a recorded time into that of one message.
func (t *tally) usec(ns int64) float64 { return float64(ns) / float64(t.each) / 1e3 }

func (t *tally) result() latResult {
	h, each := t.times, float64(t.each)
	l := latResult{Size: t.size, Iters: t.iters, Min: t.usec(h.Min()), Max: t.usec(h.Max()),
		Typical: t.usec(h.ValueAtPercentile(50)), Avg: h.Mean() / each / 1e3, StdDev: h.StdDev() / each / 1e3,
		Percent: map[string]float64{}, CPU: t.spent.result(), tally: *t}
	for _, p := range percentiles {
		l.Percent[fmt.Sprint(p)] = t.usec(h.ValueAtPercentile(p))
	}
	if t.spent.Elapsed > 0 {
		l.TPS = float64(t.iters) / t.spent.Elapsed.Seconds()
	}
	return l
}

// line is perftest's, and two columns of ours at its end.
func (l *latResult) line(timed bool) string {
	more := fmt.Sprintf(" \t\t%-7.2f \t\t%-7.2f\n", l.Percent["90"], l.Percent["99.99"])
	if timed {
		avg := float64(l.tally.spent.Elapsed.Microseconds()) / float64(l.tally.each) / float64(max(l.Iters, 1))
		if l.tally.gaps { // which are no part of an exchange
			avg = l.Avg
		}
		return fmt.Sprintf(" %-7d       %d            %-7.2f        %-7.2f", l.Size, l.Iters, avg, l.TPS) + more
	}
	return fmt.Sprintf(" %-7d %d          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     "+
		"\t%-7.2f\t\t%-7.2f \t\t%-7.2f",
		l.Size, l.Iters, l.Min, l.Max, l.Typical, l.Avg, l.StdDev, l.Percent["99"], l.Percent["99.9"]) + more
}

// bars are all parts of the histogram that hold messages.
func (t *tally) bars() (all []bar) {
	seen := int64(0)
	eachBar(t.times, func(upto, count int64) {
		seen += count
		all = append(all, bar{t.usec(upto), count, 100 * float64(seen) / float64(t.times.TotalCount())})
	})
	return all
}

func eachBar(h *hdrhistogram.Histogram, f func(upto, count int64)) {
	for _, b := range h.Distribution() {
		if b.Count > 0 {
			f(b.To, b.Count)
		}
	}
}

// histogramText is -H: each time with how often it was measured, and what part of all took no
// longer.
func histogramText(bars []bar) string {
	w := &strings.Builder{}
	w.WriteString(" #up to[usec]   #messages   #percentile\n")
	for _, b := range bars {
		fmt.Fprintf(w, " %-12.3f   %-9d   %.4f\n", b.Upto, b.Count, b.Percent)
	}
	return w.String()
}

// footer ends the results.
func (r *rig) footer(costs map[string]*costResult) {
	if r.o.JSON {
		e := json.NewEncoder(r.out)
		e.SetIndent("", "  ")
		e.Encode(r.report(costs))
		return
	}
	r.say(ruler)
	for _, who := range []string{"client", "server"} {
		if c := costs[who]; c != nil {
			r.say(c.line(who) + "\n")
		}
	}
	if n := r.s.Stats().Engine; n.Retransmitted > 0 {
		r.say(fmt.Sprintf(" Packets sent again : %d of %d (%s)\n", n.Retransmitted, n.SentPkts, r.repeat()))
	}
	if r.o.Verbose {
		r.sayPaths()
	}
	for _, w := range r.notes() {
		r.say(" " + w + "\n")
	}
}

// notes are what a person should know about the device and the results.
func (r *rig) notes() []string { return append(r.s.Notes(), r.warn...) }

// repeat is how losses are repaired; empty if they are not.
func (r *rig) repeat() string {
	switch {
	case r.o.Type != roce.RC:
		return ""
	case r.selective:
		return "selective"
	}
	return "go-back-N"
}

// role is the name of an end.
func role(client bool) string {
	if client {
		return "client"
	}
	return "server"
}

func (r *rig) report(costs map[string]*costResult) *report {
	p := &report{Test: r.t.Name, Tool: r.t.Tool, Role: role(r.link.client), Device: r.s.Name(),
		Peer: r.queues[0].peer.GID.String(), Type: r.o.Type.String(), MTU: r.mtu.Bytes(), QPs: r.o.QPs,
		TxDepth: r.o.TxDepth, CQMod: r.o.CQMod, PostList: r.o.PostList, Inline: r.o.Inline, Bidi: r.o.Bidi,
		Events: r.o.Events, Repeat: r.repeat(), Rate: r.o.Rate.String(), Duration: r.o.Duration.Seconds(),
		Gap: r.o.Gap.Seconds(), Notes: r.notes(), Costs: costs, Counters: r.s.Counters()}
	if r.t.sends() {
		p.RxDepth = r.o.RxDepth
	}
	if r.o.Verbose {
		p.Paths = r.paths()
	}
	if r.t.Lat {
		p.Results = append([]latResult{}, r.latencies...) // never null
	} else {
		p.Results = append([]bwResult{}, r.bandwidths...)
	}
	return p
}
