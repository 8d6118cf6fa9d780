package rsocket

// What programs build on net/http beside requests and answers: TLS and HTTP/2, bodies that wait for
// leave, connections that are taken over.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// served is a server and a client of it.
func served(t *testing.T, handler http.Handler, withTLS bool) *http.Client {
	l, d := listening(t, "udp")
	server := httptest.NewUnstartedServer(handler)
	require.NoError(t, server.Listener.Close())
	server.Listener, server.EnableHTTP2 = l, true
	if withTLS {
		server.StartTLS()
	} else {
		server.Start()
	}
	var open sync.WaitGroup
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		ExpectContinueTimeout: time.Hour, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			c, err := d.Dial(ctx, l.Addr().String())
			if err != nil {
				return nil, err
			}
			open.Add(1)
			return counted{c, &open}, nil
		}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		open.Wait() // the transport closes connections in the background
	})
	return &http.Client{Transport: transport}
}

// counted is a connection that is counted until its Close has returned.
type counted struct {
	*Conn
	open *sync.WaitGroup
}

func (c counted) Close() error {
	err := c.Conn.Close()
	if !errors.Is(err, net.ErrClosed) { // the first
		c.open.Done()
	}
	return err
}

// TestHTTP2: many requests at a time on one connection, under TLS.
func TestHTTP2(t *testing.T) {
	client := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto, " ")
		io.Copy(w, r.Body)
	}), true)
	body := strings.Repeat("hello", 50_000)
	var requests sync.WaitGroup
	for range 10 {
		requests.Go(func() {
			resp, err := client.Post("https://peer/", "text/plain", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err != nil || string(got) != "HTTP/2.0 "+body {
				t.Errorf("%v, %d bytes: %.20s", err, len(got), got)
			}
		})
	}
	requests.Wait()
}

// TestExpect: a body that waits for the server's leave is sent if that is given, and is not waited
// for if it is refused.
func TestExpect(t *testing.T) {
	client := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/yes" {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}), false)
	for _, path := range []string{"yes", "no", "yes"} {
		req, err := http.NewRequest(http.MethodPost, "http://peer/"+path, strings.NewReader(strings.Repeat("x", 1<<20)))
		require.NoError(t, err)
		req.Header.Set("Expect", "100-continue")
		resp, err := client.Do(req)
		require.NoError(t, err)
		says, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, map[string]string{"yes": "1048576 <nil>", "no": "too large\n"}[path], string(says))
	}
}

// TestHijack: a connection that a handler takes over is a stream again, in both directions.
func TestHijack(t *testing.T) {
	ended := make(chan error)
	client := served(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, both, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { ended <- c.Close() }()
		fmt.Fprint(both, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		both.Flush()
		io.Copy(c, both)
	}), false)
	req, err := http.NewRequest(http.MethodGet, "http://peer/", nil)
	require.NoError(t, err)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := client.Do(req)
	require.NoError(t, err)
	stream := resp.Body.(io.ReadWriteCloser)
	_, err = stream.Write([]byte("to and fro"))
	require.NoError(t, err)
	back := make([]byte, 10)
	_, err = io.ReadFull(stream, back)
	require.NoError(t, err)
	require.Equal(t, "to and fro", string(back))
	require.NoError(t, stream.Close())
	require.NoError(t, <-ended)
}
