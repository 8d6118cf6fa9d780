package packet

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/ether"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

// headerOf is the Ethernet header that a port would use for an address, nil if it knows none.
func headerOf(p transport.Port, addr string) *ether.Header {
	gid, _ := wire.ParseGID(addr)
	return p.(*port).Peers.Hop(gid).Header()
}

// Without Resolve, the first frames are dropped and counted; soon they are not.
func TestNeighbourFoundBySending(t *testing.T) {
	for _, format := range []string{"packet:10.77.0.%d", "packet:fd78::%d"} {
		w := netns.NewWire(t, 1500)
		a, b := openOn(t, w, format, 0, transport.Options{}), openOn(t, w, format, 1, transport.Options{})
		batch, frames := wire.NewBatch(4, 200), make([]wire.Frame, 4)
		path := porttest.PathBetween(t, a, b, 0, 64)
		porttest.Put(t, batch, path, 0, 64)
		porttest.SendAll(t, a, batch)
		if s := a.Stats(); s.SendUnreachable != 1 || s.LastSendError == "" {
			t.Errorf("%+v", s)
		}
		porttest.Until(t, "a frame that arrives", func() bool {
			porttest.Put(t, batch, path, 0, 64)
			porttest.SendAll(t, a, batch)
			n, _ := b.Recv(frames)
			return n > 0
		})
	}
}

// A neighbour that gets another Ethernet address is followed, and so is our own interface.
func TestNeighbourChanges(t *testing.T) {
	w := netns.NewWire(t, 1500)
	a, b := openOn(t, w, "packet:10.77.0.%d", 0, transport.Options{}), openOn(t, w, "packet:10.77.0.%d", 1, transport.Options{})
	porttest.Reach(t, a, b)
	w.Right.IP(t, "link set wire address 02:00:00:00:00:77")
	w.Left.IP(t, "neigh replace 10.77.0.2 lladdr 02:00:00:00:00:77 dev wire")
	porttest.Until(t, "the neighbour's new address", func() bool {
		h := headerOf(a, "10.77.0.2")
		return h != nil && net.HardwareAddr(h[:6]).String() == "02:00:00:00:00:77"
	})
	w.Left.IP(t, "link set wire address 02:00:00:00:00:88")
	porttest.Until(t, "our own new address", func() bool {
		h := headerOf(a, "10.77.0.2")
		return h != nil && net.HardwareAddr(h[6:12]).String() == "02:00:00:00:00:88"
	})
	batch := wire.NewBatch(4, 200)
	porttest.Put(t, batch, porttest.PathBetween(t, a, b, 0, 64), 0, 64)
	porttest.SendAll(t, a, batch)
	porttest.Drain(t, b, 4, 1)

	w.Left.IP(t, "link set wire mtu 1280")
	porttest.Until(t, "the new MTU", func() bool { return a.Info().NetMTU == 1280 && a.(*port).Peers.MTU() == 1280 })
}

// A destination behind a gateway has the gateway's Ethernet address, until the route goes.
func TestNeighbourBehindGateway(t *testing.T) {
	w := netns.NewWire(t, 1500)
	w.Left.IP(t, "route add 10.99.0.0/24 via 10.77.0.2", "-6 route add fd99::/64 via fd78::2")
	for format, far := range map[string]string{"packet:10.77.0.%d": "10.99.0.1", "packet:fd78::%d": "fd99::1"} {
		a, b := openOn(t, w, format, 0, transport.Options{}), openOn(t, w, format, 1, transport.Options{})
		gid, _ := wire.ParseGID(far)
		if err := transport.Resolve(context.Background(), a, gid, porttest.Patience); err != nil {
			t.Fatal(err)
		}
		if h := headerOf(a, far); string(h[:6]) != string(b.Info().MAC) {
			t.Errorf("%s: %x, want %v", far, h[:6], b.Info().MAC)
		}
	}
	// Port 2 is on the right, which has no such route.
	a := openOn(t, w, "packet:10.77.0.%d", 2, transport.Options{})
	gid, _ := wire.ParseGID("10.99.0.1")
	if err := transport.Resolve(context.Background(), a, gid, 100*time.Millisecond); !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("10.99.0.1 from the right: %v", err)
	}
}

// What can not be reached says why, also in the counters.
func TestNeighbourUnreachable(t *testing.T) {
	w := netns.NewWire(t, 1500)
	w.Left.IP(t, "addr add 10.77.0.8/24 dev wire", "route add unreachable 10.98.0.0/24")
	a := openOn(t, w, "packet:10.77.0.%d", 0, transport.Options{})
	for _, c := range []struct {
		addr, want string
		wait       time.Duration
	}{
		{"10.77.0.99", "no route to 10.77.0.99: 10.77.0.99 has not answered ARP", 50 * time.Millisecond},
		{"10.77.0.8", "10.77.0.8 is another address of this machine", time.Hour},
		{"10.98.0.1", "no route to 10.98.0.1", time.Hour},
		{"fd78::2", "fd78::2 can not be reached: the port has no address of that IP version", time.Hour},
	} {
		gid, _ := wire.ParseGID(c.addr)
		if err := transport.Resolve(context.Background(), a, gid, c.wait); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (want %q)", c.addr, err, c.want)
		}
	}
	batch := wire.NewBatch(4, 200)
	gid, _ := wire.ParseGID("10.77.0.8")
	porttest.Put(t, batch, porttest.PathTo(t, a, gid, 0, 64), 0, 64)
	porttest.SendAll(t, a, batch)
	if s := a.Stats(); s.SendUnreachable != 1 || !strings.Contains(s.LastSendError, "another address of this machine") {
		t.Errorf("%+v", s)
	}
	self := a.Info().GIDs[0]
	if err := transport.Resolve(context.Background(), a, self, 0); err != nil {
		t.Errorf("our own address: %v", err)
	}
}

// While the interface is down nothing goes and the port lives on; when it is gone, the port is
// broken.
func TestInterfaceDown(t *testing.T) {
	w := netns.NewWire(t, 1500)
	a, b := openOn(t, w, "packet:10.77.0.%d", 0, transport.Options{}), openOn(t, w, "packet:10.77.0.%d", 1, transport.Options{})
	porttest.Reach(t, a, b)
	batch := wire.NewBatch(4, 200)
	path := porttest.PathBetween(t, a, b, 0, 64)
	w.Left.IP(t, "link set wire down")
	porttest.Put(t, batch, path, 0, 64)
	porttest.SendAll(t, a, batch)
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
	w.Left.IP(t, "link set wire up")
	frames := make([]wire.Frame, 4)
	porttest.Until(t, "a frame after the interface came up", func() bool {
		porttest.Put(t, batch, path, 0, 64)
		porttest.SendAll(t, a, batch)
		n, _ := b.Recv(frames)
		return n > 0
	})
	w.Left.IP(t, "link del wire")
	porttest.Until(t, "an error after the interface has gone", func() bool {
		batch.Reset()
		porttest.Put(t, batch, path, 0, 64)
		_, err := a.Send(batch)
		return errors.Is(err, unix.ENXIO)
	})
	if i := a.Info(); i.Up {
		t.Errorf("%+v", i)
	}
}
