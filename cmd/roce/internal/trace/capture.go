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
// notes gets how many there were, if they are written.
func Capture(ctx context.Context, out, notes io.Writer, name string, o CaptureOptions) (err error) {
	s, err := sniff.Open(name)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer func() {
		if stop() {
			err = errors.Join(err, s.Close())
		}
	}()
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
		defer func() { err = errors.Join(err, w.Flush(), file.Close()) }()
	}
	n, err := follow(s, &o, show)
	if errors.Is(err, os.ErrClosed) && ctx.Err() != nil {
		err = nil // the user has ended it
	}
	if lost, lerr := s.Lost(); o.Write != "" || lerr == nil && lost > 0 {
		fmt.Fprintf(notes, "%d packets captured, %d lost\n", n, lost)
	}
	return err
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
