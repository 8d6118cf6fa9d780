//go:build linux

package loaded

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/netns"
)

func TestMain(m *testing.M) {
	netns.Own()
	m.Run()
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

// Both ends over loopback, by either transport.
func TestRun(t *testing.T) {
	for _, over := range []string{"tcp", "roce"} {
		r, err := meet(over, 100*time.Millisecond)
		for d := time.Second; err != nil && d < time.Minute; d *= 2 {
			r, err = meet(over, d) // on a busy machine nothing may have come in so short a time
		}
		if err != nil || r.P50 <= 0 || r.P50 > r.P99 || r.P99 > r.P999 || r.Gbps <= 0 || r.Exchanges < 1 {
			t.Errorf("%s: %+v, %v", over, r, err)
		}
	}
	if err := Run(nil, "pigeon", Task{}); err == nil {
		t.Error("a transport that there is not")
	}
}

// meet plays both ends.
func meet(over string, d time.Duration) (r Result, err error) {
	server := Task{Device: "udp:127.0.4.2", Local: netip.MustParseAddr("127.0.4.2"), Peer: netip.MustParseAddr("127.0.4.1"), Depth: 4}
	client := Task{Device: "udp:127.0.4.1", Local: server.Peer, Peer: server.Local, Depth: 4, Sends: true, Duration: d}
	ended := make(chan error, 1)
	go func() { ended <- Run(nil, over, server) }()
	var out bytes.Buffer
	err = Run(&out, over, client)
	for err != nil && strings.Contains(err.Error(), "refused") && len(ended) == 0 {
		time.Sleep(time.Millisecond) // nothing tells when a server listens
		err = Run(&out, over, client)
	}
	if err = errors.Join(err, <-ended); err == nil {
		err = json.Unmarshal(out.Bytes(), &r)
	}
	return r, err
}
