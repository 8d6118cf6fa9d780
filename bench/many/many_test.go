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
	const connections = 20
	server := Task{Local: netip.MustParseAddr("127.0.4.3"), Connections: connections}
	client := Task{Peer: server.Local, Connections: connections, Size: 100, Duration: 20 * time.Millisecond, Sends: true}
	var out bytes.Buffer
	ended := make(chan error, 1)
	go func() { ended <- Run(&out, server) }()
	err := Run(nil, client)
	for errors.Is(err, unix.ECONNREFUSED) && len(ended) == 0 {
		time.Sleep(time.Millisecond) // nothing tells when a server listens
		err = Run(nil, client)
	}
	if err != nil && len(ended) > 0 {
		t.Fatal("the server ended with: ", <-ended)
	}
	if err != nil {
		t.Fatal(err)
	}
	var r Result
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Bytes == 0 || r.Seconds <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
