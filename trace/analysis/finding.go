package analysis

// What went wrong, or is worth a look.

import (
	"fmt"
	"strconv"
	"time"

	"github.com/goroce/goroce/trace"
)

// Weight is how bad a finding is.
type Weight uint8

// The weights.
const (
	Noted  Weight = iota // worth knowing
	Again                // something was sent again
	Lost                 // a packet was lost
	Wrong                // something that the protocol does not allow
	Failed               // a request or a connection failed
)

// String is the weight in a word.
func (w Weight) String() string { return [...]string{"note", "retry", "loss", "wrong", "failed"}[w] }

// Finding is one thing that was found.
type Finding struct {
	Packet int   // where in the capture, by number
	Time   int64 // nanoseconds
	Weight Weight
	Text   string
	Rule   string // of docs/rocev2.md
}

// maxFindings is how many of them a flow keeps; failures are kept beyond that.
const (
	maxFindings = 50
	maxFailures = 100
)

func (f *Flow) find(p *trace.Packet, w Weight, text, rule string) {
	x := Finding{p.Number, p.Time, w, text, rule}
	f.latest = &x
	if len(f.Findings) >= maxFindings && (w != Failed || len(f.Findings) >= maxFailures) {
		f.MoreFindings++
		return
	}
	f.Findings = append(f.Findings, x)
}

// duration prints nanoseconds with three digits: "1.23ms".
func duration(ns int64) string {
	d := time.Duration(ns)
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

// size prints a number of bytes: "1.2 MB".
func size(n uint64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f MB", float64(n)/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}
