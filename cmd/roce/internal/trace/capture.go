package trace

// "roce trace capture": the packets of an interface, shown as they come or written to a file.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/sniff"
)

// CaptureOptions are those of Capture.
type CaptureOptions struct {
	Choice
	Write string // a pcapng file, instead of lines
	Count int    // how many packets; 0: until ctx ends
}

// Capture shows or writes the packets that an interface sees, until ctx ends or there were enough.
// notes gets how many there were. The file has all of them whenever none is waiting, so that it can
// be opened while the capture goes on, and after it was killed.
func Capture(ctx context.Context, out, notes io.Writer, name string, o CaptureOptions) (err error) {
	s, err := sniff.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	stop := context.AfterFunc(ctx, func() { _ = s.End() }) // what has arrived by then belongs to it
	defer stop()
	show := func(p *trace.Packet, first int64) error {
		_, err := out.Write(append(p.AppendLine(appendStamp(nil, p, first)), '\n'))
		return err
	}
	if o.Write != "" {
		file, failed := os.Create(o.Write)
		if failed != nil {
			return failed
		}
		w := trace.NewWriter(file)
		show = func(p *trace.Packet, _ int64) error { return w.Write(&p.Record) }
		s.Idle = func() { _ = w.Flush() } // the next Write returns what is wrong
		defer func() {
			if failed := w.Flush(); !errors.Is(err, failed) { // else it has been said
				err = errors.Join(err, failed)
			}
			err = errors.Join(err, file.Close())
		}()
	}
	n, err := follow(s, &o, show)
	if errors.Is(err, os.ErrClosed) && ctx.Err() != nil {
		err = nil // the user has ended it
	}
	lost, lerr := s.Lost()
	fmt.Fprintf(notes, "%d packets captured, %d lost\n", n, lost)
	return errors.Join(err, lerr)
}

// follow calls show with each packet that is chosen.
func follow(s *sniff.Sniffer, o *CaptureOptions, show func(p *trace.Packet, first int64) error) (n int, err error) {
	var p trace.Packet
	var first int64
	for o.Count <= 0 || n < o.Count {
		p.Number = n
		if err := s.Next(&p.Record); err != nil {
			return n, err
		}
		if p.Decode(); !o.has(&p) {
			continue
		}
		if n++; n == 1 {
			first = p.Time
		}
		if err := show(&p, first); err != nil {
			return n, err
		}
	}
	return n, nil
}
