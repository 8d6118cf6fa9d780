package repertoire

// Small messages beside a bulk stream, as cases: this program runs itself with the word "loaded" at
// both ends. All figures of a transport come from one run.
//
// UCX is not among them: ucx_perftest runs one test in one process, and two of its processes that
// spin on one processor take turns by the scheduler's time slices, which would say nothing of UCX.

import (
	"fmt"

	"github.com/goroce/goroce/bench/ends"
	"github.com/goroce/goroce/bench/figures"
)

// loadedDepths are how many messages of our stream are under way. A program that knows of its small
// messages keeps the stream just full; one that does not makes them wait longer, because what is
// posted together leaves together.
var loadedDepths = []struct {
	suffix   string
	messages int
}{{"", 4}, {"-deep", 16}}

// loadedBars hold ours against TCP. They demand nothing yet.
var loadedBars = func() (bars []figures.Bar) {
	for _, d := range loadedDepths {
		for _, what := range []string{"p50", "p99", "p99.9", "bulk"} {
			bars = append(bars, figures.Bar{What: fmt.Sprintf("8 B beside a stream, %d messages of it under way, "+
				"against TCP: %s", d.messages, what),
				Ours: "loaded/%s" + d.suffix + "/" + what, Against: "loaded/tcp/" + what})
		}
	}
	return bars
}()

// loadedCases are those of our ports and of TCP.
func loadedCases(ports []string) (cases []figures.Case) {
	for _, port := range ports {
		for _, d := range loadedDepths {
			cases = append(cases, loadedOver(port+d.suffix, fmt.Sprintf("goroce, %s port, %d under way",
				port, d.messages), func(me figures.Side) string {
				return fmt.Sprintf("-over roce -depth %d -dev %s:%s", d.messages, port, me.Interface)
			})...)
		}
	}
	return append(cases, loadedOver("tcp", "TCP, two connections", alike("-over tcp"))...)
}

func loadedOver(who, what string, over func(figures.Side) string) (cases []figures.Case) {
	play := endsPlay("loaded", ends.LoadedPort, over)
	for _, c := range []struct {
		name, brief string
		unit        figures.Unit
		figure      func(*ends.Result) float64
	}{
		{"p50", "round trips of 8 B beside a stream of 64 KiB messages, both ends one thread that spins: median",
			figures.UsTrip,
			func(r *ends.Result) float64 { return r.P50 }},
		{"p99", "… : 99 of 100", figures.UsTrip, func(r *ends.Result) float64 { return r.P99 }},
		{"p99.9", "… : 999 of 1000", figures.UsTrip, func(r *ends.Result) float64 { return r.P999 }},
		{"bulk", "… : the stream meanwhile", figures.Gbps, func(r *ends.Result) float64 { return r.Gbps }},
	} {
		cases = append(cases, figures.Case{Name: "loaded/" + who + "/" + c.name, Brief: what + ": " + c.brief,
			Unit: c.unit, Play: play, Shared: true, Full: true, Figure: endsFigure(c.figure), Note: loadedNote})
	}
	return cases
}

// loadedNote says what our stack repaired meanwhile, from its start to its end.
func loadedNote(server, client []byte) string {
	r, err := endsResult(server, client)
	if err != nil || r.Resent == 0 && r.Timeouts == 0 {
		return ""
	}
	return fmt.Sprintf("%d packets sent again, %d timeouts", r.Resent, r.Timeouts)
}
