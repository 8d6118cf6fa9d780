package ladder

// The ladder for a terminal: a column every so many characters.

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	textMargin = 24 // number and time
	textGap    = 52 // between two lines
	screen     = 80 // of two lines nothing is wider, so that no line of them wraps
)

// WriteText writes the diagram as text.
func (l *Ladder) WriteText(out io.Writer) error {
	var b strings.Builder
	head := strings.Repeat(" ", textMargin)
	for i, c := range l.columns {
		at := textMargin + i*textGap - len(c)/2
		if i == 1 && len(l.columns) == 2 {
			at = min(at, screen-len(c))
		}
		head = padTo(head, at) + c
	}
	b.WriteString(strings.TrimRight(head, " ") + "\n")
	for i := range l.rows {
		r := &l.rows[i]
		fmt.Fprintf(&b, "%6d %14s  %s\n", r.number, l.since(r), l.arrow(r))
		if r.note != "" {
			b.WriteString(strings.Repeat(" ", textMargin) + l.rails() + "   " + r.note + "\n")
		}
	}
	if l.left > 0 {
		fmt.Fprintf(&b, "... %d packets more: --rows, --from and --to choose others\n", l.left)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// rails are the lines down.
func (l *Ladder) rails() string {
	return strings.TrimRight(strings.Repeat("│"+strings.Repeat(" ", textGap-1), len(l.columns)), " ")
}

// arrow is a row's arrow, between the lines of the other columns.
func (l *Ladder) arrow(r *row) string {
	line := []rune(strings.Repeat("│"+strings.Repeat(" ", textGap-1), len(l.columns)))
	from, to := r.from*textGap, r.to*textGap
	text := []rune(" " + r.label + " ")
	if from == to {
		return strings.TrimRight(string(line[:from+1])+"↺"+string(text), " ")
	}
	lo, hi := min(from, to)+1, max(from, to)-1
	for i := lo; i <= hi; i++ {
		line[i] = '─'
	}
	if to > from {
		line[hi] = '▶'
	} else {
		line[lo] = '◀'
	}
	if room := hi - lo - 3; len(text) > room {
		text = append(text[:room-1], '…')
	}
	copy(line[lo+(hi-lo-len(text))/2+1:], text)
	return strings.TrimRight(string(line), " ")
}

// padTo fills with blanks up to a column.
func padTo(s string, n int) string {
	return s + strings.Repeat(" ", max(1, n-utf8.RuneCountInString(s)))
}
