//go:build linux

package networks

// The figures of the cases, their medians, and how they stand to what is wanted.

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// leaves is what the headers of full packets leave of the link: 1024 bytes of each packet of ours,
// with IPv4, UDP, BTH, RETH, ICRC and Ethernet; 1448 of each of TCP, with timestamps.
func leaves(kind string) float64 {
	const ethernet = 14 + 8 + 4 + 12
	if strings.Contains(kind, "-") {
		return 1024.0 / (1024 + 20 + 8 + 12 + 16 + 4 + ethernet)
	}
	return 1448.0 / (MTU + ethernet)
}

// figureOf are the figures that a record may have; ok is false if it has none of the kind.
var figureOf = []struct {
	name, unit string
	of         func(c *Case, r *Record) (v float64, ok bool)
}{
	{"payload", "of what headers leave", func(c *Case, r *Record) (v float64, ok bool) {
		for i, f := range r.Flows {
			v += f * 1e9 / rate / leaves(c.Flows[i])
		}
		return v, len(r.Flows) > 0
	}},
	{"resent", "% sent again", func(c *Case, r *Record) (float64, bool) {
		// of a READ it is the requests, and what is sent again are responses
		return r.Resent, len(r.Flows) > 0 && strings.Contains(c.Flows[0], "-") && !strings.HasSuffix(c.Flows[0], "read")
	}},
	{"lost", "% lost", func(_ *Case, r *Record) (float64, bool) { return r.Lost, true }},
	{"evenness", "smaller : larger", func(c *Case, r *Record) (float64, bool) {
		if len(r.Flows) != 2 || c.Flows[0] != c.Flows[1] {
			return 0, false
		}
		return slices.Min(r.Flows) / slices.Max(r.Flows), true
	}},
	{"share", "of a TCP's", func(c *Case, r *Record) (float64, bool) {
		if len(r.Flows) < 2 || !strings.HasPrefix(c.Name, "beside") {
			return 0, false
		}
		sum := 0.0
		for _, f := range r.Flows[1:] {
			sum += f
		}
		return r.Flows[0] * float64(len(r.Flows)-1) / sum, true
	}},
	{"jain", "Jain's index", func(_ *Case, r *Record) (float64, bool) {
		sum, squares := 0.0, 0.0
		for _, f := range r.Flows {
			sum, squares = sum+f, squares+f*f
		}
		return sum * sum / squares / float64(len(r.Flows)), len(r.Flows) > 4 && len(r.Flows) == crowd
	}},
	{"p99", "ms, 99 of 100 exchanges", func(_ *Case, r *Record) (float64, bool) { return r.P99, r.P99 > 0 }},
}

// medians are those of a case's records, by the names of the figures.
func (s *State) medians(c *Case) map[string]float64 {
	all := map[string]float64{}
	for _, f := range figureOf {
		var values []float64
		for i := range s.records[c.Name] {
			if v, ok := f.of(c, &s.records[c.Name][i]); ok {
				values = append(values, v)
			}
		}
		if n := len(values); n > 0 {
			slices.Sort(values)
			all[f.name] = (values[(n-1)/2] + values[n/2]) / 2
		}
	}
	return all
}

// parts of a case's name.
func (c *Case) parts() (table, row, who string) {
	p := strings.SplitN(c.Name, "/", 3)
	return p[0], p[1], p[2]
}

// verdict is how the figures of a case stand to the bars.
func verdict(c *Case, mine map[string]float64, others map[string]map[string]float64) (met, missed []string) {
	table, row, who := c.parts()
	if !strings.Contains(who, "-") || who == "tcp-trip" {
		return nil, nil
	}
	for _, b := range bars {
		v, ok := mine[b.figure]
		if !ok || b.table != table || b.row != "" && b.row != row ||
			b.who != "" && !strings.HasSuffix("-"+who, "-"+b.who) {
			continue
		}
		text := b.figure
		if b.against != "" {
			other, ok := others[table+"/"+row+"/"+b.against][b.figure]
			if !ok || other == 0 {
				continue
			}
			v /= other
			text = fmt.Sprintf("%s %.2f of %s's", b.figure, v, b.against)
		}
		if b.atLeast > 0 {
			text += fmt.Sprintf(" >= %g", b.atLeast)
		}
		if b.atMost > 0 {
			text += fmt.Sprintf(" <= %g", b.atMost)
		}
		if v < b.atLeast || b.atMost > 0 && v > b.atMost {
			missed = append(missed, text)
		} else {
			met = append(met, text)
		}
	}
	return met, missed
}

// Write writes a table of each kind of network. machine is what it was measured on.
func (s *State) Write(w io.Writer, cases []Case, repeats int, machine string) error {
	of := map[string]map[string]float64{}
	played, first, last := 0, time.Time{}, time.Time{}
	for i := range cases {
		c := &cases[i]
		of[c.Name] = s.medians(c)
		for _, r := range s.records[c.Name] {
			if played++; first.IsZero() || r.At.Before(first) {
				first = r.At
			}
			if r.At.After(last) {
				last = r.At
			}
		}
	}
	fmt.Fprintf(w, "# Networks that lose, are shared, or are long\n\nBy `make bench NET=1`, commit %s, %s to %s, %s. "+
		"Medians of %d plays, where all are there (%d plays in all).\nA forwarder of the benchmark is the switch: "+
		"1 Gbit/s, MTU 1500, a queue that drops at its end; ours with defaults, path MTU 1024.\n"+
		"`payload` is a share of what the headers of full packets leave.\n",
		s.commit, first.Format(time.DateTime), last.Format(time.DateTime), machine, repeats, played)
	before, count := "", 0
	for i := range cases {
		c := &cases[i]
		table, row, who := c.parts()
		if s.Times(c.Name) == 0 {
			continue
		}
		if table != before {
			fmt.Fprintf(w, "\n## %s\n\n| network | who | plays | figures | wanted |\n|---|---|---|---|---|\n", table)
			before = table
		}
		var texts []string
		for _, f := range figureOf {
			if v, ok := of[c.Name][f.name]; ok {
				texts = append(texts, fmt.Sprintf("%s %.3g", f.name, v))
			}
		}
		met, missed := verdict(c, of[c.Name], of)
		count += len(missed)
		wanted := strings.Join(met, ", ")
		if len(missed) > 0 {
			wanted = strings.TrimPrefix(wanted+"; **missed: "+strings.Join(missed, ", ")+"**", "; ")
		}
		fmt.Fprintf(w, "| %s | %s | %d | %s | %s |\n", row, who, s.Times(c.Name), strings.Join(texts, ", "), wanted)
	}
	_, err := fmt.Fprintf(w, "\n%d demands are missed.\n", count)
	return err
}
