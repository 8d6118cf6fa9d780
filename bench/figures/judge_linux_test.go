package figures

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fixed are results of cases by name, one value a round; a value below zero is a round that failed.
func fixed(unit Unit, values map[string][]float64) (r *Results, bout *Bout) {
	r, bout = &Results{}, &Bout{Name: "bout"}
	addFixed(r, bout, unit, values)
	return r, bout
}

func addFixed(r *Results, bout *Bout, unit Unit, values map[string][]float64) {
	for name, rounds := range values {
		c := Case{Name: name, Unit: unit}
		bout.Cases = append(bout.Cases, c)
		for i, v := range rounds {
			var err error
			if v < 0 {
				err = errors.New("it broke")
			}
			r.Add(&c, Sample{Round: i + 1, Value: v}, Unit{}, err)
		}
	}
}

// seven rounds of the same values, over and over.
func seven(values ...float64) (all []float64) {
	for i := range 7 {
		all = append(all, values[i%len(values)])
	}
	return all
}

func TestJudge(t *testing.T) {
	r, bout := fixed(Gbps, map[string][]float64{
		"ours": {40, 50, 44, 46, 42, 48, 45}, "steady": seven(45), "slow": seven(10), "fast": seven(50), "turns": seven(20, 90),
		"broken": seven(-1), "limp": {-1, 50, 50, 50, 50, 50, 50}, "lame": {-1, -1, 50, 50, 50, 50, 50},
		"few": seven(40)[:5],
	})
	addFixed(r, bout, Allocs, map[string][]float64{"none": seven(0)})
	addFixed(r, bout, Usec, map[string][]float64{"lat": seven(2), "near": seven(2.5), "far": seven(9)})
	for _, c := range []struct {
		ours, against    string
		rule             Rule
		factor           float64
		state            string
		ratio, low, high float64
		word, best       string
	}{
		{"ours", "fast", AtLeast, 0.8, Passed, 0.9, 0.8, 1, undecided, "fast"},
		{"ours", "fast", AtLeast, 0.9, undecided, 0.9, 0.8, 1, undecided, "fast"},
		{"ours", "fast", AtLeast, 1.1, failed, 0.9, 0.8, 1, undecided, "fast"},
		{"ours", "fast", AtMost, 0.7, failed, 0.9, 0.8, 1, undecided, "fast"},
		// Of several the best one counts, which one that did not run may have been.
		{"ours", "slow|fast", AtLeast, 0.8, Passed, 0.9, 0.8, 1, undecided, "fast"},
		{"ours", "slow|fast|broken", AtLeast, 0.8, notMeasured, 0, 0, 0, "", ""},
		{"ours", "fast|turns", "", 0, "", 0.8, 0.5111, 0.9, "slower", "fast (4), turns (3)"},
		{"steady", "fast", AtLeast, 1, failed, 0.9, 0.9, 0.9, "at par", "fast"}, // within a tenth
		{"steady", "slow", AtLeast, 4, Passed, 4.5, 4.5, 4.5, "faster", "slow"},
		{"slow", "steady", AtLeast, 4, failed, 0.2222, 0.2222, 0.2222, "slower", "steady"},
		// There are too few rounds for an interval.
		{"few", "fast", AtLeast, 0.1, undecided, 0.8, 0.8, 0.8, "", "fast"},
		{"ours", "lame", AtLeast, 0.1, notMeasured, 0.9, 0.84, 0.96, "", "lame"},
		// It failed where it may have been the best.
		{"ours", "slow|lame", AtLeast, 0.1, notMeasured, 0.9, 0.84, 0.96, "", "lame"},
		{"ours", "limp", AtLeast, 0.8, Passed, 0.91, 0.84, 1, undecided, "limp"},
		{"lat", "near|far", AtMost, 1, Passed, 0.8, 0.8, 0.8, "faster", "near"},
		{"far", "near", AtMost, 1, failed, 3.6, 3.6, 3.6, "slower", "near"},
		{"none", "", AtMost, 0, Passed, 0, 0, 0, "", ""},
		{"ours", "", AtMost, 44, undecided, 45, 40, 50, "", ""},
		{"ours", "", AtLeast, 40, Passed, 45, 40, 50, "", ""},
		{"ours", "broken", AtLeast, 1, notMeasured, 0, 0, 0, "", ""},
		{"broken", "fast", AtLeast, 1, notMeasured, 0, 0, 0, "", ""},
	} {
		v, ok := (&Bar{Ours: c.ours, Against: c.against, Rule: c.rule, Factor: c.factor}).Judge(r, bout)
		h := v.Figure
		near := func(a Ratio, b float64) bool { return math.Abs(float64(a)-b) < 1e-4 }
		if !ok || h.State != c.state || !near(h.Ratio, c.ratio) || !near(h.Low, c.low) || !near(h.High, c.high) || h.Word != c.word ||
			v.Best != c.best {
			t.Errorf("%s against %s, %s %v: %+v, best %q, %v", c.ours, c.against, c.rule, c.factor, h, v.Best, ok)
		}
		if h.State == notMeasured && v.Note == "" {
			t.Errorf("%s against %s: does not say why", c.ours, c.against)
		}
	}
	for _, b := range []Bar{{Ours: "absent", Against: "fast"}, {Ours: "ours", Against: "absent"}} {
		if v, ok := b.Judge(r, bout); ok {
			t.Errorf("%+v: %+v of what is not in the bout", b, v)
		}
	}
}

// The cost of the best rival is that of the one with the best figure, round by round, and has a
// verdict of its own.
// A row whose best rival failed once says of how many rounds it is.
func TestRoundsThatAreMissing(t *testing.T) {
	r, bout := fixed(Gbps, map[string][]float64{"ours": seven(45), "limp": {-1, 50, 50, 50, 50, 50, 50}})
	v, _ := (&Bar{Ours: "ours", Against: "limp", Rule: AtLeast, Factor: 0.8}).Judge(r, bout)
	if cells := v.cells(); !strings.Contains(cells, "6 of 7 rounds") {
		t.Errorf("%s", cells)
	}
}

func TestJudgeCost(t *testing.T) {
	r, bout := &Results{}, &Bout{Name: "bout"}
	for name, s := range map[string]Sample{
		"ours":    {Value: 20, Cost: 0.6},
		"fast":    {Value: 18, Cost: 0.5},
		"thrifty": {Value: 10, Cost: 0.1},
	} {
		c := Case{Name: name, Unit: Gbps}
		bout.Cases = append(bout.Cases, c)
		for round := 1; round <= 8; round++ {
			s.Round = round
			r.Add(&c, s, PerGB, nil)
		}
	}
	for _, c := range []struct {
		factor float64
		state  string
	}{{1.25, Passed}, {1.1, failed}, {0, ""}} {
		v, _ := (&Bar{Ours: "ours", Against: "fast|thrifty", Rule: AtLeast, Factor: 1.05, Cost: c.factor}).Judge(r, bout)
		if v.Figure.State != Passed || v.Cost.State != c.state || math.Abs(float64(v.Cost.Ratio)-1.2) > 1e-9 || v.Cost.Word != "dearer" ||
			v.CostUnit != PerGB {
			t.Errorf("%+v", v)
		}
	}
}

// The best and the worst case are those that are furthest from their bars, whichever way a bar
// goes.
func TestExtremes(t *testing.T) {
	r, bout := fixed(Gbps, map[string][]float64{"1500/ours/a": seven(20), "theirs": seven(10)})
	addFixed(r, bout, Usec, map[string][]float64{
		"1500/ours/b": seven(1),
		"1500/ours/c": seven(5),
		"lat":         seven(4),
		"inside/d":    seven(1000),
	})
	bout.Bars = []Bar{
		{Ours: "1500/ours/a", Against: "theirs", Rule: AtLeast, Factor: 1},  // it is twice as good
		{Ours: "1500/ours/b", Against: "lat", Rule: AtMost, Factor: 1},      // four times
		{Ours: "1500/ours/c", Against: "lat", Rule: AtMost, Factor: 1},      // a little worse
		{Ours: "1500/ours/c", Against: "inside/d"},                          // demands nothing
		{Ours: "inside/d", Against: "theirs", Rule: AtLeast, Factor: 1},     // not of roce perf
		{Ours: "ours/absent", Against: "theirs", Rule: AtLeast, Factor: 10}, // not played
	}
	if best, worst := r.Extremes([]Bout{*bout}); best != "1500/ours/b" || worst != "1500/ours/c" {
		t.Errorf("best %s, worst %s", best, worst)
	}
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	r, bout := fixed(Gbps, map[string][]float64{"1500/ours/udp/write-bw/64K": {1, 3, 2, 2, 2, 2, 2, 2},
		"1500/iperf3/tcp/1M": {4, 4, 4, 4, 4, 4, 4, 4}, "1500/raw/udp-stream-work": seven(2), "inside/scale/10": {110},
		"inside/scale/1": {100}})
	broken := Case{Name: "1500/iperf3/tcp/128K", Unit: Gbps}
	bout.Cases = append(bout.Cases, broken)
	r.Add(&broken, Sample{Round: 1}, Unit{}, errors.New("no | such\nprogram"))
	r.Add(&bout.Cases[slices.IndexFunc(bout.Cases, func(c Case) bool { return Maker(c.Name) == "raw" })],
		Sample{Round: 8, Value: 2, Cost: 0.5, Note: "lost 0.1 %"}, PerGB, nil)
	bout.Bars = []Bar{
		{What: "udp: WRITE 64 KiB against the best TCP", Ours: "1500/ours/udp/write-bw/64K", Against: "1500/iperf3/tcp/.*", Rule: AtLeast,
			Factor: 1.05},
		{What: "udp: where a copy and a CRC are done", Ours: "1500/ours/udp/write-bw/64K", Against: "1500/raw/udp-stream.*", Rule: AtLeast,
			Factor: 0.8, Reference: true},
	}
	r.Missing = []string{"goroce on port xdp: needs CAP_BPF"}
	r.Profiles = []Profile{{"worst", "1500/ours/udp/write-bw/64K", "flat flat%"}}
	r.Judge([]Bout{*bout})
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "RESULTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"## Bars: 0 pass, 0 fail, 1 undecided, 1 not measured",
		"| udp: WRITE 64 KiB against the best TCP | | | | | ≥ 1.05 × | not measured: 1500/iperf3/tcp/128K: round 1: no / such program |",
		"### References: bout", "raw/udp-stream-work (1500/raw/udp-stream-work: lost 0.1 %)",
		"no / such program", "needs CAP_BPF", "plots/bandwidth-1500.svg", "plots/scale.svg",
		"[Where the time goes](profiles/worst.txt) in the case that is worst by its bar, 1500/ours/udp/write-bw/64K.",
		"| 1500/raw/udp-stream-work |  (lost 0.1 %) | 2.00 | 2.00–2.00 | Gbit/s | 0.5 | CPU s/GB | 8 |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("RESULTS.md lacks %q", want)
		}
	}
	if profile, err := os.ReadFile(filepath.Join(dir, "profiles", "worst.txt")); err != nil ||
		string(profile) != "1500/ours/udp/write-bw/64K\n\nflat flat%" {
		t.Errorf("profile %q, %v", profile, err)
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
}
