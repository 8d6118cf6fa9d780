package perf

// What a run prints of its results: perftest's lines and columns, or with --json one object at the end.

import (
	"encoding/json"
	"fmt"
	"io"
)

// report collects what --json prints.
type report struct {
	json    bool
	Test    string   `json:"test"`
	Tool    string   `json:"perftest"`
	Role    string   `json:"role"`
	Device  string   `json:"device"`
	Peer    string   `json:"peer"`
	Type    string   `json:"connection"`
	MTU     int      `json:"mtu"`
	QPs     int      `json:"qps"`
	TxDepth int      `json:"tx_depth"`
	Results []any    `json:"results"`
	Notes   []string `json:"notes,omitempty"`
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
}

type latResult struct {
	Size    int                `json:"bytes"`
	Iters   int                `json:"iterations"`
	Min     float64            `json:"t_min_usec"`
	Max     float64            `json:"t_max_usec"`
	Typical float64            `json:"t_typical_usec"`
	Avg     float64            `json:"t_avg_usec"`
	StdDev  float64            `json:"t_stdev_usec"`
	Percent map[string]float64 `json:"percentiles_usec"`
}

// header prints the names of the columns; ends that only answer have none.
func (r *rig) header() {
	if r.o.JSON {
		return
	}
	io.WriteString(r.out, ruler)
	unit := "MB"
	if r.o.Gbits {
		unit = "Gb"
	}
	switch {
	case !r.t.Lat:
		fmt.Fprintf(r.out, " #bytes     #iterations    BW peak[%s/sec]    BW average[%s/sec]   MsgRate[Mpps]\n", unit, unit)
	case r.t.respOp && !r.link.client:
	case r.o.Duration > 0:
		io.WriteString(r.out, " #bytes        #iterations       t_avg[usec]    tps average\n")
	default:
		io.WriteString(r.out, " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n")
	}
}

// bandwidth prints a line of a bandwidth test.
func (r *rig) bandwidth(f figures) {
	if r.o.JSON {
		r.report.Results = append(r.report.Results, bwResult{f.Size, f.Iters, f.Peak, f.Avg,
			map[bool]string{false: "MiB/s", true: "Gb/s"}[r.o.Gbits], f.Rate})
		return
	}
	io.WriteString(r.out, f.line(r.o.Gbits))
}

func (f figures) line(gbits bool) string {
	if gbits && f.Avg < 0.1 {
		return fmt.Sprintf(" %-7d    %d           %-7.6f            %-7.6f            %-7.6f\n", f.Size, f.Iters, f.Peak, f.Avg, f.Rate)
	}
	return fmt.Sprintf(" %-7d    %-10d       %-7.2f            %-7.2f\t\t   %-7.6f\n", f.Size, f.Iters, f.Peak, f.Avg, f.Rate)
}

// percentiles that --json prints.
var percentiles = []float64{50, 90, 99, 99.9, 99.99}

// latency prints a line of a latency test.
func (r *rig) latency(t tally) {
	if !r.o.JSON {
		io.WriteString(r.out, t.line(r.o.Duration > 0))
		return
	}
	l := t.result()
	for _, p := range percentiles {
		l.Percent[fmt.Sprint(p)] = t.usec(t.times.ValueAtPercentile(p))
	}
	r.report.Results = append(r.report.Results, l)
}

// usec turns a recorded time into that of one message.
func (t *tally) usec(ns int64) float64 { return float64(ns) / float64(t.half) / 1e3 }

func (t *tally) result() latResult {
	h := t.times
	return latResult{Size: t.size, Iters: t.iters, Min: t.usec(h.Min()), Max: t.usec(h.Max()), Typical: t.usec(h.ValueAtPercentile(50)),
		Avg: h.Mean() / float64(t.half) / 1e3, StdDev: h.StdDev() / float64(t.half) / 1e3, Percent: map[string]float64{}}
}

func (t *tally) line(timed bool) string {
	if timed {
		n := float64(max(t.iters, 1))
		return fmt.Sprintf(" %-7d       %d            %-7.2f        %-7.2f\n", t.size, t.iters,
			float64(t.elapsed.Microseconds())/float64(t.half)/n, n/t.elapsed.Seconds())
	}
	l := t.result()
	return fmt.Sprintf(" %-7d %d          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     \t%-7.2f\t\t%-7.2f \t\t%-7.2f\n",
		l.Size, l.Iters, l.Min, l.Max, l.Typical, l.Avg, l.StdDev, t.usec(t.times.ValueAtPercentile(99)), t.usec(t.times.ValueAtPercentile(99.9)))
}

// footer ends the results.
func (r *rig) footer() {
	if r.o.JSON {
		r.printJSON()
		return
	}
	io.WriteString(r.out, ruler)
	for _, w := range r.warn {
		fmt.Fprintln(r.out, " "+w)
	}
}

func (r *rig) printJSON() {
	p := &r.report
	p.Test, p.Tool, p.Type = r.t.Name, r.t.Tool, r.o.Type.String()
	p.Role = map[bool]string{false: "server", true: "client"}[r.link.client]
	p.Device, p.Peer = r.s.Name(), r.queues[0].peer.GID.String()
	p.MTU, p.QPs, p.TxDepth, p.Notes = r.mtu.Bytes(), r.o.QPs, r.o.TxDepth, r.warn
	p.Counters = r.s.Counters()
	if p.Results == nil {
		p.Results = []any{}
	}
	e := json.NewEncoder(r.out)
	e.SetIndent("", "  ")
	e.Encode(p)
}
