//go:build linux

package raw_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/bench/raw"
	"github.com/goroce/goroce/bench/stage"
)

// Every path carries something between the two ends, unspoiled, on links of either MTU. The figures
// of a test machine mean nothing.
func TestPaths(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) { testPaths(t, mtu) })
	}
}

func testPaths(t *testing.T, mtu int) {
	// Each end keeps a processor of Go's while it sleeps in the kernel: it is to have a process of
	// its own.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	s, err := stage.New(mtu)
	if err != nil && os.Getenv("GOROCE_REQUIRE_LAB") != "" {
		t.Fatal("GOROCE_REQUIRE_LAB is set, but ", err)
	}
	if err != nil {
		t.Skip(err) // a user who is not root, or root in a container that may not
	}
	defer s.Close()
	for _, p := range raw.Paths {
		t.Run(p.Name, func(t *testing.T) {
			lasts := 50 * time.Millisecond
			end := func(me *stage.End, sends bool) raw.End {
				peer := s.Peer(me)
				return raw.End{Interface: me.Interface, Local: me.Addr, Peer: peer.Addr, PeerMAC: peer.MAC, MTU: mtu,
					Duration: lasts, Spin: 20 * time.Microsecond, Gap: time.Microsecond, Sends: sends}
			}
			var server, client raw.Result
			// On a busy machine the server may not have run at all while the client sent.
			for ; server.Packets == 0 && lasts < 10*time.Second; lasts *= 2 {
				var tid int
				s.B.Do(func() error { tid = unix.Gettid(); return nil })
				done := make(chan error, 1)
				go func() {
					done <- s.B.Do(func() (err error) { server, err = p.Run(end(s.B, false)); return err })
				}()
				waitOpen(t, tid, done)
				err := s.A.Do(func() (err error) { client, err = p.Run(end(s.A, true)); return err })
				if err != nil {
					t.Fatal("client: ", err)
				}
				if err := <-done; err != nil {
					t.Fatal("server: ", err)
				}
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

// waitOpen waits until a UDP socket in the namespace of a thread has the paths' port: the last that
// a server opens.
func waitOpen(t *testing.T, tid int, ended chan error) {
	t.Helper()
	for {
		table, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/net/udp", tid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(table), fmt.Sprintf(":%04X ", raw.Port)) {
			return
		}
		select {
		case err := <-ended:
			t.Fatal("server: ", err)
		case <-time.After(time.Millisecond): // between two looks
		}
	}
}
