package trace

// "roce trace analyze" and "ladder".

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/analysis"
	"github.com/goroce/goroce/trace/ladder"
)

// Analyze says what became of each message. A file that is damaged is analyzed up to there.
func Analyze(ctx context.Context, out io.Writer, name string, c Choice) error {
	a := analysis.New()
	c.Others = true
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
	l := &ladder.Ladder{Title: filepath.Base(name), Rows: o.Rows, Pictures: o.HTML != ""}
	err := each(ctx, name, &o.Choice, func(p *trace.Packet) error {
		l.Add(p)
		return nil
	})
	var damage *trace.DamageError
	if err != nil && !errors.As(err, &damage) {
		return err
	}
	switch {
	case o.SVG != "":
		return errors.Join(toFile(o.SVG, l.WriteSVG), err)
	case o.HTML != "":
		return errors.Join(toFile(o.HTML, l.WriteHTML), err)
	}
	return errors.Join(l.WriteText(out), err)
}

// toFile writes a file.
func toFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
