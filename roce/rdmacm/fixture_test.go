package rdmacm

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/transport"
)

func TestMain(m *testing.M) {
	if flag.Parse(); *onDevice == "" {
		netns.Own()
	}
	if at := os.Getenv(otherProcess); at != "" {
		answer(at)
		return
	}
	goleak.VerifyTestMain(m)
}

// bg is the context of calls that nobody ends.
var bg = context.Background()

var serial atomic.Int64

// onDevice is a device of the kernel, on which tests are played with both ends instead of over
// wires: "verbs:rxe0".
var onDevice = flag.String("device", "", "play tests on this device of the kernel, with both ends")

// wires are the ports that the tests run over; each gives the names of two devices that reach each
// other.
var wires = map[string]func() (a, b string){
	"pipe": func() (a, b string) {
		s := fmt.Sprintf("pipe:rdmacm-%d/", serial.Add(1))
		return s + "10.0.0.1,fd00::1", s + "10.0.0.2,fd00::2"
	},
	"udp": func() (a, b string) {
		pid, n := os.Getpid(), int(serial.Add(1)%100)
		name := func(i int) string { return fmt.Sprintf("udp:127.%d.%d.%d", 130+pid>>8%120, pid%256, 2*n+1+i) }
		return name(0), name(1)
	},
}

func overWires(t *testing.T, f func(t *testing.T, a, b *host)) {
	if *onDevice != "" {
		f(t, newHost(t, *onDevice, nil), newHost(t, *onDevice, nil))
		return
	}
	for name, names := range wires {
		t.Run(name, func(t *testing.T) {
			na, nb := names()
			f(t, newHost(t, na, nil), newHost(t, nb, nil))
		})
	}
}

// host is a device with a channel on it.
type host struct {
	t    *testing.T
	dev  *roce.Device
	addr netip.Addr
	ch   *EventChannel
	pd   *roce.PD
	cq   *roce.CQ
}

func newHost(t *testing.T, name string, wrap func(transport.Port) transport.Port) *host {
	t.Helper()
	dev, err := roce.Open(name, &roce.Config{Wrap: wrap})
	require.NoError(t, err)
	return hostOn(t, dev)
}

// hostOn is a host whose device is open, and is closed with the test.
func hostOn(t *testing.T, dev *roce.Device) *host {
	t.Helper()
	var err error
	h := &host{t: t, dev: dev, addr: dev.GIDs()[0].Addr()}
	h.ch, err = NewEventChannel(&Config{Devices: []*roce.Device{dev}})
	require.NoError(t, err)
	h.pd, err = dev.AllocPD()
	require.NoError(t, err)
	h.cq, err = dev.CreateCQ(roce.CQInitAttr{CQE: 1024})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, h.ch.Close())
		require.NoError(t, h.cq.Close())
		require.NoError(t, h.pd.Close())
		require.NoError(t, h.dev.Close())
	})
	return h
}

// id makes an ID that is closed with the test.
func (h *host) id(space PortSpace) *ID {
	h.t.Helper()
	id, err := h.ch.CreateID(space)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { require.NoError(h.t, id.Close()) })
	return id
}

// at is a port of the host's address.
func (h *host) at(port uint16) netip.AddrPort { return netip.AddrPortFrom(h.addr, port) }

// next takes the next event, which must be of a type.
func (h *host) next(want EventType) *Event {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(bg, 5*time.Minute) // only ends what would hang
	defer cancel()
	e, err := h.ch.Get(ctx)
	require.NoError(h.t, err, "waiting for %v", want)
	require.Equal(h.t, want, e.Type, "%v", e)
	return e
}

// quiet holds that no event waits.
func (h *host) quiet() {
	h.t.Helper()
	if e, ok := h.ch.Events().TryGet(); ok {
		h.t.Fatalf("an event that should not be: %v", e)
	}
}

// listener listens on a port of the host.
func (h *host) listener(space PortSpace, port uint16) *ID {
	h.t.Helper()
	id := h.id(space)
	require.NoError(h.t, id.BindAddr(h.at(port)))
	require.NoError(h.t, id.Listen(0))
	return id
}

// resolved is an ID that can Connect to a port of another host, with a queue pair.
func (h *host) resolved(space PortSpace, to netip.AddrPort) *ID {
	h.t.Helper()
	id := h.id(space)
	require.NoError(h.t, id.ResolveAddr(h.at(0), to, 0))
	h.next(EventAddrResolved)
	require.NoError(h.t, id.ResolveRoute(0))
	h.next(EventRouteResolved)
	return id
}

// pair gives the ID a queue pair with room for a few messages.
func (h *host) pair(id *ID) *roce.QP {
	h.t.Helper()
	q, err := id.CreateQP(h.pd, roce.QPInitAttr{
		SendCQ:   h.cq,
		SQSigAll: true,
		Cap:      roce.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 64},
	})
	require.NoError(h.t, err)
	return q
}

// connected makes a connection from a to b.
func connected(t *testing.T, a, b *host) (active, passive *ID) {
	t.Helper()
	l := b.listener(PSTCP, 0)
	active = a.resolved(PSTCP, l.LocalAddr())
	a.pair(active)
	require.NoError(t, active.Connect(nil))
	passive = b.next(EventConnectRequest).ID
	b.pair(passive)
	require.NoError(t, passive.Accept(nil))
	require.Same(t, active, a.next(EventEstablished).ID)
	require.Same(t, passive, b.next(EventEstablished).ID)
	t.Cleanup(func() { require.NoError(t, passive.Close()) })
	return active, passive
}

// message sends a message from one queue pair to the other.
func message(t *testing.T, from, to *host, sender, receiver *roce.QP, text string) {
	t.Helper()
	mr, err := to.pd.RegMR(make([]byte, 64), roce.LocalWrite)
	require.NoError(t, err)
	defer func() { require.NoError(t, mr.Close()) }()
	require.NoError(t, receiver.PostRecv(roce.RecvWR{WRID: 7, SGL: []roce.SGE{mr.SGE(0, 64)}}))
	require.NoError(t, sender.PostSend(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendInline, Inline: []byte(text)}))
	for _, h := range []*host{from, to} {
		var wc [1]roce.WC
		_, err := h.cq.Wait(bg, wc[:])
		require.NoError(t, err)
		require.Equal(t, roce.WCSuccess, wc[0].Status)
		if h == to {
			require.Equal(t, text, string(mr.Bytes()[:wc[0].ByteLen]))
		}
	}
}
