package rdmacm

// Listen: connections as they come.
//
// Stages: making a listener; a request, its turn, and the goroutine that makes a connection of it,
// so that a slow peer delays nobody; peers that never say that they are ready; handing connections
// out; the end.

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/goroce/goroce/internal/fair"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// ListenConfig says how connections are taken. The zero value is right for most uses.
type ListenConfig struct {
	ConnConfig // Local does not count

	// Backlog is how many connections may be there that Accept has not returned: those that are
	// being made, and those that wait; 0 is 128. On top of that 4096 requests wait, or Backlog if
	// that is more. What comes on top of these is dropped, and repeated by its sender.
	//
	// Both kinds of places are shared among the addresses that requests come from, and with IPv6
	// first among the /64s: an address that has fewer than another gets the oldest of that one's
	// requests, or of its connections that wait for their peer's last word, whose peer is refused.
	// A connection that waits for Accept is not asked back; places that become free go to one
	// address after the other. If others wait, a peer's last word is waited for a second, else for
	// 70 s.
	Backlog int

	// Decide, if not nil, is asked whether a request is accepted: by whom it is, and what it says
	// (MaxConnectData bytes). reply is the private data of the answer. An error refuses the
	// request. Several goroutines may ask at a time.
	Decide func(from netip.AddrPort, says []byte) (reply []byte, err error)
}

// What waits at a listener by default. A connection that is being made has a queue pair and what
// Prepare gives it; a request has next to nothing.
const (
	defaultBacklog = 128
	minRequests    = 4096
)

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
	ready *roce.EventSource[*arrival] // established; nil: the device is gone

	closed sync.Once

	mu       sync.Mutex
	requests fair.Turns[*arrival]  // that have no goroutine yet
	places   fair.Places[*arrival] // of those that are being made, or wait for Accept
	halfOpen list.List             // of these, those that wait for their peer, the oldest first
	leaving  int                   // connections that have lost their place and are not yet gone
	full     time.Duration         // halfOpenFull
	room     *time.Timer           // looks again whether one is to lose it; nil: none is due
}

// arrival is a request, and the connection that becomes of it, until Accept returns that.
type arrival struct {
	*Conn
	from  wire.GID
	turn  *fair.Turn[*arrival]  // while it waits
	place *fair.Place[*arrival] // afterwards, until Accept or until another address needs it
	// While it waits for the peer (RTU), or for the way to it to be found:
	since time.Time
	end   context.CancelFunc
	at    *list.Element // of halfOpen
}

// How long a peer may take for its last word. It comes at once, or the answer that it is for is
// repeated after 4.3 s, 15 times with the usual parameters; a peer may ask for more time than that.
const (
	halfOpenMost = 70 * time.Second
	halfOpenFull = time.Second // when others wait
)

// Listen listens on an address and port: "10.0.0.2:7471", "[::1]:7471", "localhost:0", or ":7471"
// for all addresses (see ID.Listen). cfg may be nil. ErrInvalid, ErrBusy if the port or the address
// is in use.
func Listen(ctx context.Context, address string, cfg *ListenConfig) (*Listener, error) {
	l := &Listener{full: halfOpenFull}
	if cfg != nil {
		l.cfg = *cfg
	}
	if l.cfg.Backlog <= 0 {
		l.cfg.Backlog = defaultBacklog
	}
	if err := l.open(ctx, address); err != nil {
		return nil, fail("Listen "+address, errors.Join(err, l.cfg.giveUp()))
	}
	return l, nil
}

func (l *Listener) open(ctx context.Context, address string) (err error) {
	addr := []netip.AddrPort{{}}
	if l.cfg.Bound == nil {
		if addr, err = lookup(ctx, address); err != nil {
			return err
		}
	}
	if l.ch, err = NewEventChannel(&l.cfg.Config); err != nil {
		return err
	}
	l.ch.sink, l.ch.born, l.ch.unborn = l.happens, nil, nil
	l.ready = roce.NewEventSource[*arrival]()
	l.ctx, l.end = context.WithCancel(context.Background())
	l.lost, l.lose = context.WithCancelCause(l.ctx)
	if l.id, err = l.ch.takeID(l.cfg.Bound); err != nil {
		return err
	}
	err = l.id.configure(&l.cfg.ConnConfig)
	if err == nil && l.cfg.Bound == nil {
		err = l.id.BindAddr(addr[0])
	}
	if err == nil {
		err = l.id.Listen(max(l.cfg.Backlog, minRequests))
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
// connections, of which those that have not had their turn are gone.
func (l *Listener) happens(e *Event) {
	a, ok := e.ID.Context.(*arrival)
	switch {
	case e.Type == EventConnectRequest:
		a = &arrival{Conn: newConn(), from: e.ID.path.Remote}
		a.id, a.private = e.ID, e.Param.PrivateData
		e.ID.Context = a
		l.arrives(a)
	case ok:
		a.happens(e)
		l.mu.Lock()
		defer l.mu.Unlock()
		if a.turn != nil && l.ctx.Err() == nil {
			a.turn.Leave()
			a.turn = nil
			l.tasks.Go(func() { e.ID.Close() })
		}
	case e.Type == EventDeviceRemoval:
		l.lose(e.Err)
		l.ready.Put(nil)
	}
}

// arrives lets a request wait for its turn, or has it at once if there is room, or if another
// address has more connections than its share.
func (l *Listener) arrives(a *arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.turn = l.requests.Join(a.from, a)
	l.start()
	if a.turn == nil || l.ctx.Err() != nil || l.leaving >= l.cfg.Backlog {
		return
	}
	if other, ok := l.places.Gives(a.from); ok {
		a.turn.Leave()
		l.displace(other)
		l.make(a)
	}
}

// start has requests have their turn as long as there is room. The caller has the lock.
func (l *Listener) start() {
	for l.ctx.Err() == nil && l.places.Len() < l.cfg.Backlog {
		a, ok := l.requests.Next()
		if !ok {
			return
		}
		l.make(a)
	}
	l.makeRoom()
}

// make gives a request a place and a goroutine, that makes a connection of it. The caller has the
// lock.
func (l *Listener) make(a *arrival) {
	a.turn, a.place = nil, l.places.Take(a.from, a)
	a.place.Keep()
	l.tasks.Go(func() {
		if err := l.accept(a); err != nil {
			a.abandon()
			l.left(a)
			return
		}
		l.ready.Put(a)
	})
}

// makeRoom ends connections that have waited for their peer too long for the requests that wait,
// the oldest first of addresses that have their share of the places, or more. The caller has the
// lock.
func (l *Listener) makeRoom() {
	for l.ctx.Err() == nil && l.requests.Len() > 0 && l.halfOpen.Len() > 0 && l.leaving < l.cfg.Backlog {
		oldest := l.oldest()
		if oldest == nil {
			return
		}
		if left := l.full - time.Since(oldest.since); left > 0 {
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
		l.displace(oldest)
		if a, ok := l.requests.Next(); ok {
			l.make(a)
		}
	}
}

// oldest is the connection that has waited for its peer for longest, of those whose addresses have
// their share of the places; nil if there is none. The caller has the lock.
func (l *Listener) oldest() *arrival {
	for at := l.halfOpen.Front(); at != nil; at = at.Next() {
		if a := at.Value.(*arrival); a.place.AboveShare() {
			return a
		}
	}
	return nil
}

// displace ends a connection that waits for its peer, and takes its place. The caller has the lock.
func (l *Listener) displace(a *arrival) {
	a.end()
	l.halfOpen.Remove(a.at)
	a.place.GiveBack()
	a.place = nil
	l.leaving++
}

// errDisplaced is why a connection is given up whose place another address needs.
var errDisplaced = errors.New("the peer did not say that it is ready, and others wait")

// meet sends the peer the answer, and waits until it says that it is ready. That may take longer
// than others can wait: also the way to it, if its link address has to be found.
func (l *Listener) meet(a *arrival, param *ConnParam) error {
	ctx, end := context.WithTimeout(l.ctx, halfOpenMost)
	defer end()
	l.mu.Lock()
	a.since, a.end = time.Now(), end
	a.at = l.halfOpen.PushBack(a)
	a.place.Offer()
	l.makeRoom()
	l.mu.Unlock()
	err := a.id.acceptIn(ctx, param)
	if err == nil {
		_, err = a.await(ctx, EventEstablished)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.place == nil {
		return errors.Join(err, errDisplaced)
	}
	l.halfOpen.Remove(a.at)
	a.place.Keep()
	return err
}

// left makes room for a request: a connection has come to nothing, or has been taken.
func (l *Listener) left(a *arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.place == nil {
		l.leaving--
	}
	a.place.GiveBack()
	l.start()
}

// accept makes a connection of a request. If it cannot be, the peer is refused.
func (l *Listener) accept(a *arrival) error {
	param := l.cfg.Param
	if l.cfg.Decide != nil {
		reply, err := l.cfg.Decide(a.id.PeerAddr(), a.private)
		if err != nil {
			return errors.Join(err, a.id.Reject(reply))
		}
		p := defaultParam(param)
		p.PrivateData = reply
		param = &p
	}
	if err := a.build(&l.cfg.ConnConfig); err != nil {
		return errors.Join(err, a.id.Reject(nil))
	}
	return l.meet(a, a.told(param))
}

// Accept returns the next connection, and waits for one if need be. The error is ctx's, or
// ErrClosed, or matches ErrUnreachable if the device that it listens on is gone, of several the
// last one.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	for {
		if c, err := l.TryAccept(); err != syscall.EAGAIN {
			return c, err
		}
		select {
		case <-l.ready.Queue().Ready():
		case <-ctx.Done():
			return nil, fail("Accept", ctx.Err())
		case <-l.ctx.Done():
		}
	}
}

// TryAccept is an Accept that does not wait: the error is syscall.EAGAIN if there is no connection.
func (l *Listener) TryAccept() (*Conn, error) {
	if l.ctx.Err() != nil {
		return nil, fail("Accept", fmt.Errorf("listener: %w", ErrClosed))
	}
	a, ok := l.ready.Queue().TryGet()
	switch {
	case !ok:
		return nil, syscall.EAGAIN
	case a == nil:
		l.ready.Put(nil) // for the others
		return nil, fail("Accept", context.Cause(l.lost))
	}
	l.left(a)
	return a.Conn, nil
}

// FD is a file descriptor that is readable while TryAccept would not say EAGAIN, as
// roce.EventQueue.FD is while there are events. Its errors are that one's.
func (l *Listener) FD() (int, error) { return l.ready.Queue().FD() }

// Close ends the listener. Connections that Accept has returned live on; others, and requests, are
// refused or ended. A second Close does nothing but wait for the first, so that the device can be
// closed then. Decide, Setup and Prepare must not call it.
func (l *Listener) Close() (err error) {
	l.closed.Do(func() { err = l.close() })
	return err
}

func (l *Listener) close() error {
	l.end()
	err := l.id.Close()
	l.mu.Lock()
	if l.room != nil {
		l.room.Stop()
	}
	var refused []*arrival
	for a, ok := l.requests.Next(); ok; a, ok = l.requests.Next() {
		refused = append(refused, a)
	}
	l.mu.Unlock()
	for _, a := range refused {
		a.id.Close()
	}
	l.tasks.Wait()
	for a, ok := l.ready.Queue().TryGet(); ok; a, ok = l.ready.Queue().TryGet() {
		if a != nil {
			a.abandon()
		}
	}
	l.ready.Close()
	return fail("Close", err)
}
