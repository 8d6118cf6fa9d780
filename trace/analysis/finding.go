package analysis

// What went wrong, or is worth a look.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
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
	numWeights
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
	Guess  bool   // the packets do not tell for sure
	Reason []Sight
}

// Sight is a packet that a finding rests on, and what it shows.
type Sight struct {
	Packet int
	Time   int64
	PSN    wire.PSN
	Text   string
}

// seen is a packet that may become the reason for something.
type seen struct {
	packet int // 0: there is none
	at     int64
	psn    wire.PSN
}

func see(p *trace.Packet) seen { return seen{p.Number, p.Time, p.Wire.BTH.PSN()} }

// as says what the packet shows.
func (s seen) as(format string, args ...any) Sight {
	if s.packet == 0 {
		return Sight{}
	}
	return Sight{s.packet, s.at, s.psn, fmt.Sprintf(format, args...)}
}

// maxFindings is how many of them a flow keeps; failures are kept beyond that.
const (
	maxFindings = 50
	maxFailures = 100
)

// find notes a finding, and the packets that make it one; those that were not seen are left out.
func (f *Flow) find(p *trace.Packet, w Weight, text, rule string, reason ...Sight) {
	f.Weights[w]++
	x := Finding{Packet: p.Number, Time: p.Time, Weight: w, Text: text, Rule: rule, Guess: strings.Contains(text,
		Guess),
		Reason: slices.DeleteFunc(reason, func(s Sight) bool { return s.Packet == 0 })}
	f.latest = &x
	if len(f.Findings) >= maxFindings && (w != Failed || len(f.Findings) >= maxFailures) {
		f.MoreFindings++
		return
	}
	f.Findings = append(f.Findings, x)
}

// Reasons is what the finding rests on, in a line: "packet 3, PSN 5, 1.2µs before: ...".
func (x *Finding) Reasons() string {
	var all []string
	for _, s := range x.Reason {
		when := ""
		switch d := x.Time - s.Time; {
		case s.Packet == x.Packet:
		case d >= 0:
			when = ", " + duration(d) + " before"
		default: // two clocks, or two places
			when = ", " + duration(-d) + " later"
		}
		all = append(all, fmt.Sprintf("packet %d, PSN %v%s: %s", s.Packet, s.PSN, when, s.Text))
	}
	return strings.Join(all, "; ")
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
