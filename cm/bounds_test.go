package cm

// What is bounded: requests of a listener, connections, memories of connections, messages that
// wait; and who is found by which listener.

import (
	"errors"
	"runtime"
	"testing"

	"github.com/goroce/goroce/wire"
)

// flood is requests of a peer, each as if from another of its connections.
type flood struct {
	s   *stage
	req wire.CMReq
	n   uint32
}

func newFlood(t *testing.T, service uint64, o ListenOptions) (*flood, *Listener) {
	t.Helper()
	f := &flood{s: newStage(StateReqRcvd)}
	f.req = f.s.req
	f.req.ServiceID = service
	l, err := f.s.m.Listen(service, o)
	if err != nil {
		t.Fatal(err)
	}
	return f, l
}

// send lets requests arrive, and returns those that the application is told of.
func (f *flood) send(requests int) (told []*Conn) {
	for range requests {
		f.n++
		f.req.LocalCommID, f.req.LocalQPN = 0x100000+f.n, 0x1000+f.n
		f.s.hear(&f.req)
		for {
			e, ok := f.s.m.PollEvent()
			if !ok {
				break
			}
			if e.Type == EventConnectRequest {
				told = append(told, e.Conn)
			}
		}
	}
	return told
}

const other = uint64(0x99)

// TestBacklog: a listener takes Backlog requests that wait for the application and HalfOpen that
// wait for anybody; a request beyond is dropped without a word, and taken when there is room.
func TestBacklog(t *testing.T) {
	f, _ := newFlood(t, other, ListenOptions{Backlog: 3, HalfOpen: 5})
	first := f.send(10)
	if len(first) != 3 || f.s.m.Stats().Drops[DropBacklog] != 7 || f.s.outcome() != "→ REQ_RCVD" {
		t.Fatalf("%d of 10 were taken", len(first))
	}
	accept := func(c *Conn) {
		if err := c.Accept(f.s.now, &AcceptParams{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range first {
		accept(c)
	}
	second := f.send(10)
	if len(second) != 2 {
		t.Fatalf("with 3 half open, %d were taken", len(second))
	}
	if err := second[0].Reject(f.s.now, wire.CMRejConsumer, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := first[0].Establish(f.s.now, nil); err != nil {
		t.Fatal(err)
	}
	if third := f.send(10); len(third) != 2 {
		t.Errorf("after one was rejected and one established, %d were taken", len(third))
	}
}

// TestMaxConns: a machine at its limit makes no connection, and takes no request.
func TestMaxConns(t *testing.T) {
	f, _ := newFlood(t, other, ListenOptions{})
	m := f.s.m
	m.cfg.MaxConns = 4
	if told := f.send(10); len(told) != 3 || m.Stats().Drops[DropLimit] != 7 {
		t.Errorf("%d requests were taken beside one connection", len(told))
	}
	if err := connectWith(f.s, service, nil); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
	if err := resolveWith(f.s, service, nil); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
}

// TestMaxTimeWait: of the connections that have ended the last ones are remembered; the oldest
// leaves the time-wait early.
func TestMaxTimeWait(t *testing.T) {
	f, _ := newFlood(t, other, ListenOptions{})
	m := f.s.m
	m.cfg.MaxTimeWait = 2
	exits := 0
	for i, c := range f.send(5) {
		s := &stage{m: m, c: c, now: f.s.now, last: f.s.last}
		for _, on := range []input{callAccept, gotRTU} {
			s.doAs(f.req.LocalCommID-uint32(4-i), on)
		}
		s.doAs(f.req.LocalCommID-uint32(4-i), gotDREQ)
		s.doAs(f.req.LocalCommID-uint32(4-i), callDisconnect)
		for {
			e, ok := m.PollEvent()
			if !ok {
				break
			}
			if e.Type == EventTimeWaitExit {
				exits++
			}
		}
		if err := m.check(); err != nil {
			t.Fatal(err)
		}
	}
	if _, held := m.Len(); held != 2 || exits != 3 {
		t.Errorf("%d are remembered, %d have left early", held, exits)
	}
}

// doAs is do for a peer with another communication ID.
func (s *stage) doAs(id uint32, on input) {
	if on <= callClose {
		_ = s.call(on)
		return
	}
	b := mad(peerTID, s.message(on))
	b[24], b[25], b[26], b[27] = byte(id>>24), byte(id>>16), byte(id>>8), byte(id)
	s.m.HandleMAD(s.now, peerPath, b[:])
}

// TestFlood: a flood of requests takes no more memory than the listener may have, gets no answers
// once that is full, and leaves established connections as they are.
func TestFlood(t *testing.T) {
	const backlog, requests = 256, 100_000
	f, _ := newFlood(t, other, ListenOptions{Backlog: backlog})
	f.s.do(callAccept)
	f.s.do(gotRTU)
	f.s.outcome()
	told := f.send(backlog)
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	if more := f.send(requests); len(told) != backlog || len(more) != 0 {
		t.Fatalf("%d and %d were taken", len(told), len(more))
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("%d requests have left %d bytes", requests, after-before)
	}
	if n, held := f.s.m.Len(); n != backlog+1 || held != 0 {
		t.Errorf("%d connections, %d remembered", n, held)
	}
	if f.s.do(gotDREQ); f.s.outcome() != "→ DREQ_RCVD, tells DISCONNECTED" {
		t.Errorf("the established connection is in %v", f.s.c.state)
	}
	// Nor do requests that nobody listens for, and REPs, RTUs and DREQs of nobody.
	f.req.ServiceID++
	for i := range uint32(requests) {
		f.s.hear(&wire.CMDreq{LocalCommID: i, RemoteCommID: i})
		f.s.hear(&wire.CMRep{LocalCommID: i, RemoteCommID: i})
		f.s.hear(&f.req)
	}
	if n := len(f.s.lost()); n != maxQueued {
		t.Errorf("%d answers wait to be sent, want %d", n, maxQueued)
	}
	runtime.KeepAlive(told)
}

// lost is what waits to be sent.
func (s *stage) lost() (sent []wire.CMAttribute) {
	for msg := (Message{}); s.m.PollTransmit(&msg); {
		sent = append(sent, msg.MAD.Attribute())
	}
	return sent
}

// TestListeners: who says most of an address is asked.
func TestListeners(t *testing.T) {
	v4, other4, v6 := wire.GID{10: 0xff, 11: 0xff, 15: 1}, wire.GID{10: 0xff, 11: 0xff, 15: 2}, wire.GID{0xfd}
	m := New(Config{Rand: dealt(0)})
	var l [4]*Listener
	for i, o := range []ListenOptions{{}, {Only: 4}, {Only: 6}, {Address: v4, Only: 6}} {
		var err error
		if l[i], err = m.Listen(1, o); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Listen(1, o); !errors.Is(err, ErrInUse) {
			t.Errorf("%+v, twice: %v", o, err)
		}
	}
	for _, c := range []struct {
		at     wire.GID
		want   *Listener
		closes int
	}{{v4, l[3], -1}, {other4, l[1], -1}, {v6, l[2], 3}, {v4, l[1], 1}, {v4, l[0], 2}, {v6, l[0], 0}, {v6, nil, 0}} {
		if got := m.listener(1, c.at); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.at, got, c.want)
		}
		if c.closes >= 0 {
			l[c.closes].Close(0)
		}
	}
}

// TestCloseListener: requests that the application has not been told of are rejected, and it is not
// told of them; the others stay.
func TestCloseListener(t *testing.T) {
	f, l := newFlood(t, other, ListenOptions{})
	told := f.send(2)
	f.n++
	f.req.LocalCommID, f.req.LocalQPN = 0x100000+f.n, 0x1000+f.n
	f.s.hear(&f.req)
	f.s.lost()
	l.Close(f.s.now)
	if got := f.s.outcome(); got != "→ REQ_RCVD, sends REJ (consumer defined of REQ)" {
		t.Error(got)
	}
	for _, c := range told {
		if err := c.Accept(f.s.now, &AcceptParams{}); err != nil {
			t.Error(err)
		}
	}
	if len(f.send(1)) != 0 {
		t.Error("it still takes requests")
	}
}

// BenchmarkHandshake is a connection from its REQ to its end, both sides.
func BenchmarkHandshake(b *testing.B) {
	p := newPair(b)
	if _, err := p.m[1].Listen(service, ListenOptions{}); err != nil {
		b.Fatal(err)
	}
	params := p.params()
	b.ReportAllocs()
	for i := range b.N {
		p.now += second
		for _, m := range p.m {
			m.HandleTimeout(p.now)
		}
		params.QPN = uint32(i) & 0xffffff
		active, passive := p.connect(params, uint32(i)&0xffffff)
		active.Close(p.now)
		passive.Close(p.now)
		p.carry()
		for _, m := range p.m {
			for _, ok := m.PollEvent(); ok; _, ok = m.PollEvent() {
			}
		}
	}
}
