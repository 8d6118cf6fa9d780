// Package plot draws the pictures of the benchmark and of roce perf as SVG: bars with their spread,
// and lines over a logarithmic or plain axis. Pictures are read on light and dark pages, so they
// bring their own background.
package plot

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Colors by kind of series, in the order of their use; good for readers who confuse red and green.
var colors = []string{"#0072b2", "#999999", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"}

const (
	fontSize = 13
	charWide = 7.2 // of the font, about
	margin   = 16
)

// Bar is a value with its spread.
type Bar struct {
	Label            string
	Value, Low, High float64
	Kind             int // chooses the color
}

// Bars draws horizontal bars from zero. Kinds names the colors, in their order.
func Bars(title, unit string, kinds []string, bars []Bar) []byte {
	const rowHeight, barHeight, plotWide = 24, 15, 460
	labelWide, top := 0.0, 2*margin+2.0*fontSize
	peak := 0.0
	for _, b := range bars {
		labelWide = max(labelWide, float64(len(b.Label))*charWide)
		peak = max(peak, b.High, b.Value)
	}
	left := margin + labelWide + 8
	wide, high := left+plotWide+90, top+float64(len(bars))*rowHeight+margin+2*fontSize
	d := newDrawing(wide, high, title)
	d.legend(left, margin+2.0*fontSize, kinds)
	scale := axis(0, peak, 0)
	x := func(v float64) float64 { return left + scale.place(v)*plotWide }
	bottom := top + float64(len(bars))*rowHeight
	for _, t := range scale.ticks {
		d.line(x(t), top, x(t), bottom, "#dddddd", 1)
		d.text(x(t), bottom+fontSize+2, "middle", short(t))
	}
	d.text(left+plotWide/2, bottom+2.4*fontSize, "middle", unit)
	for i, b := range bars {
		y := top + float64(i)*rowHeight + rowHeight/2
		d.text(left-8, y+4, "end", b.Label)
		d.rect(left, y-barHeight/2, x(b.Value)-left, barHeight, colors[b.Kind%len(colors)])
		d.line(x(b.Low), y, x(b.High), y, "#000000", 1.5)
		d.text(x(max(b.High, b.Value))+6, y+4, "start", short(b.Value))
	}
	return d.end()
}

// Series is a named line.
type Series struct {
	Name string
	X, Y []float64
}

// Axes says what a line plot shows.
type Axes struct {
	X, Y       string
	LogX, LogY bool
	// BaseX is that of a logarithmic X axis, which has a tick at each of its powers; 0 means 10.
	BaseX float64
	// TickX gives what stands below a tick of the X axis; without it that is the number.
	TickX func(float64) string
}

// dotted is up to how many points of a line have a dot each.
const dotted = 60

// Lines draws series as lines with points.
func Lines(title string, axes Axes, series []Series) []byte {
	const plotWide, plotHigh, left = 560, 300, 78
	top := 2*margin + 2.2*fontSize
	var xs, ys []float64
	var names []string
	for _, s := range series {
		xs, ys, names = append(xs, s.X...), append(ys, s.Y...), append(names, s.Name)
	}
	d := newDrawing(left+plotWide+2*margin, top+plotHigh+margin+3*fontSize, title)
	d.legend(left, margin+2.0*fontSize, names)
	sx, sy := axis(low(xs, axes.LogX), high(xs), base(axes.LogX, axes.BaseX)), axis(low(ys, axes.LogY), high(ys), base(axes.LogY, 10))
	tickX := axes.TickX
	if tickX == nil {
		tickX = short
	}
	px := func(v float64) float64 { return left + sx.place(v)*plotWide }
	py := func(v float64) float64 { return top + plotHigh - sy.place(v)*plotHigh }
	for _, t := range sx.ticks {
		d.line(px(t), top, px(t), top+plotHigh, "#dddddd", 1)
		d.text(px(t), top+plotHigh+fontSize+3, "middle", tickX(t))
	}
	for _, t := range sy.ticks {
		d.line(left, py(t), left+plotWide, py(t), "#dddddd", 1)
		d.text(left-6, py(t)+4, "end", short(t))
	}
	d.text(left+plotWide/2, top+plotHigh+2.6*fontSize, "middle", axes.X)
	d.turned(margin, top+plotHigh/2, axes.Y)
	for i, s := range series {
		color := colors[i%len(colors)]
		for j := range s.X {
			if j > 0 {
				d.line(px(s.X[j-1]), py(s.Y[j-1]), px(s.X[j]), py(s.Y[j]), color, 2)
			}
			if len(s.X) <= dotted {
				d.dot(px(s.X[j]), py(s.Y[j]), color)
			}
		}
	}
	return d.end()
}

// low end of an axis: zero, or on a logarithmic one the least value above it.
func low(v []float64, log bool) float64 {
	least := math.Inf(1)
	for _, x := range v {
		if x > 0 {
			least = min(least, x)
		}
	}
	if !log || math.IsInf(least, 1) {
		return 0
	}
	return least
}

func high(v []float64) (h float64) {
	for _, x := range v {
		h = max(h, x)
	}
	return h
}

// scaleOf an axis: where a value lies between 0 and 1, and what stands below.
type scaleOf struct {
	from, to float64
	base     float64 // of the logarithm; 0: none
	ticks    []float64
}

// base is the base of an axis: 0 for a plain one, and 10 unless another is wanted.
func base(log bool, want float64) float64 {
	switch {
	case !log:
		return 0
	case want <= 1:
		return 10
	}
	return want
}

// axis makes a scale over low..high. A logarithmic one has a tick at each power of its base; zero
// lies at its very start.
func axis(low, high, base float64) scaleOf {
	if high <= low {
		high = low + 1
	}
	s := scaleOf{from: low, to: high, base: base}
	if base > 0 {
		low = max(low, math.SmallestNonzeroFloat64)
		const rounding = 1e-9 // log(1000)/log(10) is not 3
		s.from, s.to = math.Floor(s.log(low)+rounding), math.Ceil(s.log(high)-rounding)
		for e := s.from; e <= s.to; e++ {
			s.ticks = append(s.ticks, math.Pow(base, e))
		}
		return s
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, m := range []float64{5, 2} {
		if (high-low)/(step*m) >= 4 {
			step *= m
			break
		}
	}
	s.to = math.Ceil(high/step) * step
	for i := 0; float64(i)*step <= s.to-low+step/2; i++ {
		s.ticks = append(s.ticks, low+float64(i)*step)
	}
	return s
}

func (s *scaleOf) place(v float64) float64 {
	if s.base > 0 {
		if v <= 0 {
			return 0
		}
		v = s.log(v)
	}
	return (v - s.from) / (s.to - s.from)
}

func (s *scaleOf) log(v float64) float64 { return math.Log(v) / math.Log(s.base) }

// short prints a number in few characters: 1234 as it is, 12345 as 12.3k.
func short(v float64) string {
	for _, p := range []struct {
		from, unit float64
		suffix     string
	}{{1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}} {
		if math.Abs(v) >= p.from {
			return fmt.Sprintf("%.3g%s", v/p.unit, p.suffix)
		}
	}
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// drawing collects the elements of a picture.
type drawing struct{ strings.Builder }

func newDrawing(wide, high float64, title string) *drawing {
	d := &drawing{}
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="%d">`+"\n",
		wide, high, wide, high, fontSize)
	d.rect(0, 0, wide, high, "#ffffff")
	fmt.Fprintf(d, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", margin, margin+fontSize/2, html.EscapeString(title))
	return d
}

func (d *drawing) legend(x, y float64, names []string) {
	for i, name := range names {
		d.rect(x, y-10, 10, 10, colors[i%len(colors)])
		d.text(x+14, y, "start", name)
		x += 14 + float64(len(name))*charWide + 14
	}
}

func (d *drawing) rect(x, y, w, h float64, color string) {
	fmt.Fprintf(d, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, max(w, 0), h, color)
}

func (d *drawing) line(x1, y1, x2, y2 float64, color string, wide float64) {
	fmt.Fprintf(d, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"/>`+"\n", x1, y1, x2, y2, color, wide)
}

func (d *drawing) dot(x, y float64, color string) {
	fmt.Fprintf(d, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", x, y, color)
}

func (d *drawing) text(x, y float64, anchor, s string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
}

// turned is a text that runs upwards.
func (d *drawing) turned(x, y float64, s string) {
	fmt.Fprintf(d, `<text transform="translate(%.1f %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", x, y, html.EscapeString(s))
}

func (d *drawing) end() []byte {
	d.WriteString("</svg>\n")
	return []byte(d.String())
}
