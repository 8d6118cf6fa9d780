package qptest

// Completion queues, notifications and asynchronous events (sections 5.4, 6.5).

import (
	"errors"
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// TestReceiveCompletions: every field of every kind of receive.
func TestReceiveCompletions(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{}, QPConfig{})
	for _, c := range []struct {
		wr   qp.SendWR
		room int
		want qp.WC
	}{
		{a.Send(0, 1500), 2000, qp.WC{Opcode: qp.WCRecv, ByteLen: 1500}},
		{With(a.Send(0, 0), Immediate(0x01020304)), 0, qp.WC{Opcode: qp.WCRecv, Flags: qp.WCWithImm, Imm: 0x01020304}},
		{With(a.Write(0, 3000, b.Remote, 0), Immediate(5)), 0, qp.WC{
			Opcode:  qp.WCRecvRDMAWithImm,
			Flags:   qp.WCWithImm,
			Imm:     5,
			ByteLen: 3000,
		}},
		{With(a.Write(0, 0, b.Remote, 0), Immediate(6)), 100, qp.WC{Opcode: qp.WCRecvRDMAWithImm, Flags: qp.WCWithImm, Imm: 6}},
	} {
		id := s.Receive(b, c.room)
		sent := s.Post(a, c.wr)
		s.Settle()
		c.want.WRID, c.want.QPN = id, b.QPN()
		if wc := s.Received(b, id, qp.WCSuccess); wc != c.want {
			t.Errorf("received\n%+v, want\n%+v", wc, c.want)
		}
		if wc := s.Sent(a, sent, qp.WCSuccess); wc.QPN != a.QPN() {
			t.Errorf("sent %+v", wc)
		}
	}
}

// TestArming: one notification for the next completion after arming; solicited-only waits for SE or
// an error.
func TestArming(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{}, QPConfig{})
	notified := func(want bool, what string) {
		t.Helper()
		if got := len(b.Node.Notified) == 1; got != want {
			t.Errorf("%s: %d notifications", what, len(b.Node.Notified))
		}
		b.Node.Notified = nil
	}
	send := func(change ...func(*qp.SendWR)) {
		s.Receive(b, 1)
		s.Post(a, With(a.Send(0, 1), change...))
		s.Settle()
	}
	send()
	notified(false, "not armed")
	b.RecvCQ().Arm(false)
	send()
	notified(true, "armed")
	send()
	notified(false, "only once")
	b.RecvCQ().Arm(false)
	b.Node.Kick()
	notified(false, "what was completed before does not count")
	send()
	notified(true, "but what comes then does")
	b.RecvCQ().Arm(true)
	send()
	notified(false, "solicited only, not solicited")
	send(SolicitedEvent)
	notified(true, "solicited")
	b.RecvCQ().Arm(true)
	b.RecvCQ().Arm(false)
	send()
	notified(true, "any is stronger than solicited")
	b.RecvCQ().Arm(false)
	b.RecvCQ().Arm(true)
	send()
	notified(true, "and is not weakened")
	b.RecvCQ().Arm(true)
	s.Receive(b, 1)
	if err := b.Modify(qp.QPAttr{State: qp.StateErr}, qp.AttrState); err != nil {
		t.Fatal(err)
	}
	notified(true, "an error wakes solicited waiters too")
}

// TestOverrun: a completion that does not fit overruns the queue: CQ_ERR, every queue pair that
// completes there goes to ERR (class G of section 6.3), and what had been completed can still be
// polled.
func TestOverrun(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{CQE: 4}, QPConfig{})
	s.Unchecked, a.Node.NoPoll = true, true
	if n := a.SendCQ().Cap(); n != 4 {
		t.Fatalf("a queue of 4 holds %d", n)
	}
	bystander := a.Node.CreateQP(QPConfig{})
	s.Connect(bystander, b.Node.CreateQP(QPConfig{}))
	for range 5 {
		s.Post(a, a.Write(0, 1, b.Remote, 0))
	}
	s.Settle()
	if a.SendCQ().Len() != 4 || !errors.Is(a.SendCQ().Err(), qp.ErrOverrun) {
		t.Errorf("%d completions, error %v", a.SendCQ().Len(), a.SendCQ().Err())
	}
	s.InState(a, qp.StateErr)
	s.Event(a, qp.EventCQErr)
	s.Event(a, qp.EventQPFatal)
	var wcs [8]qp.WC
	if n := a.SendCQ().Poll(wcs[:]); n != 4 || wcs[3].Status != qp.WCSuccess {
		t.Errorf("polled %d: %+v", n, wcs)
	}
	s.InState(b, qp.StateRTS)
	if bystander.State() != qp.StateRTS {
		t.Errorf("a queue pair with other queues is in %v", bystander.State())
	}
}

// TestFullQueueIsNoOverrun: exactly as many as fit.
func TestFullQueueIsNoOverrun(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{CQE: 4}, QPConfig{})
	s.Unchecked, a.Node.NoPoll = true, true
	for range 3 {
		for range 4 {
			s.Post(a, a.Write(0, 1, b.Remote, 0))
		}
		s.Settle()
		var wcs [8]qp.WC
		if n := a.SendCQ().Poll(wcs[:]); n != 4 || a.SendCQ().Err() != nil {
			t.Fatalf("polled %d, %v", n, a.SendCQ().Err())
		}
	}
	s.InState(a, qp.StateRTS)
}

// TestCommEst: the first packet for a queue pair in RTR says that the connection lives; none in RTS
// does, nor the second.
func TestCommEst(t *testing.T) {
	for _, typ := range []qp.QPType{qp.RC, qp.UC} {
		for _, passive := range []bool{true, false} {
			s := NewScript(t)
			a, p := s.Against(QPConfig{Type: typ, WithoutSender: passive}, 0)
			op := map[qp.QPType]wire.Opcode{qp.RC: wire.RCWriteOnly, qp.UC: wire.UCWriteOnly}[typ]
			for psn := range wire.PSN(2) {
				p.Inject(Craft{Op: op, PSN: psn})
				want := 0
				if passive && psn == 0 {
					want = 1
				}
				if len(a.Node.Events) != want || want == 1 && (a.Node.Events[0].Type != qp.EventCommEst || a.Node.Events[0].QP != a.QP.QP) {
					t.Errorf("%v passive %v packet %d: events %v", typ, passive, psn, a.Node.Events)
				}
				a.Node.Events = nil
			}
		}
	}
}

// TestSharedQueue: completions of both directions and of several queue pairs in one queue, each in
// its order.
func TestSharedQueue(t *testing.T) {
	s := NewScript(t)
	n, m := s.AddNode(NodeConfig{}), s.AddNode(NodeConfig{})
	cq := n.CreateCQ(64)
	local, remote := n.NewRegion("local", 4096, 0x1000, 1), m.NewRegion("remote", 4096, 0x1000, 0xf)
	var qs []*QP
	for range 3 {
		q, peer := n.CreateQP(QPConfig{SendCQ: cq, RecvCQ: cq}), m.CreateQP(QPConfig{})
		s.Connect(q, peer)
		qs = append(qs, q)
	}
	for i := range 30 {
		q := qs[i%3]
		if _, err := q.PostSend(qp.SendWR{
			Opcode:     qp.WRWrite,
			Flags:      qp.SendSignaled,
			SGL:        []qp.SGE{local.SGE(i, 10)},
			RKey:       remote.RKey(),
			RemoteAddr: remote.Addr(100 * i),
		}); err != nil {
			t.Fatal(err)
		}
	}
	s.Settle()
	for _, q := range qs {
		if len(q.SendWCs) != 10 {
			t.Errorf("%v: %d completions", q, len(q.SendWCs))
		}
	}
}

// TestCQSizes: at least as many as asked for; 0 and too many are refused.
func TestCQSizes(t *testing.T) {
	s := NewScript(t)
	e := s.AddNode(NodeConfig{}).Engine
	for _, n := range []int{1, 2, 3, 100, 4096} {
		if cq, err := e.CreateCQ(n, nil); err != nil || cq.Cap() < n {
			t.Errorf("%d: %v", n, err)
		}
	}
	for _, n := range []int{0, -1, qp.MaxCQE + 1} {
		if _, err := e.CreateCQ(n, nil); !errors.Is(err, qp.ErrInvalid) {
			t.Errorf("%d: %v, want ErrInvalid", n, err)
		}
	}
}

// TestCreateQP: what is checked at creation.
func TestCreateQP(t *testing.T) {
	s := NewScript(t)
	n, m := s.AddNode(NodeConfig{}), s.AddNode(NodeConfig{})
	mine, other := n.CreateCQ(4), m.CreateCQ(4)
	good := qp.QPInit{Type: qp.RC, PD: n.PD, SendCQ: mine, RecvCQ: mine}
	if _, err := n.Engine.CreateQP(good); err != nil {
		t.Fatal(err)
	}
	most := good
	most.Cap = qp.Cap{MaxSendWR: 8, MaxRecvWR: qp.MaxQPWR, MaxSendSGE: qp.MaxSGE, MaxRecvSGE: 1, MaxInlineData: qp.MaxInline}
	if _, err := n.Engine.CreateQP(most); err != nil {
		t.Errorf("the largest that is allowed: %v", err)
	}
	for name, change := range map[string]func(*qp.QPInit){
		"type":              func(i *qp.QPInit) { i.Type = 9 },
		"no domain":         func(i *qp.QPInit) { i.PD = 0 },
		"no send queue":     func(i *qp.QPInit) { i.SendCQ = nil },
		"no receive queue":  func(i *qp.QPInit) { i.RecvCQ = nil },
		"other's queue":     func(i *qp.QPInit) { i.SendCQ = other },
		"other's queue too": func(i *qp.QPInit) { i.RecvCQ = other },
		"send requests":     func(i *qp.QPInit) { i.Cap.MaxSendWR = qp.MaxQPWR + 1 },
		"receive requests":  func(i *qp.QPInit) { i.Cap.MaxRecvWR = qp.MaxQPWR + 1 },
		"send elements":     func(i *qp.QPInit) { i.Cap.MaxSendSGE = qp.MaxSGE + 1 },
		"receive elements":  func(i *qp.QPInit) { i.Cap.MaxRecvSGE = qp.MaxSGE + 1 },
		"inline":            func(i *qp.QPInit) { i.Cap.MaxInlineData = qp.MaxInline + 1 },
	} {
		bad := good
		change(&bad)
		if _, err := n.Engine.CreateQP(bad); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestFairness: a queue pair with much to send does not keep the others waiting.
func TestFairness(t *testing.T) {
	s := NewScript(t)
	nc := NodeConfig{}
	nc.Engine.Window = 1000
	n := s.AddNode(nc)
	m := s.AddNode(NodeConfig{})
	local, remote := n.NewRegion("local", 256<<10, 0x1000, 1), m.NewRegion("remote", 256<<10, 0x1000, 0xf)
	var qs []*QP
	for range 4 {
		q, peer := n.CreateQP(QPConfig{MTU: wire.MTU256}), m.CreateQP(QPConfig{MTU: wire.MTU256})
		s.Connect(q, peer)
		qs = append(qs, q)
	}
	post := func(q *QP, size int) {
		if err := q.Stage(&qp.SendWR{
			Opcode:     qp.WRWrite,
			SGL:        []qp.SGE{local.SGE(0, size)},
			RKey:       remote.RKey(),
			RemoteAddr: remote.Addr(0),
		}); err != nil {
			t.Fatal(err)
		}
		n.Engine.Ring(q.QP)
	}
	post(qs[0], 100<<10) // before and behind the others, whatever order doorbells are answered in
	post(qs[1], 100)
	post(qs[2], 100)
	post(qs[3], 100<<10)
	n.Kick()
	last := map[uint32]int{}
	for i, f := range s.held {
		_, p, _ := f.packet()
		last[p.BTH.DestQP()] = i
	}
	for _, q := range qs[1:3] {
		if at := last[q.Peer.QPN()]; at > 100 {
			t.Errorf("a short message left behind %d packets of a long one", at)
		}
	}
	if d := last[qs[0].Peer.QPN()] - last[qs[3].Peer.QPN()]; d > 100 || d < -100 {
		t.Errorf("of two equal messages one ended %d packets before the other", d)
	}
	s.Settle()
}

// TestSpuriousCalls: handling timeouts and posts when there is nothing is harmless, at any time.
func TestSpuriousCalls(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{}, QPConfig{})
	id := s.Post(a, a.Write(0, 5000, b.Remote, 0))
	for range 50 {
		s.Advance(Microsecond)
		a.Node.timeout()
		a.Node.Kick()
		b.Node.timeout()
	}
	s.check()
	s.Settle()
	s.Sent(a, id, qp.WCSuccess)
}
