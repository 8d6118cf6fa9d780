package plot

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// scale is how many pixels of a PNG there are to one of the SVG's, so that text is sharp on a
// screen of many dots.
const scale = 2

// PNG is the picture as a bitmap of twice its width and height. Text is in the Go fonts. The error
// is that of the encoder, which has none for a picture of a size above nothing.
func (d *Picture) PNG() ([]byte, error) {
	c := &canvas{RGBA: image.NewRGBA(image.Rect(0, 0, int(math.Ceil(d.wide*scale)), int(math.Ceil(d.high*scale))))}
	for _, s := range d.shapes {
		switch s.what {
		case isRect:
			c.fill(s.color, [][2]float64{{s.x, s.y}, {s.x2, s.y}, {s.x2, s.y2}, {s.x, s.y2}})
		case isLine:
			c.fill(s.color, stroke(s))
		case isDot:
			c.fill(s.color, circle(s))
		case isText:
			if err := c.write(s); err != nil {
				return nil, err
			}
		}
	}
	var out bytes.Buffer
	err := png.Encode(&out, c)
	return out.Bytes(), err
}

// canvas is the bitmap while it is painted.
type canvas struct{ *image.RGBA }

// fill paints a polygon, its edges smoothed. Only the part of the canvas where it lies is touched.
func (c *canvas) fill(color string, corners [][2]float64) {
	if len(corners) == 0 {
		return
	}
	least, most := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	for _, p := range corners {
		for i := range p {
			least[i], most[i] = min(least[i], p[i]*scale), max(most[i], p[i]*scale)
		}
	}
	part := image.Rect(int(math.Floor(least[0])), int(math.Floor(least[1])), int(math.Ceil(most[0])),
		int(math.Ceil(most[1])))
	part = part.Intersect(c.Bounds())
	if part.Empty() {
		return
	}
	r := vector.NewRasterizer(part.Dx(), part.Dy())
	for i, p := range corners {
		x, y := float32(p[0]*scale)-float32(part.Min.X), float32(p[1]*scale)-float32(part.Min.Y)
		if i == 0 {
			r.MoveTo(x, y)
		} else {
			r.LineTo(x, y)
		}
	}
	r.ClosePath()
	r.Draw(c, part, image.NewUniform(paint(color)), image.Point{})
}

// paint reads "#rrggbb".
func paint(name string) color.RGBA {
	p := color.RGBA{A: 255}
	fmt.Sscanf(name, "#%02x%02x%02x", &p.R, &p.G, &p.B)
	return p
}

// stroke are the corners of a line, which is a rectangle as long as it and as thin.
func stroke(s shape) [][2]float64 {
	dx, dy := s.x2-s.x, s.y2-s.y
	long := math.Hypot(dx, dy)
	if long == 0 {
		return nil
	}
	nx, ny := -dy/long*s.wide/2, dx/long*s.wide/2
	return [][2]float64{{s.x + nx, s.y + ny}, {s.x2 + nx, s.y2 + ny}, {s.x2 - nx, s.y2 - ny}, {s.x - nx, s.y - ny}}
}

// circle is a polygon of so many corners that nobody sees them.
func circle(s shape) (corners [][2]float64) {
	const n = 24
	for i := range n {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / n)
		corners = append(corners, [2]float64{s.x + s.wide*cos, s.y + s.wide*sin})
	}
	return corners
}

// fonts are the two that pictures need, which are compiled in.
var fonts = sync.OnceValues(func() (faces [2]*opentype.Font, err error) {
	for i, ttf := range [][]byte{goregular.TTF, gobold.TTF} {
		if faces[i], err = opentype.Parse(ttf); err != nil {
			return faces, err
		}
	}
	return faces, nil
})

// write paints a text: straight onto the canvas, or, if it runs upwards, onto a strip that is then
// turned.
func (c *canvas) write(s shape) error {
	all, err := fonts()
	if err != nil {
		return err
	}
	which := all[0]
	if s.bold {
		which = all[1]
	}
	face, err := opentype.NewFace(which, &opentype.FaceOptions{
		Size:    fontSize * scale,
		DPI:     72,
		Hinting: font.HintingFull,
	})
	if err != nil {
		return err
	}
	defer face.Close()
	ink := image.NewUniform(paint(s.color))
	long := font.MeasureString(face, s.text)
	before := fixed.Int26_6(0) // of the text, left of its anchor
	switch s.anchor {
	case "middle":
		before = long / 2
	case "end":
		before = long
	}
	if !s.turned {
		dot := fixed.Point26_6{X: fixed.Int26_6(s.x*scale*64) - before, Y: fixed.Int26_6(s.y * scale * 64)}
		(&font.Drawer{Dst: c, Src: ink, Face: face, Dot: dot}).DrawString(s.text)
		return nil
	}
	const high = 2 * fontSize * scale // of the strip; the baseline is in its middle
	strip := image.NewAlpha(image.Rect(0, 0, long.Ceil(), high))
	(&font.Drawer{Dst: strip, Src: image.Opaque, Face: face, Dot: fixed.P(0, high/2)}).DrawString(s.text)
	turned := image.NewAlpha(image.Rect(0, 0, high, long.Ceil()))
	for y := range high {
		for x := range long.Ceil() {
			turned.SetAlpha(y, long.Ceil()-1-x, strip.AlphaAt(x, y))
		}
	}
	corner := image.Pt(int(s.x*scale)-high/2, int(s.y*scale)-(long-before).Ceil())
	draw.DrawMask(c, turned.Bounds().Add(corner), ink, image.Point{}, turned, image.Point{}, draw.Over)
	return nil
}
