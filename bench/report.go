package main

// RESULTS.md, its pictures and profiles, out of the results alone: verdicts first, then every figure, then what could not be had.

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/goroce/goroce/bench/plot"
)

// Machine is what the figures were measured on.
type Machine struct {
	Processor  string `json:"processor"`
	Processors int    `json:"processors"`
	Virtual    bool   `json:"virtual_machine"`
	Memory     string `json:"memory"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	MTU        int    `json:"mtu"`
	Load       string `json:"load_at_start"`
	Guest      string `json:"guest,omitempty"` // kernel and emulation of the guest with rxe
	Wire       string `json:"wire,omitempty"`  // of the guest with two cards
	Rivals     string `json:"competitors,omitempty"`
}

// String is the machine in a line.
func (m Machine) String() string {
	virtual := ""
	if m.Virtual {
		virtual = ", a virtual machine"
	}
	return fmt.Sprintf("%d × %s%s, %s memory, %s, %s", m.Processors, m.Processor, virtual, m.Memory, m.Kernel, m.Go)
}

// write makes RESULTS.md, results.json, plots/ and profiles/ in a folder.
func (r *Results) write(dir string) error {
	for _, sub := range []string{"plots", "profiles"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	if err := r.writeJSON(filepath.Join(dir, "results.json")); err != nil {
		return err
	}
	var b bytes.Buffer
	r.writeHead(&b)
	r.writeVerdicts(&b)
	for _, p := range r.pictures() {
		if err := os.WriteFile(filepath.Join(dir, "plots", p.file), p.svg, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&b, "![%s](plots/%s)\n\n", p.title, p.file)
	}
	for _, p := range r.Profiles {
		file := filepath.Join("profiles", p.Name+".txt")
		if err := os.WriteFile(filepath.Join(dir, file), []byte(p.Case+"\n\n"+p.Text), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&b, "[Where the time goes](%s) in the case that is %s by its bar, %s.\n\n", filepath.ToSlash(file), p.Name, p.Case)
	}
	r.writeFigures(&b)
	r.writeMissing(&b)
	return os.WriteFile(filepath.Join(dir, "RESULTS.md"), b.Bytes(), 0o644)
}

func (r *Results) writeHead(b *bytes.Buffer) {
	m := r.Machine
	fmt.Fprintf(b, "# Results of `make bench`\n\nWritten by the run of %s; do not edit. The same in full: results.json.\n\n", r.Started.UTC().Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(b, "- **Machine**: %s. Load when the run began: %s.\n", m, m.Load)
	fmt.Fprintf(b, "- **Network**: a veth pair of MTU %d between two network namespaces; the client or sender on processor 0, the server or receiver on %d.\n", m.MTU, min(1, m.Processors-1))
	b.WriteString("- **Bottleneck** (cases fair/): two senders, a bridge and a receiver in a namespace each; the bridge's way to the receiver has a token\n" +
		"  bucket of 1 Gbit/s, in front of which packets are marked as switches do (RED on the queue's length).\n")
	if m.Guest != "" {
		fmt.Fprintf(b, "- **Guest with rxe**: %s. Its speeds say nothing about hardware; both stacks ran in it, on one veth pair, in turn.\n"+
			"  Between our own ends losses are repaired by selective repeat, unless a case says go-back-N, which is what rxe does.\n", m.Guest)
	}
	if m.Wire != "" {
		fmt.Fprintf(b, "- **Wire between two drivers** (cases wire/): %s, both ends on that processor: the figures tell what a message costs on each\n"+
			"  kind of port. xdp is zero-copy there.\n", m.Wire)
	}
	if m.Rivals != "" {
		fmt.Fprintf(b, "- **Competitors**: %s.\n", m.Rivals)
	}
	fmt.Fprintf(b, "- **Rounds**: %d, interleaved (every case once, then every case again), %s a case. Figures are medians; spread is the least and the greatest round.\n", r.Rounds, r.Duration)
	b.WriteString("\nLatencies are half a round trip. Ratios are those of medians of this run, and in brackets those within single rounds.\n\n")
}

func (r *Results) writeVerdicts(b *bytes.Buffer) {
	count := map[string]int{}
	for _, v := range r.Verdicts {
		count[v.State]++
	}
	fmt.Fprintf(b, "## Bars: %d pass, %d fail, %d not measured\n\n", count["pass"], count["fail"], count["not measured"])
	b.WriteString("| bar | wanted | ours | theirs | ratio (rounds) | |\n|---|---|---|---|---|---|\n")
	for _, v := range r.Verdicts {
		if v.State == "not measured" {
			fmt.Fprintf(b, "| %s | %s | | | | not measured: %s |\n", v.What, v.Demand, cell(v.Note))
			continue
		}
		theirs, ratio := number(v.Theirs), fmt.Sprintf("%s (%s–%s)", number(v.Ratio), number(v.Low), number(v.High))
		if v.Theirs == 0 {
			theirs = ""
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", v.What, v.Demand, number(v.Ours), theirs, ratio, strings.ReplaceAll(v.State, "fail", "**fail**"))
	}
	b.WriteString("\n")
}

// writeSummary prints the verdicts that could be reached, for a terminal, and what could not be had.
func (r *Results) writeSummary(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, v := range r.Verdicts {
		if v.State != "not measured" {
			fmt.Fprintf(w, "%s\t%s\twanted %s\tfound %s\n", v.State, v.What, v.Demand, number(v.Ratio))
		}
	}
	for _, m := range r.Missing {
		fmt.Fprintf(w, "missing\t%s\n", cell(m))
	}
	return w.Flush()
}

func (r *Results) writeFigures(b *bytes.Buffer) {
	b.WriteString("## All figures\n\n| case | what | median | spread | unit | rounds |\n|---|---|---|---|---|---|\n")
	for _, f := range r.Figures {
		if !f.measured() {
			fmt.Fprintf(b, "| %s | %s | failed | | %s | 0 |\n", f.Case, f.Brief, f.Unit.Name)
			continue
		}
		low, high := f.spread()
		fmt.Fprintf(b, "| %s | %s | %s | %s–%s | %s | %d |\n", f.Case, f.Brief, number(f.median()), number(low), number(high), f.Unit.Name, len(f.Samples))
	}
	b.WriteString("\n")
}

func (r *Results) writeMissing(b *bytes.Buffer) {
	lines := append([]string{}, r.Missing...)
	for _, f := range r.Figures {
		for _, e := range f.Errors {
			lines = append(lines, f.Case+": "+e)
		}
	}
	if len(lines) == 0 {
		return
	}
	b.WriteString("## What could not be measured\n\n")
	for _, l := range lines {
		fmt.Fprintf(b, "- %s\n", cell(l))
	}
}

// cell makes a text fit a line of a table.
func cell(s string) string {
	s = strings.Join(strings.Fields(strings.ReplaceAll(s, "|", "/")), " ")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	return s
}

type picture struct {
	file, title string
	svg         []byte
}

// kinds of bars, by the first word of a case's name.
var kinds = []string{"goroce", "raw path", "competitor"}

func kind(name string) int {
	who, _, _ := strings.Cut(name, "/")
	switch who {
	case "ours":
		return 0
	case "raw":
		return 1
	}
	return 2
}

func (r *Results) pictures() (all []picture) {
	for _, p := range []struct {
		file, title string
		unit        Unit
	}{
		{"bandwidth.svg", "Bandwidth, 64 KiB messages", gbps},
		{"latency.svg", "Half a round trip", usec},
		{"rate.svg", "Small messages", mpps},
	} {
		var bars []plot.Bar
		for _, f := range r.Figures {
			if f.measured() && f.Unit == p.unit && !strings.HasPrefix(f.Case, "guest/") && !strings.HasPrefix(f.Case, "wire/") {
				low, high := f.spread()
				bars = append(bars, plot.Bar{Label: f.Case, Value: f.median(), Low: low, High: high, Kind: kind(f.Case)})
			}
		}
		slices.SortStableFunc(bars, func(a, b plot.Bar) int { // best first
			if p.unit.Lower {
				return cmp.Compare(a.Value, b.Value)
			}
			return cmp.Compare(b.Value, a.Value)
		})
		if len(bars) > 0 {
			all = append(all, picture{p.file, p.title, plot.Bars(p.title, p.unit.Name, kinds, bars)})
		}
	}
	for _, p := range []struct {
		file, title string
		axes        plot.Axes
		series      []curve
	}{
		{"scale.svg", "Cost of a message by connected queue pairs", plot.Axes{X: "queue pairs", Y: "ns a message", LogX: true},
			[]curve{{"goroce", "inside/scale/", ""}}},
		{"loss.svg", "RC WRITE 64 KiB under loss, 100 us round trip, in the guest", plot.Axes{X: "loss, %", Y: "Gbit/s"},
			[]curve{{"goroce udp", "guest/ours/udp/loss-", "%/64K"}, {"goroce packet", "guest/ours/packet/loss-", "%/64K"},
				{"goroce udp, go-back-N", "guest/go-back-n/udp/loss-", "%/64K"}, {"rxe", "guest/rxe/loss-", "%/64K"}}},
	} {
		if s := r.curves(p.series); len(s) > 0 {
			all = append(all, picture{p.file, p.title, plot.Lines(p.title, p.axes, s)})
		}
	}
	return all
}

// curve is a line through the cases whose names hold the x value between two texts.
type curve struct{ name, before, after string }

func (r *Results) curves(wanted []curve) (all []plot.Series) {
	for _, c := range wanted {
		s := plot.Series{Name: c.name}
		for _, f := range r.Figures {
			rest, ok := strings.CutPrefix(f.Case, c.before)
			if !ok || !f.measured() {
				continue
			}
			if x, err := strconv.ParseFloat(strings.TrimSuffix(rest, c.after), 64); err == nil {
				s.X, s.Y = append(s.X, x), append(s.Y, f.median())
			}
		}
		if len(s.X) > 1 {
			all = append(all, s)
		}
	}
	return all
}
