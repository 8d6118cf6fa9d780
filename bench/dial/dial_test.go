//go:build linux

package dial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
)

func TestMain(m *testing.M) {
	netns.Own()
	m.Run()
}

// TestWorks: each work over each transport ends with figures.
func TestWorks(t *testing.T) {
	for name := range works {
		for _, over := range []string{"tcp", "udp"} {
			t.Run(over+"/"+name, func(t *testing.T) {
				task := Task{Over: over, Work: name, Connections: 2, Size: 1024, Duration: 100 * time.Millisecond,
					Local: netip.MustParseAddr("127.0.0.1"), Peer: netip.MustParseAddr("127.0.0.2")}
				r, err := meet(t.Context(), task)
				// On a busy machine nothing may be done in so short a time.
				for err != nil && task.Duration < time.Minute {
					task.Duration *= 2
					r, err = meet(t.Context(), task)
				}
				require.NoError(t, err)
				if name == "stream" {
					require.Positive(t, r.Gbps)
				} else {
					require.Positive(t, r.PerSecond)
					require.LessOrEqual(t, r.P50, r.P99)
				}
			})
		}
	}
}

// meet plays both ends of the client's task.
func meet(ctx context.Context, client Task) (r Result, err error) {
	server := client
	server.Local, server.Peer = client.Peer, client.Local
	client.Sends = true
	served := make(chan error, 1)
	go func() { served <- Run(ctx, nil, server) }()
	var out bytes.Buffer
	err = Run(ctx, &out, client)
	for errors.Is(err, syscall.ECONNREFUSED) && len(served) == 0 { // the server does not listen yet
		err = Run(ctx, &out, client)
	}
	if err = errors.Join(err, <-served); err == nil {
		err = json.Unmarshal(out.Bytes(), &r)
	}
	return r, err
}
