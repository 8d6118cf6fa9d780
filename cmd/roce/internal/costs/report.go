package costs

// What a run prints: a table for people, with --json one object instead, and pictures of the
// distributions side by side.

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/goroce/goroce/internal/plot"
)

// Report is what --json prints of a table.
type Report struct {
	Test    string   `json:"test"`
	Of      string   `json:"of"` // what a time is of
	Device  string   `json:"device"`
	Ends    string   `json:"ends"`
	Bytes   int      `json:"bytes"`
	Seconds float64  `json:"seconds_each"`
	Results []*Row   `json:"results"`
	Notes   []string `json:"notes,omitempty"`

	t *Table
	o *Options
}

// Row is a way and what it took; times are in microseconds.
type Row struct {
	way
	Messages uint64  `json:"messages"` // that arrived, both directions, warm-up included
	Lost     int     `json:"lost,omitempty"`
	Min      float64 `json:"min_usec"`
	P50      float64 `json:"p50_usec"`
	P99      float64 `json:"p99_usec"`
	P999     float64 `json:"p99_9_usec"`
	Max      float64 `json:"max_usec"`
	// CPU is the processor time of both ends, in microseconds a message.
	CPU float64 `json:"cpu_usec_per_message"`
	// Packets are those that both ends' devices sent, acknowledgements too, a message; 0 for
	// sockets, whose packets the kernel does not tell.
	Packets float64 `json:"packets_per_message,omitempty"`
	Missing string  `json:"missing,omitempty"` // why there is nothing else

	times *hdrhistogram.Histogram
}

// spend fills in the times and costs; asked questions were answered.
func (row *Row) spend(asked int, cpu time.Duration, packets uint64) {
	h := row.times
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	row.Min, row.P50, row.P99 = us(h.Min()), us(h.ValueAtPercentile(50)), us(h.ValueAtPercentile(99))
	row.P999, row.Max = us(h.ValueAtPercentile(99.9)), us(h.Max())
	if row.Messages = 2 * uint64(asked); asked == 0 {
		row.Missing = "no question was answered: is something between the ends that drops these packets?"
		return
	}
	row.CPU = float64(cpu.Microseconds()) / float64(row.Messages)
	if row.notice != 0 {
		row.Packets = float64(packets) / float64(row.Messages)
	}
}

// halve turns times of round trips into those of one way.
func (row *Row) halve() {
	for _, v := range []*float64{&row.Min, &row.P50, &row.P99, &row.P999, &row.Max} {
		*v /= 2
	}
}

func newReport(t *Table, o *Options, s *side) *Report {
	r := &Report{Test: t.Name, Of: "round trip", Device: s.session.Name(), Ends: ends(o), Bytes: o.Size,
		Seconds: o.Duration.Seconds(), Results: []*Row{}, Notes: s.session.Notes(), t: t, o: o}
	if t.Half {
		r.Of = "half a round trip"
	}
	return r
}

func (r *Report) header() string {
	return fmt.Sprintf(" roce perf %s: %s\n %d bytes, %s; times are microseconds of %s; CPU of both ends\n\n"+
		" %-27s %-8s %9s %9s %9s %9s %9s %9s %8s\n",
		r.Test, r.t.Title, r.Bytes, r.Ends, r.Of, "", "waits by", "min", "50 %", "99 %", "99.9 %", "max", "CPU/msg",
		"pkts/msg")
}

func (row *Row) line() string {
	if row.Missing != "" {
		return fmt.Sprintf(" %-27s %-8s not measured: %s\n", row.Name, row.Waits, row.Missing)
	}
	packets := "-"
	if row.Packets > 0 {
		packets = fmt.Sprintf("%.2f", row.Packets)
	}
	lost := ""
	if row.Lost > 0 {
		lost = fmt.Sprintf("   %d lost", row.Lost)
	}
	return fmt.Sprintf(" %-27s %-8s %9.2f %9.2f %9.2f %9.2f %9.1f %9.2f %8s%s\n",
		row.Name, row.Waits, row.Min, row.P50, row.P99, row.P999, row.Max, row.CPU, packets, lost)
}

// end prints what comes after the rows, or all of it with --json, and draws.
func (r *Report) end(out io.Writer) error {
	if r.o.JSON {
		if err := writeJSON(out, r); err != nil {
			return err
		}
	}
	r.o.say(out, "\n An end that polls keeps a processor busy while nothing comes: the price of its short times.\n")
	for _, n := range r.Notes {
		r.o.say(out, " %s\n", n)
	}
	return r.o.draw(r.picture)
}

func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// draw writes the file that was asked for.
func (o *Output) draw(picture func() *plot.Picture) error {
	if o.Plot == "" {
		return nil
	}
	if err := picture().Write(o.Plot); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return nil
}

func (r *Report) picture() *plot.Picture {
	var rows []plot.Spread
	for _, row := range r.Results {
		if row.Missing == "" {
			rows = append(rows, plot.Spread{
				Label:  row.Name + ", " + row.Waits,
				Min:    row.Min,
				Median: row.P50,
				P99:    row.P99,
				P999:   row.P999,
				Max:    row.Max,
				Kind:   row.kind,
			})
		}
	}
	title := fmt.Sprintf("%s%s, %d bytes", strings.ToUpper(r.t.Title[:1]), r.t.Title[1:], r.Bytes)
	return plot.Spreads(title, "us of "+r.Of, r.t.kinds, rows)
}
