package rsocket

// Peers, writers and callers that do what they should not, and ends that come at a bad time.

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

// mute is an end whose peer is the test: a queue pair that is connected and has posted no receives,
// so that what takes one waits.
func mute(t *testing.T, cfg *Config) (*Conn, *Conn) {
	t.Helper()
	name, _ := wires["pipe"]()
	var conns [2]*Conn
	for i := range conns {
		filled, err := cfg.filled()
		require.NoError(t, err)
		c, attr, err := newConn(open(t, name), filled)
		require.NoError(t, err)
		qp, err := c.pd.CreateQP(attr)
		require.NoError(t, err)
		require.NoError(t, qp.Init(&roce.ConnectOptions{Access: roce.RemoteWrite}))
		c.qp = qp
		conns[i] = c
	}
	a, b := conns[0], conns[1]
	require.NoError(t, a.take(a.qp))
	for i, c := range conns {
		require.NoError(t, c.qp.Connect(context.Background(), conns[1-i].qp.Endpoint(), nil))
	}
	require.NoError(t, a.start(b.end.ConnData().Marshal()))
	t.Cleanup(func() { a.Close(); b.release() })
	return a, b
}

// TestBothEndedWriting: who has ended writing, and has read the end of the other one, still waits
// in Close until that one has everything.
func TestBothEndedWriting(t *testing.T) {
	a, b := mute(t, nil)
	_, err := a.Write([]byte("words"))
	require.NoError(t, err)
	require.NoError(t, a.CloseWrite())
	require.NoError(t, b.qp.PostSend(roce.SendWR{Opcode: roce.WRWriteWithImm, Imm: 7<<29 | 2}))
	_, err = a.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	closed := make(chan error)
	go func() { closed <- a.Close() }()
	for done := false; !done; runtime.Gosched() { // it waits, although both have ended writing
		select {
		case err := <-closed:
			t.Fatal("closed before the other end has what was written: ", err)
		default:
			a.mu.Lock()
			done = a.life.closed() && a.wait.leading
			a.mu.Unlock()
		}
	}
	require.NoError(t, b.take(b.qp))
	require.NoError(t, <-closed)
	require.Equal(t, "words", string(b.receive[:5]))
}

// TestBadWriter: a Writer that panics is no end of the process, and what one must not return is an
// error.
func TestBadWriter(t *testing.T) {
	for name, w := range map[string]badWriter{
		"panics":    func([]byte) (int, error) { panic("a writer's own") },
		"too few":   func([]byte) (int, error) { return -1, nil },
		"too many":  func(p []byte) (int, error) { return len(p) + 1, nil },
		"not all":   func(p []byte) (int, error) { return len(p) - 1, nil },
		"no reason": func([]byte) (int, error) { return 0, nil },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connected(t, "pipe")
			_, err := b.Write([]byte("word"))
			require.NoError(t, err)
			if name == "panics" {
				require.PanicsWithValue(t, "a writer's own", func() { a.WriteTo(w) })
			} else {
				_, err = a.WriteTo(w)
				require.Error(t, err)
			}
			_, err = b.Write([]byte("next"))
			require.NoError(t, err)
			p := make([]byte, 4)
			_, err = io.ReadFull(a, p)
			require.NoError(t, err)
			require.Equal(t, "next", string(p), "what the Writer has not taken is gone")
		})
	}
}

type badWriter func([]byte) (int, error)

func (f badWriter) Write(p []byte) (int, error) { return f(p) }

// TestWriterAway: an end of writing is told also while the only other call is in somebody's Writer,
// which may be waiting for what the peer makes of that end.
func TestWriterAway(t *testing.T) {
	a, b := mute(t, nil)
	require.NoError(t, b.qp.PostSend(roce.SendWR{Opcode: roce.WRWriteWithImm, Imm: 1, Inline: []byte("x"), Flags: roce.SendInline,
		RemoteAddr: a.exposed.Addr(), RKey: a.exposed.RKey()}))
	in, out := make(chan struct{}), make(chan struct{})
	copied := make(chan error)
	go func() {
		_, err := a.WriteTo(badWriter(func(p []byte) (int, error) {
			close(in)
			<-out
			return len(p), nil
		}))
		copied <- err
	}()
	<-in
	a.mu.Lock()
	for range stream.ControlDepth { // b takes nothing yet: as many are under way as may be
		a.end.KeepAlive()
		a.flush()
	}
	a.mu.Unlock()
	require.NoError(t, a.CloseWrite())
	require.NoError(t, b.take(b.qp))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wcs [1]roce.WC
	for wcs[0].Imm != 7<<29|2 {
		_, err := b.cq.Wait(ctx, wcs[:])
		require.NoError(t, err, "waiting for the shutdown")
	}
	require.NoError(t, b.qp.PostSend(roce.SendWR{Opcode: roce.WRWriteWithImm, Imm: 7<<29 | 2}))
	close(out)
	require.NoError(t, <-copied)
}

// TestMutePeer: a peer that takes nothing, and whose device answers, holds up no call beyond Close.
func TestMutePeer(t *testing.T) {
	a, _ := mute(t, &Config{Linger: 10 * time.Millisecond})
	buf, err := a.Alloc(10)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := a.WriteBuffer(buf, 0, 10)
		done <- err
	}()
	for inside := false; !inside; runtime.Gosched() {
		a.mu.Lock()
		inside = a.end.Begun() > 0
		a.mu.Unlock()
	}
	require.ErrorIs(t, a.Close(), os.ErrDeadlineExceeded)
	require.ErrorIs(t, <-done, net.ErrClosed)
}

// TestCloseInBackground: a Close that does not wait still has everything arrive, and gives back
// what the connection had.
func TestCloseInBackground(t *testing.T) {
	a, b := mute(t, &Config{Linger: -1})
	released := make(chan error)
	a.hangUp = func(time.Time) error {
		released <- errors.Join(a.qp.Close(), a.free())
		return nil
	}
	_, err := a.Write([]byte("words"))
	require.NoError(t, err)
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.Close(), net.ErrClosed)
	require.NoError(t, b.take(b.qp))
	require.NoError(t, <-released)
	require.Equal(t, "words", string(b.receive[:5]))
}

// TestFailureUntold: a failure that no call has returned yet is Close's to tell.
func TestFailureUntold(t *testing.T) {
	a, b := connected(t, "pipe", &Config{KeepAlive: 10 * time.Millisecond})
	require.NoError(t, b.qp.Close())
	_, err := a.Write([]byte("x"))
	require.NoError(t, err)
	for failed := false; !failed; runtime.Gosched() {
		a.mu.Lock()
		failed = a.end.Err() != nil
		a.mu.Unlock()
	}
	require.ErrorContains(t, a.Close(), "it is not known whether all that was written has arrived")
}

// TestClosedBuffer: memory that was given up is refused, and costs no connection.
func TestClosedBuffer(t *testing.T) {
	a, _ := connected(t, "pipe", &Config{Maps: 2})
	buf, err := a.Alloc(10)
	require.NoError(t, err)
	require.NoError(t, buf.Close())
	_, err = a.WriteBuffer(buf, 0, 10)
	require.ErrorIs(t, err, roce.ErrInvalid)
	require.ErrorIs(t, a.Expose(buf, 0), roce.ErrInvalid)
	_, err = a.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, buf.Close())
}

// TestWriteAfterHangUp: nothing is written to a connection that is known to be over.
func TestWriteAfterHangUp(t *testing.T) {
	l, d := listening(t, "pipe")
	c1, err := d.Dial(bg, l.Addr().String())
	require.NoError(t, err)
	conn, err := l.Accept()
	require.NoError(t, err)
	c2 := conn.(*Conn)
	require.NoError(t, c1.Close())
	for gone := false; !gone; runtime.Gosched() {
		c2.mu.Lock()
		gone = c2.life.gone()
		c2.mu.Unlock()
	}
	_, err = c2.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.NoError(t, c2.Close())
}

// TestWriterFails: what a call that writes finds wrong is told to one that sleeps too.
func TestWriterFails(t *testing.T) {
	a, b := mute(t, nil)
	require.NoError(t, b.qp.PostSend(roce.SendWR{Opcode: roce.WRWriteWithImm, Imm: 4<<29 | 384, Inline: make([]byte, 16),
		Flags: roce.SendInline, RemoteAddr: a.exposed.Addr() + uint64(len(a.receive)) + 16, RKey: a.exposed.RKey()},
		roce.SendWR{
			Opcode:     roce.WRWriteWithImm,
			Imm:        1,
			Inline:     []byte("x"),
			Flags:      roce.SendInline,
			RemoteAddr: a.exposed.Addr(),
			RKey:       a.exposed.RKey(),
		}))
	_, err := a.Read(make([]byte, 1)) // the update came before
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := a.Read(make([]byte, 1))
		done <- err
	}()
	for ready := false; !ready; runtime.Gosched() {
		g := stacks()
		ready = len(g) == 1 && asleep.MatchString(g[0])
	}
	_, err = a.Write(make([]byte, len(b.receive)))
	require.ErrorIs(t, err, ErrProtocol)
	require.ErrorIs(t, <-done, ErrProtocol)
}
