package rsocket

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
)

// pairs is a listener and a dialer that make pairs: what net/http needs of a network.
type pairs struct {
	t        *testing.T
	a, b     *roce.Device
	accepted chan net.Conn
	done     chan struct{}
	once     sync.Once
	dialed   int
}

func (p *pairs) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pairs) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pairs) Addr() net.Addr { return &Addr{} }

func (p *pairs) dial(context.Context, string, string) (net.Conn, error) {
	client, server := pair(p.t, p.a, p.b, nil)
	p.dialed++
	p.accepted <- server
	return client, nil
}

// TestHTTP: a server and a client of net/http: connections that are kept alive, bodies that are
// larger than every buffer, requests that are given up.
func TestHTTP(t *testing.T) {
	nameA, nameB := wires["udp"]()
	p := &pairs{t: t, a: open(t, nameA), b: open(t, nameB), accepted: make(chan net.Conn, 1), done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	gone := make(chan struct{})
	mux.HandleFunc("/wait", func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done() // the server notices that the client is gone
		close(gone)
	})
	server := &http.Server{Handler: mux}
	served := make(chan error)
	go func() { served <- server.Serve(p) }()
	transport := &http.Transport{DialContext: p.dial}
	client := &http.Client{Transport: transport}

	for range 20 {
		resp, err := client.Post("http://peer/echo", "text/plain", bytes.NewReader([]byte("hello")))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "hello", string(body))
	}
	require.Equal(t, 1, p.dialed, "the connection is kept alive")

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
	cancel()
	require.ErrorIs(t, <-answered, context.Canceled)

	transport.CloseIdleConnections()
	require.NoError(t, server.Shutdown(t.Context()))
	require.ErrorIs(t, <-served, http.ErrServerClosed)
	select {
	case <-gone:
	default: // the request was given up before it left
	}
}
