package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
)

// wellFormed reads a picture as XML and counts its elements by name.
func wellFormed(t *testing.T, svg []byte) map[string]int {
	t.Helper()
	count := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return count
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			count[e.Name.Local]++
		}
	}
}

func TestBars(t *testing.T) {
	bars := []Bar{{"a & b", 10, 9, 12, 0}, {"<c>", 0, 0, 0, 1}, {"d", 3.5, 3.5, 3.5, 9}}
	count := wellFormed(t, Bars("title & more", "Gbit/s", []string{"x", "y"}, bars))
	if want := 1 + 2 + len(bars); count["rect"] != want { // background, legend, bars
		t.Errorf("%d rectangles, want %d", count["rect"], want)
	}
}

func TestLines(t *testing.T) {
	for _, axes := range []Axes{{}, {LogX: true}, {LogX: true, LogY: true}, {LogX: true, BaseX: 4}} {
		s := []Series{{"one", []float64{1, 10, 1000}, []float64{5, 7, 0}}, {"two", []float64{1, 2}, []float64{1, 1}}}
		svg := Lines("t", axes, s)
		if n := wellFormed(t, svg)["circle"]; n != 5 {
			t.Errorf("%+v: %d points, want 5", axes, n)
		}
		if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
			t.Errorf("%+v: a place that is no number:\n%s", axes, svg)
		}
	}
	wellFormed(t, Lines("nothing", Axes{}, nil))
	wellFormed(t, Lines("nothing", Axes{LogX: true, LogY: true}, nil))
}

func TestTicksHaveTheirText(t *testing.T) {
	s := []Series{{"sizes", []float64{4, 64}, []float64{1, 2}}}
	svg := Lines("t", Axes{LogX: true, BaseX: 4, TickX: func(v float64) string { return fmt.Sprintf("<%v B>", v) }}, s)
	wellFormed(t, svg)
	for _, want := range []string{"&lt;4 B&gt;", "&lt;16 B&gt;", "&lt;64 B&gt;"} {
		if !bytes.Contains(svg, []byte(want)) {
			t.Errorf("no tick %s", want)
		}
	}
	many := Series{"many", make([]float64, dotted+1), make([]float64, dotted+1)}
	if n := wellFormed(t, Lines("t", Axes{}, []Series{many}))["circle"]; n != 0 {
		t.Errorf("%d dots on a line of many points", n)
	}
}

// The ends of a logarithmic axis that are powers lie on its ends.
func TestPowersAreTicks(t *testing.T) {
	s := axis(1, 1000, 10)
	if len(s.ticks) != 4 || math.Abs(s.place(1000)-1) > 1e-9 {
		t.Errorf("ticks %v, 1000 at %v", s.ticks, s.place(1000))
	}
}

func TestAxis(t *testing.T) {
	for _, c := range []struct {
		low, high, base float64
	}{{0, 1, 0}, {0, 67, 0}, {0, 1e-3, 0}, {0, 0, 0}, {1, 10000, 10}, {3, 3, 10}, {2, 8 << 20, 4}, {1, 1000, 10}} {
		s := axis(c.low, c.high, c.base)
		if len(s.ticks) < 2 || len(s.ticks) > 13 {
			t.Errorf("axis(%v, %v, %v) has %d ticks: %v", c.low, c.high, c.base, len(s.ticks), s.ticks)
		}
		for _, v := range []float64{c.low, c.high} {
			if p := s.place(v); math.IsNaN(p) || p < -1e-9 || p > 1+1e-9 {
				t.Errorf("axis(%v, %v, %v) places %v at %v", c.low, c.high, c.base, v, p)
			}
		}
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1.234: "1.23", 999: "999", 1020: "1020", 12345: "12.3k", 2.5e6: "2.5M", 8e9: "8G"} {
		if got := short(v); got != want {
			t.Errorf("short(%v) = %q, want %q", v, got, want)
		}
	}
}
