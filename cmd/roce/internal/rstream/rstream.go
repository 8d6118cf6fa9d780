// Package rstream is both ends of rstream: a stream over RDMA is measured by sending so many bytes
// to and fro. The other end may be rdma-core's, which uses rsockets; with -T socket both are TCP.
//
// Stages: options; the ends meet (meet.go); the tests, one after the other: latency on one
// connection, throughput on a second one; a line for each.
package rstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/session"
)

// DefaultPort is where the ends meet.
const DefaultPort = 7471

// Options are those of rstream.
type Options struct {
	Server    string   // -s: where the server is; "": be the server
	Bind      string   // -b: this end's address
	Buffer    int      // -B bytes of send and receive buffer, 0: 512 KiB
	Iters     int      // -I times, 0: not said
	Count     int      // -C transfers each way, each time; 0: not said
	Size      string   // -S bytes of a transfer, or "all"; "": not said
	Port      int      // -p
	KeepAlive int      // -k seconds, 0: none
	Tests     []string // -T: ways of testing, see tests

	Dev     string // device name; "" is that of the address
	Pcap    string // file for a packet capture
	Records bool   // session.Options.Records
	Faults  string // roce.Config.Faults
}

// A way is an option of -T, by its letter.
type way byte

// ways are all of them, by their names, as rstream has them. resolve and fork say nothing here:
// addresses are always resolved, and a server has one client.
var ways = map[string]way{
	"socket":      's',
	"async":       'a',
	"blocking":    'b',
	"nonblocking": 'n',
	"resolve":     'r',
	"verify":      'v',
}

// run is a whole run.
type run struct {
	Options
	out    io.Writer
	tcp    bool // with sockets
	sleeps bool // asynchronous or blocking: does not poll
	verify bool
	all    bool // sizes

	listener net.Listener
	sent     byte // what verify sends next,
	expected byte // and gets
}

// test is a measurement.
type test struct {
	name               string
	size, count, iters int
}

// Run is the whole program. It prints to out.
func Run(ctx context.Context, out io.Writer, o Options) (err error) {
	r := &run{Options: o, out: out}
	custom, err := r.parse()
	if err != nil {
		return err
	}
	s, err := r.meet(ctx)
	if err != nil {
		return err
	}
	if s != nil {
		defer s.Close()
	}
	if r.listener != nil {
		defer r.listener.Close()
	}
	fmt.Fprintf(out, "%-10s%-8s%-8s%-8s%-8s%8s %10s%13s\n", "name", "bytes", "xfers", "iters", "total", "time",
		"Gb/sec", "usec/xfer")
	if custom != nil {
		err = r.play(ctx, s, []test{*custom})
	} else if err = r.play(ctx, s, r.series(latency)); err == nil {
		err = r.play(ctx, s, r.series(bandwidth))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.Explain(err)
}

// parse looks at the options. A test of the user's own comes back, if one is asked for.
func (r *run) parse() (custom *test, err error) {
	for _, name := range r.Tests {
		w, ok := ways[name]
		if len(name) == 1 {
			w, ok = way(name[0]), strings.Contains("sabnrv", name)
		}
		if !ok {
			return nil, fmt.Errorf("-T %s: want socket, async, blocking, nonblocking, resolve or verify, or "+
				"their first letters", name)
		}
		switch w {
		case 's':
			r.tcp = true
		case 'a', 'b':
			r.sleeps = true
		case 'n':
			r.sleeps = false
		case 'v':
			r.verify = true
		}
	}
	c := test{name: "custom", size: 1000, count: 1000, iters: 1}
	r.all = r.Size == "all"
	if r.Size != "" && !r.all {
		if c.size, err = strconv.Atoi(r.Size); err != nil || c.size < 1 || c.size > 1<<30 {
			return nil, fmt.Errorf("-S %s: want 1 to %d bytes, or all", r.Size, 1<<30)
		}
		custom = &c
	}
	for _, o := range []struct {
		name string
		is   int
		into *int
	}{{"-I", r.Iters, &c.iters}, {"-C", r.Count, &c.count}} {
		if o.is < 0 {
			return nil, fmt.Errorf("%s %d: want 1 or more", o.name, o.is)
		}
		if o.is > 0 {
			*o.into, custom = o.is, &c
		}
	}
	switch {
	case r.Port < 1 || r.Port > 65535:
		return nil, fmt.Errorf("-p %d: want 1 to 65535", r.Port)
	case r.Buffer < 0 || r.KeepAlive < 0:
		return nil, errors.New("-B and -k: want 0 or more")
	case r.tcp && (r.Dev != "" || r.Pcap != "" || r.Faults != ""):
		return nil, errors.New("-T socket is TCP: --dev, --pcap and --fault are of a device")
	}
	return custom, nil
}

// What a series of tests is for.
const (
	latency   = "lat"
	bandwidth = "bw"
)

// series are tests of sizes from 64 bytes to 4 MiB: 64, 4k, 64k and 1m if not all are wanted.
func (r *run) series(of string) (tests []test) {
	for size := 64; size <= 4<<20; size *= 2 {
		if r.all || slices.Contains([]int{64, 4 << 10, 64 << 10, 1 << 20}, size) {
			tests = append(tests, newTest(of, size))
		}
		if r.all && size > 64 {
			tests = append(tests, newTest(of, size*3/2))
		}
	}
	return tests
}

// newTest is as long as rstream's: both ends must agree.
func newTest(of string, size int) test {
	n := 100_000
	for _, limit := range []struct{ size, n int }{{1 << 10, 10_000}, {1 << 16, 1000}, {1 << 20, 100}} {
		if size >= limit.size {
			n = limit.n
		}
	}
	t := test{name: sizeText(int64(size)) + "_" + of, size: size, count: 1, iters: n}
	if of == bandwidth {
		t.count, t.iters = n, 1
	}
	return t
}

// play makes a connection and does tests on it.
func (r *run) play(ctx context.Context, s *session.Session, tests []test) error {
	c, err := r.connect(ctx, s)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for _, t := range tests {
		err := r.measure(c, t)
		if errors.Is(err, io.EOF) {
			err = errors.New("the other end has closed the stream: are -S, -C, -I and -T the same there?")
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", t.name, err), c.Close())
		}
	}
	return c.Close()
}

// measure does one test. The client sends first.
func (r *run) measure(c net.Conn, t test) error {
	client := r.Server != ""
	buf := make([]byte, max(t.size, 16))
	if err := r.exchange(c, buf[:16], 1, client); err != nil {
		return err
	}
	began := time.Now()
	for range t.iters {
		if err := r.exchange(c, buf[:t.size], t.count, client); err != nil {
			return err
		}
	}
	r.report(t, time.Since(began))
	return nil
}

// exchange sends the buffer n times and receives it n times, or the other way round.
func (r *run) exchange(c net.Conn, buf []byte, n int, sendFirst bool) error {
	for _, sending := range []bool{sendFirst, !sendFirst} {
		for range n {
			if err := r.transfer(c, buf, sending); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) transfer(c net.Conn, buf []byte, sending bool) error {
	if sending {
		if r.verify {
			for i := range buf {
				buf[i] = r.sent
				r.sent++
			}
		}
		_, err := c.Write(buf)
		return err
	}
	if _, err := io.ReadFull(c, buf); err != nil || !r.verify {
		return err
	}
	for i, b := range buf {
		if b != r.expected {
			return fmt.Errorf("byte %d is 0x%02x, want 0x%02x", i, b, r.expected)
		}
		r.expected++
	}
	return nil
}

// report prints the line of a test.
func (r *run) report(t test, took time.Duration) {
	usec := float64(took) / float64(time.Microsecond)
	bytes := 2 * int64(t.iters) * int64(t.count) * int64(t.size)
	fmt.Fprintf(r.out, "%-10s%-8s%-8s%-8s%-8s%8.2fs%10.2f%11.2f\n", t.name, sizeText(int64(t.size)), countText(t.count),
		countText(t.iters), sizeText(bytes), usec/1e6, float64(bytes)*8/(1000*usec),
		usec/float64(t.iters)/float64(2*t.count))
}

// sizeText is a number of bytes in a few characters, "1.5k".
func sizeText(n int64) string {
	base, unit := int64(1), ""
	for _, u := range []struct {
		base int64
		unit string
	}{{1 << 10, "k"}, {1 << 20, "m"}, {1 << 30, "g"}} {
		if n >= u.base {
			base, unit = u.base, u.unit
		}
	}
	if tenths := n % base * 10 / base; n/base < 10 && tenths > 0 {
		return fmt.Sprintf("%d.%d%s", n/base, tenths, unit)
	}
	return fmt.Sprintf("%d%s", n/base, unit)
}

func countText(n int) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%dm", n/1_000_000)
	case n >= 1000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return strconv.Itoa(n)
}
