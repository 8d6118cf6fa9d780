package cm

import (
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/wire"
)

// pair is two machines whose messages reach each other at once.
type pair struct {
	t   testing.TB
	now Time
	m   [2]*Machine
	gid [2]wire.GID
}

func newPair(t testing.TB) *pair {
	p := &pair{t: t, now: 1 << 40}
	for i := range p.m {
		p.gid[i] = wire.GID{10: 0xff, 11: 0xff, 12: 10, 15: byte(i + 1)}
		p.m[i] = New(Config{Rand: rand.New(rand.NewPCG(uint64(i), 1)).Uint64, CAGUID: uint64(0x100 + i)})
	}
	return p
}

var service = wire.CMServiceID(wire.CMPortSpaceTCP, 7471)

// carry takes all messages to where they go.
func (p *pair) carry() {
	var msg Message
	for moved := true; moved; {
		moved = false
		for i, m := range p.m {
			for m.PollTransmit(&msg) {
				moved = true
				p.m[1-i].HandleMAD(p.now, Path{Local: p.gid[1-i], Remote: p.gid[i]}, msg.MAD[:])
			}
		}
	}
}

// event carries all messages, and then wants an event of a type at an end.
func (p *pair) event(end int, want EventType) Event {
	p.t.Helper()
	p.carry()
	e, ok := p.m[end].PollEvent()
	if !ok || e.Type != want {
		p.t.Fatalf("machine %d: %v (%v), want %v", end, e.Type, ok, want)
	}
	return e
}

// params is what the tests connect with.
func (p *pair) params() *ConnectParams {
	return &ConnectParams{ServiceID: service, Path: Path{Local: p.gid[0], Remote: p.gid[1], FlowLabel: 5}, SrcPort: 40000,
		MTU: wire.MTU1024, ConnParam: ConnParam{QPN: 0x111, ResponderResources: 4, InitiatorDepth: 9, RetryCount: 6, RNRRetryCount: 5}}
}

func TestConnectAndDisconnect(t *testing.T) {
	p := newPair(t)
	l, err := p.m[1].Listen(service, ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.m[0].Connect(p.now, p.params())
	if err != nil {
		t.Fatal(err)
	}
	e := p.event(1, EventConnectRequest)
	b := e.Conn
	if e.Listener != l || e.Header.SrcPort != 40000 || len(e.Private) != MaxPrivateREQ || e.Param.ResponderResources != 9 ||
		e.Param.InitiatorDepth != 4 {
		t.Errorf("%+v", e)
	}
	if err := b.Accept(p.now, &AcceptParams{ConnParam: ConnParam{
		QPN:                0x222,
		ResponderResources: 7,
		InitiatorDepth:     MaxRdAtomic,
		RNRRetryCount:      3,
	}}); err != nil {
		t.Fatal(err)
	}
	p.event(0, EventConnectResponse)
	if err := a.Establish(p.now, nil); err != nil {
		t.Fatal(err)
	}
	p.event(1, EventEstablished)
	qa, qb := a.QPParams(), b.QPParams()
	if qa.DestQPN != 0x222 || qb.DestQPN != 0x111 || qa.SQPSN != qb.RQPSN || qb.SQPSN != qa.RQPSN || qa.PathMTU != qb.PathMTU {
		t.Errorf("%+v\n%+v", qa, qb)
	}
	if qa.MaxRdAtomic != 7 || qb.MaxDestRdAtomic != 7 || qb.MaxRdAtomic != 4 || qa.MaxDestRdAtomic != 4 {
		t.Errorf("READs: %+v\n%+v", qa, qb)
	}
	if qa.RetryCnt != 6 || qb.RetryCnt != 6 || qa.RNRRetry != 3 || qb.RNRRetry != 5 || qa.Timeout != 17 || qb.Timeout != 17 {
		t.Errorf("retries: %+v\n%+v", qa, qb)
	}
	if err := a.Disconnect(p.now, nil); err != nil {
		t.Fatal(err)
	}
	p.event(1, EventDisconnected)
	if err := b.Disconnect(p.now, nil); err != nil {
		t.Fatal(err)
	}
	p.event(0, EventDisconnected)
	for i, m := range p.m {
		p.now = max(p.now, m.PollTimeout())
		m.HandleTimeout(p.now)
		p.event(i, EventTimeWaitExit)
		if n, held := m.Len(); n+held != 0 || m.PollTimeout() != Never {
			t.Errorf("machine %d: %d connections, %d remembered, deadline %v", i, n, held, m.PollTimeout())
		}
	}
}
