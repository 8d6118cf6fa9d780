package rdmacm

// Listen: connections as they come.
//
// Stages: making a listener; a request, which a goroutine of its own makes a connection of, so that
// a slow peer delays nobody; peers that never say that they are ready; handing connections out; the
// end.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ListenConfig says how connections are taken. The zero value is right for most uses.
type ListenConfig struct {
	ConnConfig // Local does not count

	// Backlog is how many connections may be there that Accept has not returned: those that are
	// being made, and those that wait. As many requests wait on top of that; more are dropped, and
	// repeated by their senders. 0 is 128. Connections whose peer owes its last word for more than
	// a second are ended if there is no room without that, others after 70 s.
	Backlog int

	// Decide, if not nil, is asked whether a request is accepted: by whom it is, and what it says
	// (MaxConnectData bytes). reply is the private data of the answer. An error refuses the
	// request. Several goroutines may ask at a time.
	Decide func(from netip.AddrPort, says []byte) (reply []byte, err error)
}

const defaultBacklog = 128

// Listener takes connections. All methods may be called from any goroutine.
type Listener struct {
	cfg ListenConfig
	ch  *EventChannel
	id  *ID

	lost  context.Context // ends with ctx, or when the device is gone
	lose  context.CancelCauseFunc
	ctx   context.Context // ends with the listener
	end   context.CancelFunc
	tasks sync.WaitGroup
	ready chan *Conn // established

	mu       sync.Mutex
	requests []*Event    // that have no goroutine yet
	making   int         // connections that are being made, or wait for Accept
	halfOpen []*halfOpen // of these, those that wait for the peer's last word, the oldest first
	leaving  int         // connections that were taken out of halfOpen and are not yet gone
	room     *time.Timer // looks again whether there is one to take out; nil: nobody waits for that
}

// halfOpen is a connection that was accepted and whose peer has not said that it is ready (RTU).
type halfOpen struct {
	since time.Time
	end   context.CancelFunc
}

// How long a peer may take for its last word. It comes at once, or the answer that it is for is
// repeated after 4.3 s, 15 times with the usual parameters; a peer may ask for four times that.
const (
	halfOpenMost = 70 * time.Second
	halfOpenFull = time.Second // when others wait
)

// Listen listens on an address and port: "10.0.0.2:7471", "[::1]:7471", "localhost:0", or ":7471"
// for all addresses (see ID.Listen). cfg may be nil. ErrInvalid, ErrBusy if the port or the address
// is in use.
func Listen(ctx context.Context, address string, cfg *ListenConfig) (*Listener, error) {
	l := &Listener{}
	if cfg != nil {
		l.cfg = *cfg
	}
	if l.cfg.Backlog <= 0 {
		l.cfg.Backlog = defaultBacklog
	}
	addrs, err := lookup(ctx, address)
	if err != nil {
		return nil, fail("Listen "+address, err)
	}
	if err := l.open(addrs[0]); err != nil {
		return nil, fail("Listen "+address, err)
	}
	return l, nil
}

func (l *Listener) open(addr netip.AddrPort) (err error) {
	if l.ch, err = NewEventChannel(&l.cfg.Config); err != nil {
		return err
	}
	l.ch.sink = l.happens
	l.ready = make(chan *Conn, l.cfg.Backlog)
	l.ctx, l.end = context.WithCancel(context.Background())
	l.lost, l.lose = context.WithCancelCause(l.ctx)
	if l.id, err = l.ch.CreateID(PSTCP); err != nil {
		return err
	}
	l.id.parts = true
	if err = l.id.configure(&l.cfg.ConnConfig); err == nil {
		if err = l.id.BindAddr(addr); err == nil {
			err = l.id.Listen(l.cfg.Backlog)
		}
	}
	if err != nil {
		l.end()
		return errors.Join(err, l.id.Close(), l.ch.Close())
	}
	return nil
}

// Addr is the address and port.
func (l *Listener) Addr() netip.AddrPort { return l.id.LocalAddr() }

// happens is the sink of the listener's channel: requests are its own, other events are of
// connections.
func (l *Listener) happens(e *Event) {
	if e.Type != EventConnectRequest {
		if c, ok := e.ID.Context.(*Conn); ok {
			c.happens(e)
		} else if e.Type == EventDeviceRemoval {
			l.lose(e.Err)
		}
		return
	}
	e.ID.Context = newConn()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, e)
	l.start()
}

// start gives requests a goroutine each, as long as there is room. The caller has the lock.
func (l *Listener) start() {
	for l.ctx.Err() == nil && len(l.requests) > 0 && l.making < l.cfg.Backlog {
		e := l.requests[0]
		l.requests = l.requests[1:]
		l.making++
		l.tasks.Go(func() {
			c := e.ID.Context.(*Conn)
			c.id, c.private = e.ID, e.Param.PrivateData
			if err := l.accept(c); err != nil {
				c.abandon()
				l.taken()
				return
			}
			l.ready <- c
		})
	}
	l.makeRoom()
}

// makeRoom ends half-open connections in favour of requests that wait, the oldest first: who sends
// requests and nothing else does not keep a listener shut. The caller has the lock.
func (l *Listener) makeRoom() {
	for l.ctx.Err() == nil && len(l.requests) > l.leaving && len(l.halfOpen) > 0 {
		oldest := l.halfOpen[0]
		if left := halfOpenFull - time.Since(oldest.since); left > 0 {
			if l.room == nil {
				l.room = time.AfterFunc(left, func() {
					l.mu.Lock()
					defer l.mu.Unlock()
					l.room = nil
					l.start()
				})
			}
			return
		}
		oldest.end()
		l.halfOpen = l.halfOpen[1:]
		l.leaving++
	}
}

// lastWord waits until the peer says that it is ready.
func (l *Listener) lastWord(c *Conn) error {
	ctx, end := context.WithTimeout(l.ctx, halfOpenMost)
	defer end()
	h := &halfOpen{time.Now(), end}
	l.mu.Lock()
	l.halfOpen = append(l.halfOpen, h)
	l.makeRoom()
	l.mu.Unlock()
	_, err := c.await(ctx, EventEstablished)
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.halfOpen, h); i >= 0 {
		l.halfOpen = slices.Delete(l.halfOpen, i, i+1)
	} else {
		l.leaving--
	}
	return err
}

// taken makes room for a request.
func (l *Listener) taken() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.making--
	l.start()
}

// accept makes a connection of a request. If it cannot be, the peer is refused.
func (l *Listener) accept(c *Conn) error {
	param := l.cfg.Param
	if l.cfg.Decide != nil {
		reply, err := l.cfg.Decide(c.id.PeerAddr(), c.private)
		if err != nil {
			return errors.Join(err, c.id.Reject(reply))
		}
		p := defaultParam(param)
		p.PrivateData = reply
		param = &p
	}
	if err := c.build(&l.cfg.ConnConfig); err != nil {
		return errors.Join(err, c.id.Reject(nil))
	}
	if err := c.id.Accept(c.told(param)); err != nil {
		return err
	}
	return l.lastWord(c)
}

// Accept returns the next connection, and waits for one if need be. The error is ctx's, or
// ErrClosed, or matches ErrUnreachable if the device that it listens on is gone, of several the
// last one.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	select {
	case c := <-l.ready:
		l.taken()
		return c, nil
	case <-ctx.Done():
		return nil, fail("Accept", ctx.Err())
	case <-l.lost.Done():
		if l.ctx.Err() == nil {
			return nil, fail("Accept", context.Cause(l.lost))
		}
		return nil, fail("Accept", fmt.Errorf("listener: %w", ErrClosed))
	}
}

// Close ends the listener. Connections that Accept has returned live on; others, and requests, are
// refused or ended. A second Close does nothing.
func (l *Listener) Close() error {
	if l.ctx.Err() != nil {
		return nil
	}
	l.end()
	err := l.id.Close()
	l.mu.Lock()
	if l.room != nil {
		l.room.Stop()
	}
	requests := l.requests
	l.requests = nil
	l.mu.Unlock()
	for _, e := range requests {
		e.ID.Close()
	}
	l.tasks.Wait()
	for {
		select {
		case c := <-l.ready:
			c.abandon()
		default:
			return fail("Close", err)
		}
	}
}
