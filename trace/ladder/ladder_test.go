package ladder

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/qp/qptest"
	"github.com/goroce/goroce/trace"
)

// world is a ladder of a simulated world.
func world(t *testing.T, rows int) *Ladder {
	t.Helper()
	var c qptest.Capture
	require.NoError(t, qptest.NewPlan(3).Play(&c, nil, nil))
	src, err := trace.NewSource(bytes.NewReader(c.Bytes()))
	require.NoError(t, err)
	l := &Ladder{Title: "<world> & 3", Rows: rows}
	for {
		p, err := src.Next()
		if errors.Is(err, io.EOF) {
			return l
		}
		require.NoError(t, err)
		if p.Number == 2 {
			p.Comment = "</text><script>alert('x')</script>\x1b[31m"
		}
		l.Add(p)
	}
}

func TestText(t *testing.T) {
	l := world(t, 100)
	var out bytes.Buffer
	require.NoError(t, l.WriteText(&out))
	lines := strings.Split(out.String(), "\n")
	require.Contains(t, lines[0], l.columns[0])
	require.LessOrEqual(t, utf8.RuneCountInString(lines[0]), screen)
	require.Contains(t, out.String(), "packets more")
	require.NotContains(t, out.String(), "\x1b")
	arrows := 0
	for _, line := range lines {
		require.LessOrEqual(t, utf8.RuneCountInString(line), textMargin+len(l.columns)*textGap+200)
		if strings.ContainsAny(line, "▶◀↺") {
			arrows++
		}
	}
	require.Equal(t, 100, arrows)
}

// TestSVG: well-formed XML, and nothing of the capture is markup in it.
func TestSVG(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, world(t, 0).WriteSVG(&out))
	require.NotContains(t, out.String(), "<script")
	d := xml.NewDecoder(&out)
	texts := 0
	for {
		x, err := d.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if e, ok := x.(xml.StartElement); ok {
			require.Contains(t, []string{"svg", "title", "rect", "text", "line", "path"}, e.Name.Local)
			texts++
		}
	}
	require.Greater(t, texts, 500)
}

// TestEmpty: nothing to draw is drawn.
func TestEmpty(t *testing.T) {
	l := &Ladder{Title: "nothing"}
	l.Add(&trace.Packet{})
	for _, write := range []func(io.Writer) error{l.WriteText, l.WriteSVG} {
		require.NoError(t, write(io.Discard))
	}
}

// TestManyAddresses: those beyond the last column share it.
func TestManyAddresses(t *testing.T) {
	l := &Ladder{}
	for i := range 20 {
		require.Equal(t, min(i, maxColumns-1), l.columns.Of(string(rune('a'+i))))
	}
	require.Len(t, l.columns, maxColumns)
	require.Equal(t, "others", l.columns[maxColumns-1])
}
