// Package plot draws the pictures of the benchmark and of roce perf: bars with their spread, the
// spreads of distributions side by side, and lines over a logarithmic or plain axis. Pictures are
// read on light and dark pages, so they bring their own background.
//
// Stages: lay out a kind of plot (this file, spread.go) as shapes on a Picture (picture.go), which
// is written as SVG (svg.go) or as PNG (png.go). A library that is as well kept, gonum.org/v1/plot,
// links nine modules and 104,000 lines for what takes 580 here.
package plot

import (
	"fmt"
	"math"
)

// Colors by kind of series, in the order of their use; good for readers who confuse red and green.
var colors = []string{"#0072b2", "#999999", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"}

const (
	fontSize = 13
	charWide = 8.0 // of the font, about
	margin   = 16
)

// Bar is a value with its spread.
type Bar struct {
	Label            string
	Value, Low, High float64
	Kind             int // chooses the color
}

// Bars draws horizontal bars from zero. Kinds names the colors, in their order.
func Bars(title, unit string, kinds []string, bars []Bar) *Picture {
	const rowHeight, barHeight, plotWide = 24, 15, 460
	labelWide, top := 0.0, 2*margin+2.0*fontSize
	peak := 0.0
	for _, b := range bars {
		labelWide = max(labelWide, float64(len(b.Label))*charWide)
		peak = max(peak, b.High, b.Value)
	}
	left := margin + labelWide + 8
	wide, high := left+plotWide+90, top+float64(len(bars))*rowHeight+margin+2*fontSize
	d := newPicture(wide, high, title)
	d.legend(left, margin+2.0*fontSize, kinds)
	scale := axis(0, peak, 0)
	x := func(v float64) float64 { return left + scale.place(v)*plotWide }
	bottom := top + float64(len(bars))*rowHeight
	for _, t := range scale.ticks {
		d.line(x(t), top, x(t), bottom, grid, 1)
		d.text(x(t), bottom+fontSize+2, "middle", short(t))
	}
	d.text(left+plotWide/2, bottom+2.4*fontSize, "middle", unit)
	for i, b := range bars {
		y := top + float64(i)*rowHeight + rowHeight/2
		d.text(left-8, y+4, "end", b.Label)
		d.rect(left, y-barHeight/2, x(b.Value)-left, barHeight, colors[b.Kind%len(colors)])
		d.line(x(b.Low), y, x(b.High), y, black, 1.5)
		d.text(x(max(b.High, b.Value))+6, y+4, "start", short(b.Value))
	}
	return d
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
func Lines(title string, axes Axes, series []Series) *Picture {
	const plotWide, plotHigh, left = 560, 300, 78
	top := 2*margin + 2.2*fontSize
	var xs, ys []float64
	var names []string
	for _, s := range series {
		xs, ys, names = append(xs, s.X...), append(ys, s.Y...), append(names, s.Name)
	}
	d := newPicture(left+plotWide+2*margin, top+plotHigh+margin+3*fontSize, title)
	d.legend(left, margin+2.0*fontSize, names)
	sx, sy := axis(low(xs, axes.LogX), high(xs), base(axes.LogX, axes.BaseX)),
		axis(low(ys, axes.LogY), high(ys), base(axes.LogY, 10))
	tickX := axes.TickX
	if tickX == nil {
		tickX = short
	}
	px := func(v float64) float64 { return left + sx.place(v)*plotWide }
	py := func(v float64) float64 { return top + plotHigh - sy.place(v)*plotHigh }
	for _, t := range sx.ticks {
		d.line(px(t), top, px(t), top+plotHigh, grid, 1)
		d.text(px(t), top+plotHigh+fontSize+3, "middle", tickX(t))
	}
	for _, t := range sy.ticks {
		d.line(left, py(t), left+plotWide, py(t), grid, 1)
		d.text(left-6, py(t)+4, "end", short(t))
	}
	d.text(left+plotWide/2, top+plotHigh+2.6*fontSize, "middle", axes.X)
	d.turnedText(margin, top+plotHigh/2, axes.Y)
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
	return d
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

// SizeText prints a size as people type it, 4K or 1G: for Axes.TickX.
func SizeText(v float64) string {
	switch n := int(math.Round(v)); {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%dG", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dM", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dK", n>>10)
	default:
		return fmt.Sprint(n)
	}
}
