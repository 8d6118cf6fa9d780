package learn

// A play as a picture: a line down for each host, time downwards, not to scale. Each thing that
// happens has a row of its own, as high as its text is long; a packet goes from the row where it is
// sent to that where it arrives, so that overtaking shows.

import (
	"bufio"
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/goroce/goroce/trace/world"
)

const (
	rowHeight  = 22
	lineHeight = 15 // of a text's further lines
	lineLength = 66 // of a text, in characters
	amidLength = 54 // of one between two hosts
	topMargin  = 48
	leftMargin = 510 // room for what the first host does, and the times
	between    = 380 // hosts
	maxRows    = 100 // that a picture has at most
)

// colours of the kinds of packets, readable on white.
var colours = map[string]string{
	"request":  "#2f7fd6",
	"response": "#2f9e5b",
	"ack":      "#2f9e5b",
	"nak":      "#d9480f",
	"cnp":      "#b08800",
	"cm":       "#8250df",
	"other":    "#666",
}

// mark is where something is in the picture: its time, and what it is.
type mark struct {
	time    int64
	entry   *world.Entry
	packet  *world.Packet
	arrival int // 0: the packet is sent; 1: it arrives; 2: it arrives again
}

// marks are the rows in the order of time: at one time first what arrives, then what is done, then
// what is sent.
func (l *Lesson) marks(p *world.Play) (all []mark) {
	for _, s := range l.steps(p) {
		switch {
		case s.entry != nil:
			all = append(all, mark{time: s.time, entry: s.entry})
		case s.packet != nil:
			all = append(all, mark{time: s.time, packet: s.packet})
			for i, t := range []int64{s.packet.Arrived, s.packet.Again} {
				if t > 0 {
					all = append(all, mark{t, nil, s.packet, i + 1})
				}
			}
		}
	}
	order := func(m mark) int {
		switch {
		case m.arrival > 0:
			return 0
		case m.entry != nil:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b mark) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(order(a), order(b)))
	})
	return all
}

// WriteSVG writes the play as a picture.
func (l *Lesson) WriteSVG(out io.Writer, p *world.Play) error {
	w := bufio.NewWriter(out)
	all := l.marks(p)
	more := max(0, len(all)-maxRows)
	all = all[:len(all)-more]
	rows := map[mark]int{} // how far down
	bottom := topMargin + rowHeight
	for _, m := range all {
		rows[m] = bottom
		bottom += rowHeight
		if m.entry != nil {
			bottom += lineHeight * (len(textLines(m.entry, len(p.Hosts))) - 1)
		}
	}
	width := leftMargin + between*(len(p.Hosts)-1) + leftMargin
	height := bottom + rowHeight
	fmt.Fprintf(w,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(w, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		html.EscapeString(p.Title))
	for i, h := range p.Hosts {
		x := leftMargin + between*i
		fmt.Fprintf(w,
			`<text x="%d" y="24" text-anchor="middle" font-weight="bold" font-size="14">%s  %s</text><line x1="%d" y1="32" x2="%d" y2="%d" stroke="#888"/>`+"\n", x, html.EscapeString(h.Name), h.Addr, x, x, height-rowHeight)
	}
	last := int64(-1)
	for _, m := range all {
		if m.time != last {
			fmt.Fprintf(w, `<text x="8" y="%d" fill="#555">%.3f µs</text>`+"\n", rows[m]+4, float64(m.time)/1000)
			last = m.time
		}
		switch {
		case m.entry != nil:
			drawEntry(w, m.entry, len(p.Hosts), rows[m])
		case m.arrival == 0:
			drawPacket(w, m.packet, rows, bottom)
		}
	}
	if more > 0 {
		fmt.Fprintf(w, `<text x="8" y="%d">… and %d rows more</text>`+"\n", height-rowHeight/2, more)
	}
	fmt.Fprintln(w, "</svg>")
	return w.Flush()
}

// drawEntry writes what a host does beside its line: to the left of the first one, else to the
// right. What is long has several lines, downwards.
func drawEntry(w io.Writer, e *world.Entry, hosts, y int) {
	x, anchor := leftMargin+between*e.Host+8, "start"
	if e.Host == 0 && hosts > 1 {
		x, anchor = leftMargin-8, "end"
	}
	colour := "#222"
	switch e.Kind {
	case "dropped", "give up":
		colour = "#d1242f"
	case "call", "poll", "cpu", "event":
		colour = "#444"
	}
	if e.Err != nil {
		colour = "#d1242f"
	}
	for i, text := range textLines(e, hosts) {
		fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y+4+lineHeight*i, anchor,
			colour, html.EscapeString(text))
	}
}

// textLines are the lines of an entry's text.
func textLines(e *world.Entry, hosts int) []string {
	length := lineLength
	if e.Host > 0 && e.Host < hosts-1 {
		length = amidLength
	}
	return strings.Split(Wrap(e.Text, length), "\n")
}

// drawPacket draws a packet's arrow, or two of a duplicate, or half of one that is lost. One that
// arrives behind the last row goes to the bottom.
func drawPacket(w io.Writer, x *world.Packet, rows map[mark]int, bottom int) {
	y := rows[mark{x.Sent, nil, x, 0}]
	from, colour := leftMargin+between*x.From, colours[x.Kind]
	if x.To < 0 || x.Arrived == 0 {
		to := from + between*3/4
		if x.To >= 0 && x.To < x.From {
			to = from - between*3/4
		}
		fmt.Fprintf(w, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="1.5" stroke-dasharray="5 3"/>`,
			from, y, to, y+rowHeight/2, colour)
		fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="middle" fill="#d1242f" font-size="16">✗</text>`, to,
			y+rowHeight/2+5)
		label(w, x, from, to, y, colour)
		return
	}
	to := leftMargin + between*x.To
	for i, t := range []int64{x.Arrived, x.Again} {
		if t == 0 {
			continue
		}
		end, shown := rows[mark{t, nil, x, i + 1}]
		if !shown {
			end = bottom
		}
		tip := 8
		if to < from {
			tip = -8
		}
		dash := ""
		if x.Fate == world.Marked || x.Fate == world.Corrupted || i > 0 {
			dash = ` stroke-dasharray="5 3"`
		}
		fmt.Fprintf(w,
			`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="1.5"%s/><path d="M%d %d l%d -4 v8 z" fill="%s"/>`, from, y, to-tip, end, colour, dash, to, end, -tip, colour)
	}
	label(w, x, from, to, y, colour)
}

// label writes what a packet is, beside where it leaves.
func label(w io.Writer, x *world.Packet, from, to, y int, colour string) {
	anchor, at := "start", from+12
	if to < from {
		anchor, at = "end", from-12
	}
	text := fmt.Sprintf("%d  %s %d", x.N, x.Label, x.PSN)
	if x.Length > 0 {
		text += fmt.Sprintf(", %d B", x.Length)
	}
	if x.Fate != world.Delivered && x.Fate != world.Lost {
		text += " (" + string(x.Fate) + ")"
	}
	fmt.Fprintf(w,
		`<text x="%d" y="%d" text-anchor="%s" fill="%s" stroke="#fff" stroke-width="3" paint-order="stroke">%s</text>`+
			"\n", at, y-5, anchor, colour, html.EscapeString(text))
}
