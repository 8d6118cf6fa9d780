package ladder

// The ladder as one HTML file: no script, nothing fetched, each packet opens to its bytes. What
// comes from a capture passes html/template, which escapes it for where it stands.

import (
	_ "embed"
	"html/template"
	"io"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// pageRow is a row as the template wants it.
type pageRow struct {
	Number               int
	Time, Label, Note    string
	Picture              string
	Class                string
	Marked, Left, Itself bool
	First, Last          int // columns of the grid
}

// WriteHTML writes the diagram as a page.
func (l *Ladder) WriteHTML(out io.Writer) error {
	rows := make([]pageRow, len(l.rows))
	for i := range l.rows {
		r := &l.rows[i]
		lo, hi := min(r.from, r.to), max(r.from, r.to)
		rows[i] = pageRow{Number: r.number, Time: l.since(r), Label: r.label, Note: r.note, Picture: r.picture, Class: classNames[r.class],
			Marked: r.marked, Left: r.to < r.from, Itself: lo == hi, First: lo + 1, Last: hi + 1}
		if lo == hi {
			rows[i].Last = hi + 2
		}
	}
	return page.Execute(out, map[string]any{"Title": l.Title, "Columns": l.columns, "Rows": rows, "Left": l.left, "Spans": max(len(l.columns)-1, 1)})
}
