//go:build linux

// Package dial measures what programs get from connections that read and write bytes, over rsocket
// and over TCP by the same code: a stream one way, small exchanges, requests of HTTP, connections
// set up and closed.
//
// Stages of a run: the server listens, first over what is measured and then with a TCP socket that
// says that it is ready and keeps it until the client goes; the client dials, does its work until
// its time is up (work.go), and prints the result.
package dial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/goroce/goroce/roce/rsocket"
)

// Task is what an end is to do.
type Task struct {
	Over        string // "tcp", or the kind of device that rsocket is on: "udp", "packet"
	Work        string // a name of works
	Polling     bool   // of rsocket: calls that wait poll
	Local, Peer netip.Addr
	Sends       bool // be the client
	Connections int  // at a time
	Size        int  // of a message, in bytes
	Duration    time.Duration
}

// Result is what the client prints.
type Result struct {
	PerSecond float64 `json:"per_second"` // round trips, requests or connections
	Gbps      float64 `json:"gbps"`       // of a stream, until its end has arrived
	P50       float64 `json:"p50_usec"`   // of one of those
	P99       float64 `json:"p99_usec"`
}

const (
	servicePort = 18519 // where connections are measured
	readyPort   = 18518 // TCP; the server serves until who connects here has gone
	// longest is the longest time that is told apart; three digits are kept of each.
	longest = int64(time.Minute)
)

// Run plays one end. The client prints its Result.
func Run(ctx context.Context, out io.Writer, t Task) error {
	w, ok := works[t.Work]
	if !ok {
		return fmt.Errorf("dial: no work %q", t.Work)
	}
	if !t.Sends {
		return t.serve(ctx, w)
	}
	ready, err := net.Dial("tcp", netip.AddrPortFrom(t.Peer, readyPort).String())
	if err != nil {
		return err
	}
	defer ready.Close()
	r, err := w.client(ctx, &t)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// serve serves until the client has gone.
func (t *Task) serve(ctx context.Context, w work) error {
	l, err := t.listen(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() { served <- w.serve(l, t) }()
	ready, err := net.Listen("tcp", netip.AddrPortFrom(t.Local, readyPort).String())
	if err != nil {
		return err
	}
	defer ready.Close()
	gone := make(chan error, 1)
	go func() {
		c, err := ready.Accept()
		if err == nil {
			defer c.Close()
			_, err = io.Copy(io.Discard, c)
		}
		gone <- err
	}()
	select {
	case err := <-served:
		return err
	case err := <-gone:
		return err
	}
}

func (t *Task) options() rsocket.Options {
	return rsocket.Options{Config: rsocket.Config{Polling: t.Polling}, Kind: t.Over, Local: t.Local, Backlog: 1024}
}

func (t *Task) listen(ctx context.Context) (net.Listener, error) {
	at := netip.AddrPortFrom(t.Local, servicePort).String()
	if t.Over == "tcp" {
		return net.Listen("tcp", at)
	}
	o := t.options()
	return rsocket.Listen(ctx, at, &o)
}

func (t *Task) dial(ctx context.Context) (net.Conn, error) {
	at := netip.AddrPortFrom(t.Peer, servicePort).String()
	if t.Over == "tcp" {
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: t.Local.AsSlice()}}).DialContext(ctx, "tcp", at)
	}
	return (&rsocket.Dialer{Options: t.options()}).DialContext(ctx, "", at)
}

// tally is the times of many.
type tally struct{ times *hdrhistogram.Histogram }

func newTally() tally { return tally{hdrhistogram.New(1, longest, 3)} }

func (t tally) since(start time.Time) error {
	return t.times.RecordValue(max(int64(time.Since(start)), 1))
}

// result is that of what took so long all together.
func (t tally) result(took time.Duration) (*Result, error) {
	if t.times.TotalCount() == 0 {
		return nil, errors.New("dial: nothing was done in time")
	}
	us := func(quantile float64) float64 { return float64(t.times.ValueAtQuantile(quantile)) / 1e3 }
	return &Result{PerSecond: float64(t.times.TotalCount()) / took.Seconds(), P50: us(50), P99: us(99)}, nil
}
