package trace

// "roce trace capture": the packets of an interface, shown as they come or written to files.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/sniff"
	"github.com/goroce/goroce/wire"
)

// CaptureOptions are those of Capture.
type CaptureOptions struct {
	Choice
	sniff.Options
	Write    string        // a pcapng file, instead of lines; "-": standard output
	Files    Rotation      // several of them
	Count    int           // how many packets; 0: until ctx ends
	Duration time.Duration // for how long; 0: until ctx ends
}

// shortest is the least that Snap leaves: the headers of a READ request over IPv6 and a VLAN.
const shortest = 96

// check says what is wrong with the options.
func (o *CaptureOptions) check() error {
	switch {
	case o.Snap > 0 && o.Snap < shortest:
		return fmt.Errorf("--snap %d: the headers of a packet have up to %d bytes; 128 is a good number",
			o.Snap, shortest)
	case o.Write == "" && (o.Snap > 0 || o.Files != Rotation{}):
		return errors.New("--snap, --file-size, --file-time and --files are about the files of --write")
	case o.Write == "-" && o.Files != Rotation{}:
		return errors.New("standard output is one file: --file-size, --file-time and --files want another " +
			"name for --write")
	case o.Files.Keep > 0 && o.Files.Size == 0 && o.Files.Time == 0:
		return fmt.Errorf("--files %d: say when the next one begins, by --file-size or --file-time", o.Files.Keep)
	}
	return nil
}

// Capture shows or writes the packets that an interface sees, until ctx ends or there were enough.
// notes gets how many there were. The file has all of them whenever none is waiting, so that it can
// be opened while the capture goes on, and after it was killed.
func Capture(ctx context.Context, out, notes io.Writer, name string, o CaptureOptions) (err error) {
	if err := errors.Join(o.check(), o.Choice.check()); err != nil {
		return err
	}
	s, err := sniff.Open(name, &o.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var w *files
	if o.Write != "" {
		if w, err = newFiles(o.Write, out, o.Files); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = s.End() }) // what has arrived by then belongs to it
	defer stop()
	if o.Duration > 0 {
		timer := time.AfterFunc(o.Duration, func() { _ = s.End() })
		defer timer.Stop()
	}
	n := 0
	if w == nil {
		n, err = show(s, out, &o)
	} else {
		n, err = record(s, w, &o)
	}
	if errors.Is(err, os.ErrClosed) {
		err = nil // it has ended as it was to
	}
	lost, lerr := s.Lost()
	fmt.Fprintf(notes, "%d packets captured, %d lost%s\n", n, lost, advice(lost, &o))
	return errors.Join(err, lerr)
}

// advice is what to do about losses.
func advice(lost uint64, o *CaptureOptions) string {
	switch {
	case lost == 0:
		return ""
	case o.Write == "":
		return ": fewer are with --write"
	case o.Snap == 0:
		return ": fewer are with --snap 128, or with a larger --buffer"
	}
	return ": fewer are with a larger --buffer"
}

// show writes a line for each packet that is chosen.
func show(s *sniff.Sniffer, out io.Writer, o *CaptureOptions) (n int, err error) {
	w := bufio.NewWriter(out)
	s.Idle = func() { _ = w.Flush() } // the next Write returns what is wrong
	defer func() { err = errors.Join(err, w.Flush()) }()
	var first int64
	var line []byte
	err = follow(s, o, func(p *trace.Packet) error {
		if n++; n == 1 {
			first = p.Time
		}
		line = append(p.AppendLine(appendStamp(line[:0], p, first)), '\n')
		_, err := w.Write(line)
		return err
	})
	return n, err
}

// record writes the packets that are chosen to files, and closes those. Without a choice they are
// not looked at.
func record(s *sniff.Sniffer, w *files, o *CaptureOptions) (n int, err error) {
	s.Idle = w.flush
	defer func() {
		if failed := w.close(); !errors.Is(err, failed) { // else it has been said
			err = errors.Join(err, failed)
		}
	}()
	if o.QP != 0 || o.Filter != "" || o.Snap > 0 {
		err = follow(s, o, func(p *trace.Packet) error {
			n++
			rec := p.Record
			rec.Data = p.Data[:len(p.Data)-p.Cut]
			if o.Snap > 0 && len(rec.Data) > o.Snap && !toManager(p) {
				rec.Data = rec.Data[:o.Snap]
			}
			return w.write(&rec)
		})
		return n, err
	}
	for rec := (trace.Record{}); o.Count <= 0 || n < o.Count; n++ {
		if err := s.Next(&rec); err != nil {
			return n, err
		}
		if err := w.write(&rec); err != nil {
			return n, err
		}
	}
	return n, nil
}

// toManager says whether a packet is a message of the connection manager, which analyze reads.
func toManager(p *trace.Packet) bool { return p.Parsed && p.Wire.BTH.DestQP() == wire.GSIQPN }

// follow calls f with each packet that is chosen.
func follow(s *sniff.Sniffer, o *CaptureOptions, f func(p *trace.Packet) error) error {
	src := trace.NewSourceOf(s.Next)
	for n := 0; o.Count <= 0 || n < o.Count; {
		p, err := src.Next()
		if err != nil {
			return err
		}
		if !o.has(p) {
			continue
		}
		n++
		if err := f(p); err != nil {
			return err
		}
	}
	return nil
}
