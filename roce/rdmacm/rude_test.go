package rdmacm

// Peers that break the rules, and applications that leave things behind.

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// stranger sends messages of its own making from a host's device, which has no agent.
type stranger struct {
	h *host
	g *gsi
}

const strangerGUID = 7

func newStranger(t *testing.T, h *host) *stranger {
	g, err := openGSI(h.dev)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return &stranger{h, g}
}

func (s *stranger) send(to *host, tid uint64, msg wire.CMMessage) {
	for !s.g.Room() {
		_, err := s.g.Receive(func(cm.Path, []byte) {})
		require.NoError(s.h.t, err)
	}
	m := new(wire.MAD)
	wire.PutCM(m, tid, msg)
	s.g.Send(cm.Path{Local: gidOf(s.h.addr), Remote: gidOf(to.addr), HopLimit: 64}, m)
}

// request sends a REQ for a port with a communication ID.
func (s *stranger) request(to *host, port uint16, id uint32) {
	s.requestOf(to, wire.CMServiceID(wire.CMPortSpaceTCP, port), id)
}

func (s *stranger) requestOf(to *host, service uint64, id uint32) {
	req := wire.CMReq{ServiceID: service, LocalCommID: id, LocalQPN: id, PartitionKey: 0xffff,
		PathMTU: wire.MTU1024, LocalCAGUID: strangerGUID, LocalCMResponseTimeout: 20, RemoteCMResponseTimeout: 20, MaxCMRetries: 15,
		Primary: wire.CMPath{LocalGID: gidOf(s.h.addr), RemoteGID: gidOf(to.addr)}}
	header := wire.CMIPHeader{SrcPort: 9, Src: gidOf(s.h.addr), Dst: gidOf(to.addr)}
	header.Put(req.PrivateData[:])
	s.send(to, uint64(id), &req)
}

// withdraw takes a REQ back.
func (s *stranger) withdraw(to *host, id uint32) {
	rej := wire.CMRej{LocalCommID: id, Reason: wire.CMRejTimeout, ARILen: 8}
	rej.ARI[7] = strangerGUID
	s.send(to, uint64(id), &rej)
}

// count is how many IDs a channel has.
func (ch *EventChannel) count() int {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.ids
}

// until waits until something is so.
func until(f func() bool) {
	for !f() {
		runtime.Gosched()
	}
}

// TestWithdrawn: requests that their peer takes back before the application has looked at them
// leave nothing behind, not even an event. Those that it knows of have their place until it closes
// them.
func TestWithdrawn(t *testing.T) {
	const backlog = 4
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	l := b.id(PSTCP)
	require.NoError(t, l.BindAddr(b.at(99)))
	require.NoError(t, l.Listen(backlog))
	s := newStranger(t, a)
	for i := range uint32(50) {
		s.request(b, 99, 100+i)
		s.withdraw(b, 100+i)
		until(func() bool { return heard(b.dev, wire.CMAttrREJ) > uint64(i) })
	}
	until(func() bool { return b.ch.count() == 1 })
	require.Zero(t, statsOf(b.dev).Drops[cm.DropBacklog])
	b.quiet()
	var known []*ID
	for i := range uint32(backlog) {
		s.request(b, 99, 200+i)
		known = append(known, b.next(EventConnectRequest).ID)
		s.withdraw(b, 200+i)
		b.next(EventRejected)
	}
	s.request(b, 99, 250) // it is not refused, but may come again
	until(func() bool { return statsOf(b.dev).Drops[cm.DropBacklog] == 1 })
	require.Zero(t, statsOf(b.dev).Sent[wire.CMAttrREJ-wire.CMAttrREQ])
	for _, id := range known { // looked at, they make room
		require.NoError(t, id.Close())
	}
	s.request(b, 99, 250)
	require.NoError(t, b.next(EventConnectRequest).ID.Close())
}

// TestAcceptedNeverReady: of requests that an application has accepted and whose peers never say
// that they are ready a listener has so many at a time. What comes on top finds no place, until one
// is given up.
func TestAcceptedNeverReady(t *testing.T) {
	const batch = 128 // queue pair 1 has room for twice as many
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	l := b.id(PSTCP)
	require.NoError(t, l.BindAddr(b.at(99)))
	require.NoError(t, l.Listen(0))
	s := newStranger(t, a)
	ask := func(n uint32) {
		for i := range uint32(batch) {
			s.request(b, 99, 1+n+i)
		}
		until(func() bool { return heard(b.dev, wire.CMAttrREQ) == uint64(n+batch) })
	}
	var all []*ID
	for len(all) < cm.DefaultHalfOpen {
		ask(uint32(len(all)))
		for range batch {
			all = append(all, b.next(EventConnectRequest).ID)
			require.NoError(t, all[len(all)-1].Accept(&ConnParam{QPN: uint32(len(all))}))
		}
	}
	ask(uint32(len(all)))
	require.Equal(t, uint64(batch), statsOf(b.dev).Drops[cm.DropBacklog])
	require.Equal(t, 1+cm.DefaultHalfOpen, b.ch.count())
	require.NoError(t, all[0].Close())
	s.request(b, 99, uint32(1+len(all)))
	all[0] = b.next(EventConnectRequest).ID
	for _, id := range all {
		require.NoError(t, id.Close())
	}
}

// statsOf are the counters of a device's machine.
func statsOf(dev *roce.Device) (s cm.Stats) {
	agents.Lock()
	a := agents.of[dev]
	agents.Unlock()
	a.speaker.(*machine).do(func(m *cm.Machine) error { s = m.Stats(); return nil })
	return s
}

// heard is how many messages of a kind a device's machine has taken in.
func heard(dev *roce.Device, kind wire.CMAttribute) uint64 {
	return statsOf(dev).Received[kind-wire.CMAttrREQ]
}

// TestNeverPauses: who takes in messages of a peer that never pauses stops after a while.
func TestNeverPauses(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	s, g := newStranger(t, a), newStranger(t, b).g
	const ahead = gsiRecvs / 2
	for range ahead {
		s.request(b, 99, 1)
	}
	until(func() bool { // that the peer is slow for a moment is no proof
		taken := 0
		more, err := g.Receive(func(cm.Path, []byte) {
			taken++
			s.request(b, 99, 1)
		})
		require.NoError(t, err)
		require.Less(t, taken, 2*gsiTurn)
		if taken == 0 {
			s.request(b, 99, 1)
		}
		return more
	})
}

// TestRefusedLate: a peer that changes its mind ends the queue pair that was made ready for it:
// what waits there is flushed.
func TestRefusedLate(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		l := b.listener(PSTCP, 0)
		active := a.resolved(PSTCP, l.LocalAddr())
		require.NoError(t, active.Connect(&ConnParam{QPN: 77}))
		passive := b.next(EventConnectRequest).ID
		q := b.pair(passive)
		require.NoError(t, q.PostRecv(roce.RecvWR{WRID: 5}))
		require.NoError(t, passive.Accept(nil))
		a.next(EventConnectResponse)
		require.NoError(t, active.Reject(nil))
		b.next(EventRejected)
		require.Equal(t, roce.StateErr, q.State())
		var wc [1]roce.WC
		_, err := b.cq.Wait(bg, wc[:])
		require.NoError(t, err)
		require.Equal(t, roce.WCWRFlushErr, wc[0].Status)
		require.NoError(t, passive.Close())
	})
}

// TestMigrateListener: a request that nobody has taken goes with its listener, and the ID that was
// made of it too.
func TestMigrateListener(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		l := b.listener(PSTCP, 0)
		active := a.resolved(PSTCP, l.LocalAddr())
		a.pair(active)
		require.NoError(t, active.Connect(nil))
		<-b.ch.Events().Ready()
		other, err := NewEventChannel(&Config{Devices: []*roce.Device{b.dev}})
		require.NoError(t, err)
		require.NoError(t, l.Migrate(other))
		e, err := other.Get(bg)
		require.NoError(t, err)
		require.Same(t, other, e.ID.Channel())
		require.NoError(t, l.Close())
		require.ErrorIs(t, other.Close(), ErrBusy)
		require.NoError(t, e.ID.Close())
		require.NoError(t, other.Close())
		a.next(EventRejected)
	})
}

// TestNoWayUnbound: an ID that was bound to nothing is not bound when its peer's address cannot be
// resolved.
func TestNoWayUnbound(t *testing.T) {
	ch, err := NewEventChannel(nil)
	require.NoError(t, err)
	id, err := ch.CreateID(PSTCP)
	require.NoError(t, err)
	require.NoError(t, id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("[fe80::1%nosuch]:7"), 0))
	e, err := ch.Get(bg)
	require.NoError(t, err)
	require.Equal(t, EventAddrError, e.Type)
	require.ErrorIs(t, id.Listen(0), ErrState)
	require.NoError(t, id.Close())
	require.NoError(t, ch.Close())
}

// TestLeftBehind: a device that this package has opened, and on which the application has something
// yet when its last ID is closed, can be used again.
func TestLeftBehind(t *testing.T) {
	pid := os.Getpid()
	addr := netip.MustParseAddrPort(fmt.Sprintf("127.%d.%d.252:0", 130+pid>>8%120, pid%256))
	ch, err := NewEventChannel(nil)
	require.NoError(t, err)
	bound := func() *ID {
		id, err := ch.CreateID(PSTCP)
		require.NoError(t, err)
		require.NoError(t, id.BindAddr(addr))
		return id
	}
	id := bound()
	dev := id.Device()
	pd, err := dev.AllocPD()
	require.NoError(t, err)
	old := id.agent().speaker.(*machine)
	require.NoError(t, id.Close())
	<-old.done // it has tried to close the device
	id = bound()
	require.Same(t, dev, id.Device())
	require.NoError(t, pd.Close())
	require.NoError(t, id.Close())
	require.NoError(t, ch.Close())
	until(func() bool { return dev.AtClose(func() error { return nil }) != nil }) // it is closed
}

// TestSlowDevice: a device that takes its time to close keeps nobody from using others, and who
// needs its address waits, and has a new one.
func TestSlowDevice(t *testing.T) {
	pid := os.Getpid()
	addr := func(i int) netip.AddrPort {
		return netip.MustParseAddrPort(fmt.Sprintf("127.%d.%d.%d:0", 130+pid>>8%120, pid%256, i))
	}
	ch, err := NewEventChannel(nil)
	require.NoError(t, err)
	bound := func(at netip.AddrPort) *ID {
		id, err := ch.CreateID(PSTCP)
		require.NoError(t, err)
		require.NoError(t, id.BindAddr(at))
		return id
	}
	first := bound(addr(253))
	dev := first.Device()
	closing, goOn := make(chan struct{}), make(chan struct{})
	require.NoError(t, dev.AtClose(func() error {
		close(closing)
		<-goOn
		return nil
	}))
	require.NoError(t, first.Close())
	<-closing
	other := bound(addr(254))
	again := make(chan *ID)
	go func() { again <- bound(addr(253)) }()
	require.NoError(t, other.Close())
	close(goOn)
	second := <-again
	next := second.Device()
	require.NotSame(t, dev, next)
	require.NoError(t, second.Close())
	require.NoError(t, ch.Close())
	until(func() bool { return next.AtClose(func() error { return nil }) != nil }) // it is closed
}

// TestDeviceClosedTwice: of two Closes of a device at once neither meets the other's half of the
// way, on which the agent's queue pair 1 is still open.
func TestDeviceClosedTwice(t *testing.T) {
	name, _ := wires["pipe"]()
	for range 20 {
		dev, err := roce.Open(name, nil)
		require.NoError(t, err)
		ch, err := NewEventChannel(&Config{Devices: []*roce.Device{dev}})
		require.NoError(t, err)
		id, err := ch.CreateID(PSTCP)
		require.NoError(t, err)
		require.NoError(t, id.BindAddr(netip.AddrPortFrom(dev.GIDs()[0].Addr(), 0)))
		require.NoError(t, id.Close())
		require.NoError(t, ch.Close())
		stopping, second := make(chan struct{}), make(chan error)
		// called before the agent's own, which then stops while the second comes
		require.NoError(t, dev.AtClose(func() error { close(stopping); return nil }))
		go func() {
			<-stopping
			second <- dev.Close()
		}()
		require.NoError(t, dev.Close())
		require.NoError(t, <-second)
	}
}

// TestTypeOfService: what is accepted at a listener has its type of service.
func TestTypeOfService(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		l := b.listener(PSTCP, 0)
		require.NoError(t, l.SetTOS(0x20))
		active := a.resolved(PSTCP, l.LocalAddr())
		a.pair(active)
		require.NoError(t, active.Connect(nil))
		passive := b.next(EventConnectRequest).ID
		q := b.pair(passive)
		require.NoError(t, passive.Accept(nil))
		attr, err := q.Query()
		require.NoError(t, err)
		require.Equal(t, uint8(0x20), attr.AV.TrafficClass)
		a.next(EventEstablished)
		b.next(EventEstablished)
		require.NoError(t, passive.Close())
		a.next(EventDisconnected)
	})
}

// TestMachineErrors: what the machine refuses is one of this package's errors.
func TestMachineErrors(t *testing.T) {
	na, _ := wires["pipe"]()
	a := newHost(t, na, nil)
	id := a.resolved(PSTCP, netip.MustParseAddrPort("239.1.2.3:7"))
	a.pair(id)
	require.ErrorIs(t, id.Connect(nil), ErrInvalid)
}

// TestQueuePairClosed: a queue pair that the application has closed by itself is no obstacle.
func TestQueuePairClosed(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		active, passive := connected(t, a, b)
		require.NoError(t, active.QP().Close())
		require.NoError(t, active.Disconnect())
		b.next(EventDisconnected)
		require.NoError(t, passive.Disconnect())
		a.next(EventDisconnected)
	})
}

// TestRoom: the completion queue of a connection has room for all that can be posted, which is more
// than was asked for.
func TestRoom(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	cfg := func(h *host) ConnConfig {
		return ConnConfig{Config: Config{Devices: []*roce.Device{h.dev}},
			Cap: roce.QPCap{MaxSendWR: 5, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}
	}
	l, err := Listen(bg, b.at(0).String(), &ListenConfig{ConnConfig: cfg(b)})
	require.NoError(t, err)
	dial := cfg(a)
	c, err := Dial(bg, l.Addr().String(), &dial)
	require.NoError(t, err)
	s, err := l.Accept(bg)
	require.NoError(t, err)
	require.NoError(t, c.QP().PostRecv(roce.RecvWR{}))
	posted := 0
	for posted < 8 && c.QP().PostSend(roce.SendWR{Opcode: roce.WRWrite, Flags: roce.SendSignaled}) == nil {
		posted++
	}
	require.Equal(t, 8, posted)
	require.NoError(t, s.QP().PostSend(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendSignaled}))
	var wc [1]roce.WC
	_, err = s.CQ().Wait(bg, wc[:])
	require.NoError(t, err)
	require.Equal(t, roce.WCSuccess, wc[0].Status)
	require.NoError(t, c.Close(bg))
	<-s.Done()
	require.NoError(t, s.Close(bg)) // the peer has left first, and all of ours was done
	require.NoError(t, l.Close())
}

// TestIncomplete: a message that the peer has not taken before it left was not carried out; that
// receives of ours end with the connection is no loss.
func TestIncomplete(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	cfg := func(h *host) ConnConfig { return ConnConfig{Config: Config{Devices: []*roce.Device{h.dev}}} }
	l, err := Listen(bg, b.at(0).String(), &ListenConfig{ConnConfig: cfg(b)})
	require.NoError(t, err)
	dial := cfg(a)
	for _, want := range []error{nil, ErrIncomplete} {
		c, err := Dial(bg, l.Addr().String(), &dial)
		require.NoError(t, err)
		s, err := l.Accept(bg)
		require.NoError(t, err)
		require.NoError(t, c.QP().PostRecv(roce.RecvWR{WRID: marker}))
		if want != nil { // nobody has posted a receive for it
			require.NoError(t, c.QP().PostSend(roce.SendWR{Opcode: roce.WRSend}))
		}
		require.NoError(t, s.Close(bg))
		<-c.Done()
		err = c.Close(bg)
		if want == nil {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, want)
		}
	}
	require.NoError(t, l.Close())
}

// TestMTU: what the port can do now counts, not what it could do when its agent was made.
func TestMTU(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	l := b.listener(PSTCP, 0)
	agents.Lock()
	agent := agents.of[b.dev]
	agents.Unlock()
	m := agent.speaker.(*machine)
	m.mu.Lock()
	m.cm.SetMTU(roce.MTU256) // as it was a second ago
	m.lookAt = 0
	m.mu.Unlock()
	active := a.resolved(PSTCP, l.LocalAddr())
	a.pair(active)
	require.NoError(t, active.Connect(nil))
	require.NoError(t, b.next(EventConnectRequest).ID.Close())
	a.next(EventRejected)
}

// TestAddressLost: a queue pair is not made ready with another address than the peer knows.
func TestAddressLost(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	l := b.listener(PSTCP, 0)
	active := a.resolved(PSTCP, l.LocalAddr())
	q := a.pair(active)
	active.mu.Lock()
	active.one().(*machineID).terms = cm.QPParams{PathMTU: roce.MTU1024, Path: cm.Path{Local: gidOf(netip.MustParseAddr("192.0.2.1"))}}
	active.mu.Unlock()
	require.ErrorIs(t, active.raise(bg), ErrUnreachable)
	require.Equal(t, roce.StateInit, q.State())
}
