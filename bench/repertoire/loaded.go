package repertoire

// Small messages beside a bulk stream, as cases: this program runs itself with the word "loaded" at
// both ends. All figures of a transport come from one run.
//
// UCX is not among them: ucx_perftest runs one test in one process, and two of its processes that
// spin on one processor take turns by the scheduler's time slices, which would say nothing of UCX.

import (
	"encoding/json"
	"fmt"

	"github.com/goroce/goroce/bench/figures"
)

// loadedPort is where both ends of "bench loaded" meet.
const loadedPort = 18516

// loadedFigures is what "bench loaded" prints.
type loadedFigures struct {
	P50  float64 `json:"p50_usec"`
	P99  float64 `json:"p99_usec"`
	P999 float64 `json:"p99.9_usec"`
	Gbps float64 `json:"gbps"`

	Resent   int `json:"resent"`
	Timeouts int `json:"timeouts"`
}

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
			bars = append(bars, figures.Bar{What: fmt.Sprintf("8 B beside a stream, %d messages of it under way, against TCP: %s", d.messages, what),
				Ours: "loaded/%s" + d.suffix + "/" + what, Against: "loaded/tcp/" + what})
		}
	}
	return bars
}()

// loadedCases are those of our ports and of TCP.
func loadedCases(ports []string) (cases []figures.Case) {
	for _, port := range ports {
		for _, d := range loadedDepths {
			cases = append(cases, loadedOver(port+d.suffix, fmt.Sprintf("goroce, %s port, %d under way", port, d.messages), func(me figures.Side) string {
				return fmt.Sprintf("-over roce -depth %d -dev %s:%s", d.messages, port, me.Interface)
			})...)
		}
	}
	return append(cases, loadedOver("tcp", "TCP, two connections", func(figures.Side) string { return "-over tcp" })...)
}

func loadedOver(who, what string, over func(figures.Side) string) (cases []figures.Case) {
	play := func(s figures.Setting) figures.Play {
		side := func(me, peer figures.Side) string {
			return fmt.Sprintf("%s loaded %s -local %s -peer %s", s.Bench, over(me), me.Addr, peer.Addr)
		}
		return figures.Play{Proto: "tcp", Port: loadedPort, Server: Words(side(s.B, s.A)),
			Client: Words(fmt.Sprintf("%s -sends -d %v", side(s.A, s.B), s.Duration))}
	}
	for _, c := range []struct {
		name, brief string
		unit        figures.Unit
		figure      func(*loadedFigures) float64
	}{
		{"p50", "round trips of 8 B beside a stream of 64 KiB messages, both ends one thread that spins: median", figures.UsTrip,
			func(f *loadedFigures) float64 { return f.P50 }},
		{"p99", "… : 99 of 100", figures.UsTrip, func(f *loadedFigures) float64 { return f.P99 }},
		{"p99.9", "… : 999 of 1000", figures.UsTrip, func(f *loadedFigures) float64 { return f.P999 }},
		{"bulk", "… : the stream meanwhile", figures.Gbps, func(f *loadedFigures) float64 { return f.Gbps }},
	} {
		cases = append(cases, figures.Case{Name: "loaded/" + who + "/" + c.name, Brief: what + ": " + c.brief, Unit: c.unit, Play: play,
			Shared: true, Full: true,
			Figure: func(_, client []byte) (float64, error) {
				var f *loadedFigures
				if err := json.Unmarshal(client, &f); err != nil || f == nil || f.Gbps == 0 {
					return 0, fmt.Errorf("no figures in %q (%v)", client, err)
				}
				return c.figure(f), nil
			},
			Note: loadedNote})
	}
	return cases
}

// loadedNote says what our stack repaired meanwhile, from its start to its end.
func loadedNote(_, client []byte) string {
	var f loadedFigures
	if err := json.Unmarshal(client, &f); err != nil || f.Resent == 0 && f.Timeouts == 0 {
		return ""
	}
	return fmt.Sprintf("%d packets sent again, %d timeouts", f.Resent, f.Timeouts)
}
