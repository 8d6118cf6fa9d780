package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/goroce/goroce/internal/netns"
)

func TestMain(m *testing.M) {
	netns.Own()
	m.Run()
}

// TestQuery: the two ends of the example, on one machine.
func TestQuery(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	where, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- serve(ctx, "127.78.3.1:0", func(at string) { where <- at }) }()
	var out bytes.Buffer
	if err := query(ctx, <-where, "127.78.3.2", &out); err != nil {
		t.Fatal(err)
	}
	if want := "a call says SERVING\na stream says SERVING\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
