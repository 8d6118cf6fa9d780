// Package oob is the out-of-band connection of the test programs: the one TCP connection over which
// two ends tell each other their queue pair numbers before the first RoCE packet flows.
//
// Stages: meet (Accept one peer or Dial it), exchange (Send and Recv of whole messages), watch (a
// context that ends when the peer leaves). The C programs read each message with a single read(2)
// and insist on its exact length, hence one Write per message, no Nagle delay, and never two
// messages in a row before the peer has answered.
package oob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ErrClosed means that the peer's end of the connection is closed: by itself (FIN), or by its
// kernel when it was killed before it had read all that was sent (RST).
var ErrClosed = errors.New("the peer closed the out-of-band connection")

// ErrPeerLeft is the cause of a Watch context that ended because the peer closed the connection.
var ErrPeerLeft = errors.New("the peer closed the out-of-band connection before the test was over; see what " +
	"its end printed")

// maxPending bounds what is kept of a peer that sends without being asked. The longest exchange of
// the programs has 13 KiB.
const maxPending = 64 << 10

// Conn is a connection to the peer. Send and Recv may be used by one goroutine each.
type Conn struct {
	tcp  *net.TCPConn
	stop func() bool // unhooks the context that the connection was made under
	gone chan struct{}

	mu   sync.Mutex
	came sync.Cond
	in   bytes.Buffer // what the peer sent and Recv has not yet taken, at most maxPending
	err  error        // why nothing more will come
}

// Accept waits for one peer on a TCP port, then stops listening.
func Accept(ctx context.Context, port int) (*Conn, error) {
	var lc net.ListenConfig // Go sets SO_REUSEADDR: the port is free again at once after a run
	l, err := lc.Listen(ctx, "tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return nil, fmt.Errorf("listen for the peer on TCP port %d: %w; choose another with --port", port, err)
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	c, err := l.Accept()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("wait for the peer on TCP port %d: %w", port, err)
	}
	return newConn(ctx, c.(*net.TCPConn)), nil
}

// Dial connects to a peer that waits in Accept, or to the server end of the original program.
func Dial(ctx context.Context, host string, port int) (*Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
			return nil, fmt.Errorf("connect to the server: %q is neither an address nor the name of a machine: %w",
				host, err)
		}
		return nil, fmt.Errorf("connect to the server: %w; is its end running, with the same --port (%d)?", err, port)
	}
	return newConn(ctx, c.(*net.TCPConn)), nil
}

func newConn(ctx context.Context, tcp *net.TCPConn) *Conn {
	c := &Conn{tcp: tcp, gone: make(chan struct{})}
	c.came.L = &c.mu
	c.stop = context.AfterFunc(ctx, func() { tcp.SetDeadline(time.Unix(1, 0)) })
	go c.pump(ctx)
	return c
}

// pump reads all the time, so that the end of the connection is seen while a test runs and nobody
// is in Recv. A peer that sends more than anybody wants is heard no longer.
func (c *Conn) pump(ctx context.Context) {
	defer close(c.gone)
	buf := make([]byte, 4096)
	for {
		n, err := c.tcp.Read(buf)
		c.mu.Lock()
		if c.in.Len()+n > maxPending {
			err = fmt.Errorf("the peer sent more than %d bytes out of band that nobody asked for: is it the same "+
				"program, with the same options?", maxPending)
		} else {
			c.in.Write(buf[:n])
		}
		if err != nil {
			c.err = err
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
				c.err = context.Cause(ctx)
			case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
				c.err = fmt.Errorf("%w (%w)", ErrClosed, err)
			}
		}
		c.came.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Send sends one message. The error is ErrClosed if the peer's end is.
func (c *Conn) Send(msg []byte) error {
	_, err := c.tcp.Write(msg)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("%w (%w)", ErrClosed, err)
	}
	if err != nil {
		return fmt.Errorf("send %d bytes to the peer out of band: %w", len(msg), err)
	}
	return nil
}

// Recv waits for a message of exactly len(msg) bytes, however long that takes. The error is
// ErrClosed if the peer's end closes before.
func (c *Conn) Recv(msg []byte) error { return c.RecvWithin(0, msg) }

// RecvWithin waits for a message of exactly len(msg) bytes, for no longer than limit (0: no limit).
func (c *Conn) RecvWithin(limit time.Duration, msg []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := false
	if limit > 0 {
		defer time.AfterFunc(limit, func() {
			c.mu.Lock()
			late = true
			c.came.Broadcast()
			c.mu.Unlock()
		}).Stop()
	}
	for c.in.Len() < len(msg) && c.err == nil && !late {
		c.came.Wait()
	}
	if c.in.Len() >= len(msg) {
		c.in.Read(msg)
		return nil
	}
	if late {
		return fmt.Errorf("the peer sent %d of the %d bytes of its next out-of-band message within %v: is it the "+
			"same program, with the same options?",
			c.in.Len(), len(msg), limit)
	}
	if errors.Is(c.err, ErrClosed) {
		return fmt.Errorf("%w after %d of the %d bytes of its next message: is it the same program, with "+
			"the same options?",
			c.err, c.in.Len(), len(msg))
	}
	return fmt.Errorf("wait for %d bytes from the peer out of band: %w", len(msg), c.err)
}

// Pending says how many bytes the peer has sent that Recv has not yet taken.
func (c *Conn) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.in.Len()
}

// grace is what an end has to finish in when the other has left: a program that is done closes at
// once, and its last packets may still be on their way.
const grace = time.Second

// Watch returns a context that ends soon after the last that can come from the peer: with
// ErrPeerLeft as its cause if the peer has closed the connection, otherwise with what is wrong.
func (c *Conn) Watch(parent context.Context) (context.Context, context.CancelFunc) {
	return WatchDone(parent, c.gone, func() error {
		if errors.Is(c.err, ErrClosed) { // nobody writes it any more
			return ErrPeerLeft
		}
		return c.err
	})
}

// WatchDone is Watch for a connection of another kind, which is over when gone is closed; why says
// then for what reason.
func WatchDone(parent context.Context, gone <-chan struct{}, why func() error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-gone:
		}
		select {
		case <-ctx.Done():
		case <-time.After(grace):
			cancel(why())
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Local is this end's IP address: the one that packets to the peer leave from.
func (c *Conn) Local() netip.Addr { return addrOf(c.tcp.LocalAddr()) }

// Remote is the peer's IP address.
func (c *Conn) Remote() netip.Addr { return addrOf(c.tcp.RemoteAddr()) }

func addrOf(a net.Addr) netip.Addr { return a.(*net.TCPAddr).AddrPort().Addr().Unmap() }

// Finish says that this end is done and waits until the peer is too, or for the limit; then it
// closes the connection. Until then this end's device stays open and repeats acknowledgements that
// the peer may have lost.
func (c *Conn) Finish(limit time.Duration) error {
	c.tcp.CloseWrite()
	select {
	case <-c.gone:
	case <-time.After(limit):
	}
	return c.Close()
}

// Close ends the connection.
func (c *Conn) Close() error {
	c.stop()
	return c.tcp.Close()
}
