// Package trace is the subcommands of "roce trace": what package trace of the library finds out,
// shown on a terminal and as pictures.
package trace

// Reading a capture file for a command. Stages: open it → show how far it is, on a terminal, if
// that takes longer than a second → choose the packets that were asked for, and say so if none is →
// say what is wrong with the file only when all that could be read has been shown.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/filter"
)

// Choice is which packets of a file are looked at. Zero values choose all of RoCE. From, To and QP
// are short for frame.number and infiniband.bth.destqp of a filter; the file is not read beyond To.
type Choice struct {
	From, To int    // numbers of records, both included; To 0: to the end
	QP       uint32 // destination queue pair; 0: any
	Filter   string // an expression of trace/filter; "": any
	Others   bool   // packets that are nothing of RoCE too

	notes func(text []byte) // gets what lies between the packets; nil: nobody wants it
	idle  func()            // is called when the next packet may have to be waited for; nil: nobody

	filter *filter.Filter // nil: all pass
}

// has says whether p is one of them.
func (c *Choice) has(p *trace.Packet) bool {
	left := c.filter == nil || c.filter.Match(p) // of any packet: times count from the first
	if p.Number < c.From || p.Kind == trace.Other && !c.Others {
		return false
	}
	if c.QP != 0 && !(p.Parsed && p.Wire.BTH.DestQP() == c.QP) {
		return false
	}
	return left
}

// check says what is wrong with the choice itself, and makes it ready.
func (c *Choice) check() (err error) {
	if c.Filter != "" {
		if c.filter, err = filter.Parse(c.Filter); err != nil {
			return fmt.Errorf("--filter: %w", err)
		}
	}
	switch {
	case c.From < 0 || c.To < 0:
		return fmt.Errorf("--from %d, --to %d: packets are counted from 1 on", c.From, c.To)
	case c.To > 0 && c.To < c.From:
		return fmt.Errorf("--from %d, --to %d: the last is before the first", c.From, c.To)
	}
	return nil
}

// none says why nothing of a file is shown: it had so many packets up to where it was read, of
// which so many are RoCE's.
func (c *Choice) none(name string, packets, roce int) error {
	switch {
	case packets == 0:
		return fmt.Errorf("%s has no packets", name)
	case packets < c.From:
		return fmt.Errorf("--from %d: %s has %d packets", c.From, name, packets)
	case roce == 0:
		return fmt.Errorf("none of the %d packets of %s is RoCE's (\"roce trace decode --all\" shows them): was the "+
			"right interface captured? "+
			"What a NIC does itself is not seen on its own host", packets, name)
	case c.Filter != "":
		return fmt.Errorf("--filter %s: it leaves none of the %d packets of RoCE in %s", c.Filter, roce, name)
	case c.QP != 0:
		return fmt.Errorf("--qp 0x%06x: none of the %d packets of RoCE in %s is to it", c.QP, roce, name)
	}
	return fmt.Errorf("--from %d, --to %d: no packet of RoCE in %s is among these", c.From, c.To, name)
}

// errStop ends a walk before the end of the file.
var errStop = errors.New("stop")

// each calls f with every packet of the file that is chosen. Standard input it reads to its end
// also when ctx ends: who writes there is ended by the same Ctrl-C, and may have more to say.
func each(ctx context.Context, name string, c *Choice, f func(p *trace.Packet) error) error {
	if err := c.check(); err != nil {
		return err
	}
	file, size, err := open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	src, err := trace.NewSource(file)
	if err != nil {
		return fmt.Errorf("%s: %w", shown(name), err)
	}
	src.EachNotes(c.notes)
	bar := newBar(os.Stderr, size)
	defer bar.clear()
	chosen, roce := 0, 0
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if ctx.Err() != nil && name != "-" {
				return context.Cause(ctx)
			}
			bar.show(src.Offset())
		}
		if c.idle != nil && src.Ahead() == 0 {
			c.idle()
		}
		p, err := src.Next()
		switch {
		case err == io.EOF || err == nil && c.To > 0 && p.Number > c.To:
			if chosen == 0 {
				return c.none(shown(name), n, roce)
			}
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", shown(name), err)
		}
		if p.Kind != trace.Other {
			roce++
		}
		if !c.has(p) {
			continue
		}
		chosen++
		if err := f(p); err == errStop {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// shown is the name of a file for messages.
func shown(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// open opens a file, or standard input for "-", and says how long it is if that is known.
func open(name string) (*os.File, int64, error) {
	if name == "-" {
		if term.IsTerminal(int(os.Stdin.Fd())) {
			return nil, 0, errors.New("standard input is a terminal: pipe a capture into it, or name a file")
		}
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

// create makes a file of what is read from another, which it may not be: it would be emptied. "-"
// is out.
func create(name, from string, out io.Writer) (io.WriteCloser, error) {
	if name == "-" {
		return keptOpen{out}, nil
	}
	read, err := os.Stat(from)
	if from == "-" {
		read, err = os.Stdin.Stat()
	}
	if there, terr := os.Stat(name); err == nil && terr == nil && os.SameFile(there, read) {
		return nil, fmt.Errorf("%s is the capture itself: write to another file", name)
	}
	return os.Create(name)
}

// keptOpen is a writer that somebody else closes.
type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

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
	fmt.Fprintf(b.out, "\r[%-*.*s] %3d %%", width, done, "########################################",
		100*min(at, b.size)/b.size)
}

// clear takes the line away again.
func (b *bar) clear() {
	if b.drawn {
		fmt.Fprintf(b.out, "\r%50s\r", "")
	}
}
