package rdmacm

// Many requests at once: a flood, and clients that all come at the same moment.

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// TestFlood: a host that sends requests without pause, and never a last word, keeps no other host
// out. That is counted in its requests: twenty clients are let in before it has sent so many more.
func TestFlood(t *testing.T) {
	const clients, ahead, more = 20, 6000, 200_000
	segment := fmt.Sprintf("pipe:rdmacm-%d/10.0.0.", serial.Add(1))
	a, b, c := newHost(t, segment+"1", nil), newHost(t, segment+"2", nil), newHost(t, segment+"3", nil)
	on := func(h *host) ConnConfig { return ConnConfig{Config: Config{Devices: []*roce.Device{h.dev}}} }
	l, err := Listen(bg, b.at(99).String(), &ListenConfig{ConnConfig: on(b)})
	require.NoError(t, err)
	s := newStranger(t, a)
	sent := uint64(0)
	flood := func() {
		s.request(b, 99, 1000+uint32(sent))
		sent++
		until(func() bool { return sent <= heard(b.dev, wire.CMAttrREQ)+gsiRecvs/4 })
	}
	for sent < ahead { // more than there are places
		flood()
	}
	ctx, over := context.WithCancel(bg)
	var done atomic.Int64
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept(bg)
			if err != nil {
				return
			}
			conn.Close(bg)
		}
	})
	for range clients {
		all.Go(func() {
			cfg := on(c)
			conn, err := Dial(ctx, l.Addr().String(), &cfg)
			if done.Add(1); err != nil {
				t.Error(err)
				return
			}
			conn.Close(bg)
		})
	}
	for sent < ahead+more && done.Load() < clients {
		flood()
	}
	over()
	require.NoError(t, l.Close())
	all.Wait()
}

// TestBurst: a listener with the usual backlog takes two thousand clients that come at once, and
// none of them has to ask twice: nothing that they and the listener say finds no place.
func TestBurst(t *testing.T) {
	clients := 2000
	na, nb := wires["udp"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	// The kernel counts some 1.3 KB for a packet. As root the socket has room for many thousands.
	if has := b.dev.PortInfo().RecvBuffer / 2048; has < clients {
		clients = max(has, 50)
		t.Logf("net.core.rmem_max leaves the socket room for %d requests at once", clients)
	}
	cfg := func(h *host) ConnConfig {
		return ConnConfig{Config: Config{Devices: []*roce.Device{h.dev}},
			Cap: roce.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}
	}
	l, err := Listen(bg, b.at(0).String(), &ListenConfig{ConnConfig: cfg(b)})
	require.NoError(t, err)
	l.mu.Lock()
	l.full = time.Hour // nobody has waited for too long, however busy the machine is
	l.mu.Unlock()
	dial := cfg(a)
	conns := make([]*Conn, 2*clients)
	ctx, fail := context.WithCancel(bg)
	defer fail()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			var err error
			if conns[2*i], err = Dial(bg, l.Addr().String(), &dial); err != nil {
				t.Error(err)
				fail()
			}
		})
	}
	for i := range clients {
		conns[2*i+1], err = l.Accept(ctx)
		require.NoError(t, err)
	}
	all.Wait()
	asked, took := statsOf(a.dev), statsOf(b.dev)
	require.Equal(t, asked.Sent[0], took.Received[0], "REQs")
	require.Zero(t, asked.Drops)
	require.Zero(t, took.Drops)
	t.Logf("%d REQs and %d REPs were sent again", asked.Retried[0], took.Retried[wire.CMAttrREP-wire.CMAttrREQ])
	inParallel(clients, func(i int) { conns[2*i].id.Close(); conns[2*i].abandon(); conns[2*i+1].abandon() })
	require.NoError(t, l.Close())
}

// TestNeverReady: peers that send requests and never say that they are ready do not keep a listener
// shut.
func TestNeverReady(t *testing.T) {
	const backlog = 4
	segment := fmt.Sprintf("pipe:rdmacm-%d/10.0.0.", serial.Add(1))
	a, b, c := newHost(t, segment+"1", nil), newHost(t, segment+"2", nil), newHost(t, segment+"3", nil)
	on := func(h *host) ConnConfig { return ConnConfig{Config: Config{Devices: []*roce.Device{h.dev}}} }
	l, err := Listen(bg, b.at(99).String(), &ListenConfig{ConnConfig: on(b), Backlog: backlog})
	require.NoError(t, err)
	s := newStranger(t, a)
	for i := range uint32(2 * backlog) {
		s.request(b, 99, 100+i)
	}
	until(func() bool { return heard(b.dev, wire.CMAttrREQ) == 2*backlog })
	cfg := on(c)
	conn, err := Dial(bg, l.Addr().String(), &cfg)
	require.NoError(t, err)
	there, err := l.Accept(bg)
	require.NoError(t, err)
	require.NoError(t, conn.Close(bg))
	require.NoError(t, there.Close(bg))
	require.NoError(t, l.Close())
}

// has is how many connections of a host wait for its last word.
func (l *Listener) has(h *host) (places int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.halfOpen.Front(); e != nil; e = e.Next() {
		if e.Value.(*arrival).from == gidOf(h.addr) {
			places++
		}
	}
	return places
}

// crowdedBacklog is the Backlog of a listener that is soon full.
const crowdedBacklog = 8

// crowded is such a listener, and its host. A connection whose peer says nothing for so long gives
// its place up.
func crowded(t *testing.T, segment string, full time.Duration) (*host, *Listener) {
	h := newHost(t, segment+"1", nil)
	on := ConnConfig{Config: Config{Devices: []*roce.Device{h.dev}}}
	l, err := Listen(bg, h.at(99).String(), &ListenConfig{ConnConfig: on, Backlog: crowdedBacklog})
	require.NoError(t, err)
	l.mu.Lock()
	l.full = full
	l.mu.Unlock()
	return h, l
}

// TestPlaces: the places of connections whose peers never say that they are ready are shared among
// their addresses. A host that has fewer than another gets the other's at once, and whose place it
// was is told.
func TestPlaces(t *testing.T) {
	segment := fmt.Sprintf("pipe:rdmacm-%d/10.0.0.", serial.Add(1))
	b, l := crowded(t, segment, time.Hour) // nobody has waited for too long
	var hosts []*host
	var strangers []*stranger
	for i := range 3 {
		hosts = append(hosts, newHost(t, fmt.Sprint(segment, 2+i), nil))
		strangers = append(strangers, newStranger(t, hosts[i]))
	}
	asked := uint32(0)
	for _, step := range []struct {
		of, asks int
		accepted uint64 // so far
		want     [3]int
	}{{0, 100, 8, [3]int{8, 0, 0}}, {1, 3, 11, [3]int{5, 3, 0}}, {0, 50, 11, [3]int{5, 3, 0}}, {1, 100, 12, [3]int{4, 4, 0}},
		{2, 1, 13, [3]int{2: 1}}} {
		for range step.asks {
			asked++
			strangers[step.of].request(b, 99, 1000+asked)
		}
		until(func() bool { // the listener has seen them, and has answered whom it has a place for
			sent, rep := statsOf(b.dev), wire.CMAttrREP-wire.CMAttrREQ
			l.id.mu.Lock()
			defer l.id.mu.Unlock()
			accepted := sent.Sent[rep] - sent.Retried[rep]
			return accepted == step.accepted && uint64(l.id.waiting.Load())+accepted == uint64(asked)
		})
		var has [3]int
		for i, h := range hosts {
			has[i] = l.has(h)
		}
		if step.of == 2 { // from either of the others
			step.want[0], step.want[1] = has[0], 7-has[0]
		}
		require.Equal(t, step.want, has)
	}
	until(func() bool { return statsOf(b.dev).Sent[wire.CMAttrDREQ-wire.CMAttrREQ] >= 5 })
	require.NoError(t, l.Close())
}

// TestTooLong: a connection that has waited for its peer too long ends for a request that waits;
// not that of a host which has less than its share.
func TestTooLong(t *testing.T) {
	segment := fmt.Sprintf("pipe:rdmacm-%d/10.0.0.", serial.Add(1))
	b, l := crowded(t, segment, 0) // each has waited for too long
	one, many := newHost(t, segment+"2", nil), newHost(t, segment+"3", nil)
	accepted := func(n uint64) bool {
		sent, rep := statsOf(b.dev), wire.CMAttrREP-wire.CMAttrREQ
		return sent.Sent[rep]-sent.Retried[rep] == n
	}
	newStranger(t, one).request(b, 99, 1)
	until(func() bool { return accepted(1) && l.has(one) == 1 })
	s := newStranger(t, many)
	for i := range uint32(crowdedBacklog + 4) {
		s.request(b, 99, 100+i)
	}
	until(func() bool { return accepted(crowdedBacklog + 5) })
	require.Equal(t, 1, l.has(one))
	require.NoError(t, l.Close())
}

// lost is a port that must find link addresses, and looks for some of them for ever.
type lost struct {
	transport.Port
	who map[wire.GID]bool
}

func (p *lost) Info() transport.Info {
	info := p.Port.Info()
	info.Kind = "slow"
	return info
}

func (p *lost) Resolve(ctx context.Context, dst wire.GID, _ time.Duration) error {
	if !p.who[dst] {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestNeighbourNotFound: a request whose sender's link address cannot be found, as it was forged,
// has its place for no longer than one whose sender says nothing.
func TestNeighbourNotFound(t *testing.T) {
	const backlog = 2
	segment := fmt.Sprintf("pipe:rdmacm-%d/10.0.0.", serial.Add(1))
	a, c := newHost(t, segment+"1", nil), newHost(t, segment+"3", nil)
	b := newHost(t, segment+"2", func(p transport.Port) transport.Port {
		return &lost{p, map[wire.GID]bool{gidOf(a.addr): true}}
	})
	on := func(h *host) ConnConfig { return ConnConfig{Config: Config{Devices: []*roce.Device{h.dev}}} }
	l, err := Listen(bg, b.at(99).String(), &ListenConfig{ConnConfig: on(b), Backlog: backlog})
	require.NoError(t, err)
	s := newStranger(t, a)
	for i := range uint32(backlog) {
		s.request(b, 99, 100+i)
	}
	until(func() bool { return l.has(a) == backlog })
	cfg := on(c)
	conn, err := Dial(bg, l.Addr().String(), &cfg)
	require.NoError(t, err)
	there, err := l.Accept(bg)
	require.NoError(t, err)
	require.NoError(t, conn.Close(bg))
	require.NoError(t, there.Close(bg))
	require.NoError(t, l.Close())
}
