package learn

// "roce learn quiz": questions of package trace/quiz, asked on a terminal, checked and explained.

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/goroce/goroce/trace/learn"
	"github.com/goroce/goroce/trace/quiz"
)

// QuizOptions say what to ask.
type QuizOptions struct {
	Kind  string // "" for all
	Count int
	Seed  uint64
	JSON  bool // print the questions with their answers, ask nothing
	In    io.Reader
}

// Kinds lists what can be asked.
func Kinds(out io.Writer) {
	for _, k := range quiz.Kinds {
		fmt.Fprintf(out, "%-10s %s\n", k.Name, k.About)
	}
}

// Quiz asks questions and says at the end how many answers were right. Who leaves (the input ends)
// is told the answer to the last question.
func Quiz(out io.Writer, o QuizOptions) error {
	var kind *quiz.Kind
	if o.Kind != "" {
		if kind = quiz.Find(o.Kind); kind == nil {
			return fmt.Errorf("there are no questions %q; \"roce learn quiz --list\" shows all kinds", o.Kind)
		}
	}
	all, err := quiz.Ask(o.Seed, o.Count, kind)
	if err != nil {
		return err
	}
	if o.JSON {
		return encode(out, map[string]any{"seed": o.Seed, "questions": all})
	}
	in := bufio.NewScanner(o.In)
	right, asked := 0, 0
	for i := range all {
		q := &all[i]
		fmt.Fprintf(out, "%d of %d\n%s\n", i+1, len(all), learn.Wrap(q.Text, 96))
		ok, here := askNumber(out, in, q)
		if ok {
			right++
		}
		fmt.Fprintf(out, "%s\n\n", learn.Wrap(q.Why, 96))
		if !here {
			break
		}
		asked++
	}
	fmt.Fprintf(out, "%d of %d right. The same questions again: roce learn quiz --seed %d --count %d", right, asked,
		o.Seed, o.Count)
	if kind != nil {
		fmt.Fprintf(out, " %s", kind.Name)
	}
	fmt.Fprintln(out)
	return in.Err()
}

// askNumber asks until a number comes. here is false if nobody is there any more.
func askNumber(out io.Writer, in *bufio.Scanner, q *quiz.Question) (right, here bool) {
	unit := ""
	if q.Unit != "" {
		unit = " (" + q.Unit + ")"
	}
	for {
		fmt.Fprintf(out, "Your answer%s: ", unit)
		if !in.Scan() {
			fmt.Fprintf(out, "\nIt is %s.\n", said(q))
			return false, false
		}
		right, err := q.Check(in.Text())
		switch {
		case err != nil:
			fmt.Fprintln(out, err)
			continue
		case right:
			fmt.Fprintln(out, "Right.")
		default:
			fmt.Fprintf(out, "No, it is %s.\n", said(q))
		}
		return right, true
	}
}

func said(q *quiz.Question) string { return strings.TrimSpace(quiz.Number(q.Answer) + " " + q.Unit) }
