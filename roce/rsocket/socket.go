package rsocket

// A socket before it is a connection or a listener: what socket, bind, connect and listen are to a
// program that makes its connections in these steps, and without waiting.
// Stages: options → Bind, or none → Connect, and Conn when Done says so; or Listen → Close.

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/goroce/goroce/roce/rdmacm"
)

// Socket becomes a connection or a listener. Its zero value has the zero Options, and may be bound.
// What is set of its fields before a call counts for that and later ones. Its methods may be called
// from any goroutine; the fields are the application's until Connect or Listen.
//
// Errors are *net.OpError of what socket(7) says, as syscall.EINVAL, EISCONN or EALREADY: which
// call is right when is one table.
type Socket struct {
	Options
	ReuseAddr bool // SO_REUSEADDR: see rdmacm.ID.SetReuseAddr
	V6Only    bool // IPV6_V6ONLY: see rdmacm.ID.SetAFOnly

	mu    sync.Mutex
	stage stage
	ch    *rdmacm.EventChannel // of id
	id    *rdmacm.ID           // from Bind to Connect or Listen
	local net.Addr
	signs *signs
	done  chan struct{} // closed when it is known what came of Connect
	end   context.CancelFunc
	conn  *Conn
	err   error
}

// A stage is how far a Socket is.
type stage uint8

const (
	unbound stage = iota
	bound
	connecting
	decided // it is connected, or has failed
	spent   // Conn or Listen has taken what it was, or it was closed
	stages
)

// A request is a call that depends on the stage.
type request uint8

const (
	askBind request = iota
	askConnect
	askListen
	askConn
	requests
)

// denied is why a call cannot be made in a stage; nil: it can.
var denied = [stages][requests]error{
	unbound:    {askConn: syscall.ENOTCONN},
	bound:      {askBind: syscall.EINVAL, askConn: syscall.ENOTCONN},
	connecting: {syscall.EINVAL, syscall.EALREADY, syscall.EINVAL, syscall.EAGAIN},
	decided:    {askBind: syscall.EINVAL, askConnect: syscall.EISCONN, askListen: syscall.EINVAL},
	spent:      {net.ErrClosed, net.ErrClosed, net.ErrClosed, net.ErrClosed},
}

// Bind gives the socket a local address and port (rbind), as rdmacm.ID.BindAddr has it: port 0 is
// one that is free. syscall.EADDRINUSE, EADDRNOTAVAIL.
func (s *Socket) Bind(addr netip.AddrPort) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := denied[s.stage][askBind]
	if err == nil {
		err = s.bind(addr)
	}
	return opError("bind", nil, addrOf(addr), err)
}

func (s *Socket) bind(addr netip.AddrPort) (err error) {
	cfg := (&maker{}).connConfig(&s.Options).Config
	if s.ch, err = rdmacm.NewEventChannel(&cfg); err != nil {
		return err
	}
	if s.id, err = s.ch.CreateID(rdmacm.PSTCP); err == nil {
		if err = s.id.SetReuseAddr(s.ReuseAddr); err == nil && s.V6Only {
			err = s.id.SetAFOnly(true)
		}
		if err == nil {
			err = s.id.BindAddr(addr)
		}
	}
	if err != nil {
		s.unbind()
		return err
	}
	s.stage, s.local = bound, addrOf(s.id.LocalAddr())
	return nil
}

// unbind gives back what bind has made, and nobody has taken.
func (s *Socket) unbind() {
	if s.id != nil {
		s.id.Close()
	}
	if s.ch != nil {
		s.ch.Close()
	}
	s.id, s.ch = nil, nil
}

// LocalAddr is the address that Bind has given it (rgetsockname); nil if it was not called.
func (s *Socket) LocalAddr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.local
}

// Connect begins to connect (rconnect), and returns at once. The error says that it could not even
// be begun; what came of it is Conn's to say.
func (s *Socket) Connect(addr netip.AddrPort) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := denied[s.stage][askConnect]; err != nil {
		return opError("connect", s.local, addrOf(addr), err)
	}
	cfg, err := s.Config.filled()
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	done := s.ready()
	s.stage, s.end = connecting, end
	m := &maker{cfg: cfg}
	below := m.connConfig(&s.Options)
	below.Bound = s.id
	go func() {
		defer end()
		c, err := m.dial(ctx, addr.String(), below)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.id = nil // it was the connection's
		s.conn, s.err = c, opError("connect", s.local, addrOf(addr), err)
		if s.stage == connecting {
			s.stage = decided
		}
		if s.signs != nil {
			s.signs.show(s.decision(), false)
		}
		close(done)
	}()
	return nil
}

// decision is what a descriptor shows of a socket that is decided, as with TCP.
func (s *Socket) decision() Readiness {
	if s.err != nil {
		return Readable | Writable | Ended | HungUp
	}
	return Writable
}

// ready makes done. The caller has mu.
func (s *Socket) ready() chan struct{} {
	if s.done == nil {
		s.done = make(chan struct{})
	}
	return s.done
}

// Done is closed when it is known what came of Connect, so that Conn does not say EAGAIN.
func (s *Socket) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready()
}

// FD is a file descriptor that becomes writable when Done is closed, as that of TCP does, and hangs
// up as well if the connection could not be made. It goes to the Conn, and is the one of its FD
// from then on; else Close closes it. ErrNotSupported where the system is not Linux.
func (s *Socket) FD() (fd int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stage == spent {
		return -1, opError("poll", nil, s.local, net.ErrClosed)
	}
	if s.signs == nil {
		if s.signs, err = newSigns(); err != nil {
			return -1, opError("poll", nil, s.local, err)
		}
		if s.stage == decided {
			s.signs.show(s.decision(), false)
		}
	}
	return s.signs.fd(), nil
}

// Conn is the connection that Connect has made, which is the caller's; the socket has done its part
// then. syscall.EAGAIN as long as it is being made; if it could not be the error is that of Dial.
func (s *Socket) Conn() (*Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := denied[s.stage][askConn]
	switch {
	case err == syscall.EAGAIN:
		return nil, err
	case err != nil:
		return nil, opError("connect", nil, s.local, err)
	case s.err != nil:
		return nil, s.err
	}
	c := s.conn
	if s.signs != nil {
		c.mu.Lock()
		c.users++ // nobody else has it yet
		c.watch(s.signs)
		c.left()
		c.mu.Unlock()
	}
	s.stage, s.conn, s.signs = spent, nil, nil
	s.unbind()
	return c, nil
}

// Listen makes a listener of the socket (rlisten), which has done its part then; of one that was
// not bound, on all addresses and a port that is free. The errors are those of the function Listen.
func (s *Socket) Listen() (*Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := denied[s.stage][askListen]
	if err == nil && s.stage == unbound {
		err = s.bind(netip.AddrPortFrom(netip.IPv6Unspecified(), 0))
	}
	if err != nil {
		return nil, opError("listen", nil, s.local, err)
	}
	cfg, err := s.Config.filled()
	if err != nil {
		return nil, err
	}
	l := &Listener{m: &maker{cfg, s.Accepting}}
	below := l.m.connConfig(&s.Options)
	below.Bound = s.id
	l.below, err = rdmacm.Listen(context.Background(), "",
		&rdmacm.ListenConfig{ConnConfig: *below, Backlog: s.Backlog})
	s.id = nil // it is the listener's, or was closed
	s.close()
	if err != nil {
		return nil, opError("listen", nil, s.local, err)
	}
	return l, nil
}

// Close gives up what the socket is, has and is about to become. A second one does nothing, and nor
// does one after Conn or Listen.
func (s *Socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stage == connecting {
		s.stage = spent // no Conn takes it
		s.end()
		s.mu.Unlock()
		<-s.done
		s.mu.Lock()
	}
	conn := s.conn
	s.conn = nil
	s.close()
	if conn != nil {
		return conn.Close()
	}
	return nil
}

// close gives back what is no connection.
func (s *Socket) close() {
	s.stage = spent
	s.unbind()
	if s.signs != nil {
		s.signs.show(Readable|Writable|Ended|HungUp, false) // for who sleeps in poll
		s.signs.close()
		s.signs = nil
	}
}
