// Package trace is the subcommands of "roce trace": what package trace of the library finds out,
// shown on a terminal and as pictures.
package trace

// Reading a capture file for a command. Stages: open it → show how far it is, on a terminal, if
// that takes longer than a second → choose the packets that were asked for → say what is wrong with
// the file only when all that could be read has been shown.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/goroce/goroce/trace"
)

// Choice is which packets of a file are looked at. Zero values choose all of RoCE.
type Choice struct {
	From, To int    // numbers of records, both included; To 0: to the end
	QP       uint32 // destination queue pair; 0: any
	Others   bool   // packets that are nothing of RoCE too

	notes func(text []byte) // gets what lies between the packets; nil: nobody wants it
}

// has says whether p is one of them.
func (c *Choice) has(p *trace.Packet) bool {
	if p.Number < c.From || p.Kind == trace.Other && !c.Others {
		return false
	}
	return c.QP == 0 || p.Parsed && p.Wire.BTH.DestQP() == c.QP
}

// errStop ends a walk before the end of the file.
var errStop = errors.New("stop")

// each calls f with every packet of the file that is chosen.
func each(ctx context.Context, name string, c *Choice, f func(p *trace.Packet) error) error {
	file, size, err := open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	src, err := trace.NewSource(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	src.EachNotes(c.notes)
	bar := newBar(os.Stderr, size)
	defer bar.clear()
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			bar.show(src.Offset())
		}
		p, err := src.Next()
		switch {
		case err == io.EOF || err == nil && c.To > 0 && p.Number > c.To:
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case !c.has(p):
			continue
		}
		if err := f(p); err == errStop {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// open opens a file, or standard input for "-", and says how long it is if that is known.
func open(name string) (*os.File, int64, error) {
	if name == "-" {
		return os.Stdin, 0, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory, and no capture file", name)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// create makes a file of what is read from another, which it may not be: it would be emptied.
func create(name, from string) (*os.File, error) {
	read, err := os.Stat(from)
	if from == "-" {
		read, err = os.Stdin.Stat()
	}
	if there, terr := os.Stat(name); err == nil && terr == nil && os.SameFile(there, read) {
		return nil, fmt.Errorf("%s is the capture itself: write to another file", name)
	}
	return os.Create(name)
}

// bar is a line that shows how far a file has been read.
type bar struct {
	out   *os.File // nil: nowhere to show it
	size  int64
	next  time.Time // when to draw it again
	drawn bool
}

// newBar makes a bar that waits for a second.
func newBar(out *os.File, size int64) *bar {
	if size == 0 || !term.IsTerminal(int(out.Fd())) {
		return &bar{}
	}
	return &bar{out: out, size: size, next: time.Now().Add(time.Second)}
}

func (b *bar) show(at int64) {
	if b.out == nil || time.Now().Before(b.next) {
		return
	}
	const width = 40
	b.drawn, b.next = true, time.Now().Add(100*time.Millisecond)
	done := int(width * min(at, b.size) / b.size)
	fmt.Fprintf(b.out, "\r[%-*.*s] %3d %%", width, done, "########################################", 100*min(at, b.size)/b.size)
}

// clear takes the line away again.
func (b *bar) clear() {
	if b.drawn {
		fmt.Fprintf(b.out, "\r%50s\r", "")
	}
}
