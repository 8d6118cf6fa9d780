package ends

// What programs get from connections that read and write bytes, over rsocket and over TCP by the
// same code: a stream one way, small exchanges, requests of HTTP, connections set up and closed.
//
// Stages of a run: the server listens, first over what is measured and then with a TCP socket that
// says that it is ready and keeps it until the client goes; the client dials, does its work until
// its time is up (work.go), and prints the result.

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/goroce/goroce/roce/rsocket"
)

// servicePort is where connections are measured. With who connects to DialPort, by TCP, the server
// serves until that has gone.
const servicePort = 18519

// dialed is an end. The client has the Result.
func (t *Task) dialed(ctx context.Context) (*Result, error) {
	w, ok := works[t.Work]
	if !ok {
		return nil, fmt.Errorf("dial: no work %q", t.Work)
	}
	if !t.Sends {
		return nil, t.serve(ctx, w)
	}
	ready, err := net.Dial("tcp", netip.AddrPortFrom(t.Peer, DialPort).String())
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	return w.client(ctx, t)
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
	ready, err := net.Listen("tcp", netip.AddrPortFrom(t.Local, DialPort).String())
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
