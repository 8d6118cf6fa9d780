package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
)

func TestMain(m *testing.M) {
	netns.Own()
	m.Run()
}

// TestFetch: the two ends of the example, on one machine.
func TestFetch(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	where, done := make(chan string, 1), make(chan error, 1)
	large := bytes.Repeat([]byte("over RDMA "), 100_000)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/large" {
			http.NotFound(w, r)
			return
		}
		w.Write(large)
	})
	go func() { done <- serve(ctx, "127.78.1.1:0", handler, func(at string) { where <- at }) }()
	at := <-where
	var got bytes.Buffer
	require.NoError(t, fetch(ctx, "http://"+at+"/large", "127.78.1.2", &got))
	require.True(t, bytes.Equal(large, got.Bytes()))
	require.ErrorContains(t, fetch(ctx, "http://"+at+"/none", "127.78.1.2", io.Discard), "404")
	stop()
	require.NoError(t, <-done)
}
