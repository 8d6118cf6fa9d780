package trace

// The files of a capture: one, or one after the other, of which the newest are kept. Each can be
// read without the others.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goroce/goroce/trace"
)

// Rotation is when the next file begins. The zero value is for one file.
type Rotation struct {
	Size int64         // bytes of a file; 0: any number
	Time time.Duration // between its first packet and the next one's; 0: any time
	Keep int           // how many files are kept, the older ones are deleted; 0: all
}

// files is where the packets go.
type files struct {
	name    string // of --write
	rules   Rotation
	w       *trace.Writer
	out     io.Writer
	file    *os.File // nil: standard output
	written int64    // to the file
	first   int64    // the time of its first packet; 0: it has none
	number  int      // of the file, from 1 on
	kept    []string
}

// newFiles begins the first file; name may be "-", which is out.
func newFiles(name string, out io.Writer, rules Rotation) (*files, error) {
	f := &files{name: name, rules: rules, out: out}
	return f, f.begin(time.Now().UnixNano())
}

// begin begins a file, whose first packet has this time.
func (f *files) begin(at int64) (err error) {
	f.number++
	f.written, f.first = 0, 0
	if f.name != "-" {
		name := f.name
		if f.rules != (Rotation{}) {
			ext := filepath.Ext(name)
			name = fmt.Sprintf("%s-%05d-%s%s", strings.TrimSuffix(name, ext), f.number,
				time.Unix(0, at).Format("20060102-150405"), ext)
		}
		if f.file, err = os.Create(name); err != nil {
			return err
		}
		f.out = f.file
		if f.kept = append(f.kept, name); f.rules.Keep > 0 && len(f.kept) > f.rules.Keep {
			_ = os.Remove(f.kept[0]) // somebody may have taken it away
			f.kept = f.kept[1:]
		}
	}
	f.w = trace.NewWriter(f)
	return nil
}

// Write is for the trace.Writer, and counts.
func (f *files) Write(b []byte) (int, error) {
	n, err := f.out.Write(b)
	f.written += int64(n)
	return n, err
}

// write writes a packet, to the next file if it is time for that.
func (f *files) write(rec *trace.Record) error {
	r := &f.rules
	full := r.Size > 0 && f.written >= r.Size || r.Time > 0 && f.first > 0 && rec.Time-f.first >= int64(r.Time)
	if full {
		if err := errors.Join(f.close(), f.begin(rec.Time)); err != nil {
			return err
		}
	}
	if f.first == 0 {
		f.first = rec.Time
	}
	return f.w.Write(rec)
}

// flush hands on what is ready. The next write returns what is wrong.
func (f *files) flush() { _ = f.w.Flush() }

// close ends the file at hand.
func (f *files) close() error {
	err := f.w.Flush()
	if f.file == nil {
		return err
	}
	if closed := f.file.Close(); err == nil {
		err = closed
	}
	return err
}
