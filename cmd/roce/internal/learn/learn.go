// Package learn is "roce learn": the lessons of package trace/learn in a terminal, as JSON, and as
// the files of docs/learn.
package learn

// Stages: the list, or one lesson: its text and its play, with what the student changes → what came
// of that → its question, an answer, and why.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/learn"
	"github.com/goroce/goroce/trace/page"
	"github.com/goroce/goroce/trace/world"
)

// Options say what to do with a lesson.
type Options struct {
	JSON    bool
	Changes []string // "drop:3", "delay:2:100us"
	Ask     bool     // read an answer from In
	In      io.Reader
}

// List shows all lessons in reading order.
func List(out io.Writer, asJSON bool) error {
	if asJSON {
		var pages []learn.Page
		for _, l := range learn.All() {
			pages = append(pages, l.Page(l.Play(nil)))
		}
		return encode(out, pages)
	}
	var b strings.Builder
	for _, c := range learn.Chapters() {
		fmt.Fprintf(&b, "%s\n", c.Title)
		for _, l := range c.Lessons {
			fmt.Fprintf(&b, "  %-18s %s\n", l.Name, l.Title)
		}
	}
	fmt.Fprintf(&b, "\nBegin with: roce learn %s\n", learn.All()[0].Name)
	_, err := io.WriteString(out, b.String())
	return err
}

// Run shows a lesson, plays it and asks its question.
func Run(out io.Writer, name string, o Options) error {
	l := learn.Find(name)
	if l == nil {
		return unknown(name)
	}
	changes, err := parseChanges(o.Changes)
	if err != nil {
		return err
	}
	x := l.Change(changes)
	p := x.Play
	for i, c := range changes {
		if c.Packet > len(p.Packets) {
			return fmt.Errorf("--change %q: the lesson has packets 1 to %d", o.Changes[i], len(p.Packets))
		}
	}
	if o.JSON {
		return encode(out, x)
	}
	if len(changes) == 0 {
		if err := l.Show(out, p); err != nil {
			return err
		}
		return ask(out, l, p, o)
	}
	return l.ShowChanged(out, x)
}

// unknown says that there is no lesson of the name, and which ones are called something like it.
func unknown(name string) error {
	var similar []string
	for _, l := range learn.All() {
		if name != "" && (strings.Contains(l.Name, name) || strings.Contains(name, l.Name)) {
			similar = append(similar, l.Name)
		}
	}
	said := fmt.Sprintf("there is no lesson %q", name)
	if similar != nil {
		said += " (is it " + strings.Join(similar, " or ") + "?)"
	}
	return fmt.Errorf("%s; \"roce learn --list\" shows all", said)
}

// ask asks the question. Nobody is asked where nobody can answer: the answer is shown.
func ask(out io.Writer, l *learn.Lesson, p *world.Play, o Options) error {
	fmt.Fprintf(out, "\n%s\n", learn.Wrap("Question: "+l.Question, 96))
	for i, a := range l.Answers {
		fmt.Fprintf(out, "  (%c) %s\n", 'a'+i, a)
	}
	right := string(rune('a' + l.Right))
	if o.Ask {
		fmt.Fprint(out, "Your answer: ")
		line, err := bufio.NewReader(o.In).ReadString('\n')
		if err != nil && line == "" {
			return nil // he has gone
		}
		if got := strings.Trim(strings.ToLower(strings.TrimSpace(line)), "()"); got == right {
			fmt.Fprintln(out, "Right.")
		} else {
			fmt.Fprintf(out, "No, it is (%s).\n", right)
		}
	} else {
		fmt.Fprintf(out, "Answer: (%s)\n", right)
	}
	for _, passage := range learn.Passages(l.Why, p) {
		fmt.Fprintln(out, learn.Wrap(passage.String(), 96))
	}
	return further(out, l, p)
}

// further says what to do next: lose the first packet, and the next lesson.
func further(out io.Writer, l *learn.Lesson, p *world.Play) error {
	fmt.Fprintln(out)
	if len(p.Packets) > 0 {
		fmt.Fprintf(out, "And if its first packet were lost? roce learn %s --change drop:1\n", l.Name)
	}
	all := learn.All()
	if i := slices.Index(all, l); i+1 < len(all) {
		fmt.Fprintf(out, "The next lesson: roce learn %s\n", all[i+1].Name)
	}
	return nil
}

// parseChanges reads "ACTION:PACKET" and "delay:PACKET:TIME".
func parseChanges(all []string) (changes []world.Change, err error) {
	for _, text := range all {
		words := strings.Split(text, ":")
		c := world.Change{Action: world.Action(words[0])}
		if len(words) > 1 {
			c.Packet, err = strconv.Atoi(words[1])
		}
		if err == nil && len(words) > 2 {
			var us float64
			us, err = strconv.ParseFloat(strings.TrimSuffix(words[2], "us"), 64)
			c.For = qp.Time(us * float64(world.Microsecond))
		}
		if err == nil && (len(words) < 2 || len(words) > 3 || len(words) == 3 && c.Action != world.Delay) {
			err = fmt.Errorf("want ACTION:PACKET, such as drop:2, or delay:PACKET:MICROSECONDS")
		}
		if err == nil {
			err = c.Check()
		}
		if err != nil {
			return nil, fmt.Errorf("--change %q: %w", text, err)
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// WritePage writes the lessons as one file for a browser, in which a student plays with them.
func WritePage(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(page.Write(f, nil), f.Close())
}

// WriteDocs writes the files of docs/learn, and removes what no lesson has any more: from a folder
// that is new, or that it has written before. In another such files are somebody's own.
func WriteDocs(folder string) error {
	files, err := learn.Docs()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(folder, "pictures"), 0o755); err != nil {
		return err
	}
	pages, _ := filepath.Glob(filepath.Join(folder, "*.md"))
	pictures, _ := filepath.Glob(filepath.Join(folder, "pictures", "*.svg"))
	old := append(pages, pictures...)
	index, _ := os.ReadFile(filepath.Join(folder, "README.md"))
	if len(old) > 0 && !bytes.Contains(index, []byte(learn.Generated)) {
		return fmt.Errorf("%s has pages of somebody else's, such as %s: name a new folder", folder, old[0])
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, filepath.FromSlash(name)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func encode(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", " ")
	return e.Encode(v)
}
