package ladder

// The ladder as a picture. What comes from a capture is escaped.

import (
	"bufio"
	"fmt"
	"html"
	"io"
)

const (
	svgTop, svgRow     = 50, 24 // pixels down
	svgLeft, svgColumn = 190, 420
	svgRight           = 460
)

// colours of the classes, readable on white and on black.
var colours = [...]string{
	Request:  "#2f7fd6",
	Response: "#2f9e5b",
	Refusal:  "#d9480f",
	Connect:  "#8250df",
	Notice:   "#b08800",
	Damaged:  "#d1242f",
}

// WriteSVG writes the diagram as a picture.
func (l *Ladder) WriteSVG(out io.Writer) error {
	w := bufio.NewWriter(out)
	width := svgLeft + svgColumn*max(len(l.columns)-1, 0) + svgRight
	height := svgTop + svgRow*(len(l.rows)+2)
	fmt.Fprintf(w,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="monospace" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(w, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		html.EscapeString(l.Title))
	for i, c := range l.columns {
		x := svgLeft + i*svgColumn
		fmt.Fprintf(w,
			`<text x="%d" y="22" text-anchor="middle" font-weight="bold">%s</text><line x1="%d" y1="30" x2="%d" y2="%d" stroke="#888"/>`+"\n", x, html.EscapeString(c), x, x, height-svgRow)
	}
	for i := range l.rows {
		l.svgArrow(w, &l.rows[i], svgTop+i*svgRow)
	}
	if l.left > 0 {
		fmt.Fprintf(w, `<text x="10" y="%d">... %d packets more</text>`+"\n", height-svgRow/2, l.left)
	}
	fmt.Fprintln(w, "</svg>")
	return w.Flush()
}

// svgArrow draws a row.
func (l *Ladder) svgArrow(w io.Writer, r *row, y int) {
	from, to := svgLeft+r.from*svgColumn, svgLeft+r.to*svgColumn
	fmt.Fprintf(w, `<text x="8" y="%d" fill="#555">%d  %s</text>`, y+4, r.number, l.since(r))
	c := colours[r.class]
	dash := ""
	if r.marked {
		dash = ` stroke-dasharray="2 3"`
	}
	tip := 8
	if to < from {
		tip = -8
	}
	if from == to {
		fmt.Fprintf(w, `<path d="M%d %d h24 v8 h-24" fill="none" stroke="%s"%s/>`, from, y-4, c, dash)
	} else {
		fmt.Fprintf(w, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="1.5"%s/>`, from, y, to-tip,
			y, c, dash)
	}
	fmt.Fprintf(w, `<path d="M%d %d l%d -4 v8 z" fill="%s"/>`, to, y, -tip, c)
	middle, anchor := (from+to)/2, "middle"
	if from == to {
		middle, anchor = from+30, "start"
	}
	fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="%s" fill="%s">%s</text>`, middle, y-5, anchor, c,
		html.EscapeString(r.label))
	if r.note != "" {
		x := svgLeft + svgColumn*max(len(l.columns)-1, 0) + 12
		fmt.Fprintf(w, `<text x="%d" y="%d" fill="#d9480f">%s</text>`, x, y+4, html.EscapeString(r.note))
	}
	fmt.Fprintln(w)
}
