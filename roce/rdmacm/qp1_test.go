package rdmacm

// Queue pairs 1 that are elsewhere (Config.QP1): what becomes of IDs when their owner is gone.

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// ended is a queue pair 1 whose owner is gone: it has closed all that there is to close.
type ended struct {
	ready    chan struct{}
	looks    atomic.Int64 // calls of Receive
	messages atomic.Int64
}

func (e *ended) Ready() <-chan struct{} { return e.ready }
func (e *ended) Receive(func(cm.Path, []byte)) (more bool, err error) {
	e.looks.Add(1)
	return false, errors.New("gone")
}
func (e *ended) Room() bool              { return true }
func (e *ended) Send(cm.Path, *wire.MAD) { e.messages.Add(1) }
func (e *ended) Close() error            { return nil }

// mortal is a queue pair 1 whose owner is there at first.
type mortal struct {
	ended
	alive atomic.Bool
}

func (m *mortal) Receive(take func(cm.Path, []byte)) (more bool, err error) {
	if m.alive.Load() {
		return false, nil
	}
	return m.ended.Receive(take)
}

// TestQP1EndsForListeners: who listens is told that it will hear of nobody any more, and who would
// listen later too; but not who comes when they have gone.
func TestQP1EndsForListeners(t *testing.T) {
	na, _ := wires["pipe"]()
	a := newHost(t, na, nil)
	var q *mortal
	cfg := Config{Devices: []*roce.Device{a.dev}, QP1: func(*roce.Device) (QP1, error) {
		q = &mortal{ended: ended{ready: make(chan struct{}, 1)}}
		q.alive.Store(true)
		return q, nil
	}}
	l, err := Listen(bg, a.at(0).String(), &ListenConfig{ConnConfig: ConnConfig{Config: cfg}})
	require.NoError(t, err)
	ch, err := NewEventChannel(&cfg)
	require.NoError(t, err)
	var two [2]*ID
	for i := range two {
		two[i], err = ch.CreateID(PSTCP)
		require.NoError(t, err)
		require.NoError(t, two[i].BindAddr(a.at(0)))
	}
	require.NoError(t, two[0].Listen(0))
	q.alive.Store(false)
	q.ready <- struct{}{}
	e, err := ch.Get(bg)
	require.NoError(t, err)
	require.Equal(t, EventDeviceRemoval, e.Type)
	require.Same(t, two[0], e.ID)
	require.ErrorIs(t, e.Err, ErrUnreachable)
	_, err = l.Accept(bg)
	require.ErrorIs(t, err, ErrUnreachable)
	require.ErrorIs(t, two[1].Listen(0), ErrUnreachable)
	require.NoError(t, l.Close())
	for _, id := range two {
		require.NoError(t, id.Close())
	}

	// when nobody uses that one any more there is another
	again, err := ch.CreateID(PSTCP)
	require.NoError(t, err)
	require.NoError(t, again.BindAddr(a.at(0)))
	require.NoError(t, again.Listen(0))
	require.True(t, q.alive.Load())
	require.NoError(t, again.Close())
	require.NoError(t, ch.Close())
}

// TestQP1Ends: nothing comes any more, which is looked for no more often than there is something
// else to do, and attempts to connect end as with a peer that does not answer.
func TestQP1Ends(t *testing.T) {
	na, _ := wires["pipe"]()
	a := newHost(t, na, nil)
	q := &ended{ready: make(chan struct{})}
	close(q.ready)
	agent, err := share(a.dev, func(*roce.Device) (QP1, error) { return q, nil })
	require.NoError(t, err)
	defer agent.release()
	m := agent.speaker.(*machine)

	var c *cm.Conn
	require.NoError(t, m.do(func(of *cm.Machine) error {
		self := gidOf(a.addr)
		c, err = of.Connect(now(), &cm.ConnectParams{Path: cm.Path{Local: self, Remote: self}, MTU: wire.MTU1024,
			ConnParam: cm.ConnParam{QPN: 2}, ResponseTimeout: 1, PacketLifetime: 1, MaxRetries: 1})
		return err
	}))
	until(func() (over bool) {
		m.do(func(*cm.Machine) error { over = c.State() == cm.StateIdle; return nil })
		return over
	})
	require.EqualValues(t, 3, q.messages.Load(), "a REQ, the same again, a REJ")

	begun := q.looks.Load()
	const kicks = 1000
	for range kicks {
		before := q.looks.Load()
		m.kick()
		until(func() bool { return q.looks.Load() > before })
	}
	require.LessOrEqual(t, q.looks.Load()-begun, int64(kicks+2))
}

// TestQP1IsSaidByAll: a channel that says otherwise than the first one where queue pair 1 of a
// device is hears so.
func TestQP1IsSaidByAll(t *testing.T) {
	for _, lent := range []bool{false, true} {
		na, _ := wires["pipe"]()
		a := newHost(t, na, nil)
		q := &mortal{ended: ended{ready: make(chan struct{})}}
		q.alive.Store(true)
		other, err := NewEventChannel(&Config{Devices: []*roce.Device{a.dev},
			QP1: func(*roce.Device) (QP1, error) { return q, nil }})
		require.NoError(t, err)
		first, second := a.ch, other
		if lent {
			first, second = other, a.ch
		}
		one, err := first.CreateID(PSTCP)
		require.NoError(t, err)
		require.NoError(t, one.BindAddr(a.at(0)))
		two, err := second.CreateID(PSTCP)
		require.NoError(t, err)
		err = two.BindAddr(a.at(0))
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "Config.QP1")
		require.NoError(t, one.Close())
		require.NoError(t, two.Close())
		require.NoError(t, other.Close())
	}
}
