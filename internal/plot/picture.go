package plot

import (
	"os"
	"path/filepath"
	"strings"
)

// Picture is a drawing as a list of shapes, in the order in which they cover each other. Its
// methods may be called from any goroutine, several at a time.
type Picture struct {
	title      string
	wide, high float64
	shapes     []shape
}

// Write writes the picture to a file: as PNG if its name ends in .png, otherwise as SVG. The errors
// are those of the file.
func (d *Picture) Write(file string) error {
	data := d.SVG()
	if strings.EqualFold(filepath.Ext(file), ".png") {
		var err error
		if data, err = d.PNG(); err != nil {
			return err
		}
	}
	return os.WriteFile(file, data, 0o644)
}

// what a shape is
type what uint8

const (
	isRect what = iota
	isLine
	isDot
	isText
)

// shape is one element. Places are in pixels from the upper left corner.
type shape struct {
	what   what
	x, y   float64 // rect: upper left corner; line: one end; dot: center; text: its anchor
	x2, y2 float64 // rect: lower right corner; line: the other end
	wide   float64 // line: its width; dot: its radius
	color  string  // "#rrggbb"
	text   string
	anchor string // text: "start", "middle" or "end" of it is at x
	bold   bool
	turned bool // text that runs upwards
}

// the colors of what is no series
const (
	black = "#000000"
	white = "#ffffff"
	grid  = "#dddddd"
)

func newPicture(wide, high float64, title string) *Picture {
	d := &Picture{title: title, wide: wide, high: high}
	d.rect(0, 0, wide, high, white)
	d.add(shape{
		what:   isText,
		x:      margin,
		y:      margin + fontSize/2,
		text:   title,
		anchor: "start",
		bold:   true,
		color:  black,
	})
	return d
}

func (d *Picture) add(s shape) { d.shapes = append(d.shapes, s) }

func (d *Picture) legend(x, y float64, names []string) {
	for i, name := range names {
		d.rect(x, y-10, 10, 10, colors[i%len(colors)])
		d.text(x+14, y, "start", name)
		x += 14 + float64(len(name))*charWide + 14
	}
}

func (d *Picture) rect(x, y, w, h float64, color string) {
	d.add(shape{what: isRect, x: x, y: y, x2: x + max(w, 0), y2: y + h, color: color})
}

func (d *Picture) line(x1, y1, x2, y2 float64, color string, wide float64) {
	d.add(shape{what: isLine, x: x1, y: y1, x2: x2, y2: y2, color: color, wide: wide})
}

func (d *Picture) dot(x, y float64, color string) {
	d.add(shape{what: isDot, x: x, y: y, wide: 3.5, color: color})
}

func (d *Picture) text(x, y float64, anchor, s string) {
	d.add(shape{what: isText, x: x, y: y, text: s, anchor: anchor, color: black})
}

// turnedText is a text that runs upwards, its middle at x, y.
func (d *Picture) turnedText(x, y float64, s string) {
	d.add(shape{what: isText, x: x, y: y, text: s, anchor: "middle", turned: true, color: black})
}
