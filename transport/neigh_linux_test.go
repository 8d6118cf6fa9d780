package transport

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

// until calls f until it says that it is content.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out: %s", what)
		}
	}
}

// headerOf is the Ethernet header that a port would use for an address, nil if it knows none.
func headerOf(p Port, addr string) *etherHeader {
	gid, _ := wire.ParseGID(addr)
	return p.(*packetPort).peers.hop(gid).header.Load()
}

// Without Resolve, the first frames are dropped and counted; soon they are not.
func TestNeighbourFoundBySending(t *testing.T) {
	for _, format := range []string{"packet:10.77.0.%d", "packet:fd78::%d"} {
		w := newWire(t, 1500)
		a, b := w.open(t, format, 0, Options{}), w.open(t, format, 1, Options{})
		batch, frames := wire.NewBatch(4, 200), make([]wire.Frame, 4)
		path := pathBetween(t, a, b, 0, 64)
		put(t, batch, path, 0, 64)
		sendAll(t, a, batch)
		if s := a.Stats(); s.SendUnreachable != 1 || s.LastSendError == "" {
			t.Errorf("%+v", s)
		}
		until(t, "a frame that arrives", func() bool {
			put(t, batch, path, 0, 64)
			sendAll(t, a, batch)
			n, _ := b.Recv(frames)
			return n > 0
		})
	}
}

// A neighbour that gets another Ethernet address is followed, and so is our own interface.
func TestNeighbourChanges(t *testing.T) {
	w := newWire(t, 1500)
	a, b := w.open(t, "packet:10.77.0.%d", 0, Options{}), w.open(t, "packet:10.77.0.%d", 1, Options{})
	reach(t, a, b)
	w.right.ip(t, "link set wire address 02:00:00:00:00:77")
	w.left.ip(t, "neigh replace 10.77.0.2 lladdr 02:00:00:00:00:77 dev wire")
	until(t, "the neighbour's new address", func() bool {
		h := headerOf(a, "10.77.0.2")
		return h != nil && net.HardwareAddr(h[:6]).String() == "02:00:00:00:00:77"
	})
	w.left.ip(t, "link set wire address 02:00:00:00:00:88")
	until(t, "our own new address", func() bool {
		h := headerOf(a, "10.77.0.2")
		return h != nil && net.HardwareAddr(h[6:12]).String() == "02:00:00:00:00:88"
	})
	batch := wire.NewBatch(4, 200)
	put(t, batch, pathBetween(t, a, b, 0, 64), 0, 64)
	sendAll(t, a, batch)
	drain(t, b, 4, 1)

	w.left.ip(t, "link set wire mtu 1280")
	until(t, "the new MTU", func() bool { return a.Info().NetMTU == 1280 && a.(*packetPort).peers.mtu.Load() == 1280 })
}

// A destination behind a gateway has the gateway's Ethernet address, until the route goes.
func TestNeighbourBehindGateway(t *testing.T) {
	w := newWire(t, 1500)
	w.left.ip(t, "route add 10.99.0.0/24 via 10.77.0.2", "-6 route add fd99::/64 via fd78::2")
	for format, far := range map[string]string{"packet:10.77.0.%d": "10.99.0.1", "packet:fd78::%d": "fd99::1"} {
		a, b := w.open(t, format, 0, Options{}), w.open(t, format, 1, Options{})
		gid, _ := wire.ParseGID(far)
		if err := Resolve(context.Background(), a, gid, patience); err != nil {
			t.Fatal(err)
		}
		if h := headerOf(a, far); string(h[:6]) != string(b.Info().MAC) {
			t.Errorf("%s: %x, want %v", far, h[:6], b.Info().MAC)
		}
	}
	a := w.open(t, "packet:10.77.0.%d", 2, Options{}) // on the right, which has no such route
	gid, _ := wire.ParseGID("10.99.0.1")
	if err := Resolve(context.Background(), a, gid, 100*time.Millisecond); !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("10.99.0.1 from the right: %v", err)
	}
}

// What can not be reached says why, also in the counters.
func TestNeighbourUnreachable(t *testing.T) {
	w := newWire(t, 1500)
	w.left.ip(t, "addr add 10.77.0.8/24 dev wire", "route add unreachable 10.98.0.0/24")
	a := w.open(t, "packet:10.77.0.%d", 0, Options{})
	for _, c := range []struct {
		addr, want string
		wait       time.Duration
	}{
		{"10.77.0.99", "no route to 10.77.0.99: 10.77.0.99 has not answered ARP", 50 * time.Millisecond},
		{"10.77.0.8", "10.77.0.8 is another address of this machine", time.Hour},
		{"10.98.0.1", "no route to 10.98.0.1", time.Hour},
		{"fd78::2", "fd78::2 can not be reached from 10.77.0.1, an address of the other IP version", time.Hour},
	} {
		gid, _ := wire.ParseGID(c.addr)
		if err := Resolve(context.Background(), a, gid, c.wait); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (want %q)", c.addr, err, c.want)
		}
	}
	batch := wire.NewBatch(4, 200)
	gid, _ := wire.ParseGID("10.77.0.8")
	put(t, batch, pathTo(t, a, gid, 0, 64), 0, 64)
	sendAll(t, a, batch)
	if s := a.Stats(); s.SendUnreachable != 1 || !strings.Contains(s.LastSendError, "another address of this machine") {
		t.Errorf("%+v", s)
	}
	self := a.Info().GIDs[0]
	if err := Resolve(context.Background(), a, self, 0); err != nil {
		t.Errorf("our own address: %v", err)
	}
}

// The table does not grow without bound, and what is in use stays. What was forgotten although somebody holds it comes
// back with the next frame.
func TestNeighbourTableIsBounded(t *testing.T) {
	w := newWire(t, 1500)
	a := w.open(t, "packet:10.77.0.%d", 0, Options{}).(*packetPort)
	used := a.peers.hop(wire.GID{10: 0xff, 11: 0xff, 12: 10, 13: 77, 15: 2})
	idle := a.peers.hop(wire.GID{10: 0xff, 11: 0xff, 12: 10, 13: 77, 15: 3})
	a.peers.asking.Lock() // the goroutine that looks at all neighbours, and ends their being in use, waits for this
	used.wanted.Store(true)
	most := 0
	for i := range 2 * maxNextHops {
		a.peers.hop(wire.GID{10: 0xff, 11: 0xff, 12: 10, 13: 78, 14: byte(i >> 8), 15: byte(i)})
		a.peers.mu.Lock()
		most = max(most, len(a.peers.hops))
		a.peers.mu.Unlock()
	}
	a.peers.asking.Unlock()
	if most != maxNextHops {
		t.Errorf("%d entries, want at most %d, and all of them used", most, maxNextHops)
	}
	if a.peers.hop(used.dst) != used {
		t.Error("an entry in use was forgotten")
	}
	a.peers.want(idle)
	if a.peers.hop(idle.dst) != idle {
		t.Error("an entry that was forgotten and is in use again is not in the table")
	}
	a.peers.setSelf(wire.GID{0: 0xff, 15: 1}, true)
}

// While the interface is down nothing goes and the port lives on; when it is gone, the port is broken.
func TestPacketInterfaceDown(t *testing.T) {
	w := newWire(t, 1500)
	a, b := w.open(t, "packet:10.77.0.%d", 0, Options{}), w.open(t, "packet:10.77.0.%d", 1, Options{})
	reach(t, a, b)
	batch := wire.NewBatch(4, 200)
	path := pathBetween(t, a, b, 0, 64)
	w.left.ip(t, "link set wire down")
	put(t, batch, path, 0, 64)
	sendAll(t, a, batch)
	if s := a.Stats(); s.SendUnreachable != 1 || a.Info().Up {
		t.Errorf("%+v", s)
	}
	for range 3 { // the socket reports that it is down; a sleeper is not to spin on that
		if err := a.Wait(time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	if a.Wait(20 * time.Millisecond); time.Since(start) < 20*time.Millisecond {
		t.Errorf("Wait returned after %v", time.Since(start))
	}
	w.left.ip(t, "link set wire up")
	frames := make([]wire.Frame, 4)
	until(t, "a frame after the interface came up", func() bool {
		put(t, batch, path, 0, 64)
		sendAll(t, a, batch)
		n, _ := b.Recv(frames)
		return n > 0
	})
	w.left.ip(t, "link del wire")
	until(t, "an error after the interface has gone", func() bool {
		batch.Reset()
		put(t, batch, path, 0, 64)
		_, err := a.Send(batch)
		return errors.Is(err, unix.ENXIO)
	})
	if i := a.Info(); i.Up {
		t.Errorf("%+v", i)
	}
}
