package learn

// "roce learn progress": the files that students have saved from the page, as a table for their
// teacher. trace/page/assets/progress.js writes them.

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"
)

// progress is a student's file, as far as the table needs it.
type progress struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	Name    string `json:"name"`
	Written string `json:"written"`
	InAll   int    `json:"lessonsInAll"`
	Lessons []struct {
		Lesson      string `json:"lesson"`
		Steps       int    `json:"steps"`
		Of          int    `json:"of"`
		Changes     int    `json:"changes"`
		Answers     []any  `json:"answers"`
		Right       bool   `json:"right"`
		RightAtOnce bool   `json:"rightAtOnce"`
	} `json:"lessons"`
}

// progressKind is what a file says that it is, in its first version.
const progressKind = "goroce progress"

// Progress writes a line for each file: who, how many lessons were begun and walked to their end,
// how many questions answered, rightly, and rightly at once, how many changes made, and what is
// not right yet.
func Progress(out io.Writer, files []string) error {
	all := make([]progress, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		p := &all[i]
		if err := json.Unmarshal(text, p); err != nil || p.Kind != progressKind || p.Version != 1 {
			return fmt.Errorf("%s: it is not a progress file of version 1: it must be what \"Save as a file\" "+
				"on the page of \"roce learn\" has written", file)
		}
		if p.Name == "" {
			p.Name = file
		}
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "name\tlessons\twalked\tanswered\tright\tat once\tchanges\tsaved\tnot right yet")
	for i := range all {
		all[i].line(w)
	}
	return w.Flush()
}

// line writes a student's.
func (p *progress) line(w io.Writer) {
	var walked, answered, right, atOnce, changes int
	var wrong []string
	for i := range p.Lessons {
		l := &p.Lessons[i]
		walked += count(l.Of > 0 && l.Steps >= l.Of)
		answered += count(len(l.Answers) > 0)
		right += count(l.Right)
		atOnce += count(l.RightAtOnce)
		changes += l.Changes
		if len(l.Answers) > 0 && !l.Right {
			wrong = append(wrong, l.Lesson)
		}
	}
	fmt.Fprintf(w, "%s\t%d of %d\t%d\t%d\t%d\t%d\t%d\t%.10s\t%s\n", printable(p.Name), len(p.Lessons), p.InAll,
		walked, answered, right, atOnce, changes, printable(p.Written), printable(strings.Join(wrong, " ")))
}

// printable is what a student's file may do to the terminal: letters, no tabs, no escapes.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}

// count is 1 for what is so.
func count(so bool) int {
	if so {
		return 1
	}
	return 0
}
