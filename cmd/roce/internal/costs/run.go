package costs

// The two ends of a run: the server, which opens, answers and closes as it is told; and the client,
// which goes through the table and measures.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/cmd/roce/internal/system"
)

// Run measures a table: with a host against the server that waits there, otherwise against a server
// of its own on this machine. With Server or Answer it is the server.
func Run(ctx context.Context, out io.Writer, t *Table, o Options) error {
	if err := o.check(true); err != nil {
		return err
	}
	switch {
	case o.Answer != "":
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", o.Answer)
		if err != nil {
			return err
		}
		return serve(ctx, newLink(c), o)
	case o.Server:
		l, err := listen(ctx, ":"+strconv.Itoa(o.Port))
		if err != nil {
			return err
		}
		o.say(out, "Waiting on TCP port %d for a client, roce perf sockets or notify with this machine's name\n",
			o.Port)
		c, err := accept(ctx, l)
		if err != nil {
			return err
		}
		return serve(ctx, c, o)
	case o.Host != "":
		c, err := dial(ctx, o.Host, o.Port)
		if err != nil {
			return err
		}
		return measure(ctx, out, t, o, c)
	}
	return both(ctx, out, t, o)
}

// both measures between two ends on this machine. The server is a process of its own: the sleeping
// ends of one process would wake each other without the kernel, which no two machines can.
func both(ctx context.Context, out io.Writer, t *Table, o Options) error {
	l, err := listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	served := make(chan error, 1)
	go func() {
		err := o.serveAt(ctx, l.Addr().String())
		if err != nil {
			cancel(fmt.Errorf("the server: %w", err))
		}
		served <- err
	}()
	c, err := accept(ctx, l)
	if err == nil {
		err = measure(ctx, out, t, o, c)
	}
	if err != nil {
		cancel(err)
	}
	return cmp.Or(err, <-served)
}

// serveAt runs the program that answers a waiting client.
func (o *Options) serveAt(ctx context.Context, client string) error {
	p := exec.CommandContext(ctx, o.Program[0], append(slices.Clone(o.Program[1:]), client)...)
	p.Stderr = os.Stderr
	return p.Run()
}

// serve answers one client until it leaves.
func serve(ctx context.Context, l *link, o Options) error {
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.SetDeadline(time.Unix(1, 0)) })()
	var h hello
	if err := l.receive(&h); err != nil {
		return err
	}
	t, err := find(h.Table)
	if err == nil && h.Program != program {
		err = fmt.Errorf("the client is %.40q, this end is %q", h.Program, program)
	}
	if err == nil && (h.Size < minSize || h.Size > maxSize) {
		err = fmt.Errorf("the client wants messages of %d bytes: %d to %d are possible", h.Size, minSize, maxSize)
	}
	if err != nil {
		return err
	}
	if err := l.send(hello{Program: program}); err != nil {
		return err
	}
	s, err := newSide(l, o, h.Size, false)
	if err != nil {
		return err
	}
	defer s.session.Close()
	for {
		var next order
		if err := l.receive(&next); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if next.Stop || next.Way < 0 || next.Way >= len(t.ways) {
			return fmt.Errorf("the client wants way %d of %d", next.Way, len(t.ways))
		}
		if err := s.serveWay(ctx, l, t.ways[next.Way], next.Place); err != nil {
			return err
		}
	}
}

// newSide opens the device that leads to the peer.
func newSide(l *link, o Options, size int, client bool) (*side, error) {
	local, remote := l.ends()
	s, err := session.Open(o.Options, local)
	if err != nil {
		return nil, err
	}
	return &side{
		session: s,
		local:   local.String(),
		remote:  remote.String(),
		size:    size,
		client:  client,
		apart:   o.Host == "" && !o.Server,
	}, nil
}

// serveWay opens one way, answers until the client says stop, and says what it took. What goes
// wrong while it is opened is the client's to tell.
func (s *side) serveWay(ctx context.Context, l *link, w way, peer place) error {
	e, err := w.open(s, w)
	if err != nil {
		return l.send(reply{Error: err.Error()})
	}
	defer e.close()
	if err := e.meet(ctx, peer); err != nil {
		return l.send(reply{Error: err.Error()})
	}
	spent := s.start()
	if err := l.send(reply{Place: e.own()}); err != nil {
		return err
	}
	answering, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() {
		defer s.keepApart(w)()
		failed <- e.answer(answering)
	}()
	var next order
	err = l.receive(&next)
	stop()
	failure := <-failed
	if err != nil {
		return errors.Join(err, failure)
	}
	r := spent.stop()
	if failure != nil {
		r.Error = failure.Error()
	}
	return l.send(r)
}

// keepApart gives each of two ends that poll on the same machine a processor of its own.
func (s *side) keepApart(w way) (undo func()) {
	if !s.apart || w.Waits != polling {
		return func() {}
	}
	return system.KeepOn(s.client)
}

// spending is what an end had spent when a way began.
type spending struct {
	s       *side
	cpu     time.Duration
	packets uint64
}

func (s *side) start() spending {
	return spending{s, system.ProcessTime(), s.session.Stats().Engine.SentPkts}
}

// stop is what it has spent since.
func (p spending) stop() reply {
	return reply{CPU: system.ProcessTime() - p.cpu, Packets: p.s.session.Stats().Engine.SentPkts - p.packets}
}

// measure is the client.
func measure(ctx context.Context, out io.Writer, t *Table, o Options, l *link) error {
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.SetDeadline(time.Unix(1, 0)) })()
	if err := l.send(hello{Program: program, Table: t.Name, Size: o.Size}); err != nil {
		return err
	}
	var h hello
	if err := l.receive(&h); err != nil {
		return fmt.Errorf("the server left without a greeting: %w; see what it printed", err)
	}
	s, err := newSide(l, o, o.Size, true)
	if err != nil {
		return err
	}
	defer s.session.Close()
	r := newReport(t, &o, s)
	o.say(out, "%s", r.header())
	for i, w := range t.ways {
		row, err := s.try(ctx, l, o.Duration, i, w)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s, %s: %w", w.Name, w.Waits, s.session.Explain(err))
		}
		if t.Half {
			row.halve()
		}
		r.Results = append(r.Results, row)
		o.say(out, "%s", row.line())
	}
	return r.end(out)
}

// try measures one way. That a way cannot be opened here or there is said in its row and is no
// error.
func (s *side) try(ctx context.Context, l *link, d time.Duration, i int, w way) (row *Row, err error) {
	row = &Row{way: w}
	e, err := w.open(s, w)
	if err != nil {
		row.Missing = err.Error()
		return row, nil
	}
	defer e.close()
	there, err := l.exchange(order{Way: i, Place: e.own()})
	if there.Error != "" {
		row.Missing = err.Error()
		return row, nil
	}
	if err != nil {
		return nil, err
	}
	spent := s.start()
	if err := e.meet(ctx, there.Place); err != nil {
		return nil, err
	}
	undo := s.keepApart(w)
	asked, err := row.ask(ctx, e, d)
	undo()
	mine := spent.stop()
	if err != nil {
		return nil, err
	}
	theirs, err := l.exchange(order{Way: i, Stop: true})
	if err != nil {
		return nil, err
	}
	row.spend(asked, mine.CPU+theirs.CPU, mine.Packets+theirs.Packets)
	return row, nil
}

// longest is the longest time that is told apart; three digits are kept of each.
const longest = int64(time.Minute)

// ask asks until the time is up; the first tenth is not recorded. It returns how many questions
// were answered.
func (row *Row) ask(ctx context.Context, e end, d time.Duration) (asked int, err error) {
	runtime.GC() // not while it is measured
	row.times = hdrhistogram.New(1, longest, 3)
	start := time.Now()
	for i := 0; ; {
		from := time.Now()
		lost, err := e.ask(ctx, i)
		if err != nil {
			return asked, err
		}
		took, since := time.Since(from), time.Since(start)
		if lost {
			row.Lost++
		} else {
			i++
			asked++
			if since > d/10 {
				row.times.RecordValue(min(int64(took), longest))
			}
		}
		if since >= d && (asked > 0 || row.Lost > 2) && (row.times.TotalCount() > 0 || row.Lost > 2) {
			return asked, nil
		}
	}
}

// ends says in words where the two ends are.
func ends(o *Options) string {
	if o.Host == "" {
		return fmt.Sprintf("both ends on this machine, %d processors", runtime.NumCPU())
	}
	return "to " + o.Host
}
