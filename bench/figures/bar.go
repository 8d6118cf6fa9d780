package figures

// What a bar is: a demand on a figure of ours.

import (
	"fmt"
	"strings"
)

// Bar is one demand.
type Bar struct {
	What string
	Ours string // the case that must reach it
	// Against is a regular expression: the best of these cases is 1 in each round. Without one,
	// Factor is the limit itself.
	Against string
	Rule    Rule // "": nothing is demanded
	Factor  float64
	// Cost is how many times the best one's processor time a unit of work may take; with 0 nothing
	// is demanded.
	Cost float64

	Reference bool   // it is held against what system calls alone reach
	Only      string // the port that it is about, and the MTU: "udp", "packet 9000"; "": all
}

// Rule is the way of a bar.
type Rule string

// Ways of bars.
const (
	AtLeast Rule = "≥"
	AtMost  Rule = "≤"
)

// demand of the bar on a ratio or figure, in words.
func demand(rule Rule, factor float64, unit string) string {
	if rule == "" {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", rule, Number(factor), unit))
}
