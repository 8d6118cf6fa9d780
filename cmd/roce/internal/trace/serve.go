package trace

// "roce trace serve": the page in a browser.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/demo"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/page"
	"github.com/goroce/goroce/transport/capture"
	"github.com/goroce/goroce/wire"
)

// ServeOptions are those of Serve.
type ServeOptions struct {
	File   string // a capture; "": none
	Demo   bool   // the packets of roce demo
	Listen string // a loopback address and port
	Rows   int    // packets at once
}

// between is how long the demonstration waits before each operation, so that one can follow it.
const between = 1500 * time.Millisecond

// Serve serves the page until ctx ends, which is no error. out gets its URL.
func Serve(ctx context.Context, out io.Writer, o ServeOptions) error {
	if err := countFits(o.Rows); err != nil {
		return err
	}
	site := &page.Site{Title: filepath.Base(o.File), Count: o.Rows}
	if o.File != "" {
		if err := look(ctx, o.File); err != nil {
			return err
		}
		site.Read = func(ctx context.Context, w *page.Window) error { return readWindow(ctx, o.File, Choice{}, w) }
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return err
	}
	user := ctx
	ctx, stop := context.WithCancelCause(user)
	defer stop(nil)
	gone := make(chan struct{})
	if o.Demo {
		site.Live = page.NewLive("roce demo", o.Rows)
		go func() {
			defer close(gone)
			stop(perform(ctx, site.Live))
		}()
	} else {
		close(gone)
	}
	err = site.Serve(ctx, l, func(url string) { fmt.Fprintf(out, "open %s\nCtrl-C ends it\n", url) })
	stop(nil)
	<-gone
	if why := context.Cause(ctx); user.Err() == nil && !errors.Is(why, context.Canceled) {
		err = errors.Join(err, why)
	}
	return err
}

// look says what is wrong with a file before anybody is asked to open a browser.
func look(ctx context.Context, name string) error {
	if name == "-" {
		return errors.New("serve reads the capture again for every window of it, so it wants a file, and not " +
			"standard input")
	}
	w := &page.Window{Count: 1}
	if err := readWindow(ctx, name, Choice{}, w); err != nil && w.Damage == "" {
		return err
	}
	return nil
}

// perform runs the demonstration again and again.
func perform(ctx context.Context, live *page.Live) error {
	o := demo.Options{Quiet: true}
	o.Before = func(name, what string) {
		select {
		case <-time.After(between):
		case <-ctx.Done():
		}
		live.Say(time.Now().UnixNano(), name+": "+what)
	}
	var data []byte // of one packet at a time: all pass one device
	o.Packets = func(_ capture.Direction, at time.Time, f *wire.Frame) {
		data = append(append(data[:0], f.Head...), f.Body...)
		live.Add(trace.Record{Time: at.UnixNano(), Link: trace.LinkRaw, Length: len(data), Data: data})
	}
	o.Did = live.Did
	for {
		live.Restart()
		if err := demo.Run(ctx, io.Discard, o); err != nil {
			return err
		}
	}
}
