package learn

// "roce learn quiz": questions of package trace/quiz, asked on a terminal, checked and explained.

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/goroce/goroce/cmd/roce/internal/similar"
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
	Width int // of the terminal, 0: there is none
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
			return unknownKind(o.Kind)
		}
	}
	all, err := quiz.Ask(o.Seed, o.Count, kind)
	if err != nil {
		return err
	}
	if o.JSON {
		return encode(out, map[string]any{"seed": o.Seed, "questions": all})
	}
	in, width := bufio.NewScanner(o.In), (&Options{Width: o.Width}).width()
	right, asked := 0, 0
	for i := range all {
		q := &all[i]
		fmt.Fprintf(out, "%d of %d\n%s\n", i+1, len(all), learn.Wrap(q.Text, width))
		ok, here := askNumber(out, in, q)
		if ok {
			right++
		}
		fmt.Fprintf(out, "%s\n\n", learn.Wrap(q.Why, width))
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

// Sheet works the exercise sheet with its own numbers.
func Sheet(out io.Writer, asJSON bool, columns int) error {
	if asJSON {
		return encode(out, quiz.Sheet())
	}
	width := (&Options{Width: columns}).width()
	var b strings.Builder
	for _, t := range quiz.Sheet() {
		fmt.Fprintf(&b, "%s\n  %s\n", learn.Wrap(t.Name+"  "+t.Text, width), said(&t.Question))
		b.WriteString(learn.Wrap(t.Why+" "+t.Remark, width) + "\n\n")
	}
	_, err := io.WriteString(out, strings.TrimSuffix(b.String(), "\n"))
	return err
}

// unknownKind says that there are no such questions, and which ones are called something like it.
func unknownKind(name string) error {
	var names []string
	for _, k := range quiz.Kinds {
		names = append(names, k.Name)
	}
	said := fmt.Sprintf("there are no questions %q", name)
	if meant := similar.To(name, names); meant != nil {
		said += " (is it " + strings.Join(meant, " or ") + "?)"
	}
	return fmt.Errorf("%s; \"roce learn quiz --list\" shows all kinds", said)
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
