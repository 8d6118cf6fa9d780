package conformance

// A hub: where several slots have an address one has queue pair 1 for all, and the RDMA CM of the
// others goes through it.

import (
	"context"
	"net/netip"
	"strconv"
	"sync"
	"testing"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/wire"
)

// hub has queue pair 1 of slot 0. It tells its clients apart by the communication IDs that they
// have said, and by the ports that they listen on.
type hub struct {
	mu    sync.Mutex
	own   rdmacm.QP1
	ids   map[uint32]*hubClient
	ports map[uint16]*hubClient
	all   []*hubClient
}

type hubClient struct {
	*hub
	ready chan struct{}
	come  []cm.Message
}

// newHub has it run until the test ends.
func newHub(t *testing.T, d *roce.Device) *hub {
	own, err := rdmacm.OpenQP1(d)
	must(t, err)
	h := &hub{own: own, ids: map[uint32]*hubClient{}, ports: map[uint16]*hubClient{}}
	ctx, end := context.WithCancel(context.Background())
	var runs sync.WaitGroup
	runs.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-own.Ready():
				h.shareOut(t)
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() { end(); runs.Wait(); must(t, own.Close()) })
	return h
}

// client is one that listens on a port, or will dial.
func (h *hub) client(port uint16) func(*roce.Device) (rdmacm.QP1, error) {
	c := &hubClient{hub: h, ready: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all, h.ports[port] = append(h.all, c), c
	return func(*roce.Device) (rdmacm.QP1, error) { return c, nil }
}

// shareOut gives each client what is for it.
func (h *hub) shareOut(t *testing.T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for more := true; more; {
		var err error
		more, err = h.own.Receive(func(from cm.Path, mad []byte) {
			m := cm.Message{Path: from, MAD: wire.MAD(mad)}
			said, err := wire.ParseCM(&m.MAD)
			must(t, err)
			c := h.ids[commIDs(&m.MAD)[1]]
			if req, ok := said.(*wire.CMReq); ok {
				c = h.ports[uint16(req.ServiceID)]
			}
			if c != nil {
				c.come = append(c.come, m)
			}
		})
		must(t, err)
	}
	for _, c := range h.all {
		select {
		case c.ready <- struct{}{}:
		default:
		}
	}
}

// commIDs are the sender's and the receiver's, with which the body of most messages begins.
func commIDs(m *wire.MAD) (ids [2]uint32) {
	for i := range 8 {
		ids[i/4] = ids[i/4]<<8 | uint32(m[24+i])
	}
	return ids
}

func (c *hubClient) Ready() <-chan struct{} { return c.ready }

func (c *hubClient) Receive(take func(from cm.Path, mad []byte)) (more bool, err error) {
	c.mu.Lock()
	come := c.come
	c.come = nil
	c.mu.Unlock()
	for i := range come {
		take(come[i].Path, come[i].MAD[:])
	}
	return false, nil
}

func (c *hubClient) Room() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own.Room()
}

func (c *hubClient) Send(p cm.Path, mad *wire.MAD) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids[commIDs(mad)[0]] = c
	c.own.Send(p, mad)
}

func (c *hubClient) Close() error { return nil }

// TestHub: programs on two slots of an address listen and dial, each through the hub that has queue
// pair 1 with slot 0.
func TestHub(t *testing.T) {
	list := makeSlots(t, 2, slotLanes)
	devices := [2]*roce.Device{}
	for i := range devices {
		devices[i] = openSlot(t, "slot "+strconv.Itoa(i), list[i], nil)
	}
	peerAddr := list[0].Addrs[0].As4()
	peerAddr[1]++
	peer := open(t, "udp:"+netip.AddrFrom4(peerAddr).String())
	h := newHub(t, devices[0])
	on := rdmacm.ListenConfig{ConnConfig: rdmacm.ConnConfig{Config: rdmacm.Config{Devices: []*roce.Device{peer}}}}
	peers, err := rdmacm.Listen(t.Context(), netip.AddrPortFrom(netip.AddrFrom4(peerAddr), 7471).String(), &on)
	must(t, err)
	defer peers.Close()
	var first *rdmacm.Listener
	for i, d := range devices {
		port := uint16(7472 + i)
		own := rdmacm.ListenConfig{ConnConfig: rdmacm.ConnConfig{Config: rdmacm.Config{Devices: []*roce.Device{d},
			QP1: h.client(port)}}}
		l, err := rdmacm.Listen(t.Context(), netip.AddrPortFrom(list[i].Addrs[0], port).String(), &own)
		must(t, err)
		defer l.Close()
		meet(t, l, l.Addr().String(), &on.ConnConfig, d)
		meet(t, peers, peers.Addr().String(), &own.ConnConfig, peer)
		if first == nil {
			first = l
		}
		meet(t, first, first.Addr().String(), &own.ConnConfig, devices[0])
	}
	if d, other := devices[0].Stats(), devices[1].Stats(); d.Engine.RcvdPkts == 0 || other.Lane.Foreign+d.Lane.Foreign > 0 {
		t.Errorf("%d packets, %d of other slots", d.Engine.RcvdPkts, other.Lane.Foreign+d.Lane.Foreign)
	}
}

// meet connects to a listener, whose end is on a device, and ends the connection.
func meet(t *testing.T, l *rdmacm.Listener, at string, cfg *rdmacm.ConnConfig, on *roce.Device) {
	t.Helper()
	var ends sync.WaitGroup
	ends.Go(func() {
		c, err := rdmacm.Dial(t.Context(), at, cfg)
		if err != nil {
			t.Error(err)
			return
		}
		<-c.Done()
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c, err := l.Accept(t.Context())
	must(t, err)
	if c.Device() != on {
		t.Errorf("accepted on %v", c.Device().Name())
	}
	must(t, c.Close(t.Context()))
	ends.Wait()
}
