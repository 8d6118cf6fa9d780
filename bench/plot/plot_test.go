package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
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
	for _, axes := range []Axes{{}, {LogX: true}, {LogX: true, LogY: true}} {
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
}

func TestAxis(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		log       bool
	}{{0, 1, false}, {0, 67, false}, {0, 1e-3, false}, {0, 0, false}, {1, 10000, true}, {3, 3, true}} {
		s := axis(c.low, c.high, c.log)
		if len(s.ticks) < 2 || len(s.ticks) > 12 {
			t.Errorf("axis(%v, %v, %v) has %d ticks: %v", c.low, c.high, c.log, len(s.ticks), s.ticks)
		}
		for _, v := range []float64{c.low, c.high} {
			if p := s.place(v); math.IsNaN(p) || p < -1e-9 || p > 1+1e-9 {
				t.Errorf("axis(%v, %v, %v) places %v at %v", c.low, c.high, c.log, v, p)
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
