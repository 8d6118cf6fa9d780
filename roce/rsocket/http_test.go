package rsocket

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHTTP: a server and a client of net/http: connections that are kept alive, bodies that are
// larger than every buffer, requests that are given up.
func TestHTTP(t *testing.T) {
	l, d := listening(t, "udp")
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	begun, gone := make(chan struct{}), make(chan struct{})
	mux.HandleFunc("/wait", func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done() // the server notices that the client is gone
		close(gone)
	})
	server := &http.Server{Handler: mux}
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	dialed := 0
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		dialed++
		return d.DialContext(ctx, network, l.Addr().String())
	}}
	client := &http.Client{Transport: transport}

	for range 20 {
		resp, err := client.Post("http://peer/echo", "text/plain", bytes.NewReader([]byte("hello")))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "hello", string(body))
	}
	require.Equal(t, 1, dialed, "the connection is kept alive")

	large := bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16)
	resp, err := client.Post("http://peer/echo", "text/plain", bytes.NewReader(large))
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.True(t, bytes.Equal(large, body))

	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", "http://peer/wait", nil)
	require.NoError(t, err)
	answered := make(chan error)
	go func() {
		_, err := client.Do(req)
		answered <- err
	}()
	<-begun
	cancel()
	require.ErrorIs(t, <-answered, context.Canceled)
	<-gone

	transport.CloseIdleConnections()
	require.NoError(t, server.Shutdown(t.Context()))
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}
