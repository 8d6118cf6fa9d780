// Package told says in sentences what a student's change has made of a play: what was done to the
// packet, what an end saw of it, which timer, NAK or mark acted and by which rule, what was done
// with what came twice, what it cost, and what the programs noticed. Every number is the play's
// own; the fields of a sentence have them, for a test to hold them against packets, records and
// completions.
//
// The files, in reading order:
//
//	told.go      sentences, and which of them are said
//	compare.go   two plays: what is in one and not in the other
//	change.go    what was done to the packet
//	causes.go    what acted on it, a row for each rule
//	sights.go    what an end saw of it
//	repeats.go   what came twice
//	reasons.go   why nothing acted
//	ending.go    what it cost, and what the programs noticed
//	rules.go     the sections of docs/rocev2.md; words.go: names, times, numbers
package told

import (
	"slices"

	"github.com/goroce/goroce/trace/world"
)

// Kind is what a sentence is about.
type Kind string

// The kinds, in the order in which they are said.
const (
	Change      Kind = "change"      // what was done to a packet
	Saw         Kind = "saw"         // what an end saw of it
	Cause       Kind = "cause"       // what acted then, by which rule; or why nothing did
	Twice       Kind = "twice"       // what became of what came twice
	Cost        Kind = "cost"        // in time, packets and bytes
	Application Kind = "application" // what the programs noticed
)

// Sentence is a sentence with its numbers. Those that a rule has no use for are 0. Times are
// nanoseconds of the play.
type Sentence struct {
	Kind    Kind    `json:"kind"`
	Rule    string  `json:"rule"` // which row of a table made it: "ack timeout"
	Text    string  `json:"text"`
	Section string  `json:"section,omitempty"` // of docs/rocev2.md that has the rule: "4.7"
	Title   string  `json:"title,omitempty"`   // of the section
	Link    string  `json:"link,omitempty"`    // to it
	Host    int     `json:"host"`              // who sees or acts
	Packets []int   `json:"packets,omitempty"` // that it names
	PSN     uint32  `json:"psn,omitempty"`
	At      int64   `json:"at,omitempty"`     // when
	Before  int64   `json:"before,omitempty"` // when without the change
	For     int64   `json:"for,omitempty"`    // how long
	Count   int     `json:"count,omitempty"`  // how many: what of, the rule says
	Without int     `json:"without,omitempty"`
	Bytes   int     `json:"bytes,omitempty"` // that were sent
	Spared  int     `json:"spared,omitempty"`
	WR      uint64  `json:"wr,omitempty"`     // wr_id of a completion
	Other   uint64  `json:"other,omitempty"`  // wr_id of the one in whose place it is
	Trip    int64   `json:"trip,omitempty"`   // the round trip as it was measured
	Code    int     `json:"code,omitempty"`   // of the ack timeout
	Done    int64   `json:"done,omitempty"`   // when what was sent again was executed
	Want    uint32  `json:"want,omitempty"`   // the PSN that is missing
	Memory  []Other `json:"memory,omitempty"` // whose memory is not as without the change
}

// Other is what is not as without the change in the end in a host's memory.
type Other struct {
	Host   int    `json:"host"`
	Bytes  int    `json:"bytes"`
	Region string `json:"region,omitempty"` // if they lie together, in which one
	At     int    `json:"at,omitempty"`     // and where in it
	Is     string `json:"is,omitempty"`     // "16": 8 bytes as a number, or the bytes themselves
	Was    string `json:"was,omitempty"`
}

// most sentences between that about the change and those about its price.
const most = 3

// Tell says what the changes have made of a play: before is the one without them. Without a change
// it says nothing.
func Tell(before, after *world.Play, changes []world.Change) []Sentence {
	c := compare(before, after, changes)
	if len(c.changed) == 0 {
		return nil
	}
	all := []Sentence{c.change()}
	all = append(all, c.story()...)
	all = append(all, c.cost(), c.application())
	for i := range all {
		if s := &all[i]; s.Section != "" {
			s.Title, s.Link = s.Section+" "+titles[s.Section], rules+anchor(s.Section)
		}
	}
	return all
}

// story is what came of the change: what acted, what came twice, what an end saw before. If nothing
// acted and nothing came twice, it is why not.
func (c *comparison) story() []Sentence {
	causes, repeats, seen := c.causes(), c.repeats(), c.sights()
	if s, ok := c.full(); ok {
		seen = append(seen, s)
	}
	if len(causes)+len(repeats) == 0 {
		if s, ok := c.reason(); ok || len(seen) == 0 {
			causes = append(causes, s)
			seen = slices.DeleteFunc(seen, func(x Sentence) bool {
				return x.Rule == "dropped" && s.Rule == "dropped "+
					"anyway"
			})
		}
	}
	var chosen []Sentence
	for i := range most {
		for _, more := range [][]Sentence{causes, repeats, seen} {
			if i < len(more) && len(chosen) < most {
				chosen = append(chosen, more[i])
			}
		}
	}
	if s, ok := c.relieved(); ok && len(chosen) < most && !slices.ContainsFunc(chosen, func(x Sentence) bool {
		return x.Text == s.Text
	}) {
		chosen = append(chosen, s)
	}
	if s, ok := c.full(); ok && len(chosen) == most && billOf(c.after).last < billOf(c.before).last &&
		!slices.ContainsFunc(chosen, func(x Sentence) bool { return x.Rule == s.Rule }) {
		chosen[most-1] = s // what was done about a loss does not say why it is over sooner
	}
	slices.SortStableFunc(chosen, func(a, b Sentence) int { return int(a.At - b.At) })
	return chosen
}
