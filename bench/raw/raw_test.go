//go:build linux

package raw_test

import (
	"os"
	"testing"
	"time"

	"github.com/goroce/goroce/bench/raw"
	"github.com/goroce/goroce/bench/stage"
)

// Every path carries something between the two ends, unspoiled. The figures of a test machine mean nothing.
func TestPaths(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	s, err := stage.New(9000)
	if err != nil {
		t.Skip(err)
	}
	defer s.Close()
	for _, p := range raw.Paths {
		t.Run(p.Name, func(t *testing.T) {
			end := func(me *stage.End, sends bool) raw.End {
				peer := s.Peer(me)
				return raw.End{Interface: me.Interface, Local: me.Addr, Peer: peer.Addr, PeerMAC: peer.MAC, Duration: 20 * time.Millisecond, Sends: sends}
			}
			var server, client raw.Result
			done := make(chan error, 1)
			go func() {
				done <- s.B.Do(func() (err error) { server, err = p.Run(end(s.B, false)); return err })
			}()
			time.Sleep(200 * time.Millisecond) // the server opens its port
			err := s.A.Do(func() (err error) { client, err = p.Run(end(s.A, true)); return err })
			if err != nil {
				t.Fatal("client: ", err)
			}
			if err := <-done; err != nil {
				t.Fatal("server: ", err)
			}
			if server.Packets == 0 || client.Packets == 0 || server.Bad > 0 {
				t.Errorf("server %+v, client %+v", server, client)
			}
			if server.Gbps+server.Mpps+client.OneWay == 0 {
				t.Errorf("no figure: server %+v, client %+v", server, client)
			}
		})
	}
}
