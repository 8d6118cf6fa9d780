package trace

// "roce trace timeline": packets, and what the device that recorded them did.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/timeline"
)

// Timeline shows the packets and the records of a file. It reads the file twice at a time, once for
// each, as the records of a moment lie behind its packets.
func Timeline(ctx context.Context, out io.Writer, name string, o timeline.Options) (err error) {
	if name == "-" {
		return errors.New("the timeline is read at two places at a time: name a file, not standard input")
	}
	var sources [2]*trace.Source
	var bar *bar
	for i := range sources {
		file, size, err := open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		if sources[i], err = trace.NewSource(file); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		bar = newBar(os.Stderr, size)
	}
	defer bar.clear()
	w := bufio.NewWriterSize(out, 1<<16)
	defer func() { err = errors.Join(err, w.Flush()) }()
	notes := timeline.NewNotes(sources[1])
	seen := 0
	entries := func(yield func(timeline.Entry) bool) {
		for x := range notes.All() {
			if seen++; seen%1024 == 0 {
				bar.show(sources[1].Offset())
			}
			if ctx.Err() != nil || !yield(x) {
				return
			}
		}
	}
	if err = timeline.Write(w, sources[0], entries, o); err == nil {
		err = notes.Err()
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case seen == 0:
		fmt.Fprintf(os.Stderr, "%s has packets only: --pcap %s --records records what the device does too\n",
			name, name)
	}
	return nil
}
