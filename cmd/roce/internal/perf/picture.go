package perf

// --plot: the run as a picture. Over all sizes, bandwidth or latency against the size; of one
// latency run, how long the slowest part of all messages took; of one bandwidth run, the rate over
// time.

import (
	"fmt"

	"github.com/goroce/goroce/internal/plot"
)

// draw writes the picture, if there is to be one. An end that has measured nothing says so instead.
func (r *rig) draw() error {
	if r.o.Plot == "" {
		return nil
	}
	p := r.picture()
	if p == nil {
		r.warn = append(r.warn, "nothing to draw: this end has measured too little, see the other's --plot")
		return nil
	}
	if err := p.Write(r.o.Plot); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return nil
}

// picture draws what there is, nil if that is nothing.
func (r *rig) picture() *plot.Picture {
	title := "roce perf " + r.t.Name + " " + r.o.Type.String()
	switch {
	case r.t.Lat && len(r.latencies) == 1:
		l := &r.latencies[0]
		return tailPicture(fmt.Sprintf("%s, %s bytes", title, plot.SizeText(float64(l.Size))), l)
	case r.t.Lat && len(r.latencies) > 1:
		return r.latencyBySize(title)
	case len(r.bandwidths) > 1:
		return r.bandwidthBySize(title)
	case len(r.bandwidths) == 1 && r.moves():
		return ratePicture(fmt.Sprintf("%s, %s bytes", title, plot.SizeText(float64(r.bandwidths[0].Size))),
			r.eye.history.readings)
	}
	return nil
}

// bySize are the axes of a picture over all sizes.
func bySize(y string, logY bool) plot.Axes {
	return plot.Axes{X: "message size, bytes", Y: y, LogX: true, BaseX: 4, TickX: plot.SizeText, LogY: logY}
}

func (r *rig) bandwidthBySize(title string) *plot.Picture {
	s := plot.Series{Name: "average"}
	_, unit := r.o.unitName()
	for _, b := range r.bandwidths {
		s.X, s.Y = append(s.X, float64(b.Size)), append(s.Y, b.Avg)
	}
	return plot.Lines(title, bySize(unit, false), []plot.Series{s})
}

func (r *rig) latencyBySize(title string) *plot.Picture {
	lines := []plot.Series{{Name: "typical"}, {Name: "minimum"}, {Name: "99 %"}}
	for _, l := range r.latencies {
		for i, y := range []float64{l.Typical, l.Min, l.Percent["99"]} {
			lines[i].X, lines[i].Y = append(lines[i].X, float64(l.Size)), append(lines[i].Y, y)
		}
	}
	return plot.Lines(title, bySize("usec", true), lines)
}

// tailPicture draws the time that a part of all messages did not exceed, over that part: each step
// to the right is ten times rarer.
func tailPicture(title string, l *latResult) *plot.Picture {
	s := plot.Series{Name: fmt.Sprintf("%d messages, the longest took %.4g usec", l.Iters, l.Max)}
	bars := l.tally.bars()
	// the last is that of 100 %, which is nowhere on such an axis
	for _, b := range bars[:max(len(bars)-1, 0)] {
		s.X, s.Y = append(s.X, 100/(100-b.Percent)), append(s.Y, b.Upto)
	}
	if len(s.X) == 0 {
		return nil
	}
	percent := func(x float64) string { return fmt.Sprintf("%.6g%%", 100-100/x) }
	axes := plot.Axes{X: "part of the messages that took no longer", Y: "usec", LogX: true, TickX: percent, LogY: true}
	return plot.Lines(title, axes, []plot.Series{s})
}

// ratePicture draws the rate between two readings each, where they lie in time.
func ratePicture(title string, readings []reading) *plot.Picture {
	s := plot.Series{Name: "Gbit/s"}
	for i := 1; i < len(readings); i++ {
		from, to := readings[i-1], readings[i]
		if to.at > from.at {
			s.X, s.Y = append(s.X, to.at.Seconds()), append(s.Y, from.gbits(to))
		}
	}
	if len(s.X) == 0 {
		return nil
	}
	return plot.Lines(title, plot.Axes{X: "seconds", Y: "Gbit/s"}, []plot.Series{s})
}
