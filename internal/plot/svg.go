package plot

import (
	"fmt"
	"html"
	"strings"
)

// SVG is the picture as a file of Scalable Vector Graphics.
func (d *Picture) SVG() []byte {
	w := &strings.Builder{}
	fmt.Fprintf(w,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="%d">`+"\n", d.wide, d.high, d.wide, d.high, fontSize)
	for _, s := range d.shapes {
		switch s.what {
		case isRect:
			fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", s.x, s.y, s.x2-s.x,
				s.y2-s.y, s.color)
		case isLine:
			fmt.Fprintf(w, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"/>`+"\n", s.x,
				s.y, s.x2, s.y2, s.color, s.wide)
		case isDot:
			fmt.Fprintf(w, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s"/>`+"\n", s.x, s.y, s.wide, s.color)
		case isText:
			fmt.Fprintf(w, `<text %s%s>%s</text>`+"\n", place(s), weight(s), html.EscapeString(s.text))
		}
	}
	w.WriteString("</svg>\n")
	return []byte(w.String())
}

// place says where a text is.
func place(s shape) string {
	if s.turned {
		return fmt.Sprintf(`transform="translate(%.1f %.1f) rotate(-90)" text-anchor="%s"`, s.x, s.y, s.anchor)
	}
	return fmt.Sprintf(`x="%.1f" y="%.1f" text-anchor="%s"`, s.x, s.y, s.anchor)
}

func weight(s shape) string {
	if s.bold {
		return ` font-weight="bold"`
	}
	return ""
}
