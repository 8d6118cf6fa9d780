//go:build linux

package many

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
)

func TestMain(m *testing.M) {
	netns.Own()
	m.Run()
}

// Whatever the client writes to its connections arrives, and the server ends with the last of them.
func TestRun(t *testing.T) {
	r, err := meet(20 * time.Millisecond)
	for d := time.Second; (err != nil || r.Bytes == 0) && d < time.Minute; d *= 2 {
		r, err = meet(d) // on a busy machine nothing may have been written in so short a time
	}
	if err != nil || r.Bytes == 0 || r.Seconds <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// meet plays both ends.
func meet(d time.Duration) (r Result, err error) {
	const connections = 20
	server := Task{Local: netip.MustParseAddr("127.0.4.3"), Connections: connections}
	client := Task{Peer: server.Local, Connections: connections, Size: 100, Duration: d, Sends: true}
	var out bytes.Buffer
	ended := make(chan error, 1)
	go func() { ended <- Run(&out, server) }()
	err = Run(nil, client)
	for errors.Is(err, unix.ECONNREFUSED) && len(ended) == 0 {
		time.Sleep(time.Millisecond) // nothing tells when a server listens
		err = Run(nil, client)
	}
	if err = errors.Join(err, <-ended); err == nil {
		err = json.Unmarshal(out.Bytes(), &r)
	}
	return r, err
}
