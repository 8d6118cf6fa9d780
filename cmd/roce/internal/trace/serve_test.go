package trace

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// told hands over the first thing that is written.
type told chan string

func (c told) Write(b []byte) (int, error) {
	c <- string(b)
	return len(b), nil
}

// TestServe: the URL that is printed works until the context ends.
func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, done := make(told, 1), make(chan error, 1)
	go func() {
		done <- Serve(ctx, out, ServeOptions{File: large(t, 1000), Listen: "127.0.0.1:0", Rows: 100})
	}()
	_, rest, _ := strings.Cut(<-out, "open ")
	url, _, _ := strings.Cut(rest, "\n")
	a, err := http.Get(url)
	require.NoError(t, err)
	require.NoError(t, a.Body.Close())
	require.Equal(t, 200, a.StatusCode)
	http.DefaultClient.CloseIdleConnections()
	stop()
	require.NoError(t, <-done)
}

// TestServeNot: what cannot be served is said before there is a URL.
func TestServeNot(t *testing.T) {
	for _, c := range []struct {
		o    ServeOptions
		want string
	}{
		{ServeOptions{File: "-"}, "wants a file"},
		{ServeOptions{File: "nothing.pcapng"}, "no such file"},
		{ServeOptions{Listen: "127.0.0.1:x"}, "unknown port"},
		{ServeOptions{Listen: "0.0.0.0:0"}, "only a loopback address"},
		{ServeOptions{Listen: "127.0.0.1:0", Rows: 1_000_000}, "--rows 1000000"},
	} {
		require.ErrorContains(t, Serve(t.Context(), make(told, 1), c.o), c.want)
	}
}
