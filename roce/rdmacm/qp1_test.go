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
