package rdmacm

// Finding out the link addresses of peers.

import (
	"context"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// TestManyAtOnce: connections to one peer, begun at the same time on a port that must find out link
// addresses, have one search in common.
func TestManyAtOnce(t *testing.T) {
	const many = 2 * gsiAsking
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	l := b.listener(PSTCP, 0)
	paths := make(map[cm.Path]bool)
	for range many {
		paths[a.resolved(PSTCP, l.LocalAddr()).path] = true
	}
	require.Greater(t, len(paths), gsiAsking)
	c, _ := wires["pipe"]()
	s := newStranger(t, newHost(t, c, nil)).g
	s.slow = true
	for p := range paths {
		s.Send(p, new(wire.MAD))
	}
	require.Equal(t, 1, s.asking)
	require.Zero(t, s.lost)
}

// TestForgedNeighbours: who makes up addresses that nobody has keeps nobody else's from being found
// out, and a way that an ID has found needs no search at all.
func TestForgedNeighbours(t *testing.T) {
	na, _ := wires["pipe"]()
	h := newHost(t, na, nil)
	g := newStranger(t, h).g
	g.slow = true
	way := func(a, b byte) cm.Path {
		return cm.Path{Local: gidOf(h.addr), Remote: gidOf(netip.AddrFrom4([4]byte{10, 9, a, b})), HopLimit: 64}
	}
	g.find = func(ctx context.Context, w cm.Path) (*roce.AH, error) {
		if w.Remote[14] == 0 { // forged
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return g.search(ctx, w)
	}
	forged := byte(0)
	for honest := range byte(3) {
		until(func() bool {
			for range 2 * gsiAsking {
				g.Send(way(0, forged), new(wire.MAD))
				forged++
			}
			require.LessOrEqual(t, g.asking, 2*gsiAsking)
			require.LessOrEqual(t, len(g.ways), gsiAsking+int(honest)+1)
			g.Send(way(1, honest), new(wire.MAD))
			select {
			case f := <-g.answers:
				g.answered(f)
			default:
			}
			w := g.ways[way(1, honest)]
			return w != nil && w.ah != nil
		})
	}
	g.find = func(context.Context, cm.Path) (*roce.AH, error) { panic("there is no need to search") }
	ah, err := g.search(bg, way(1, 9))
	require.NoError(t, err)
	g.learn(way(1, 9), ah)
	g.Send(way(1, 9), new(wire.MAD))
}

// TestFailureIsNotTheEnd: a message that cannot be sent, as its address handle is gone, stops queue
// pair 1 for itself and those behind it only.
func TestFailureIsNotTheEnd(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	b.listener(PSTCP, 99)
	s := newStranger(t, a)
	ah, err := s.g.search(bg, cm.Path{Local: gidOf(a.addr), Remote: gidOf(b.addr), HopLimit: 64})
	require.NoError(t, err)
	tooLong := []roce.SGE{s.g.mr.SGE(0, 5000)} // no packet has room for it either
	require.NoError(t, s.g.qp.PostSend(roce.SendWR{WRID: s.g.posted, Opcode: roce.WRSend, AH: ah, RemoteQPN: wire.GSIQPN,
		RemoteQKey: wire.GSIQKey, SGL: tooLong}))
	s.g.posted++
	require.NoError(t, s.g.pd.DestroyAH(ah))
	until(func() bool { return s.g.qp.State() == roce.StateSQE })
	s.request(b, 100, 1)
	_, err = s.g.Receive(func(cm.Path, []byte) {})
	require.NoError(t, err)
	require.NotZero(t, s.g.lost)
	s.request(b, 100, 2)
	until(func() bool { return heard(b.dev, wire.CMAttrREQ) == 1 })
}

// TestManyWait: two thousand messages wait until somebody looks at queue pair 1.
func TestManyWait(t *testing.T) {
	const messages = 2000
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	b.listener(PSTCP, 99)
	s := newStranger(t, a)
	agents.Lock()
	m := agents.of[b.dev].speaker.(*machine)
	agents.Unlock()
	m.mu.Lock() // it is busy
	for i := range uint32(messages) {
		s.request(b, 100, 1+i)
	}
	until(func() bool {
		s, came := b.dev.Stats().Engine, uint64(0)
		for _, n := range s.Drops {
			came += n
		}
		return came+s.RcvdPkts >= messages
	})
	m.mu.Unlock()
	until(func() bool { return heard(b.dev, wire.CMAttrREQ) == messages })
}
