package oob

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/cmd/roce/internal/oob/oobtest"
	"github.com/goroce/goroce/internal/netns"
)

func TestMain(m *testing.M) {
	netns.Own()
	m.Run()
}

// pair returns both ends of a connection. Dial is repeated because Accept says nothing when it
// starts to listen.
func pair(t *testing.T, ctx context.Context) (server, client *Conn) {
	port := oobtest.FreePort(t)
	got := make(chan *Conn, 1)
	go func() {
		c, err := Accept(ctx, port)
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	require.Eventually(t, func() (ok bool) {
		c, err := Dial(ctx, "127.0.0.1", port)
		client = c
		return err == nil
	}, time.Minute, time.Millisecond)
	server = <-got
	require.NotNil(t, server)
	t.Cleanup(func() { server.Close(); client.Close() })
	return server, client
}

func TestMessagesKeepTheirLength(t *testing.T) {
	s, c := pair(t, t.Context())
	require.NoError(t, c.Send([]byte("first")))
	require.NoError(t, c.Send([]byte("second")))
	buf := make([]byte, 5)
	require.NoError(t, s.Recv(buf))
	require.Equal(t, "first", string(buf))
	buf = make([]byte, 6)
	require.NoError(t, s.Recv(buf))
	require.Equal(t, "second", string(buf))
	require.Equal(t, "127.0.0.1", s.Local().String())
}

func TestWatchSeesThePeerLeave(t *testing.T) {
	s, c := pair(t, t.Context())
	ctx, cancel := s.Watch(t.Context())
	defer cancel()
	require.NoError(t, c.Send([]byte("done")))
	c.Close()
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), ErrPeerLeft)
	require.NoError(t, s.Recv(make([]byte, 4)), "what came before the end is still there")
	require.ErrorContains(t, s.Recv(make([]byte, 4)), "after 0 of the 4 bytes")
}

// A peer that writes without pause while nobody is in Recv is heard no longer, and the run ends for
// that reason; what it may have is bounded.
func TestFloodEndsTheConnection(t *testing.T) {
	s, c := pair(t, t.Context())
	ctx, cancel := s.Watch(t.Context())
	defer cancel()
	go func() { // until this end is closed
		for c.Send(make([]byte, 1<<20)) == nil {
		}
	}()
	<-ctx.Done()
	require.ErrorContains(t, context.Cause(ctx), "more than 65536 bytes out of band")
	require.LessOrEqual(t, s.in.Cap(), 2*maxPending)
	require.NoError(t, s.Recv(make([]byte, s.Pending())), "what was heard is still there")
	require.ErrorContains(t, s.Recv(make([]byte, 1)), "more than 65536 bytes out of band")
	require.NoError(t, s.Close())
}

// A peer that is killed with something unread resets the connection; that is an end as good as any.
func TestResetIsAnEnd(t *testing.T) {
	s, c := pair(t, t.Context())
	require.NoError(t, c.tcp.SetLinger(0))
	c.Close()
	<-s.gone
	err := s.Recv(make([]byte, 4))
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.ErrorIs(t, s.Send([]byte("?")), ErrClosed)
}

func TestCancelEndsEveryWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, _ := pair(t, ctx)
	port := oobtest.FreePort(t)
	ended := make(chan error, 2)
	go func() { ended <- s.Recv(make([]byte, 1)) }()
	go func() { _, err := Accept(ctx, port); ended <- err }()
	cancel()
	for range 2 {
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

func TestDialSaysWhatToTry(t *testing.T) {
	_, err := Dial(t.Context(), "127.0.0.1", oobtest.FreePort(t))
	require.ErrorContains(t, err, "is its end running")
}

func TestFinishWaitsForThePeer(t *testing.T) {
	s, c := pair(t, t.Context())
	done := make(chan error)
	go func() { done <- s.Finish(time.Minute) }()
	require.ErrorContains(t, c.Recv(make([]byte, 5)), "after 0 of the 5 bytes")
	c.Close()
	require.NoError(t, <-done)
}

func TestRecvWithin(t *testing.T) {
	s, _ := pair(t, t.Context())
	require.ErrorContains(t, s.RecvWithin(time.Millisecond, make([]byte, 5)), "0 of the 5 bytes")
}
