package ends

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

// meet plays both ends of the client's task, again for longer while that fails: on a busy machine
// nothing may be done in a short time.
func meet(t *testing.T, kind string, client Task) (r Result) {
	server := client
	server.Local, server.Peer, server.Sends = client.Peer, client.Local, false
	server.Device, client.Sends = "udp:"+server.Local.String(), true
	for client.Duration = 50 * time.Millisecond; ; client.Duration *= 2 {
		err := meetOnce(t.Context(), kind, server, client, &r)
		if err == nil {
			return r
		}
		require.Less(t, client.Duration, time.Minute, "%v", err)
	}
}

func meetOnce(ctx context.Context, kind string, server, client Task, r *Result) error {
	var said [2]bytes.Buffer
	served := make(chan error, 1)
	go func() { served <- Run(ctx, &said[0], kind, server) }()
	err := Run(ctx, &said[1], kind, client)
	for errors.Is(err, syscall.ECONNREFUSED) && len(served) == 0 { // the server does not listen yet
		time.Sleep(time.Millisecond)
		err = Run(ctx, &said[1], kind, client)
	}
	if err = errors.Join(err, <-served); err != nil {
		return err
	}
	text := append(said[0].Bytes(), said[1].Bytes()...) // one of them has said nothing
	return json.Unmarshal(text, r)
}

// TestEnds: each kind over each transport ends with figures.
func TestEnds(t *testing.T) {
	require.Error(t, Run(t.Context(), nil, "pigeon", Task{}))
	require.Error(t, Run(t.Context(), nil, "loaded", Task{Over: "pigeon"}))
	task := Task{
		Local:       netip.MustParseAddr("127.0.4.1"),
		Peer:        netip.MustParseAddr("127.0.4.2"),
		Device:      "udp:127.0.4.1",
		Depth:       4,
		Connections: 2,
		Size:        1024,
	}
	for _, over := range []string{"tcp", "roce"} {
		t.Run("loaded/"+over, func(t *testing.T) {
			task := task
			task.Over = over
			r := meet(t, "loaded", task)
			require.Positive(t, r.P50)
			require.LessOrEqual(t, r.P50, r.P99)
			require.LessOrEqual(t, r.P99, r.P999)
			require.Positive(t, r.Gbps)
		})
	}
	t.Run("many", func(t *testing.T) {
		task := task
		task.Connections, task.Size = 20, 100
		r := meet(t, "many", task)
		require.Positive(t, r.Bytes)
		require.Positive(t, r.Seconds)
	})
	for name := range works {
		for _, over := range []string{"tcp", "udp"} {
			t.Run("dial/"+over+"/"+name, func(t *testing.T) {
				task := task
				task.Over, task.Work = over, name
				r := meet(t, "dial", task)
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

// What comes before the warm-up is over counts neither as a trip nor as bytes.
func TestTheWarmUpDoesNotCount(t *testing.T) {
	g := newGauge(time.Second)
	g.start = time.Now().Add(-warmUp / 2)
	g.leaves()
	g.answered()
	g.goesOn(1 << 20)
	if r, err := g.result(); err == nil {
		t.Errorf("result of the warm-up: %+v", r)
	}
	g.start = time.Now().Add(-warmUp)
	if !g.goesOn(2 << 20) {
		t.Error("ended at its start")
	}
	g.leaves()
	g.start = g.start.Add(-100 * time.Millisecond) // as if so much time went by
	g.answered()
	g.start = g.start.Add(-time.Second)
	if g.goesOn(3 << 20) {
		t.Error("goes on for ever")
	}
	r, err := g.result()
	if err != nil || r.Exchanges != 1 || r.P50 < 100e3 {
		t.Errorf("%+v, %v", r, err)
	}
	if most := 8.0 * (1 << 20) / 1e9 / 1.1; r.Gbps <= 0 || r.Gbps > most {
		t.Errorf("%v Gbit/s of 1 MiB in more than 1.1 s", r.Gbps)
	}
}
