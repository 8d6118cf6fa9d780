package trace

// "roce trace analyze" and "ladder".

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/analysis"
	"github.com/goroce/goroce/trace/ladder"
	"github.com/goroce/goroce/trace/page"
	"github.com/goroce/goroce/trace/timeline"
)

// Analyze says what became of each message. A file that is damaged is analyzed up to there.
func Analyze(ctx context.Context, out io.Writer, name string, c Choice) error {
	a := analysis.New()
	c.Others = true
	c.notes = func(text []byte) {
		for line := range bytes.Lines(text) {
			if x, err := timeline.ParseEntry(line); err == nil {
				a.Told(&x)
			}
		}
	}
	err := each(ctx, name, &c, func(p *trace.Packet) error {
		a.Add(p)
		return nil
	})
	var damage *trace.DamageError
	if err != nil && !errors.As(err, &damage) {
		return err
	}
	return errors.Join(a.Write(out), err)
}

// LadderOptions are those of Ladder.
type LadderOptions struct {
	Choice
	Rows      int    // packets that are shown at most
	SVG, HTML string // files to write instead of text
}

// Ladder draws a sequence diagram.
func Ladder(ctx context.Context, out io.Writer, name string, o LadderOptions) error {
	if o.HTML != "" {
		return writePage(ctx, out, name, o)
	}
	l := &ladder.Ladder{Title: filepath.Base(name), Rows: o.Rows}
	err := each(ctx, name, &o.Choice, func(p *trace.Packet) error {
		l.Add(p)
		return nil
	})
	var damage *trace.DamageError
	if err != nil && !errors.As(err, &damage) {
		return err
	}
	if o.SVG != "" {
		return errors.Join(toFile(o.SVG, name, out, l.WriteSVG), err)
	}
	return errors.Join(l.WriteText(out), err)
}

// writePage writes a capture, or what is chosen of it, as a page.
func writePage(ctx context.Context, out io.Writer, name string, o LadderOptions) error {
	if err := countFits(o.Rows); err != nil {
		return err
	}
	w := &page.Window{Title: filepath.Base(name), From: o.From, Count: o.Rows}
	err := readWindow(ctx, name, o.Choice, w)
	if err != nil && w.Damage == "" {
		return err
	}
	return errors.Join(toFile(o.HTML, name, out, func(out io.Writer) error { return page.Write(out, w) }), err)
}

// countFits says whether a page takes so many packets.
func countFits(n int) error {
	if n > page.MaxCount {
		return fmt.Errorf("--rows %d: a page shows up to %d packets at once; ladder has --from to choose which, and "+
			"serve has all of them", n, page.MaxCount)
	}
	return nil
}

// readWindow fills a window of a capture. It reads from the first packet on, as what a packet means
// depends on those before it.
func readWindow(ctx context.Context, name string, c Choice, w *page.Window) error {
	c.From = 0
	err := each(ctx, name, &c, func(p *trace.Packet) error {
		if !w.Add(p) {
			return errStop
		}
		return nil
	})
	var damage *trace.DamageError
	if errors.As(err, &damage) {
		w.Damage = damage.Error()
	}
	return err
}

// toFile writes a file of what was read from another; "-" is out.
func toFile(name, from string, out io.Writer, write func(io.Writer) error) error {
	f, err := create(name, from, out)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
