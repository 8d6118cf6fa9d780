package diff

// All of it as text.

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// maxShown is how many packets of a kind the text names.
const maxShown = 20

// WriteJSON writes the result as one JSON object.
func (r *Result) WriteJSON(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Write writes the result as text.
func (r *Result) Write(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "A: %d packets of RoCE; B: %d\n", r.Packets[0], r.Packets[1])
	if r.Same {
		b.WriteString("both files have the same packets at the same times: one capture twice says nothing of what is " +
			"between two ends\n")
	}
	if len(r.Pairs) == 0 {
		b.WriteString("no two addresses talk to each other in both captures\n")
	}
	for i := range r.Pairs {
		r.Pairs[i].write(&b)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (p *Pair) write(b *strings.Builder) {
	fmt.Fprintf(b, "\nA is at %s, B at %s: %s", p.Addresses[0], p.Addresses[1], p.Known)
	if p.Guess {
		b.WriteString(" (a guess)")
	}
	b.WriteByte('\n')
	if c := p.Clock; c != nil && c.Unsteady {
		b.WriteString("  the clocks drift, and by no line: packets would come before they were sent, and nothing " +
			"is said of delays (a guess)\n")
	} else if c != nil {
		if c.Drift != 0 {
			fmt.Fprintf(b, "  the clocks drift: B's gains %.3g ppm on A's, by the line that fits best; it is taken "+
				"out (a guess)\n", c.Drift)
		}
		fmt.Fprintf(b, "  B's clock is %s; the fastest packets there and back take %s together\n", apart(c.Offset),
			short(c.RoundTrip))
		fmt.Fprintf(b, "  delays are right up to a constant: the fastest packet of each way is taken to need %s. If "+
			"the ways "+
			"differ, all\n  delays of one are too long by the same time, %s at most, and those of the other too "+
			"short by it\n",
			short(c.RoundTrip/2), short(c.RoundTrip/2))
	} else {
		b.WriteString("  packets of one way only: nothing is known of the clocks, and delays are counted from the " +
			"fastest\n")
	}
	for i := range p.Ways {
		p.Ways[i].write(b)
	}
}

// apart says how far a clock is ahead.
func apart(ns int64) string {
	if ns < 0 {
		return short(-ns) + " behind A's"
	}
	return short(ns) + " ahead of A's"
}

// short prints nanoseconds with about four digits.
func short(ns int64) string {
	d := time.Duration(ns)
	for unit := time.Second; unit > time.Nanosecond; unit /= 1000 {
		if d >= unit || d <= -unit {
			return d.Round(unit / 1000).String()
		}
	}
	return d.String()
}

func (w *Way) write(b *strings.Builder) {
	fmt.Fprintf(b, "  %s to %s: %d sent, %d arrived, %d lost, %d came twice, %d were overtaken\n", w.From, w.To, w.Sent,
		w.Arrived, len(w.Lost), len(w.Twice), len(w.Overtook))
	if w.Guess {
		b.WriteString("    packets that are alike follow each other within the time that one may need: which of them " +
			"is missing is a guess\n")
	}
	if w.Outside > 0 {
		fmt.Fprintf(b, "    of %d nothing is known: the other capture begins later or ends before them\n", w.Outside)
	}
	if d := w.Delay; d != nil {
		fmt.Fprintf(b, "    delays: %s at least, %s in the median, %s in 99 of 100, %s at most\n", short(d.Min),
			short(d.Median),
			short(d.P99), short(d.Max))
	}
	for _, x := range []struct {
		word   string
		events []Event
		say    func(e *Event) string
	}{
		{"lost", w.Lost, func(e *Event) string { return fmt.Sprintf("packet %d", e.Sent) }},
		{"twice", w.Twice, func(e *Event) string {
			return fmt.Sprintf("packet %d is there as %d, and as %d again", e.Sent, e.By, e.Arrived)
		}},
		{"late", w.Overtook, func(e *Event) string {
			return fmt.Sprintf("packet %d is there as %d, behind %d, which was sent later", e.Sent, e.Arrived, e.By)
		}},
		{"marked", w.Marked, func(e *Event) string { return fmt.Sprintf("packet %d, there %d", e.Sent, e.Arrived) }},
		{"damage", w.Damaged, func(e *Event) string {
			return fmt.Sprintf("packet %d, there %d with a wrong ICRC", e.Sent, e.Arrived)
		}},
		{"only", w.Strange, func(e *Event) string {
			return fmt.Sprintf("packet %d of the receiver, which the sender's capture does not have", e.Arrived)
		}},
	} {
		for i := range x.events[:min(len(x.events), maxShown)] {
			fmt.Fprintf(b, "    %-6s %s: %s\n", x.word, x.say(&x.events[i]), x.events[i].What)
		}
		if n := len(x.events) - maxShown; n > 0 {
			fmt.Fprintf(b, "    ... and %d more\n", n)
		}
	}
}
