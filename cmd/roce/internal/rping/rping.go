// Package rping is both ends of rping: a client that asks the server to read a text out of its
// memory and to write it back elsewhere, over a connection of the RDMA connection manager. The
// protocol is section 9.12's; the other end may be rdma-core's.
//
// Stages: options; the server, for one client or, with -P, for each that comes; the client (both in
// this file); what the two have in common (end.go).
package rping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/trace"
)

// Sizes of the text in bytes, with the zero at its end. They are rping's: the smallest has room for
// its number.
const (
	MinSize     = len("rdma-ping-2147483647: ") + 1
	MaxSize     = 64<<10 - 1
	DefaultSize = 64
	DefaultPort = 7174
)

// Options are those of rping.
type Options struct {
	Server     bool
	Addr       string // -a: server's address, "" on the server: all addresses
	Source     string // -I: the client's address
	Port       int    // -p
	Count      int    // -C pings of the client; 0: until it is interrupted
	Size       int    // -S bytes of text
	Verbose    bool   // -v
	Validate   bool   // -V the client compares
	Debug      bool   // -d
	Persistent bool   // -P one client after the other, and several at a time

	Dev     string        // device name; "" is that of the address
	Pcap    string        // file for a packet capture
	Records bool          // session.Options.Records
	Faults  string        // roce.Config.Faults
	Stall   time.Duration // give up when nothing comes for so long; 0: never
}

// check names the option that is wrong.
func (o *Options) check() error {
	switch {
	case o.Size < MinSize || o.Size > MaxSize:
		return fmt.Errorf("-S %d: want %d to %d bytes", o.Size, MinSize, MaxSize)
	case o.Port < 1 || o.Port > 0xffff:
		return fmt.Errorf("-p %d: want 1 to 65535", o.Port)
	case o.Count < 0:
		return fmt.Errorf("-C %d: want 0 or more", o.Count)
	case !o.Server && o.Addr == "":
		return errors.New("-c: name the server with -a")
	case o.Server && o.Addr == "" && o.Dev == "" && (o.Pcap != "" || o.Faults != ""):
		return errors.New("--pcap and --fault are of one device: name it with --dev, or its address with -a")
	}
	return nil
}

// Run is the whole program. It prints to out.
func Run(ctx context.Context, out io.Writer, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	cfg := rdmacm.ConnConfig{Cap: roce.QPCap{MaxSendWR: 8, MaxRecvWR: 2, MaxSendSGE: 1, MaxRecvSGE: 1},
		Param: &rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7}}
	if s != nil {
		defer s.Close()
		cfg.Devices = []*roce.Device{s.Device}
	}
	r := &run{Options: o, out: &lines{w: out}}
	if o.Server {
		err = r.serve(ctx, &cfg)
	} else {
		err = r.ask(ctx, &cfg)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.Explain(err)
}

// open opens the device of the address; nil for a server on all addresses.
func (o *Options) open(ctx context.Context) (*session.Session, error) {
	opt := session.Options{Dev: o.Dev, Pcap: o.Pcap, Records: o.Records, Faults: o.Faults}
	if o.Server {
		return session.Meet(ctx, opt, o.Addr, "")
	}
	return session.Meet(ctx, opt, o.Source, o.Addr)
}

// lines prints whole lines of several connections. Text in them may be a peer's: it makes neither
// another line, nor does the terminal obey it.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.w, trace.Printable(fmt.Sprintf(format, args...)))
}

type run struct {
	Options
	out *lines
}

func (r *run) debug(format string, args ...any) {
	if r.Debug {
		r.out.printf(format, args...)
	}
}

func (r *run) address() string { return net.JoinHostPort(r.Addr, strconv.Itoa(r.Port)) }

// serve answers one client until it leaves, or with -P all that come.
func (r *run) serve(ctx context.Context, cfg *rdmacm.ConnConfig) error {
	cfg.Prepare = func(c *rdmacm.Conn) error {
		e, err := newEnd(c, MaxSize, r.Stall)
		c.Context = e
		return err
	}
	l, err := rdmacm.Listen(ctx, r.address(), &rdmacm.ListenConfig{ConnConfig: *cfg})
	if err != nil {
		return err
	}
	defer l.Close()
	r.debug("listening on %v", l.Addr())
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		r.debug("%v has connected", c.RemoteAddr())
		if !r.Persistent {
			return r.answer(ctx, c.Context.(*end))
		}
		clients.Go(func() {
			if err := r.answer(ctx, c.Context.(*end)); err != nil {
				r.out.printf("%v: %v", c.RemoteAddr(), err)
			}
		})
	}
}

// answer serves a client until it disconnects: it reads the client's text, says so, writes it back,
// and says so.
func (r *run) answer(ctx context.Context, e *end) (err error) {
	defer func() { err = errors.Join(err, e.close()) }()
	for {
		from, err := e.receive(ctx)
		switch {
		case errors.Is(err, errLeft):
			r.debug("the client has disconnected")
			return nil
		case err != nil:
			return err
		case from.Size > uint32(len(e.text)):
			return fmt.Errorf("the client has %d bytes, at most %d are possible", from.Size, len(e.text))
		}
		r.debug("the client's text is at 0x%x, rkey 0x%x, %d bytes", from.Addr, from.RKey, from.Size)
		text := e.text[:from.Size]
		if err := e.do(ctx, roce.WRRead, text, from); err != nil {
			return err
		}
		if r.Verbose {
			r.out.printf("server ping data: %s", untilZero(text))
		}
		if err := e.send(ctx, place{}); err != nil {
			return err
		}
		to, err := e.receive(ctx)
		if err != nil {
			return err
		}
		back := text[:min(len(untilZero(text))+1, int(min(to.Size, uint32(len(text)))))]
		if err := e.do(ctx, roce.WRWrite, back, to); err != nil {
			return err
		}
		if err := e.send(ctx, place{}); err != nil {
			return err
		}
	}
}

// ask pings a server.
func (r *run) ask(ctx context.Context, cfg *rdmacm.ConnConfig) error {
	var e *end
	cfg.Prepare = func(c *rdmacm.Conn) (err error) {
		e, err = newEnd(c, r.Size, r.Stall)
		return err
	}
	c, err := r.dial(ctx, cfg)
	if err != nil {
		return err
	}
	r.debug("connected from %v", c.LocalAddr())
	err = r.pings(ctx, e)
	return errors.Join(err, e.close())
}

// dial connects, and waits no longer than for a ping.
func (r *run) dial(ctx context.Context, cfg *rdmacm.ConnConfig) (*rdmacm.Conn, error) {
	if r.Stall > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.Stall,
			fmt.Errorf("no answer from %s for %v: a firewall, or nobody there", r.address(), r.Stall))
		defer cancel()
	}
	c, err := rdmacm.Dial(ctx, r.address(), cfg)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return c, err
}

func (r *run) pings(ctx context.Context, e *end) error {
	for i := 0; r.Count == 0 || i < r.Count; i++ {
		compose(e.text, i)
		// The first is what the server reads, the second where it writes.
		for _, text := range [][]byte{e.text, e.back} {
			if err := e.send(ctx, e.placeOf(text)); err != nil {
				return err
			}
			if _, err := e.receive(ctx); err != nil {
				return fmt.Errorf("ping %d: %w", i, err)
			}
		}
		if r.Validate && !bytes.Equal(e.text, e.back) {
			return fmt.Errorf("ping %d: what has come back is not what was sent: %q, not %q",
				i, untilZero(e.back), untilZero(e.text))
		}
		if r.Verbose {
			r.out.printf("ping data: %s", untilZero(e.back))
		}
	}
	return nil
}

// compose writes the text of a ping: its number, then the characters from 'A' to 'z', which begin
// with another one each time, and a zero at the end.
func compose(text []byte, ping int) {
	const first, last = 'A', 'z'
	n := copy(text, fmt.Sprintf("rdma-ping-%d: ", ping))
	for i := n; i < len(text); i++ {
		text[i] = byte(first + (ping+i-n)%(last-first+1))
	}
	text[len(text)-1] = 0
}

func untilZero(text []byte) []byte {
	if i := bytes.IndexByte(text, 0); i >= 0 {
		return text[:i]
	}
	return text
}
