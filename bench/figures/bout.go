package figures

// What a bout is: where it is played, how often and how long, and by what names its cases go on
// links of one MTU or another.

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bout is a group of cases that are played together, with what is asked of them.
type Bout struct {
	Name   string
	Place  Place
	Rounds int           // at most, however many were asked for; 0: as many as were
	Rest   time.Duration // what the machine needs afterwards
	Cases  []Case
	Bars   []Bar
}

// Place is where a bout is played.
type Place string

const (
	OnStage Place = ""      // two namespaces of this machine
	InGuest Place = "guest" // the guest with rxe
	OnWire  Place = "wire"  // the guest with two cards
)

// At gives cases their place on links of an MTU, and leaves out those that belong to another one.
func At(mtu int, cases []Case) (here []Case) {
	for _, c := range cases {
		if c.MTU == 0 || c.MTU == mtu {
			c.MTU, c.Name = mtu, fmt.Sprintf("%d/%s", mtu, c.Name)
			here = append(here, c)
		}
	}
	return here
}

// Of returns the cases of a unit.
func Of(unit Unit, cases []Case) (some []Case) {
	for _, c := range cases {
		if c.Unit == unit {
			some = append(some, c)
		}
	}
	return some
}

// OnlyFull leaves cases to full runs.
func OnlyFull(cases []Case) (full []Case) {
	for _, c := range cases {
		c.Full = true
		full = append(full, c)
	}
	return full
}

// OnlyInFull says whether a short run plays none of the cases.
func OnlyInFull(cases []Case) bool {
	return !slices.ContainsFunc(cases, func(c Case) bool { return !c.Full })
}

// WithoutMTU is a case's name as it would be on links of any MTU.
func WithoutMTU(name string) string {
	for _, mtu := range MTUs {
		if rest, ok := strings.CutPrefix(name, fmt.Sprintf("%d/", mtu)); ok {
			return rest
		}
	}
	return name
}

// Maker is the word of a case's name that says whose program it is, or where it is played.
func Maker(name string) string {
	who, _, _ := strings.Cut(WithoutMTU(name), "/")
	return who
}

// Chosen returns the bouts with those of their cases that a choice leaves, without empty ones.
func Chosen(bouts []Bout, choice func(*Case) bool) (some []Bout) {
	for _, b := range bouts {
		b.Cases = slices.DeleteFunc(slices.Clone(b.Cases), func(c Case) bool { return !choice(&c) })
		if len(b.Cases) > 0 {
			some = append(some, b)
		}
	}
	return some
}

// Times is how often the bout's cases are played when n rounds were asked for.
func (b *Bout) Times(n int) int {
	if b.Rounds > 0 {
		return min(b.Rounds, n)
	}
	return n
}

// Starting is what a play takes beyond its duration: programs start, meet and end.
var Starting = map[Place]time.Duration{
	OnStage: 700 * time.Millisecond,
	InGuest: 5 * time.Second,
	OnWire:  4 * time.Second,
}

// Takes is how long the bout lasts, about.
func (b *Bout) Takes(n int, set Setting) (sum time.Duration) {
	played := map[string]bool{}
	for _, c := range b.Cases {
		if key := fmt.Sprint(c.Play(set)); c.Shared && played[key] {
			continue
		} else {
			played[key] = true
		}
		one := set.Duration
		if c.Takes != nil {
			one = c.Takes(set.Duration)
		}
		sum += one + Starting[b.Place]
	}
	return time.Duration(b.Times(n))*sum + b.Rest
}
