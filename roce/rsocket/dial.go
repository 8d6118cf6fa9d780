package rsocket

// Dialing and listening: connections are made by the connection manager, and the connection data of
// the stream are its private data (section 8).

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

// Options say how connections are made, and what they are like. The zero Options are right where
// nothing else of the process uses the addresses.
type Options struct {
	Config
	// Devices, Kind and Open are which devices are used, and QP1 is their queue pair 1 if that is
	// elsewhere: see rdmacm.Config.
	Devices []*roce.Device
	Kind    string
	Open    func(addr netip.Addr) (*roce.Device, error)
	QP1     func(dev *roce.Device) (rdmacm.QP1, error)
	// Local is the address that Dial connects from; the zero Addr: the system chooses. On loopback
	// Dial takes another one of 127.0.0.0/8 if the system's choice is another process's.
	Local netip.Addr
	TOS   uint8 // IPv4 TOS or IPv6 traffic class
	// Backlog is how many connections may wait for Accept; 0 is 128.
	Backlog int
	// Accepting, if not nil, is asked for the Config of each connection that a Listener is about to
	// make, in place of the listener's. It may wait, but no longer than until the listener is to be
	// closed. Several goroutines may call it.
	Accepting func() Config
}

// Dial connects to a listener, which may be a program that uses rsocket(7): "10.0.0.2:7471",
// "[fe80::1%eth0]:7471", "host:7471". The errors are those of rdmacm.Dial, in a *net.OpError that
// says whether it is a Timeout; ErrProtocol if what answers is no rsocket. Several goroutines may
// dial.
func Dial(ctx context.Context, address string) (*Conn, error) {
	return (&Dialer{}).Dial(ctx, address)
}

// Dialer is a Dial with options. It may be used by several goroutines.
type Dialer struct{ Options }

// Dial is the function Dial with the dialer's options.
func (d *Dialer) Dial(ctx context.Context, address string) (*Conn, error) {
	cfg, err := d.Config.filled()
	if err != nil {
		return nil, err
	}
	m := &maker{cfg: cfg}
	c, err := m.dial(ctx, address, m.connConfig(&d.Options))
	if errors.Is(err, syscall.EADDRINUSE) && !d.Local.IsValid() && d.Devices == nil {
		c, err = d.dialBeside(ctx, m, address, err)
	}
	return c, opError("dial", nil, text(address), err)
}

// loopbacks is how many addresses of 127.0.0.0/8 are tried beside the peer's.
const loopbacks = 32

// dialBeside dials from another address, as the own one is another process's: on loopback, where
// all are this machine's, from the next one that is free. busy is what was said of the own one.
func (d *Dialer) dialBeside(ctx context.Context, m *maker, address string, busy error) (*Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	if host == "localhost" {
		host = "127.0.0.1"
	}
	o := d.Options
	o.Local, _ = netip.ParseAddr(host)
	for range loopbacks {
		if o.Local = o.Local.Next(); !o.Local.Is4() || !o.Local.IsLoopback() {
			break
		}
		if c, err := m.dial(ctx, address, m.connConfig(&o)); !errors.Is(err, syscall.EADDRINUSE) {
			return c, err
		}
	}
	return nil, fmt.Errorf("%w; Dialer.Local names another address of this machine", busy)
}

func (m *maker) dial(ctx context.Context, address string, cfg *rdmacm.ConnConfig) (*Conn, error) {
	below, err := rdmacm.Dial(ctx, address, cfg)
	if err != nil {
		return nil, err
	}
	return m.finish(ctx, below)
}

// DialContext is Dial in the form that http.Transport.DialContext has. network is not looked at.
func (d *Dialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	c, err := d.Dial(ctx, address)
	if err != nil {
		return nil, err // not a nil *Conn
	}
	return c, nil
}

// text is an address that was not looked up.
type text string

func (text) Network() string  { return network }
func (t text) String() string { return string(t) }

// Listener takes connections. Its methods may be called from any goroutine.
type Listener struct {
	m     *maker
	below *rdmacm.Listener
}

var _ net.Listener = (*Listener)(nil)

// Listen listens on an address and port: "10.0.0.2:7471", "localhost:0", or ":7471" for all
// addresses. options may be nil. The errors are those of rdmacm.Listen, in a *net.OpError:
// syscall.EADDRINUSE if the port is taken, EADDRNOTAVAIL if the address is not this machine's.
func Listen(ctx context.Context, address string, options *Options) (*Listener, error) {
	if options == nil {
		options = &Options{}
	}
	cfg, err := options.Config.filled()
	if err != nil {
		return nil, err
	}
	l := &Listener{m: &maker{cfg, options.Accepting}}
	l.below, err = rdmacm.Listen(ctx, address, &rdmacm.ListenConfig{ConnConfig: *l.m.connConfig(options),
		Backlog: options.Backlog})
	if err != nil {
		return nil, opError("listen", nil, text(address), err)
	}
	return l, nil
}

// Accept waits for the next connection. The error is that of AcceptContext.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptContext(context.Background())
	if err != nil {
		return nil, err // not a nil *Conn
	}
	return c, nil
}

// TryAccept is an Accept that does not wait: the error is syscall.EAGAIN if there is no connection.
func (l *Listener) TryAccept() (*Conn, error) {
	gone, end := context.WithCancel(context.Background())
	end()
	return l.take(gone, l.below.TryAccept)
}

// FD is a file descriptor for poll, select and epoll, which is readable while TryAccept would not
// say EAGAIN, with an edge for each connection. Only ask whether it is readable. It is made by the
// first call, and closed by Close. ErrNotSupported where the system is not Linux.
func (l *Listener) FD() (int, error) {
	fd, err := l.below.FD()
	return fd, opError("poll", nil, l.Addr(), known(err))
}

// AcceptContext is Accept until ctx ends. Whoever is no rsocket is sent away. The error is a
// *net.OpError of ctx's, of net.ErrClosed, or of what rdmacm.Listener.Accept says.
func (l *Listener) AcceptContext(ctx context.Context) (*Conn, error) {
	return l.take(ctx, func() (*rdmacm.Conn, error) { return l.below.Accept(ctx) })
}

// known is an error in package net's words.
func known(err error) error {
	if errors.Is(err, rdmacm.ErrClosed) {
		return net.ErrClosed
	}
	return err
}

// take takes the next connection that is an rsocket's. ctx bounds what is left to say to others.
func (l *Listener) take(ctx context.Context, next func() (*rdmacm.Conn, error)) (*Conn, error) {
	for {
		below, err := next()
		switch {
		case err == syscall.EAGAIN:
			return nil, err
		case err != nil:
			return nil, opError("accept", nil, l.Addr(), known(err))
		}
		if c, err := l.m.finish(ctx, below); err == nil {
			return c, nil
		}
	}
}

// Addr is the address and port.
func (l *Listener) Addr() net.Addr { return addrOf(l.below.Addr()) }

// Close ends the listener. Calls of Accept return with net.ErrClosed; connections live on. A second
// Close does nothing but wait for the first.
func (l *Listener) Close() error { return l.below.Close() }

// Addr is the address of an end.
type Addr struct{ net.TCPAddr }

const network = "rsocket"

// Network is "rsocket".
func (a *Addr) Network() string { return network }

var _ net.Addr = (*Addr)(nil)

func addrOf(a netip.AddrPort) net.Addr { return &Addr{*net.TCPAddrFromAddrPort(a)} }

// maker makes connections in the steps that the connection manager asks for: Setup before there is
// a queue pair, Prepare with it; finish when it is connected.
type maker struct {
	cfg   Config
	fresh func() Config // Options.Accepting, of a listener
}

func (m *maker) connConfig(o *Options) *rdmacm.ConnConfig {
	return &rdmacm.ConnConfig{Config: rdmacm.Config{Devices: o.Devices, Kind: o.Kind, Open: o.Open, QP1: o.QP1},
		Local: o.Local, TOS: o.TOS,
		Param: &rdmacm.ConnParam{FlowControl: true, RetryCount: 7, RNRRetryCount: 7},
		Setup: m.setup, Prepare: prepare, Ended: ended}
}

// setup makes all but the queue pair, which is given back when the connection below ends, or never
// comes to be.
func (m *maker) setup(below *rdmacm.Conn) (*roce.PD, roce.QPInitAttr, error) {
	cfg := m.cfg
	if m.fresh != nil {
		var err error
		c := m.fresh()
		if cfg, err = c.filled(); err != nil {
			return nil, roce.QPInitAttr{}, err
		}
	}
	c, attr, err := newConn(below.Device(), cfg)
	if err != nil {
		return nil, attr, err
	}
	below.AtClose(c.free)
	return c.pd, attr, nil
}

// prepare posts the receives, and says what the other end is told. A dialler that is no rsocket is
// refused.
func prepare(below *rdmacm.Conn) error {
	c := below.Context.(*Conn)
	if says := below.PrivateData(); says != nil {
		if _, err := stream.ParseConnData(says); err != nil {
			return err
		}
	}
	below.Say(c.end.ConnData().Marshal())
	return c.take(below.QP())
}

// ended is told that the connection below is over.
func ended(below *rdmacm.Conn) {
	c := below.Context.(*Conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life.on(goesBelow)
	c.wakeAll()
}

// finish makes of a connected queue pair a connection. If that fails, ctx bounds what is left to
// say to the peer.
func (m *maker) finish(ctx context.Context, below *rdmacm.Conn) (*Conn, error) {
	c := below.Context.(*Conn)
	c.local, c.remote = addrOf(below.LocalAddr()), addrOf(below.RemoteAddr())
	c.hangUp = func(by time.Time) error { return hangUp(context.Background(), below, by) }
	if err := c.start(below.PrivateData()); err != nil {
		return nil, errors.Join(fmt.Errorf("%v: %w", c.remote, err), hangUp(ctx, below, c.lingers()))
	}
	return c, nil
}

// hangUp ends the connection below until then, or until ctx ends. Of the stream nothing is lost if
// the peer's connection manager does not answer.
func hangUp(ctx context.Context, below *rdmacm.Conn, by time.Time) error {
	ctx, end := context.WithDeadline(ctx, by)
	defer end()
	if err := below.Close(ctx); !errors.Is(err, rdmacm.ErrIncomplete) {
		return err
	}
	return nil
}
