package play

// What is asked for on the command line.

import (
	"cmp"
	"regexp"
	"time"

	"github.com/goroce/goroce/bench/figures"
)

// Options of a run or a comparison.
type Options struct {
	Rounds     int           // how often every case is played
	Duration   time.Duration // how long a case takes, about
	Quick      bool          // one round
	Full       bool          // also the cases that a short run leaves out
	List       bool          // play nothing, and say what there is
	Only, Skip string        // regular expressions of names
	Out        string        // folder for the results; "": none
	PGO        string        // file for the profile that the command is built by; "": measure
	Guest      bool          // also play in the guests

	Old, JSON string // commit to compare with, and file for what came of it
	Pairs     int    // how many pairs of each case
	Seed      uint64 // of the order of bouts and cases
}

// Choice returns what -only, -skip and -full leave. Who asks for cases by their names gets them
// also if only a full run plays them.
func (o *Options) Choice() (func(*figures.Case) bool, error) {
	keep, err := regexp.Compile(o.Only)
	if err != nil {
		return nil, err
	}
	drop, err := regexp.Compile(cmp.Or(o.Skip, "^$"))
	if err != nil {
		return nil, err
	}
	return func(c *figures.Case) bool {
		return keep.MatchString(c.Name) && !drop.MatchString(c.Name) && (!c.Full || o.Full || o.Only != "")
	}, nil
}
