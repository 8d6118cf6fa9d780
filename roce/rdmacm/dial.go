package rdmacm

// Dial: from a text to a connection.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Dial connects to a listener: "10.0.0.2:7471", "[fe80::1%eth0]:7471", "host:7471", "host:http".
// cfg may be nil. It returns when both queue pairs are ready, or when ctx ends. The error is ctx's;
// or a *RejectedError if the peer refuses; or matches ErrUnreachable if there is no route, or no
// answer for a minute, or for six from a peer whose host asks for time because its program does not
// answer (both also match syscall.ETIMEDOUT); or ErrInvalid, if it is the address or cfg that is
// wrong. Of a host with several addresses one is tried after the other, each for its
// part of the time until ctx's deadline; the error is that of all of them.
func Dial(ctx context.Context, address string, cfg *ConnConfig) (*Conn, error) {
	if cfg == nil {
		cfg = new(ConnConfig)
	}
	addrs, err := lookup(ctx, address)
	if err != nil {
		return nil, fail("Dial "+address, errors.Join(err, cfg.giveUp()))
	}
	if cfg.Bound != nil {
		addrs = addrs[:1]
	}
	var errs []error
	for i, addr := range addrs {
		c, err := dialInTurn(ctx, addr, cfg, len(addrs)-i)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fail("Dial "+address, errors.Join(append(errs, cfg.giveUp())...))
}

// giveUp closes the ID that nothing has become of. One that was taken is for its taker to close.
func (cfg *ConnConfig) giveUp() error {
	if cfg.Bound == nil || cfg.Bound.take(false) != nil {
		return nil
	}
	return cfg.Bound.Close()
}

// dialInTurn connects to one address, in its part of the time if others are to be tried after it.
func dialInTurn(ctx context.Context, addr netip.AddrPort, cfg *ConnConfig, left int) (*Conn, error) {
	if end, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, turn(time.Until(end), left))
		defer cancel()
	}
	return dial(ctx, addr, cfg)
}

// minTurn is how long an address is tried at least, if there is so much time. Package net: 2 s.
const minTurn = 2 * time.Second

// turn is how long the next one of so many addresses is tried: a name may have one that is silent,
// such as one of IPv6 where only IPv4 gets through.
func turn(remains time.Duration, left int) time.Duration {
	return min(max(remains/time.Duration(left), minTurn), remains)
}

// lookup is what a host's name stands for. A host that is "" stands for all addresses.
func lookup(ctx context.Context, address string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, fmt.Errorf("%w: port %q, want a number of 16 bits or the name of a service: %w",
			ErrInvalid, service, err)
	}
	addrs := []netip.Addr{netip.IPv6Unspecified()}
	if host != "" {
		if addrs, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
	}
	var list []netip.AddrPort
	for _, a := range addrs {
		list = append(list, netip.AddrPortFrom(a.Unmap(), uint16(port)))
	}
	return list, nil
}

// dial connects to one address.
func dial(ctx context.Context, addr netip.AddrPort, cfg *ConnConfig) (c *Conn, err error) {
	c = newConn()
	if c.ch, err = NewEventChannel(&cfg.Config); err != nil {
		return nil, err
	}
	c.ch.sink = c.happens
	if c.id, err = c.ch.takeID(cfg.Bound); err != nil {
		return nil, errors.Join(err, c.ch.Close())
	}
	if err = c.connect(ctx, addr, cfg); err != nil {
		return nil, errors.Join(err, c.abandon())
	}
	return c, nil
}

func (c *Conn) connect(ctx context.Context, addr netip.AddrPort, cfg *ConnConfig) error {
	if err := c.id.configure(cfg); err != nil {
		return err
	}
	var src netip.AddrPort
	if cfg.Local.IsValid() {
		src = netip.AddrPortFrom(cfg.Local, 0)
	}
	timeout := resolveTime
	if end, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(end), time.Nanosecond))
	}
	if err := c.id.ResolveAddr(src, addr, timeout); err != nil {
		return err
	}
	if _, err := c.await(ctx, EventAddrResolved); err != nil {
		return err
	}
	if err := c.id.ResolveRoute(timeout); err != nil {
		return err
	}
	if _, err := c.await(ctx, EventRouteResolved); err != nil {
		return err
	}
	if err := c.build(cfg); err != nil {
		return err
	}
	if err := c.id.Connect(c.told(cfg.Param)); err != nil {
		return err
	}
	e, err := c.await(ctx, EventEstablished)
	if err == nil {
		c.private = e.Param.PrivateData
	}
	return err
}

// takeID makes the ID of a Dial or Listen, or takes the one that the application has made.
func (ch *EventChannel) takeID(bound *ID) (id *ID, err error) {
	if id = bound; id == nil {
		id, err = ch.CreateID(PSTCP)
	} else if id.space != PSTCP {
		err = fmt.Errorf("%w: ConnConfig.Bound is of %v, want RDMA_PS_TCP", ErrInvalid, id.space)
	}
	if err == nil {
		err = id.take(true)
	}
	if err == nil && bound != nil {
		err = id.Migrate(ch)
	}
	if err != nil {
		return nil, err
	}
	return id, nil
}

// take has the ID be that of a Dial or Listen from now on, or only looks whether it could be: it
// may not be another one's, who would wait for its events in vain.
func (id *ID) take(now bool) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.parts {
		return fmt.Errorf("%w: ConnConfig.Bound is another Dial's or Listen's", ErrBusy)
	}
	id.parts = now
	return nil
}

// configure sets the ID's options.
func (id *ID) configure(cfg *ConnConfig) error {
	if err := id.SetTOS(cfg.TOS); err != nil {
		return err
	}
	return id.SetAckTimeout(cfg.AckTimeout)
}
