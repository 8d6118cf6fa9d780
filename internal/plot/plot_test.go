package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
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
	count := wellFormed(t, Bars("title & more", "Gbit/s", []string{"x", "y"}, bars).SVG())
	if want := 1 + 2 + len(bars); count["rect"] != want { // background, legend, bars
		t.Errorf("%d rectangles, want %d", count["rect"], want)
	}
}

func TestLines(t *testing.T) {
	for _, axes := range []Axes{{}, {LogX: true}, {LogX: true, LogY: true}, {LogX: true, BaseX: 4}} {
		s := []Series{{"one", []float64{1, 10, 1000}, []float64{5, 7, 0}}, {"two", []float64{1, 2}, []float64{1, 1}}}
		svg := Lines("t", axes, s).SVG()
		if n := wellFormed(t, svg)["circle"]; n != 5 {
			t.Errorf("%+v: %d points, want 5", axes, n)
		}
		if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
			t.Errorf("%+v: a place that is no number:\n%s", axes, svg)
		}
	}
	wellFormed(t, Lines("nothing", Axes{}, nil).SVG())
	wellFormed(t, Lines("nothing", Axes{LogX: true, LogY: true}, nil).SVG())
}

func TestTicksHaveTheirText(t *testing.T) {
	s := []Series{{"sizes", []float64{4, 64}, []float64{1, 2}}}
	svg := Lines("t", Axes{LogX: true, BaseX: 4, TickX: func(v float64) string { return fmt.Sprintf("<%v B>", v) }}, s).SVG()
	wellFormed(t, svg)
	for _, want := range []string{"&lt;4 B&gt;", "&lt;16 B&gt;", "&lt;64 B&gt;"} {
		if !bytes.Contains(svg, []byte(want)) {
			t.Errorf("no tick %s", want)
		}
	}
	many := Series{"many", make([]float64, dotted+1), make([]float64, dotted+1)}
	if n := wellFormed(t, Lines("t", Axes{}, []Series{many}).SVG())["circle"]; n != 0 {
		t.Errorf("%d dots on a line of many points", n)
	}
}

func TestSpreads(t *testing.T) {
	rows := []Spread{{"a <b>", 1, 2, 30, 400, 5000, 0}, {"nothing", 0, 0, 0, 0, 0, 1}}
	svg := Spreads("t", "us", []string{"x", "y"}, rows).SVG()
	count := wellFormed(t, svg)
	if count["circle"] != len(rows) || bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
		t.Errorf("%v in\n%s", count, svg)
	}
	wellFormed(t, Spreads("nothing", "us", nil, nil).SVG())
}

// A PNG has the colors where the shapes are: of two bars, and of text that runs upwards.
func TestPNG(t *testing.T) {
	d := newPicture(200, 100, "title")
	d.rect(50, 50, 20, 10, "#0072b2")
	d.line(100, 50, 120, 50, "#d55e00", 4)
	d.dot(150, 50, "#009e73")
	d.turnedText(20, 60, "HHHH")
	data, err := d.PNG()
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if size := img.Bounds().Size(); size != image.Pt(200*scale, 100*scale) {
		t.Errorf("%v", size)
	}
	for _, c := range []struct {
		x, y int
		want string
	}{{60, 55, "#0072b2"}, {110, 50, "#d55e00"}, {150, 50, "#009e73"}, {190, 90, white}, {60, 45, white}} {
		if got := color.RGBAModel.Convert(img.At(c.x*scale, c.y*scale)); got != paint(c.want) {
			t.Errorf("%d, %d: %v, want %s", c.x, c.y, got, c.want)
		}
	}
	dark := image.Rectangle{}
	for y := 30; y < 100*scale; y++ { // below the title
		for x := range 45 * scale {
			if r, _, _, _ := img.At(x, y).RGBA(); r < 0x8000 {
				dark = dark.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	if dark.Dy() < 2*dark.Dx() || !image.Pt(20*scale, 60*scale).In(dark.Inset(-8)) {
		t.Errorf("text that runs upwards covers %v", dark)
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
