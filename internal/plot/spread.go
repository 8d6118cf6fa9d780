package plot

import "math"

// Spread is a distribution by five of its values, which do not fall.
type Spread struct {
	Label                       string
	Min, Median, P99, P999, Max float64
	Kind                        int // chooses the color
}

// Spreads draws distributions below each other over a logarithmic axis: a bar from the least value
// to that which 99 % do not exceed, a thin line on to 99.9 %, a stroke across at the median, whose
// value stands behind the line. The maximum is a dot of its own.
func Spreads(title, unit string, kinds []string, rows []Spread) *Picture {
	const rowHeight, barHeight, plotWide = 24, 13, 460
	labelWide, top := 0.0, 2*margin+2.0*fontSize
	least, most := math.Inf(1), 0.0
	for _, r := range rows {
		labelWide = max(labelWide, float64(len(r.Label))*charWide)
		most = max(most, r.Max, r.P999)
		if r.Min > 0 {
			least = min(least, r.Min)
		}
	}
	if math.IsInf(least, 1) {
		least, most = 1, 10
	}
	left := margin + labelWide + 8
	bottom := top + float64(len(rows))*rowHeight
	d := newPicture(left+plotWide+70, bottom+margin+3.6*fontSize, title)
	d.legend(left, margin+2.0*fontSize, kinds)
	scale := axis(least, most, 10)
	x := func(v float64) float64 { return left + scale.place(v)*plotWide }
	for _, t := range scale.ticks {
		d.line(x(t), top, x(t), bottom, grid, 1)
		d.text(x(t), bottom+fontSize+2, "middle", short(t))
	}
	d.text(left+plotWide/2, bottom+2.4*fontSize, "middle", unit)
	d.text(left+plotWide/2, bottom+3.6*fontSize, "middle",
		"bar: least to 99 %; stroke and number: median; line: to 99.9 %; dot: most")
	for i, r := range rows {
		y := top + float64(i)*rowHeight + rowHeight/2
		color := colors[r.Kind%len(colors)]
		d.text(left-8, y+4, "end", r.Label)
		d.line(x(r.P99), y, x(r.P999), y, color, 2)
		d.rect(x(r.Min), y-barHeight/2, x(r.P99)-x(r.Min), barHeight, color)
		d.line(x(r.Median), y-barHeight/2-2, x(r.Median), y+barHeight/2+2, black, 2)
		d.dot(x(r.Max), y, color)
		d.text(left+plotWide+12, y+4, "start", short(r.Median))
	}
	return d
}
