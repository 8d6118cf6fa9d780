package rsocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestErrors: what programs ask of the errors of TCP has the same answer here.
func TestErrors(t *testing.T) {
	l, d := listening(t, "pipe")
	there := l.Addr().(*Addr)
	soon, cancel := context.WithTimeout(bg, time.Millisecond)
	defer cancel()
	ended, end := context.WithCancel(bg)
	end()

	a, b := connected(t, "pipe", &Config{KeepAlive: time.Millisecond})
	require.NoError(t, b.qp.Close())
	_, dead := a.Read(make([]byte, 1))
	a, b = connected(t, "pipe")
	require.NoError(t, a.SetReadDeadline(time.Unix(1, 0)))
	_, late := a.Read(make([]byte, 1))
	require.NoError(t, a.SetWriteDeadline(time.Unix(1, 0)))
	_, empty := a.Write(nil)
	require.NoError(t, a.SetWriteDeadline(time.Time{}))
	require.NoError(t, a.CloseWrite())
	_, ownEnd := a.Write([]byte("x"))
	require.NoError(t, b.Close())
	_, mute := d.Dial(soon, "10.255.3.4:7471")
	_, nobody := d.Dial(bg, fmt.Sprintf("%s:%d", there.IP, there.Port+1))
	_, byName := d.Dial(bg, fmt.Sprintf("%s:http", there.IP))
	_, lonely := l.AcceptContext(soon)
	_, given := l.AcceptContext(ended)
	require.NoError(t, l.Close())
	_, closed := l.AcceptContext(bg)

	for _, c := range []struct {
		what    string
		err, is error
		op      string
		timeout bool
	}{
		{"a peer that died", dead, syscall.ETIMEDOUT, "read", true},
		{"a deadline", late, os.ErrDeadlineExceeded, "read", true},
		{"a deadline, of who writes nothing", empty, os.ErrDeadlineExceeded, "write", true},
		{"writing after CloseWrite", ownEnd, syscall.EPIPE, "write", false},
		{"dialing who is silent", mute, context.DeadlineExceeded, "dial", true},
		{"dialing a port that nobody has", nobody, syscall.ECONNREFUSED, "dial", false},
		{"dialing a service by its name", byName, syscall.ECONNREFUSED, "dial", false},
		{"accepting for too long", lonely, context.DeadlineExceeded, "accept", true},
		{"accepting no more", given, context.Canceled, "accept", false},
		{"accepting from a closed listener", closed, net.ErrClosed, "accept", false},
	} {
		var op *net.OpError
		require.ErrorIs(t, c.err, c.is, c.what)
		require.True(t, errors.As(c.err, &op), c.what)
		require.Equal(t, c.op, op.Op, c.what)
		require.Equal(t, c.timeout, op.Timeout(), "%s: %v", c.what, c.err)
	}
}

// TestEndOfStreamStays: who has read all there is to be read, and its end, reads that end again,
// although the connection fails afterwards.
func TestEndOfStreamStays(t *testing.T) {
	a, b := connected(t, "pipe", &Config{KeepAlive: time.Millisecond})
	_, err := b.Write([]byte("all"))
	require.NoError(t, err)
	require.NoError(t, b.CloseWrite())
	all, err := io.ReadAll(a)
	require.NoError(t, err)
	require.Equal(t, "all", string(all))
	require.NoError(t, b.qp.Close())
	for failed := false; !failed; runtime.Gosched() {
		a.mu.Lock()
		failed = a.end.Err() != nil
		a.mu.Unlock()
	}
	_, err = a.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	_, err = a.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.ETIMEDOUT)
}
