package main

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
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

// TestManyAtOnce: who sends as many messages as there are receives, before it looks at an answer,
// gets each of them back.
func TestManyAtOnce(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	where, done := make(chan netip.AddrPort, 1), make(chan error, 1)
	go func() { done <- serve(ctx, "127.78.2.3:0", func(at netip.AddrPort) { where <- at }) }()
	cfg := config(netip.MustParseAddr("127.78.2.4"))
	cfg.Cap.MaxInlineData = 100
	c, err := rdmacm.Dial(ctx, (<-where).String(), &cfg)
	require.NoError(t, err)
	m := c.Context.(*messenger)
	for i := range depth {
		require.NoError(t, c.QP().PostSend(roce.SendWR{WRID: sent + own, Opcode: roce.WRSend, Flags: roce.SendSignaled | roce.SendInline,
			Inline: bytes.Repeat([]byte{byte(i)}, 100)}))
	}
	for i := 0; i < depth; {
		slot, n, came, err := m.step(ctx)
		require.NoError(t, err)
		if came {
			require.Equal(t, bytes.Repeat([]byte{byte(i)}, 100), m.text(slot, n))
			i++
		}
	}
	require.NoError(t, m.close())
	stop()
	require.ErrorIs(t, <-done, context.Canceled)
}
