package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// results of cases by name, one sample a round.
func resultsOf(samples map[string][]float64, units map[string]Unit) *Results {
	r := &Results{}
	for name, values := range samples {
		unit, ok := units[name]
		if !ok {
			unit = gbps
		}
		for i, v := range values {
			r.add(&Case{Name: name, Unit: unit}, i+1, v, nil)
		}
	}
	return r
}

func TestJudge(t *testing.T) {
	r := resultsOf(map[string][]float64{
		"ours": {40, 50, 45}, "slow": {10, 12, 11}, "fast": {50, 49, 51}, "limit": {0, 0, 0}, "lat": {2, 3, 2.5}, "near": {2, 2, 2}, "far": {9, 9, 9},
	}, map[string]Unit{"limit": allocs, "lat": usec, "near": usec, "far": usec})
	r.add(&Case{Name: "broken", Unit: gbps}, 1, 0, errors.New("it broke"))
	for _, c := range []struct {
		bar         Bar
		state       string
		ratio       float64
		theirs, low float64
	}{
		{Bar{"", "ours", []string{"fast"}, atLeast, 0.9}, "pass", 0.9, 50, 0.8},
		{Bar{"", "ours", []string{"fast"}, atLeast, 0.91}, "fail", 0.9, 50, 0.8},
		{Bar{"", "ours", []string{"slow", "fast", "broken"}, atLeast, 0.9}, "pass", 0.9, 50, 0.8}, // the better one counts
		{Bar{"", "lat", []string{"far", "near"}, atMost, 1.25}, "pass", 1.25, 2, 1},
		{Bar{"", "lat", []string{"near"}, atMost, 1.2}, "fail", 1.25, 2, 1},
		{Bar{"", "limit", nil, atMost, 0}, "pass", 0, 0, 0},
		{Bar{"", "ours", nil, atMost, 44}, "fail", 45, 0, 40},
		{Bar{"", "ours", []string{"broken"}, atLeast, 1}, "not measured", 0, 0, 0},
		{Bar{"", "absent", []string{"fast"}, atLeast, 1}, "not measured", 0, 0, 0},
	} {
		v := c.bar.judge(r)
		if v.State != c.state || v.Ratio != c.ratio || v.Theirs != c.theirs || v.Low != c.low {
			t.Errorf("%+v: %+v, want %s, ratio %v against %v, from %v", c.bar, v, c.state, c.ratio, c.theirs, c.low)
		}
		if v.State == "not measured" && v.Note == "" {
			t.Errorf("%+v: does not say why", c.bar)
		}
	}
}

// Every bar must be about cases that exist, or it would never be measured.
func TestBarsNameCases(t *testing.T) {
	names := map[string]bool{}
	for _, c := range everyCase() {
		names[c.Name] = true
	}
	for _, b := range allBars() {
		for _, name := range append([]string{b.Ours}, b.Against...) {
			if !names[name] {
				t.Errorf("%s: no case %s", b.What, name)
			}
		}
	}
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	r := resultsOf(map[string][]float64{"ours/udp/write-bw/64K": {1, 3, 2}, "raw/udp-stream-work": {4, 4, 4},
		"inside/scale/1": {100}, "inside/scale/10": {110}}, nil)
	r.add(&Case{Name: "iperf3/tcp/1M", Unit: gbps}, 1, 0, errors.New("no | such\nprogram"))
	r.Missing = []string{"goroce on port xdp: needs CAP_BPF"}
	r.Profiles = []Profile{{"worst", "ours/udp/write-bw/64K", "flat flat%"}}
	r.judge(allBars())
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "RESULTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 2.00 | 4.00 | 0.5 (0.25–0.75) | **fail** |", "no / such program", "needs CAP_BPF", "plots/bandwidth.svg", "plots/scale.svg",
		"[Where the time goes](profiles/worst.txt) in the case that is worst by its bar, ours/udp/write-bw/64K.",
		"| ours/udp/write-bw/64K |  | 2.00 | 1.00–3.00 | Gbit/s | 3 |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("RESULTS.md lacks %q", want)
		}
	}
	if profile, err := os.ReadFile(filepath.Join(dir, "profiles", "worst.txt")); err != nil || string(profile) != "ours/udp/write-bw/64K\n\nflat flat%" {
		t.Errorf("profile %q, %v", profile, err)
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
}

// The best and the worst case are those that are furthest from their bars, whichever way a bar goes.
func TestExtremes(t *testing.T) {
	r := resultsOf(map[string][]float64{"ours/a": {20}, "ours/b": {1}, "ours/c": {5}, "theirs": {10}, "lat": {4}, "inside/d": {1000}},
		map[string]Unit{"ours/b": usec, "ours/c": usec, "lat": usec})
	bars := []Bar{
		{"", "ours/a", []string{"theirs"}, atLeast, 1},      // twice as good as wanted
		{"", "ours/b", []string{"lat"}, atMost, 1},          // four times
		{"", "ours/c", []string{"lat"}, atMost, 1},          // a little worse
		{"", "inside/d", []string{"theirs"}, atLeast, 1},    // not of roce perf
		{"", "ours/absent", []string{"theirs"}, atLeast, 1}, // not measured
	}
	if best, worst := r.extremes(bars); best != "ours/b" || worst != "ours/c" {
		t.Errorf("best %s, worst %s", best, worst)
	}
	if best, worst := (&Results{}).extremes(bars); best != "" || worst != "" {
		t.Errorf("of nothing: best %s, worst %s", best, worst)
	}
}
