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

// Analyze says what became of each message, as text or as JSON. A file that is damaged is analyzed
// up to there.
func Analyze(ctx context.Context, out io.Writer, name string, c Choice, asJSON bool) error {
	a := analysis.New()
	c.Others = true
	c.notes = records(a.Told)
	err := each(ctx, name, &c, func(p *trace.Packet) error {
		a.Add(p)
		return nil
	})
	var damage *trace.DamageError
	if err != nil && (!errors.As(err, &damage) || a.Packets+a.Others == 0) {
		return err
	}
	if asJSON {
		return errors.Join(a.WriteJSON(out), err)
	}
	return errors.Join(a.Write(out), err)
}

// records hands over what devices have recorded.
func records(told func(x *timeline.Entry)) func(text []byte) {
	return func(text []byte) {
		for line := range bytes.Lines(text) {
			if x, err := timeline.ParseEntry(line); err == nil {
				told(&x)
			}
		}
	}
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
	show, err := o.shown()
	if err != nil {
		return err
	}
	l.Show = show
	err = each(ctx, name, &o.Choice, func(p *trace.Packet) error {
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

// shown takes the filter out of the choice: it chooses what is drawn, while all is analyzed, as
// what a packet means depends on those before it.
func (c *Choice) shown() (func(p *trace.Packet) bool, error) {
	err := c.check()
	f := c.filter
	c.Filter, c.filter = "", nil
	if f == nil || err != nil {
		return nil, err
	}
	return f.Match, nil
}

// writePage writes a capture, or what is chosen of it, as a page.
func writePage(ctx context.Context, out io.Writer, name string, o LadderOptions) error {
	if err := countFits(o.Rows); err != nil {
		return err
	}
	if err := o.Choice.check(); err != nil {
		return err
	}
	w := &page.Window{Title: filepath.Base(name), From: o.From, Count: o.Rows, Filter: o.Choice.filter}
	o.Choice.Filter, o.Choice.filter = "", nil
	if name != "-" { // which is read once
		w.Study = page.NewStudy()
		if err := readStudy(ctx, name, w.Study); err != nil {
			return err
		}
	}
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
	c.notes = records(w.Told)
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

// readStudy reads a whole capture, or what can be read of it.
func readStudy(ctx context.Context, name string, s *page.Study) error {
	err := each(ctx, name, &Choice{notes: records(s.Told)}, func(p *trace.Packet) error {
		s.Add(p)
		return nil
	})
	var damage *trace.DamageError
	if errors.As(err, &damage) {
		return nil // the window says it
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
