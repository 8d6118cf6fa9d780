package figures

// The pictures of RESULTS.md: bandwidth, latency and rate of everything that was played at an MTU,
// and curves over the number of queue pairs and over loss.

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/internal/plot"
)

type picture struct {
	file, title string
	svg         []byte
}

// writePictures writes the pictures into plots/ of a folder.
func (r *Results) writePictures(b *bytes.Buffer, dir string) error {
	for _, p := range append(r.barCharts(), r.lineCharts()...) {
		if err := os.WriteFile(filepath.Join(dir, "plots", p.file), p.svg, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(b, "![%s](plots/%s)\n\n", p.title, p.file)
	}
	return nil
}

// kinds of bars, by whose program a case is.
var kinds = []string{"goroce", "system calls alone", "rival"}

func kind(name string) int {
	switch Maker(name) {
	case "ours", "ours-nopgo":
		return 0
	case "raw":
		return 1
	}
	return 2
}

// charted are the makers of cases whose figures stand beside each other.
var charted = []string{"ours", "raw", "iperf3", "ucx", "fi_pingpong", "sockperf"}

func (r *Results) barCharts() (all []picture) {
	for _, mtu := range MTUs {
		for _, p := range []struct {
			file, title string
			unit        Unit
		}{
			{"bandwidth", "Bandwidth, 64 KiB messages", Gbps},
			{"latency", "Half a round trip", Usec},
			{"rate", "Small messages", Mpps},
		} {
			title := fmt.Sprintf("%s, MTU %d", p.title, mtu)
			if bars := r.barsOf(p.unit, mtu); len(bars) > 0 {
				all = append(all, picture{fmt.Sprintf("%s-%d.svg", p.file, mtu), title,
					plot.Bars(title, p.unit.Name, kinds, bars).SVG()})
			}
		}
	}
	return all
}

// barsOf are the figures of a unit that were measured at an MTU, the best first.
func (r *Results) barsOf(unit Unit, mtu int) (bars []plot.Bar) {
	for _, f := range r.Figures {
		name, here := strings.CutPrefix(f.Case, fmt.Sprintf("%d/", mtu))
		if here && f.Measured() && f.Unit == unit && slices.Contains(charted, Maker(name)) {
			low, high := f.spread()
			bars = append(bars, plot.Bar{Label: name, Value: f.Median(), Low: low, High: high, Kind: kind(name)})
		}
	}
	slices.SortStableFunc(bars, func(a, b plot.Bar) int {
		if unit.Lower {
			return cmp.Compare(a.Value, b.Value)
		}
		return cmp.Compare(b.Value, a.Value)
	})
	return bars
}

func (r *Results) lineCharts() (all []picture) {
	for _, p := range []struct {
		file, title string
		axes        plot.Axes
		series      []curve
	}{
		{"scale.svg", "Cost of a message by connected queue pairs", plot.Axes{X: "queue pairs", Y: "ns a message",
			LogX: true},
			[]curve{{"goroce", "inside/scale/", ""}}},
		{"loss.svg", "RC WRITE 64 KiB under loss, 100 us round trip, in the guest",
			plot.Axes{X: "loss, %", Y: "Gbit/s"}, []curve{{"goroce udp", "guest/ours/udp/loss-", "%/64K"},
				{"goroce packet", "guest/ours/packet/loss-", "%/64K"},
				{"goroce udp, go-back-N", "guest/go-back-n/udp/loss-", "%/64K"}, {"rxe", "guest/rxe/loss-", "%/64K"}}},
	} {
		if s := r.curves(p.series); len(s) > 0 {
			all = append(all, picture{p.file, p.title, plot.Lines(p.title, p.axes, s).SVG()})
		}
	}
	return all
}

// curve is a line through the cases whose names hold the x value between two texts.
type curve struct{ name, before, after string }

func (r *Results) curves(wanted []curve) (all []plot.Series) {
	for _, c := range wanted {
		type point struct{ x, y float64 }
		var points []point
		for _, f := range r.Figures {
			rest, ok := strings.CutPrefix(f.Case, c.before)
			if !ok || !f.Measured() {
				continue
			}
			if x, err := strconv.ParseFloat(strings.TrimSuffix(rest, c.after), 64); err == nil {
				points = append(points, point{x, f.Median()})
			}
		}
		// They were played in any order.
		slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
		s := plot.Series{Name: c.name}
		for _, p := range points {
			s.X, s.Y = append(s.X, p.x), append(s.Y, p.y)
		}
		if len(points) > 1 {
			all = append(all, s)
		}
	}
	return all
}
