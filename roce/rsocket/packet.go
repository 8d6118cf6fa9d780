package rsocket

// Datagrams: a net.PacketConn as the SOCK_DGRAM of librdmacm's rsockets (section 11).
// Stages: a UDP socket of the kernel has the port → a datagram to a new address goes over that,
// with our queue pair's number → the answer has the other's, and datagrams go from queue pair to
// queue pair (rail.go) → what comes, either way, waits in one queue for ReadFrom → Close.

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

// PacketConn sends and receives datagrams, which may be lost, come twice, or in another order, as
// those of UDP. All methods may be called from any goroutine.
type PacketConn struct {
	options Options
	udp     *net.UDPConn
	came    *roce.EventSource[packet]
	limits  [2]limit // of reads and writes

	ctx   context.Context // ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	opens  sync.Mutex // who opens a rail has it, before mu
	mu     sync.Mutex
	rails  map[netip.Addr]*rail // by our address
	peers  map[netip.AddrPort]*peer
	asked  int            // datagrams in came that the UDP socket has brought
	closed bool           // Close was called,
	seeks  sync.WaitGroup // and waits for ways that are sought, as datagrams wait for these

	again time.Duration // askAgain, but for tests
}

var _ net.PacketConn = (*PacketConn)(nil)

// Bounds: of what others can make this end keep.
const (
	maxPeers = 4096 // that this end has sent to lately
	maxAsked = 256  // datagrams of the UDP socket that wait for ReadFrom
	maxParks = 8    // datagrams that wait for a way to be found

	maxDatagram = stream.MaxAsk + 4096 + 1 // bytes: too long for a packet
)

// askAgain is after what time a datagram asks again for the other end's queue pair: that may be
// another process's by now, of which nothing is heard as long as datagrams go to the old one's. So
// who begins anew loses a second's datagrams, and one a second takes the longer way.
const askAgain = time.Second

// packet is a datagram that has come. Its bytes are of a slot of a rail, to which they go back, or
// of nobody else.
type packet struct {
	from netip.AddrPort
	data []byte
	rail *rail
	slot int
}

// ListenPacket makes a socket for datagrams at an address and port of this machine:
// "10.0.0.2:7471", or ":0". options may be nil; Local, TOS and Backlog do not count. The errors are
// those of net.ListenPacket: the port is one of UDP.
func ListenPacket(ctx context.Context, address string, options *Options) (*PacketConn, error) {
	if options == nil {
		options = &Options{}
	}
	cfg, err := options.Config.filled()
	if err != nil {
		return nil, err
	}
	udp, err := new(net.ListenConfig).ListenPacket(ctx, "udp", address)
	if err != nil {
		return nil, opError("listen", nil, text(address), err)
	}
	p := &PacketConn{options: *options, udp: udp.(*net.UDPConn), came: roce.NewEventSource[packet](),
		rails: map[netip.Addr]*rail{}, peers: map[netip.AddrPort]*peer{}, again: askAgain}
	p.options.Config = cfg
	p.ctx, p.end = context.WithCancel(context.Background())
	for i := range p.limits {
		p.limits[i].set(p.ctx, time.Time{})
	}
	p.tasks.Go(p.serve)
	return p, nil
}

// LocalAddr is the address and port.
func (p *PacketConn) LocalAddr() net.Addr { return addrOf(p.local()) }

func (p *PacketConn) local() netip.AddrPort {
	at := p.udp.LocalAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// ReadFrom takes the next datagram, and waits for one if need be. What of it does not fit into b is
// lost, as with UDP. The address is an *Addr.
func (p *PacketConn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		ctx := p.limits[reading].now()
		got, err := p.came.Queue().Get(ctx)
		switch {
		case err == nil:
			return p.take(b, got), addrOf(got.from), nil
		case p.ctx.Err() != nil:
			return 0, nil, opError("read", p.LocalAddr(), nil, net.ErrClosed)
		case context.Cause(ctx) != errMoved:
			return 0, nil, opError("read", p.LocalAddr(), nil, os.ErrDeadlineExceeded)
		}
	}
}

// TryReadFrom is a ReadFrom that does not wait: syscall.EAGAIN if there is no datagram.
func (p *PacketConn) TryReadFrom(b []byte) (int, netip.AddrPort, error) {
	got, ok := p.came.Queue().TryGet()
	switch {
	case ok:
		return p.take(b, got), got.from, nil
	case p.ctx.Err() != nil:
		return 0, netip.AddrPort{}, opError("read", p.LocalAddr(), nil, net.ErrClosed)
	}
	return 0, netip.AddrPort{}, syscall.EAGAIN
}

// take copies a datagram, and gives its place back.
func (p *PacketConn) take(b []byte, got packet) int {
	n := copy(b, got.data)
	if got.rail != nil {
		got.rail.receive(got.slot)
		return n
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked--
	return n
}

// FD is a file descriptor for poll, select and epoll, which is readable while there are datagrams,
// with an edge for each. Only ask whether it is readable. It is made by the first call, and closed
// by Close. ErrNotSupported where the system is not Linux.
func (p *PacketConn) FD() (int, error) {
	fd, err := p.came.Queue().FD()
	return fd, opError("poll", p.LocalAddr(), nil, known(err))
}

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (p *PacketConn) SetDeadline(t time.Time) error {
	p.limits[reading].set(p.ctx, t)
	p.limits[writing].set(p.ctx, t)
	return nil
}

// SetReadDeadline sets when ReadFrom fails with os.ErrDeadlineExceeded; the zero time is never.
func (p *PacketConn) SetReadDeadline(t time.Time) error {
	p.limits[reading].set(p.ctx, t)
	return nil
}

// SetWriteDeadline sets when WriteTo fails with os.ErrDeadlineExceeded; the zero time is never.
func (p *PacketConn) SetWriteDeadline(t time.Time) error {
	p.limits[writing].set(p.ctx, t)
	return nil
}

// Close ends the socket. Datagrams that were written have left: those for which there is no way yet
// are waited for, Config.Linger at most. Calls that wait return with net.ErrClosed, as does a
// second Close.
func (p *PacketConn) Close() error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if closed {
		return opError("close", p.LocalAddr(), nil, net.ErrClosed)
	}
	late := time.AfterFunc(p.options.Linger, p.end)
	p.seeks.Wait()
	late.Stop()
	p.end()
	errs := []error{p.udp.Close()}
	p.tasks.Wait()
	p.mu.Lock()
	for _, to := range p.peers {
		to.retire()
	}
	for _, r := range p.rails {
		errs = append(errs, r.close())
	}
	p.mu.Unlock()
	p.came.Remove(func(packet) bool { return true })
	p.came.Close()
	return opError("close", p.LocalAddr(), nil, errors.Join(errs...))
}

// serve takes what comes to the UDP socket: datagrams of those who do not know our queue pair, who
// are told, and the answers of those whom we have asked. Strangers make this end keep nothing but
// their datagrams.
func (p *PacketConn) serve() {
	b := make([]byte, maxDatagram)
	for {
		n, src, err := p.udp.ReadFromUDPAddrPort(b)
		if p.ctx.Err() != nil {
			return
		}
		ask, data, ok := stream.ParseAsk(b[:n])
		if err != nil || !ok || n == len(b) {
			continue
		}
		from := netip.AddrPortFrom(src.Addr().Unmap(), src.Port())
		if p.heard(from, ask.QPN); !ask.Data {
			continue
		}
		p.mu.Lock()
		if p.asked < maxAsked {
			p.asked++
			p.came.Put(packet{from: from, data: append([]byte(nil), data...)})
		}
		p.mu.Unlock()
		if r, err := p.railTo(from); err == nil {
			p.udp.WriteToUDPAddrPort(r.ask(false), src)
		}
	}
}

// railTo is the rail that datagrams to an address leave by. It asks the kernel's tables alone, and
// waits for nobody: strangers have it called.
func (p *PacketConn) railTo(to netip.AddrPort) (*rail, error) {
	at := p.local().Addr()
	if at.IsUnspecified() {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to)) // which sends nothing
		if err != nil {
			return nil, err
		}
		defer c.Close()
		at = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
	}
	return p.rail(at)
}

// way finds how to get to an address: an ID that has been resolved to it.
func (p *PacketConn) way(to netip.AddrPort) (*way, error) {
	cfg := (&maker{}).connConfig(&p.options).Config
	ch, err := rdmacm.NewEventChannel(&cfg)
	if err != nil {
		return nil, err
	}
	w := &way{ch: ch}
	if w.ID, err = ch.CreateID(rdmacm.PSUDP); err != nil {
		return nil, errors.Join(err, ch.Close())
	}
	var src netip.AddrPort
	if at := p.local().Addr(); !at.IsUnspecified() {
		src = netip.AddrPortFrom(at, 0)
	}
	err = w.ResolveAddr(src, to, 0)
	if err == nil {
		err = w.await(p.ctx)
	}
	if err == nil {
		err = w.ResolveRoute(0)
	}
	if err == nil {
		err = w.await(p.ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// way is an ID on a channel of its own.
type way struct {
	*rdmacm.ID
	ch *rdmacm.EventChannel
}

// await waits for the next event; one that tells of a failure is the error.
func (w *way) await(ctx context.Context) error {
	e, err := w.ch.Get(ctx)
	if err != nil {
		return err
	}
	return e.Err
}

func (w *way) Close() error { return errors.Join(w.ID.Close(), w.ch.Close()) }

// errMoved is why a wait is over whose deadline has changed.
var errMoved = errors.New("another deadline")

// A limit is when the calls of one side have to return.
type limit struct {
	mu  sync.Mutex
	ctx context.Context
	end context.CancelCauseFunc
	off context.CancelFunc
}

func (r *limit) set(within context.Context, t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx != nil {
		r.end(errMoved)
		r.off()
	}
	ctx, end := context.WithCancelCause(within)
	r.ctx, r.end, r.off = ctx, end, func() {}
	if !t.IsZero() {
		r.ctx, r.off = context.WithDeadline(ctx, t)
	}
}

func (r *limit) now() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ctx
}
