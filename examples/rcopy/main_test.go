package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/roce/rsocket"
)

func TestMain(m *testing.M) {
	netns.Own()
	m.Run()
}

// TestCopy: the two ends of the example, on one machine.
func TestCopy(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	where, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- serve(ctx, "127.78.4.1:0", func(at string) { where <- at }) }()
	at, dir := <-where, t.TempDir()
	for i, size := range []int{0, 1, 3 << 20} {
		content := bytes.Repeat([]byte{byte(i + 1)}, size)
		source, copied := filepath.Join(dir, "source"), filepath.Join(dir, "copied")
		require.NoError(t, os.WriteFile(source, content, 0o640))
		require.NoError(t, send(t.Context(), source, at, copied, "127.78.4.2"))
		got, err := os.ReadFile(copied)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got))
		err = send(t.Context(), source, at, filepath.Join(dir, "none", "copied"), "127.78.4.2")
		require.ErrorIs(t, err, syscall.ENOENT)
	}
	idle, err := (&rsocket.Dialer{Options: rsocket.Options{Local: netip.MustParseAddr("127.78.4.2")}}).Dial(ctx, at)
	require.NoError(t, err)
	defer idle.Close()
	_, err = idle.Write(make([]byte, 1)) // a client that says no more holds up no end
	require.NoError(t, err)
	stop()
	require.True(t, errors.Is(<-done, net.ErrClosed))
}
