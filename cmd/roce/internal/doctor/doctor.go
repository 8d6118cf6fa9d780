// Package doctor says why two machines cannot connect: it looks at what lies between this one and a
// peer, and says of each thing whether it is right, and if not what to do.
//
//	doctor.go      a visit: facts, verdicts, what is printed (this file)
//	facts.go       the record of what is known
//	verdicts.go    what each check makes of the record, and nothing else
//	ask.go         filling the record: the route, the device, the peer's connection manager
//	ask_linux.go   … and what only Linux tells: neighbours, segmentation,
//	knock_linux.go … and the ICMP messages that answer datagrams
//	program.go     another sort of visit: will a foreign program find goroce's libraries?
package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Options are those of a visit.
type Options struct {
	Host    string        // the peer, by name or address
	Dev     string        // device name; "" is the address from which the peer is reached
	Wait    time.Duration // for an answer; more than 0
	Program string        // the file of a program to look at instead of a peer; "": none
	JSON    bool
}

// UnwellError is the error of a visit that has found something wrong.
type UnwellError struct{ Wrong, Checks int }

// Error says how much is wrong.
func (e *UnwellError) Error() string {
	return fmt.Sprintf("doctor: %d of %d checks failed", e.Wrong, e.Checks)
}

// Run is the whole program. It prints to out. The error is an *UnwellError if something is wrong
// between the two, or with the program.
func Run(ctx context.Context, out io.Writer, o Options) error {
	if o.Wait <= 0 {
		return fmt.Errorf("--wait %v: want more than 0", o.Wait)
	}
	list, err := examine(ctx, o)
	if err != nil {
		return err
	}
	if o.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(list)
	} else {
		err = list.print(out)
	}
	if wrong := list.wrong(); err == nil && wrong > 0 {
		return &UnwellError{wrong, len(list)}
	}
	return err
}

func examine(ctx context.Context, o Options) (verdicts, error) {
	if o.Program != "" {
		p, err := readProgram(o.Program)
		if err != nil {
			return nil, err
		}
		return judgeProgram(p), nil
	}
	f, err := ask(ctx, o)
	if err != nil {
		return nil, err
	}
	return judge(f), nil
}

// Verdict is what a check says.
type Verdict struct {
	Check string `json:"check"`
	Grade Grade  `json:"grade"`
	Says  string `json:"says"`         // what was found
	Do    string `json:"do,omitempty"` // what to do about it
}

// Grade is how good what was found is.
type Grade string

// The grades of a verdict.
const (
	Right   Grade = "ok"
	Note    Grade = "note" // nothing is wrong that can be seen from here
	Wrong   Grade = "BAD"
	Unknown Grade = "?" // it could not be looked at, for what is wrong elsewhere
)

// verdicts are those of a visit.
type verdicts []Verdict

func (list verdicts) wrong() (n int) {
	for _, v := range list {
		if v.Grade == Wrong {
			n++
		}
	}
	return n
}

// print prints a line for each verdict, and below it what to do.
func (list verdicts) print(out io.Writer) error {
	var b strings.Builder
	for _, v := range list {
		fmt.Fprintf(&b, "%-4s  %-12s  %s\n", v.Grade, v.Check, v.Says)
		if v.Do != "" {
			fmt.Fprintf(&b, "%-4s  %-12s  -> %s\n", "", "", v.Do)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
