package figures

// RESULTS.md, out of the results alone: on what and how it was measured and what the words mean,
// then a table for each bout, then how near ours is to what system calls alone reach, then every
// figure, then what could not be had.

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// Machine is what the figures were measured on.
type Machine struct {
	Processor  string  `json:"processor"`
	Processors int     `json:"processors"`
	Virtual    bool    `json:"virtual_machine"`
	Memory     string  `json:"memory"`
	Kernel     string  `json:"kernel"`
	Go         string  `json:"go"`
	Load       string  `json:"load_at_start"`
	Busy       float64 `json:"busy_processors_at_start"` // by others: their time is in all costs
	Congestion string  `json:"tcp_congestion_control,omitempty"`
	Guest      string  `json:"guest,omitempty"` // kernel and emulation of the guest with rxe
	Wire       string  `json:"wire,omitempty"`  // of the guest with two cards
	Rivals     string  `json:"rivals,omitempty"`
}

// String is the machine in a line.
func (m Machine) String() string {
	virtual := ""
	if m.Virtual {
		virtual = ", a virtual machine"
	}
	return fmt.Sprintf("%d × %s%s, %s memory, %s, %s", m.Processors, m.Processor, virtual, m.Memory, m.Kernel, m.Go)
}

// Write makes RESULTS.md, results.json, plots/ and profiles/ in a folder, in place of those of the
// run before.
func (r *Results) Write(dir string) error {
	for _, sub := range []string{"plots", "profiles"} {
		if err := os.RemoveAll(filepath.Join(dir, sub)); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	if err := r.writeJSON(filepath.Join(dir, "results.json")); err != nil {
		return err
	}
	var b bytes.Buffer
	r.writeHead(&b)
	r.writeMethod(&b)
	r.writeVerdicts(&b)
	if err := r.writePictures(&b, dir); err != nil {
		return err
	}
	if err := r.writeProfiles(&b, dir); err != nil {
		return err
	}
	r.writeFigures(&b)
	r.writeMissing(&b)
	return os.WriteFile(filepath.Join(dir, "RESULTS.md"), b.Bytes(), 0o644)
}

func (r *Results) writeHead(b *bytes.Buffer) {
	m := r.Machine
	unfinished := ""
	if !r.Complete {
		unfinished = "**The run was interrupted, or goes on: only some bouts were played.** "
	}
	command := "make bench"
	if r.Full {
		command += " FULL=1"
	}
	fmt.Fprintf(b, "# Results of `%s`\n\n"+
		"%sWritten by the run of %s; do not edit. All samples are in results.json, which a run writes beside this "+
		"page and a release carries.\n\n", command, unfinished, r.Started.UTC().Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(b, "- **Machine**: %s. Before the run its load was %s, and %s processors were busy.\n", m, m.Load,
		Number(m.Busy))
	fmt.Fprintf(b, "- **Network**: a veth pair between two network namespaces, of MTU 1500 and then 9000; the client "+
		"or sender on processor 0, the server or\n"+
		"  receiver on %d. TCP's congestion control is %s where a case does not choose one. A veth pair hands on "+
		"runs of packets\n"+
		"  whole: nobody's are cut to the MTU, as a network card would cut them. It has a packet taken in by the "+
		"processor that sent it, so that\n"+
		"  packets overtake each other; cases called \"ordered\" and \"big\" are played where they do not.\n",
		min(1, m.Processors-1), m.Congestion)
	if m.Guest != "" {
		fmt.Fprintf(b, "- **Guest with rxe**: %s. Its speeds say nothing about hardware; both stacks ran in it, on "+
			"one veth pair, in turn.\n", m.Guest)
	}
	if m.Wire != "" {
		fmt.Fprintf(b, "- **Wire between two drivers** (cases wire/): %s, both ends on that processor: the figures "+
			"tell what a message costs on each\n"+
			"  kind of port. xdp is zero-copy there.\n", m.Wire)
	}
	if m.Rivals != "" {
		fmt.Fprintf(b, "- **Rivals**, by package, version and the package's date: %s.\n", m.Rivals)
	}
}

func (r *Results) writeMethod(b *bytes.Buffer) {
	fmt.Fprintf(b, "- **Rounds**: cases that are held against each other are a bout, which is played %d times, %s a "+
		"case: in a shuffled order, then in its\n"+
		"  reverse, and so on (seed %d). Bouts follow each other in a shuffled order too. Figures are medians. "+
		"Latencies are half a round trip.\n"+
		"  Client and server of a play start anew each time. roce perf leaves out the first and the last quarter of "+
		"its time; iperf3's figure has its\n"+
		"  start in it.\n", r.Rounds, r.Duration, r.Seed)
	b.WriteString("- **Ratios**: in each round ours is divided by the best rival of that round; which one that was, " +
		"and how often, stands in the table. What is shown\n" +
		"  is the median of the rounds' ratios and, in brackets, an interval that holds the true one with a " +
		"confidence of 95 % or more. The best of\n" +
		"  several has luck on its side, which ours, played once a round, has not. A row is not measured if a rival " +
		"never ran, or if ours or one of\n" +
		"  the best was missing in more than one round.\n" +
		"- **Verdicts**: a bar is passed if the whole interval is on its side, failed if none of it is, and " +
		"else undecided.\n")
	fmt.Fprintf(b, "- **Words**: at par if the interval lies within %.0f %% of 1; undecided if it spans 1 and more "+
		"than that; else faster or slower (of costs: cheaper or dearer).\n", 100*atPar)
	fmt.Fprintf(b, "- **Cost**: processor time of the whole machine, both ends and the kernel's interrupts, during "+
		"the middle half of the client's life (of sparse\n"+
		"  exchanges nine tenths of it), per 10^9 bytes, per million messages or per exchange. A play has no cost if "+
		"others kept more than %s\n"+
		"  processors busy just before it, or if it did too little for the machine's counters, which tell hundredths "+
		"of a second. That\n"+
		"  of the best rival is the cost of the one that was the fastest. Time that the host took is in "+
		"nobody's cost.\n"+
		"  A program that spins keeps its processor busy: two such ends cost two processors, however "+
		"little they do.\n\n", Number(Quiet))
}

func (r *Results) writeVerdicts(b *bytes.Buffer) {
	count := map[string]int{}
	var bouts []string
	for _, v := range r.Verdicts {
		count[v.Figure.State]++
		count[v.Cost.State]++
		if len(bouts) == 0 || bouts[len(bouts)-1] != v.Bout {
			bouts = append(bouts, v.Bout)
		}
	}
	fmt.Fprintf(b, "## Bars: %d pass, %d fail, %d undecided, %d not measured\n\n", count[Passed], count[failed],
		count[undecided], count[notMeasured])
	for _, bout := range bouts {
		writeTable(b, strings.ToUpper(bout[:1])+bout[1:], r.Verdicts, func(v *Verdict) bool {
			return v.Bout == bout && !v.Reference
		})
	}
	if !slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return v.Reference }) {
		return
	}
	b.WriteString("## References\n\nWhat system calls alone reach, by programs that are paced so as not to lose " +
		"packets. It is no limit: they do less, but not all that could be done.\n\n")
	for _, bout := range bouts {
		writeTable(b, "References: "+bout, r.Verdicts, func(v *Verdict) bool { return v.Bout == bout && v.Reference })
	}
}

// writeTable writes those of the verdicts that belong in a table, a row each, with the costs if
// there are any; nothing if no verdict belongs there.
func writeTable(b *bytes.Buffer, title string, all []Verdict, belongs func(*Verdict) bool) {
	var rows []*Verdict
	costs := false
	for i := range all {
		if v := &all[i]; belongs(v) {
			rows = append(rows, v)
			costs = costs || v.Cost.Rounds > 0 || v.Cost.State != ""
		}
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "### %s\n\n| | ours | the best | ratio | | wanted | |", title)
	line := "|---|---|---|---|---|---|---|"
	if costs {
		b.WriteString(" cost: ours | the best's | ratio | | wanted | |")
		line += "---|---|---|---|---|---|"
	}
	fmt.Fprintf(b, "\n%s\n", line)
	for _, v := range rows {
		b.WriteString("| " + v.What + v.cells())
		if costs {
			b.WriteString(v.Cost.cells(v.CostUnit, ""))
		}
		b.WriteString(" |\n")
	}
	b.WriteString("\n")
}

// cells are those of a table's row that are about the figure.
func (v *Verdict) cells() string {
	if v.Figure.State == notMeasured {
		return fmt.Sprintf(" | | | | | %s | not measured: %s", v.Figure.Demand, Cell(v.Note))
	}
	best := v.Best
	if v.Note != "" {
		best += " (" + Cell(v.Note) + ")"
	}
	if v.P99[1] > 0 {
		best += fmt.Sprintf(" (p99: ours %s, theirs %s)", Number(v.P99[0]), Number(v.P99[1]))
	}
	return v.Figure.cells(v.Unit, best)
}

// cells are those of a table's row that are about a figure or a cost.
func (h *Held) cells(unit Unit, best string) string {
	if h.Rounds == 0 {
		return " | | | | | | " + h.State
	}
	theirs, ratio := "", fmt.Sprintf("%s (%s–%s)", Number(float64(h.Ratio)), Number(float64(h.Low)),
		Number(float64(h.High)))
	if best != "" || h.Theirs > 0 {
		theirs = strings.TrimSpace(fmt.Sprintf("%s %s", Number(h.Theirs), best))
	}
	if h.Rounds < h.Played {
		ratio += fmt.Sprintf(", %d of %d rounds", h.Rounds, h.Played)
	}
	return fmt.Sprintf(" | %s %s | %s | %s | %s | %s | %s", Number(h.Ours), unit.Name, theirs, ratio, h.Word, h.Demand,
		strings.ReplaceAll(h.State, failed, "**"+failed+"**"))
}

// WriteSummary prints the verdicts that could be reached, for a terminal, and what could not be
// had.
func (r *Results) WriteSummary(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, v := range r.Verdicts {
		for _, h := range []struct {
			Held
			what string
		}{{v.Figure, ""}, {v.Cost, ", cost"}} {
			if h.Rounds > 0 {
				fmt.Fprintf(w, "%s\t%s: %s%s\t%s\t%s\t(%s–%s)\t%s\t%s\n", h.State, v.Bout, v.What, h.what, h.Demand,
					Number(float64(h.Ratio)), Number(float64(h.Low)), Number(float64(h.High)), h.Word, v.Best)
			}
		}
	}
	for _, m := range r.Missing {
		fmt.Fprintf(w, "missing\t%s\n", Cell(m))
	}
	return w.Flush()
}

func (r *Results) writeProfiles(b *bytes.Buffer, dir string) error {
	for _, p := range r.Profiles {
		file := filepath.Join("profiles", p.Name+".txt")
		if err := os.WriteFile(filepath.Join(dir, file), []byte(p.Case+"\n\n"+p.Text), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(b, "[Where the time goes](%s) in the case that is %s by its bar, %s.\n\n", filepath.ToSlash(file),
			p.Name, p.Case)
	}
	return nil
}

func (r *Results) writeFigures(b *bytes.Buffer) {
	b.WriteString("## All figures\n\n| case | what | median | from–to | unit | cost | unit | rounds |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	byName := func(a, b *Figure) int { return cmp.Compare(a.Case, b.Case) }
	// They were played in any order.
	for _, f := range slices.SortedFunc(slices.Values(r.Figures), byName) {
		if !f.Measured() {
			fmt.Fprintf(b, "| %s | %s | failed | | %s | | | 0 |\n", f.Case, f.Brief, f.Unit.Name)
			continue
		}
		low, high := f.spread()
		cost := ""
		if c := f.medianCost(); c > 0 {
			cost = Number(c)
		}
		what := f.Brief
		if notes := f.notes(); notes != "" {
			what += " (" + Cell(notes) + ")"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s–%s | %s | %s | %s | %d |\n", f.Case, what, Number(f.Median()), Number(low),
			Number(high), f.Unit.Name, cost, f.CostUnit.Name, len(f.Samples))
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
		fmt.Fprintf(b, "- %s\n", Cell(l))
	}
}

// Cell makes a text fit a line of a table.
func Cell(s string) string {
	s = strings.Join(strings.Fields(strings.ReplaceAll(s, "|", "/")), " ")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	return s
}
