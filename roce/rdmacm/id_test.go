package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// TestReject: nobody listens, and an application that refuses, with data.
func TestReject(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		l := b.listener(PSTCP, 7471)
		lost := a.resolved(PSTCP, b.at(99))
		a.pair(lost)
		require.NoError(t, lost.Connect(nil))
		require.Equal(t, 8, a.next(EventRejected).Status)
		require.ErrorIs(t, lost.Disconnect(), ErrState)

		refused := a.resolved(PSTCP, b.at(7471))
		a.pair(refused)
		require.NoError(t, refused.Connect(nil))
		req := b.next(EventConnectRequest)
		require.ErrorIs(t, req.ID.Reject(make([]byte, MaxRejectData+1)), ErrInvalid)
		require.NoError(t, req.ID.Reject([]byte("full")))
		e := a.next(EventRejected)
		require.Equal(t, 28, e.Status)
		require.Len(t, e.Param.PrivateData, MaxRejectData)
		require.Equal(t, "full\x00", string(e.Param.PrivateData[:5]))
		require.ErrorIs(t, req.ID.Accept(nil), ErrState)
		require.NoError(t, req.ID.Close())

		// A request that nobody has taken is refused when its listener closes.
		late := a.resolved(PSTCP, b.at(7471))
		a.pair(late)
		require.NoError(t, late.Connect(nil))
		<-b.ch.Events().Ready()
		require.NoError(t, l.Close())
		require.Equal(t, EventRejected, a.next(EventRejected).Type)
		b.quiet()
	})
}

// TestOwnQueuePair: an ID without a queue pair, as a C library has it: the application makes its
// own ready with what InitQPAttr says.
func TestOwnQueuePair(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		b.listener(PSTCP, 7471)
		make := func(h *host) *roce.QP {
			q, err := h.pd.CreateQP(roce.QPInitAttr{SendCQ: h.cq, SQSigAll: true})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, q.Close()) })
			return q
		}
		raise := func(id *ID, q *roce.QP, states ...roce.QPState) {
			for _, s := range states {
				attr, mask, err := id.InitQPAttr(s)
				require.NoError(t, err)
				require.NoError(t, q.Modify(bg, &attr, mask), "%v", s)
			}
		}
		active := a.resolved(PSTCP, b.at(7471))
		_, _, err := active.InitQPAttr(roce.StateRTR)
		require.ErrorIs(t, err, ErrState)
		_, _, err = active.InitQPAttr(roce.StateErr)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorIs(t, active.Connect(nil), ErrInvalid)
		qa := make(a)
		raise(active, qa, roce.StateInit)
		require.NoError(t, active.Connect(&ConnParam{QPN: qa.QPN(), RetryCount: 7, RNRRetryCount: 7, ResponderResources: 1,
			InitiatorDepth: 1}))
		passive := b.next(EventConnectRequest).ID
		qb := make(b)
		raise(passive, qb, roce.StateInit, roce.StateRTR, roce.StateRTS)
		require.NoError(t, passive.Accept(&ConnParam{QPN: qb.QPN(), ResponderResources: 1, InitiatorDepth: 1, RNRRetryCount: 7}))
		a.next(EventConnectResponse)
		raise(active, qa, roce.StateInit, roce.StateRTR, roce.StateRTS)
		require.NoError(t, active.Establish())
		b.next(EventEstablished)
		message(t, a, b, qa, qb, "there")
		message(t, b, a, qb, qa, "back")
		require.NoError(t, passive.Disconnect())
		a.next(EventDisconnected)
		require.Equal(t, roce.StateRTS, qa.State()) // it is the application's
		require.NoError(t, active.Disconnect())
		b.next(EventDisconnected)
		require.NoError(t, passive.Close())
	})
}

// TestUC: an unreliable connection; a queue pair of another type than the peer's is refused.
func TestUC(t *testing.T) {
	if *onDevice != "" {
		t.Skip("librdmacm connects queue pairs of type RC")
	}
	overWires(t, func(t *testing.T, a, b *host) {
		b.listener(PSIB, 7471)
		active := a.resolved(PSIB, b.at(7471))
		attr := roce.QPInitAttr{Type: roce.UC, SendCQ: a.cq, SQSigAll: true}
		qa, err := active.CreateQP(a.pd, attr)
		require.NoError(t, err)
		require.NoError(t, active.Connect(&ConnParam{}))
		passive := b.next(EventConnectRequest).ID
		b.pair(passive) // RC
		require.ErrorContains(t, passive.Accept(nil), "the peer's queue pair is of type UC")
		require.NoError(t, passive.DestroyQP())
		attr.SendCQ = b.cq
		qb, err := passive.CreateQP(b.pd, attr)
		require.NoError(t, err)
		require.NoError(t, passive.Accept(nil))
		a.next(EventEstablished)
		b.next(EventEstablished)
		message(t, a, b, qa, qb, "unreliable")
		require.NoError(t, passive.Close())
		a.next(EventDisconnected)
	})
}

// TestMigrate: events go to the channel that the ID is on, those that nobody has taken too.
func TestMigrate(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		active, passive := connected(t, a, b)
		other, err := NewEventChannel(&Config{Devices: []*roce.Device{b.dev}})
		require.NoError(t, err)
		require.NoError(t, active.Disconnect())
		<-b.ch.Events().Ready()
		require.NoError(t, passive.Migrate(other))
		require.Same(t, other, passive.Channel())
		b.quiet()
		e, err := other.Get(bg)
		require.NoError(t, err)
		require.Equal(t, EventDisconnected, e.Type)
		require.ErrorIs(t, other.Close(), ErrBusy)
		require.NoError(t, passive.Close())
		require.ErrorIs(t, passive.Migrate(b.ch), ErrClosed)
		require.NoError(t, other.Close())
		require.NoError(t, other.Close())
		require.ErrorIs(t, active.Migrate(other), ErrClosed)
		_, err = other.Get(bg)
		require.ErrorIs(t, err, ErrClosed)
		_, err = other.CreateID(PSTCP)
		require.ErrorIs(t, err, ErrClosed)
		a.next(EventDisconnected)
	})
}

// TestMigrateRequests: a listener's requests that nobody has taken go with it, each before what
// else is told of its ID; and of one that its peer withdraws meanwhile nothing is told.
func TestMigrateRequests(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	children := make(chan *ID, 1)
	from, err := NewEventChannel(&Config{Devices: []*roce.Device{b.dev},
		Born: func(child, _ *ID) any { children <- child; return nil }})
	require.NoError(t, err)
	to, err := NewEventChannel(&Config{Devices: []*roce.Device{b.dev}})
	require.NoError(t, err)
	l, err := from.CreateID(PSTCP)
	require.NoError(t, err)
	require.NoError(t, l.BindAddr(b.at(99)))
	require.NoError(t, l.Listen(0))
	s := newStranger(t, a)
	asked := func(id uint32) *ID {
		s.request(b, 99, id)
		child := <-children
		l.mu.Lock() // until then its event is there
		defer l.mu.Unlock()
		return child
	}
	first := asked(1)
	first.mu.Lock()
	first.addressGone()
	first.mu.Unlock()
	second := asked(2)
	second.mu.Lock()
	done := make(chan error)
	go func() { done <- l.Migrate(to) }()
	until(func() bool { return to.count() == 2 }) // the listener, and the first
	second.happened(rejected, refusal(int(wire.CMRejTimeout), nil))
	second.mu.Unlock()
	require.NoError(t, <-done)
	for _, want := range []EventType{EventConnectRequest, EventAddrChange} {
		e, err := to.Get(bg)
		require.NoError(t, err)
		require.Equal(t, want, e.Type)
		require.Same(t, first, e.ID)
	}
	for _, ch := range []*EventChannel{from, to} {
		e, more := ch.Events().TryGet()
		require.False(t, more, "%v", e)
	}
	until(func() bool { return from.count() == 0 }) // the second is closed
	require.NoError(t, first.Close())
	require.NoError(t, l.Close())
	require.NoError(t, to.Close())
	require.NoError(t, from.Close())
}

// TestPorts: who may have a port beside whom.
func TestPorts(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		any4 := netip.AddrPortFrom(netip.IPv4Unspecified(), 7000)
		first := a.id(PSTCP)
		require.NoError(t, first.BindAddr(a.at(7000)))
		require.ErrorIs(t, a.id(PSTCP).BindAddr(a.at(7000)), ErrBusy)
		require.ErrorIs(t, a.id(PSTCP).BindAddr(any4), ErrBusy)
		require.NoError(t, a.id(PSUDP).BindAddr(a.at(7000))) // another space
		if *onDevice == "" {
			require.NoError(t, b.id(PSTCP).BindAddr(b.at(7000))) // another device
		}
		require.NoError(t, a.id(PSTCP).BindAddr(a.at(0)))      // any other port
		require.ErrorIs(t, first.BindAddr(a.at(1)), ErrState)  // a second time
		require.ErrorIs(t, first.SetReuseAddr(true), ErrState) // too late
		require.ErrorIs(t, first.SetAFOnly(true), ErrState)

		var sharers []*ID
		for range 2 {
			id := a.id(PSTCP)
			require.NoError(t, id.SetReuseAddr(true))
			require.NoError(t, id.BindAddr(a.at(7001)))
			sharers = append(sharers, id)
		}
		require.ErrorIs(t, sharers[0].Listen(0), ErrBusy)
		require.NoError(t, sharers[1].Close())
		require.NoError(t, sharers[0].Listen(0))
		late := a.id(PSTCP)
		require.NoError(t, late.SetReuseAddr(true))
		require.ErrorIs(t, late.BindAddr(a.at(7001)), ErrBusy)
		require.NoError(t, sharers[0].Close())
		require.NoError(t, late.BindAddr(a.at(7001)))

		six := a.id(PSTCP)
		require.NoError(t, six.SetAFOnly(true))
		require.NoError(t, six.BindAddr(netip.AddrPortFrom(netip.IPv6Unspecified(), 7000)))
		require.ErrorIs(t, a.id(PSTCP).BindAddr(netip.AddrPortFrom(netip.IPv6Unspecified(), 7001)), ErrBusy)
	})
}

// TestAllAddresses: a listener on all addresses takes what comes to any, and one on an address of
// its own before it.
func TestAllAddresses(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		all := b.id(PSTCP)
		require.NoError(t, all.SetReuseAddr(true))
		require.NoError(t, all.BindAddr(netip.AddrPortFrom(netip.IPv6Unspecified(), 7471)))
		require.NoError(t, all.Listen(5))
		for _, g := range b.dev.GIDs() {
			id, to := a.id(PSTCP), zoned(g, b.dev.PortInfo().Interface)
			require.NoError(t, id.ResolveAddr(netip.AddrPort{}, netip.AddrPortFrom(to, 7471), 0))
			a.next(EventAddrResolved)
			require.NoError(t, id.ResolveRoute(0))
			a.next(EventRouteResolved)
			a.pair(id)
			require.NoError(t, id.Connect(nil))
			req := b.next(EventConnectRequest)
			require.Equal(t, to, req.ID.LocalAddr().Addr())
			require.NoError(t, req.ID.Close())
			a.next(EventRejected)
		}
	})
}

// TestMistakes: each call that is wrong says what is.
func TestMistakes(t *testing.T) {
	na, _ := wires["pipe"]()
	a := newHost(t, na, nil)
	_, err := NewEventChannel(&Config{Kind: "tcp"})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = NewEventChannel(&Config{Devices: []*roce.Device{nil}})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = a.ch.CreateID(PSIPoIB)
	require.ErrorIs(t, err, ErrNotSupported)
	_, err = a.ch.CreateID(7)
	require.ErrorIs(t, err, ErrInvalid)

	id := a.id(PSTCP)
	for says, call := range map[string]func() error{
		"rdmacm: Listen: not allowed in this state: the ID is in the state IDLE, it must be ADDR_BOUND": func() error {
			return id.Listen(0)
		},
		"it must be ADDR_RESOLVED":           func() error { return id.ResolveRoute(0) },
		"it must be ROUTE_RESOLVED":          func() error { return id.Connect(nil) },
		"it must be REQUESTED":               func() error { return id.Accept(nil) },
		"it must be RESPONDED or REQUESTED":  func() error { return id.Reject(nil) },
		"it must be RESPONDED or ACCEPTED":   id.Establish,
		"it must be ACCEPTED or ESTABLISHED": id.Disconnect,
		"has no device: resolve an address first": func() error {
			_, err := id.CreateQP(a.pd, roce.QPInitAttr{SendCQ: a.cq})
			return err
		},
		"ack timeout 32, want 0 to 31":                   func() error { return id.SetAckTimeout(32) },
		"want an address and a port":                     func() error { return id.ResolveAddr(netip.AddrPort{}, a.at(0), 0) },
		"192.0.2.1: none of the devices has it: pipe:":   func() error { return id.BindAddr(netip.MustParseAddrPort("192.0.2.1:1")) },
		"local address 224.0.0.1:1":                      func() error { return id.BindAddr(netip.MustParseAddrPort("224.0.0.1:1")) },
		"and has no peer":                                func() error { _, _, err := id.AddressVector(); return err },
		"LeaveMulticast: invalid argument: the ID is no": func() error { return id.LeaveMulticast(netip.MustParseAddr("224.0.0.9")) },
	} {
		require.ErrorContains(t, call(), says)
	}
	require.NoError(t, id.Close())
	for _, call := range []func() error{
		id.Establish,
		id.Disconnect,
		func() error { return id.BindAddr(a.at(1)) },
		func() error { return id.SetTOS(1) },
		func() error { return id.ResolveAddr(a.at(0), a.at(5), 0) },
		func() error { return id.JoinMulticast(netip.MustParseAddr("224.0.0.9"), false, nil) },
		func() error { _, _, err := id.InitQPAttr(roce.StateInit); return err },
		func() error { _, _, err := id.AddressVector(); return err },
		func() error { return id.LeaveMulticast(a.addr) },
		func() error { _, err := id.CreateQP(a.pd, roce.QPInitAttr{SendCQ: a.cq}); return err },
	} {
		require.ErrorIs(t, call(), ErrClosed)
	}
	require.NoError(t, id.Close())
}

// TestMistakesBeforeConnect: so do those of an ID whose route is known.
func TestMistakesBeforeConnect(t *testing.T) {
	na, _ := wires["pipe"]()
	a := newHost(t, na, nil)
	ready := a.resolved(PSTCP, netip.MustParseAddrPort("10.0.0.77:1"))
	_, err := ready.CreateQP(nil, roce.QPInitAttr{SendCQ: a.cq})
	require.ErrorContains(t, err, "the protection domain is not of the ID's device")
	_, err = ready.CreateQP(a.pd, roce.QPInitAttr{Type: roce.UD, SendCQ: a.cq})
	require.ErrorContains(t, err, "a queue pair of type UD in RDMA_PS_TCP")
	a.pair(ready)
	_, err = ready.CreateQP(a.pd, roce.QPInitAttr{SendCQ: a.cq})
	require.ErrorIs(t, err, ErrState)
	for says, p := range map[string]ConnParam{
		"57 bytes of private data, at most 56 fit": {PrivateData: make([]byte, 57)},
		"retry_count 8, want 0 to 7":               {RetryCount: 8},
		"rnr_retry_count 9, want 0 to 7":           {RNRRetryCount: 9},
		"qp_num 0x1000000":                         {QPN: 1 << 24},
		"responder_resources 129, the device":      {ResponderResources: 129},
		"initiator_depth 200, the device has 128":  {InitiatorDepth: 200},
	} {
		require.ErrorContains(t, ready.Connect(&p), says)
	}
	require.NoError(t, ready.Connect(&ConnParam{}))
}

// TestNoWay: addresses that cannot be reached, by event and by Dial's error.
func TestNoWay(t *testing.T) {
	_, name := wires["udp"]()
	a := newHost(t, name, nil)
	for dst, says := range map[string]string{
		"[fe80::1]:7": "a link-local address needs its interface",
		"[fd99::1]:7": "",
	} {
		id := a.id(PSTCP)
		require.NoError(t, id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort(dst), 0))
		e := a.next(EventAddrError)
		require.ErrorIs(t, e.Err, ErrUnreachable)
		require.ErrorContains(t, e.Err, says)
		require.Negative(t, e.Status)
		_, err := Dial(bg, dst, &ConnConfig{Config: Config{Devices: []*roce.Device{a.dev}}})
		require.ErrorIs(t, err, ErrUnreachable)
	}
	for _, address := range []string{"nowhere", "10.0.0.1:x", "10.0.0.1:70000"} {
		_, err := Dial(bg, address, nil)
		require.ErrorIs(t, err, ErrInvalid)
	}
	// Nobody is there: the REQ is repeated for a minute, which is the caller's to end.
	ctx, cancel := context.WithCancel(bg)
	asked := &ConnConfig{Config: Config{Devices: []*roce.Device{a.dev}}, Prepare: func(*Conn) error { cancel(); return nil }}
	_, err := Dial(ctx, "127.255.255.7:7471", asked)
	require.ErrorIs(t, err, context.Canceled)
	bad := errors.New("no memory")
	asked.Prepare = func(*Conn) error { return bad }
	_, err = Dial(bg, "127.255.255.7:7471", asked)
	require.ErrorIs(t, err, bad)
}

// TestDeviceBusy: a device stays open while IDs are on it, and takes queue pair 1 with it.
func TestDeviceBusy(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		id := a.id(PSTCP)
		require.NoError(t, id.BindAddr(a.at(0)))
		require.Same(t, a.dev, id.Device())
		err := a.dev.Close()
		require.ErrorIs(t, err, ErrBusy)
		require.ErrorContains(t, err, "still has 1 rdma_cm IDs")
		require.NoError(t, id.Close())
		require.Nil(t, id.Device())
		if *onDevice != "" {
			return // queue pair 1 is the kernel's
		}

		taken, err := b.pd.CreateQP(roce.QPInitAttr{Type: roce.GSI, SendCQ: b.cq})
		require.NoError(t, err)
		err = b.id(PSTCP).BindAddr(b.at(0))
		require.ErrorIs(t, err, ErrBusy)
		require.ErrorContains(t, err, "queue pair 1 of device "+b.dev.Name())
		require.NoError(t, taken.Close())
		require.NoError(t, b.id(PSTCP).BindAddr(b.at(0)))
	})
}

// TestAckTimeout: who sets it has it, and the peer of who connects what its device can do. A kernel
// has its own opinion of the latter.
func TestAckTimeout(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		for _, c := range []struct{ active, passive, want uint8 }{{0, 0, 17}, {1, 3, 3}, {10, 9, 9}, {31, 1, 1}, {2, 0, 15}, {20, 0, 20}} {
			if *onDevice != "" && c.active != 0 && c.passive == 0 {
				continue
			}
			l := b.listener(PSTCP, 0)
			active := a.resolved(PSTCP, l.LocalAddr())
			require.NoError(t, active.SetAckTimeout(c.active))
			require.NoError(t, l.SetAckTimeout(c.passive))
			qa := a.pair(active)
			require.NoError(t, active.Connect(nil))
			passive := b.next(EventConnectRequest).ID
			qb := b.pair(passive)
			require.NoError(t, passive.Accept(nil))
			a.next(EventEstablished)
			b.next(EventEstablished)
			if c.active == 0 {
				c.active = c.want
			}
			for q, want := range map[*roce.QP]uint8{qa: c.active, qb: c.want} {
				has, err := q.Query()
				require.NoError(t, err)
				require.Equal(t, want, has.Timeout, "%v", c)
			}
			require.NoError(t, passive.Close())
			a.next(EventDisconnected)
		}
	})
}

// TestPortsByPeer: connections that are made to different peers may have the same local port, as
// with TCP: all of them to one do not use up those of an address.
func TestPortsByPeer(t *testing.T) {
	local := netip.MustParseAddr("192.0.2.1")
	to := func(peer string) *hold { return &hold{addr: local, peer: netip.MustParseAddrPort(peer)} }
	var taken []*hold
	for port := minEphemeral; port <= maxEphemeral; port++ {
		h := to("192.0.2.2:7")
		_, err := takePort(PSTCP, uint16(port), h)
		require.NoError(t, err)
		taken = append(taken, h)
	}
	_, err := takePort(PSTCP, 0, to("192.0.2.2:7"))
	require.ErrorIs(t, err, ErrBusy)
	_, err = takePort(PSTCP, 0, &hold{addr: local}) // of one that may listen
	require.ErrorIs(t, err, ErrBusy)
	for _, peer := range []string{"192.0.2.3:7", "192.0.2.2:8"} {
		h := to(peer)
		port, err := takePort(PSTCP, 0, h)
		require.NoError(t, err)
		releasePort(PSTCP, port, h)
	}
	for i, h := range taken {
		releasePort(PSTCP, uint16(minEphemeral+i), h)
	}
}
