package main

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
)

func TestMain(m *testing.M) {
	netns.Own()
	m.Run()
}

// TestEcho: the two ends of the example, on one machine, twice.
func TestEcho(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	where, done := make(chan netip.AddrPort, 1), make(chan error, 1)
	go func() { done <- serve(ctx, "127.78.2.1:0", func(at netip.AddrPort) { where <- at }) }()
	at := <-where
	lines := strings.Repeat("a line\n\nand one of another length\n", 30)
	for range 2 {
		var got bytes.Buffer
		require.NoError(t, ask(ctx, at.String(), "127.78.2.2", strings.NewReader(lines), &got))
		require.Equal(t, lines, got.String())
	}
	stop()
	require.ErrorIs(t, <-done, context.Canceled)
}
