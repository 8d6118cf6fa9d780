// Package demo shows what RDMA is: two devices on two addresses of this machine, every kind of
// operation between them, every packet explained as it passes, every byte of both memories compared
// with what it should be.
//
// Stages of a run: two hosts (host.go), the lessons one after the other (lessons.go), each of which
// says what it does, does it, and checks all memory of both hosts against a model of it (this
// file), then a table of what happened.
package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/trace/timeline"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/capture"
	"github.com/goroce/goroce/wire"
)

// Options say what to show.
type Options struct {
	Quiet   bool   // no packets
	Pcap    string // file for a capture
	Records bool   // what A does goes into it too
	// Before is called before each operation, with its name and what it does, and may wait; nil:
	// nobody cares.
	Before func(name, what string)
	// Packets sees each packet that A sends or receives; nil: nobody looks.
	Packets capture.Func
	// Did is told after each operation what both devices have done; nil: nobody cares.
	Did func(entries []timeline.Entry)
}

// patience is how long a lesson may take. It takes milliseconds; more means that something is
// wrong.
const patience = 2 * time.Second

// demo is one run.
type demo struct {
	out  io.Writer
	o    Options
	a, b *host

	mu      sync.Mutex // packets pass on the goroutine that has the turn
	packets int
	line    []byte
}

// outcome is a row of the table.
type outcome struct {
	lesson
	packets int
	took    time.Duration
	err     error
}

// Run shows everything and fails if anything was not as it should be.
func Run(ctx context.Context, out io.Writer, o Options) (err error) {
	d := &demo{out: out, o: o}
	defer func() {
		if e := d.close(); err == nil {
			err = e
		}
	}()
	if err := d.open(ctx, o); err != nil {
		return err
	}
	fmt.Fprintf(out, "A is %s, B is %s. What follows are real packets over real sockets.\n", d.a.s.Name(), d.b.s.Name())
	var table []outcome
	for _, l := range lessons {
		if o.Before != nil {
			o.Before(l.name, l.what)
		}
		table = append(table, d.teach(ctx, l))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return d.summary(table)
}

// open makes both hosts. All packets pass A, so watching A is enough.
func (d *demo) open(ctx context.Context, o Options) (err error) {
	addr := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if d.a, err = newHost("A", session.Options{
		Pcap:    o.Pcap,
		Records: o.Records || o.Did != nil,
		Watch:   d.watch,
	}, addr); err != nil {
		return err
	}
	if d.b, err = newHost("B", session.Options{Records: o.Did != nil}, d.a.s.GID.Addr().Next()); err != nil {
		return err
	}
	return connect(ctx, d.a, d.b)
}

// watch sees A's packets.
func (d *demo) watch(p transport.Port) transport.Port {
	return capture.Wrap(p, capture.Func(func(dir capture.Direction, at time.Time, f *wire.Frame) {
		if d.o.Packets != nil {
			d.o.Packets(dir, at, f)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.packets++
		if d.o.Quiet {
			return
		}
		arrow := "   A > B  "
		if dir == capture.Received {
			arrow = "   A < B  "
		}
		d.line = append(wire.AppendPacket(append(d.line[:0], arrow...), f), '\n')
		d.out.Write(d.line)
	}))
}

// teach runs one lesson and compares all memory with the model.
func (d *demo) teach(ctx context.Context, l lesson) outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it did not happen within %v", patience))
	defer cancel()
	d.say("\n%s\n   %s\n", l.name, l.what)
	before, start := d.seen(), time.Now()
	err := l.run(ctx, d)
	took := time.Since(start)
	if err == nil {
		err = d.tell()
	}
	for _, h := range []*host{d.a, d.b} {
		if err == nil {
			err = h.compare()
		}
	}
	if err != nil {
		d.say("   FAILED: %v\n", err)
	} else {
		d.say("   right: %s\n", l.right)
	}
	return outcome{l, d.seen() - before, took, err}
}

// tell tells what the devices have done.
func (d *demo) tell() error {
	if d.o.Did == nil {
		return nil
	}
	for _, h := range []*host{d.a, d.b} {
		shift, err := h.s.Shift()
		if err != nil {
			return err
		}
		d.o.Did(timeline.Entries(nil, h.s.GID.Addr().Unmap().String(), h.s.Records(nil), shift))
	}
	return nil
}

func (d *demo) say(format string, a ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, format, a...)
}

func (d *demo) seen() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.packets
}

// summary prints the table and counts what failed.
func (d *demo) summary(table []outcome) error {
	d.say("\n%-34s %8s %8s %10s  %s\n", "operation", "bytes", "packets", "time", "result")
	failed := 0
	for _, o := range table {
		result := "right"
		if o.err != nil {
			result = "FAILED"
			failed++
		}
		d.say("%-34s %8d %8d %10v  %s\n", o.name, o.bytes, o.packets, o.took.Round(time.Microsecond), result)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d operations went wrong", failed, len(table))
	}
	d.say("All %d operations right, every byte compared.\nWhat each of them is, step by step: roce learn --list\n",
		len(table))
	return nil
}

func (d *demo) close() error {
	var errs []error
	for _, h := range []*host{d.a, d.b} {
		if h != nil {
			errs = append(errs, h.close())
		}
	}
	return errors.Join(errs...)
}

// compare holds the memory of a host against its model.
func (h *host) compare() error {
	if bytes.Equal(h.mem, h.model) {
		return nil
	}
	for i := range h.mem {
		if h.mem[i] != h.model[i] {
			return fmt.Errorf("byte %d of %s's memory is 0x%02x, want 0x%02x", i, h.name, h.mem[i], h.model[i])
		}
	}
	return nil
}
