//go:build linux

package repertoire

// Sparse exchanges: a small message and its answer, then a gap in which the client sleeps, as most
// programs use a network most of the time. Both ends sleep until something comes; what counts is
// how long an exchange takes and how much processor time both ends and the kernel need for it.
//
// Beside ours, which is event-driven, stand UDP sockets that sleep at once, by raw system calls and
// as Go programs have them, and such that spin for 50 us, as we do at most, and then sleep; where
// ours has slept long it no longer spins. UDP sends no acknowledgements; RC sends one for each
// message, which wakes up the server once more. The programs of others that have gaps do not sleep
// in them: sockperf's --mps watches the clock, at the price of a whole processor.

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/goroce/goroce/bench/figures"
)

// gaps between the end of an exchange and the next, with the words that they have in names.
// Their plays are longer than others, the more the fewer exchanges a second has: the counters of
// processor time tell hundredths of a second.
var gaps = []struct {
	name  string
	long  time.Duration
	times time.Duration // how much longer

	beside []string // what ours stands beside in a short run too
}{
	{"0", 0, 1, []string{"raw-spin50"}},
	{"1ms", time.Millisecond, 3, []string{"raw-blocking", "raw-net"}},
	{"10ms", 10 * time.Millisecond, 6, []string{"raw-blocking"}},
}

// sparseBars hold ours against UDP sockets that sleep at once. Without a gap, who spins first never
// sleeps: there the equal is who spins too.
var sparseBars = []figures.Bar{
	{What: "SEND 8 B, no gap, against UDP that spins 50 us, then sleeps", Ours: "sparse/0/ours/%s",
		Against: "sparse/0/raw-spin50", Rule: figures.AtMost, Factor: 1.3},
	{What: "SEND 8 B, gaps of 1 ms, against UDP that sleeps", Ours: "sparse/1ms/ours/%s",
		Against: "sparse/1ms/raw-blocking", Rule: figures.AtMost, Factor: 1.1, Cost: 1.3},
	{What: "SEND 8 B, gaps of 10 ms, against UDP that sleeps", Ours: "sparse/10ms/ours/%s",
		Against: "sparse/10ms/raw-blocking", Rule: figures.AtMost, Factor: 1.1, Cost: 1.3},
	{What: "SEND 8 B, gaps of 1 ms, against UDP of Go's package net", Ours: "sparse/1ms/ours/%s",
		Against: "sparse/1ms/raw-net"},
	{What: "SEND 8 B, gaps of 10 ms, against UDP of Go's package net", Ours: "sparse/10ms/ours/%s",
		Against: "sparse/10ms/raw-net"},
	{What: "SEND 8 B, gaps of 1 ms, against UDP that spins 50 us, then sleeps", Ours: "sparse/1ms/ours/%s",
		Against: "sparse/1ms/raw-spin50"},
	{What: "SEND 8 B, gaps of 10 ms, against UDP that spins 50 us, then sleeps", Ours: "sparse/10ms/ours/%s",
		Against: "sparse/10ms/raw-spin50"},
}

// sparseCases are on links of the commonest MTU; it does not matter to such messages.
func sparseCases(ports []string) (cases []figures.Case) {
	for _, gap := range gaps {
		prefix := "sparse/" + gap.name + "/"
		var at []figures.Case
		for _, way := range []string{"blocking", "net", "spin50"} {
			c := sparseExchange.on(prefix+"raw-"+way, "udp-"+way, figures.MTUs[0], gap.long)
			c.Full = !slices.Contains(gap.beside, "raw-"+way)
			at = append(at, c)
		}
		for _, port := range ports {
			at = append(at, sparseOurs(prefix, port, gap.long))
		}
		for _, c := range at {
			cases = append(cases, lasting(c, gap.times))
		}
	}
	return cases
}

// sparseMargin of a play are starting and ending. Its exchanges are alike from the first to the
// last, and all are needed.
const sparseMargin = 0.05

// lasting is the case in plays that are n times as long.
func lasting(c figures.Case, n time.Duration) figures.Case {
	play, takes := c.Play, c.Takes
	c.Play = func(s figures.Setting) figures.Play {
		s.Duration *= n
		p := play(s)
		p.Margin = sparseMargin
		return p
	}
	c.Takes = func(d time.Duration) time.Duration {
		if takes != nil {
			return takes(n * d)
		}
		return n * d
	}
	return c
}

// sparseOurs is ours: the latency test with events, with the gap at the client.
func sparseOurs(prefix, port string, gap time.Duration) figures.Case {
	c := perfCase{"ours/" + port, "RC SEND 8 B, event-driven", figures.Usec, "send-lat -e -s 8", duration,
		typical}.on(prefix, port)
	c.MTU, c.CostUnit = figures.MTUs[0], figures.PerExchange
	play := c.Play
	c.Play = func(s figures.Setting) figures.Play {
		p := play(s)
		if gap > 0 {
			p.Client.Args = append(p.Client.Args, "--gap", gap.String())
		}
		return p
	}
	c.Work = func(_, client []byte) (float64, error) {
		r, err := parseSparse(client)
		return r.Iterations / r.CPU.Elapsed / 1e6, err
	}
	c.P99 = func(_, client []byte) float64 {
		r, _ := parseSparse(client)
		return r.Percentiles["99"]
	}
	return c
}

// sparseReport is the part of roce perf's results that says how many exchanges there were.
type sparseReport struct {
	Iterations  float64            `json:"iterations"`
	Percentiles map[string]float64 `json:"percentiles_usec"`
	CPU         struct {
		Elapsed float64 `json:"elapsed_seconds"`
	} `json:"cpu"`
}

func parseSparse(text []byte) (sparseReport, error) {
	var report struct {
		Results []sparseReport `json:"results"`
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return sparseReport{}, err
	}
	if len(report.Results) == 0 || report.Results[0].CPU.Elapsed <= 0 {
		return sparseReport{}, errNoResult
	}
	return report.Results[0], nil
}
