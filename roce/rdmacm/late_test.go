package rdmacm

// Calls that come when something else has happened already, or is about to.

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
)

// TestListenFails: an ID whose Listen has failed shares its port as before.
func TestListenFails(t *testing.T) {
	na, _ := wires["pipe"]()
	a := newHost(t, na, nil)
	first, second := a.id(PSTCP), a.id(PSTCP)
	for _, id := range []*ID{first, second} {
		require.NoError(t, id.SetReuseAddr(true))
	}
	require.NoError(t, first.BindAddr(a.at(99)))
	// somebody has it by other means
	require.NoError(t, first.agent().speaker.(*machine).do(func(m *cm.Machine) error {
		_, err := m.Listen(first.service(99), cm.ListenOptions{Address: gidOf(a.addr)})
		return err
	}))
	require.ErrorIs(t, first.Listen(0), ErrBusy)
	require.NoError(t, second.BindAddr(a.at(99)))
}

// TestDisconnectRefused: who disconnects, while the peer's refusal of its acceptance is on its way
// to it, hears of the end.
func TestDisconnectRefused(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	l := b.listener(PSTCP, 0)
	active := a.resolved(PSTCP, l.LocalAddr())
	require.NoError(t, active.Connect(&ConnParam{QPN: 77}))
	passive := b.next(EventConnectRequest).ID
	b.pair(passive)
	require.NoError(t, passive.Accept(nil))
	a.next(EventConnectResponse)
	passive.mu.Lock() // the machine knows of the refusal, and cannot tell the ID
	require.NoError(t, active.Reject(nil))
	c := passive.one().(*machineID)
	until(func() (refused bool) {
		c.do(func(*cm.Machine) error { refused = c.conn.State() == cm.StateRefused; return nil })
		return refused
	})
	require.NoError(t, passive.step(callDisconnect))
	require.NoError(t, passive.part())
	passive.mu.Unlock()
	b.next(EventDisconnected)
	require.NoError(t, passive.Close())
}

// TestDisconnectBeforeReady: who disconnects before its peer is ready hears of the end, and so does
// the peer.
func TestDisconnectBeforeReady(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		l := b.listener(PSTCP, 0)
		active := a.resolved(PSTCP, l.LocalAddr())
		require.NoError(t, active.Connect(&ConnParam{QPN: 0x771}))
		passive := b.next(EventConnectRequest).ID
		b.pair(passive)
		require.NoError(t, passive.Accept(nil))
		a.next(EventConnectResponse)
		require.NoError(t, passive.Disconnect())
		if err := active.Establish(); err != nil {
			require.ErrorIs(t, err, ErrState) // it has heard of the end already
		}
		a.next(EventDisconnected)
		require.NoError(t, active.Disconnect())
		b.next(EventDisconnected)
		require.NoError(t, passive.Close())
	})
}

// TestQueuePairTooLate: an ID that has told its peer a queue pair by ConnParam.QPN gets no other
// one.
func TestQueuePairTooLate(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		l := b.listener(PSTCP, 0)
		active := a.resolved(PSTCP, l.LocalAddr())
		require.ErrorIs(t, active.Connect(&ConnParam{QPN: 0x772, RetryCount: 8}), ErrInvalid)
		require.NoError(t, active.Connect(&ConnParam{QPN: 0x772}))
		_, err := active.CreateQP(a.pd, roce.QPInitAttr{SendCQ: a.cq})
		require.ErrorIs(t, err, ErrState)
		require.ErrorContains(t, err, "0x000772")
		passive := b.next(EventConnectRequest).ID
		b.pair(passive)
		require.NoError(t, passive.Accept(nil))
		a.next(EventConnectResponse)
		require.NoError(t, active.Reject(nil))
		b.next(EventRejected)
		require.NoError(t, passive.Close())
	})
}

// TestCloseUnpolled: completions that nobody has polled leave room for what Close posts.
func TestCloseUnpolled(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	cfg := func(h *host) ConnConfig {
		return ConnConfig{Config: Config{Devices: []*roce.Device{h.dev}}, Cap: small, Prepare: func(c *Conn) error {
			return c.QP().PostRecv(make([]roce.RecvWR, small.MaxRecvWR)...)
		}}
	}
	l, err := Listen(bg, b.at(0).String(), &ListenConfig{ConnConfig: cfg(b)})
	require.NoError(t, err)
	dial := cfg(a)
	c, err := Dial(bg, l.Addr().String(), &dial)
	require.NoError(t, err)
	s, err := l.Accept(bg)
	require.NoError(t, err)
	both := []*Conn{c, s}
	for _, x := range both {
		for range small.MaxSendWR {
			require.NoError(t, x.QP().PostSend(roce.SendWR{Opcode: roce.WRSend, Flags: roce.SendSignaled}))
		}
	}
	for _, x := range both {
		until(func() bool { return x.CQ().Len() == x.CQ().Cap() })
	}
	for _, x := range both {
		require.NoError(t, x.Close(bg))
	}
	require.NoError(t, l.Close())
}

// TestGoneInSetup: a device that goes away while a connection is being made ends the attempt.
func TestGoneInSetup(t *testing.T) {
	na, _ := wires["pipe"]()
	a := newHost(t, na, nil)
	told := make(chan struct{})
	cfg := &ConnConfig{Config: Config{Devices: []*roce.Device{a.dev}}, Ended: func(*Conn) { t.Error("of a connection that never was") }}
	cfg.Setup = func(c *Conn) (*roce.PD, roce.QPInitAttr, error) {
		go func() {
			defer close(told)
			c.id.mu.Lock()
			defer c.id.mu.Unlock()
			c.id.deviceGone(c.id.one())
		}()
		<-c.Done()
		return a.pd, roce.QPInitAttr{SendCQ: a.cq}, nil
	}
	_, err := Dial(bg, "10.0.0.9:7", cfg)
	require.Error(t, err)
	<-told
}
