//go:build linux

package dial

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWorks: each work over each transport ends with figures.
func TestWorks(t *testing.T) {
	for name := range works {
		for _, over := range []string{"tcp", "udp"} {
			t.Run(over+"/"+name, func(t *testing.T) {
				task := Task{Over: over, Work: name, Connections: 2, Size: 1024, Duration: 100 * time.Millisecond,
					Local: netip.MustParseAddr("127.0.0.1"), Peer: netip.MustParseAddr("127.0.0.2")}
				served := make(chan error, 1)
				there := task
				there.Local, there.Peer = task.Peer, task.Local
				go func() { served <- Run(t.Context(), nil, there) }()
				task.Sends = true
				var out bytes.Buffer
				err := Run(t.Context(), &out, task)
				for errors.Is(err, syscall.ECONNREFUSED) { // the server does not listen yet
					err = Run(t.Context(), &out, task)
				}
				require.NoError(t, err)
				require.NoError(t, <-served)
				var r Result
				require.NoError(t, json.Unmarshal(out.Bytes(), &r))
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
