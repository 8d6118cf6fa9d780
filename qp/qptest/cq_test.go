package qptest

// What can be done with a completion queue while queue pairs complete there: its size changes,
// notifications are moderated, completions are stamped.

import (
	"errors"
	"testing"

	"github.com/goroce/goroce/qp"
)

// complete has an end complete n requests, and returns their WRIDs.
func (s *Script) complete(e *End, at *Region, n int) (ids []uint64) {
	for range n {
		ids = append(ids, s.Post(e, e.Write(0, 1, at, 0)))
	}
	s.Settle()
	return ids
}

// polls holds that the queue has just these completions, in this order.
func polls(t *testing.T, c *qp.CQ, want []uint64) {
	t.Helper()
	var wcs [64]qp.WC
	n := c.Poll(wcs[:])
	if n != len(want) {
		t.Errorf("%d completions, want %d", n, len(want))
		return
	}
	for i := range want {
		if wcs[i].WRID != want[i] {
			t.Errorf("completion %d is of %#x, want %#x", i, wcs[i].WRID, want[i])
		}
	}
}

// TestResizeCQ: the queue becomes larger and smaller with completions in it, wherever in the ring
// they are; it holds as many as it says then, and not one less than there are.
func TestResizeCQ(t *testing.T) {
	for skew := range 9 { // where in the ring they begin
		s := NewScript(t)
		a, b := s.Pair(QPConfig{CQE: 8}, QPConfig{})
		s.Unchecked, a.Node.NoPoll = true, true
		c, e := a.SendCQ(), a.Node.Engine
		polls(t, c, s.complete(a, b.Remote, skew%8))
		ids := s.complete(a, b.Remote, 5)
		if err := e.ResizeCQ(c, 4); !errors.Is(err, qp.ErrInvalid) || c.Cap() != 8 {
			t.Fatalf("4 of 5: %v, it holds %d", err, c.Cap())
		}
		for _, n := range []int{0, -1, qp.MaxCQE + 1} {
			if err := e.ResizeCQ(c, n); !errors.Is(err, qp.ErrInvalid) {
				t.Errorf("%d: %v", n, err)
			}
		}
		if err := e.ResizeCQ(c, 64); err != nil || c.Cap() != 64 || c.Len() != 5 {
			t.Fatalf("64: %v, %d of %d", err, c.Len(), c.Cap())
		}
		ids = append(ids, s.complete(a, b.Remote, 20)...)
		polls(t, c, ids)
		ids = s.complete(a, b.Remote, 4)
		if err := e.ResizeCQ(c, 4); err != nil || c.Cap() != 4 {
			t.Fatalf("4: %v, it holds %d", err, c.Cap())
		}
		polls(t, c, ids)
		polls(t, c, s.complete(a, b.Remote, 4))
		s.InState(a, qp.StateRTS)
		s.complete(a, b.Remote, 5)
		if err := e.ResizeCQ(c, 64); !errors.Is(err, qp.ErrOverrun) {
			t.Errorf("after an overrun: %v", err)
		}
	}
	s := NewScript(t)
	n, m := s.AddNode(NodeConfig{}), s.AddNode(NodeConfig{})
	if err := n.Engine.ResizeCQ(m.CreateCQ(4), 8); !errors.Is(err, qp.ErrUnknown) {
		t.Errorf("another lane's queue: %v", err)
	}
}

// TestNothingBehindOverrun: what is polled after an overrun has no hole in it. That there is room
// again when the queue pair fails does not bring completions of requests behind the one that is
// lost.
func TestNothingBehindOverrun(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{CQE: 4}, QPConfig{})
	s.Unchecked, a.Node.NoPoll = true, true
	var ids []uint64
	for range 8 {
		ids = append(ids, s.Post(a, a.Write(0, 1, b.Remote, 0)))
	}
	s.Settle()
	polls(t, a.SendCQ(), ids[:4])
	if err := a.Modify(qp.QPAttr{State: qp.StateErr}, qp.AttrState); err != nil {
		t.Fatal(err)
	}
	s.Receive(a, 1) // is flushed into the other queue
	s.Post(a, a.Write(0, 1, b.Remote, 0))
	s.Settle()
	polls(t, a.SendCQ(), nil)
	if !errors.Is(a.SendCQ().Err(), qp.ErrOverrun) || a.RecvCQ().Err() != nil {
		t.Errorf("errors %v and %v", a.SendCQ().Err(), a.RecvCQ().Err())
	}
}

// TestOverrunLater: a queue pair that was in RESET when its completion queue was overrun, and one
// that is made later, fail as soon as a completion of theirs is lost.
func TestOverrunLater(t *testing.T) {
	s := NewScript(t)
	s.Unchecked = true
	a, b := s.AddNode(NodeConfig{}), s.AddNode(NodeConfig{})
	a.NoPoll = true
	c := a.CreateCQ(2)
	cfg := QPConfig{SendCQ: c, Cap: qp.Cap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}}
	first, reset := a.CreateQP(cfg), a.CreateQP(cfg)
	lose := func(q *QP, what string) {
		t.Helper()
		s.Connect(q, b.CreateQP(QPConfig{}))
		for range 3 {
			if _, err := q.PostSend(qp.SendWR{Opcode: qp.WRWrite, Flags: qp.SendSignaled}); err != nil {
				t.Fatal(err)
			}
		}
		s.Settle()
		if q.State() != qp.StateErr {
			t.Errorf("%s: its completions are lost, and it is in %v", what, q.State())
		}
	}
	lose(first, "the first")
	lose(reset, "in RESET at the time")
	lose(a.CreateQP(cfg), "made later")
}

// moderated is a script of a queue of receives.
type moderated struct {
	*Script
	t    *testing.T
	a, b *End
}

func newModerated(t *testing.T) *moderated {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{}, QPConfig{})
	return &moderated{s, t, a, b}
}

func (m *moderated) moderate(count int, period qp.Time) {
	m.t.Helper()
	err := m.b.Node.Control(func() error { return m.b.Node.Engine.ModerateCQ(m.Now, m.b.RecvCQ(), count, period) })
	if err != nil {
		m.t.Fatal(err)
	}
}

// send has a receive complete.
func (m *moderated) send(change ...func(*qp.SendWR)) {
	m.Receive(m.b, 1)
	m.Post(m.a, With(m.a.Send(0, 1), change...))
	m.Settle()
}

func (m *moderated) told(want bool, what string) {
	m.t.Helper()
	if got := len(m.b.Node.Notified); got > 1 || got == 1 != want {
		m.t.Errorf("%s: %d notifications", what, got)
	}
	m.b.Node.Notified = nil
}

// TestModeration: an armed queue tells with so many completions, or when the first of them has been
// there for the period; of solicited ones only, that one is the first.
func TestModeration(t *testing.T) {
	m := newModerated(t)
	c := m.b.RecvCQ()
	const period = 100 * Microsecond
	m.moderate(3, period)
	c.Arm(false)
	m.send()
	m.send()
	m.told(false, "two of three")
	m.send()
	m.told(true, "three")
	m.Advance(2 * period)
	m.told(false, "its period passes later")

	c.Arm(false)
	m.send()
	m.Advance(period - Microsecond)
	m.told(false, "one, not yet")
	m.send()
	m.Advance(Microsecond)
	m.told(true, "the first one's period is over")
	m.Advance(2 * period)
	m.told(false, "and that of the second is none")

	c.Arm(true)
	m.send()
	m.Advance(2 * period)
	m.told(false, "not solicited")
	m.send(SolicitedEvent)
	m.told(false, "solicited, not yet")
	m.Advance(period)
	m.told(true, "solicited, later")
}

// TestUnmoderated: who waits hears at once, and so does everybody when moderation ends.
func TestUnmoderated(t *testing.T) {
	m := newModerated(t)
	c := m.b.RecvCQ()
	const period = 100 * Microsecond
	m.moderate(3, period)
	c.Arm(false)
	m.send()
	c.ArmNow()
	c.Arm(true)
	c.Arm(false)
	m.send()
	m.told(true, "somebody waits")
	m.Advance(2 * period)
	m.told(false, "who has been told")

	c.Arm(false)
	m.send()
	m.moderate(0, 0)
	m.Advance(1)
	m.told(true, "the end of moderation")
	c.Arm(false)
	m.send()
	m.told(true, "none")
	m.moderate(3, 0)
	c.Arm(false)
	m.send()
	m.told(true, "without a period nobody is kept waiting for ever")

	m.moderate(9, period)
	c.Arm(false)
	m.send()
	m.send()
	m.moderate(3, period)
	m.Advance(1)
	m.told(false, "two of three now")
	m.moderate(2, period)
	m.Advance(1)
	m.told(true, "two of two now")

	for _, bad := range []struct {
		count  int
		period qp.Time
	}{{-1, 1}, {1 << 16, 1}, {2, -1}, {2, qp.MaxCQModPeriod + 1}} {
		if err := m.b.Node.Engine.ModerateCQ(m.Now, c, bad.count, bad.period); !errors.Is(err, qp.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestModeratedEnd: what is held back of a queue that is destroyed is told to nobody.
func TestModeratedEnd(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{}, QPConfig{})
	c, e := a.SendCQ(), a.Node.Engine
	if err := e.ModerateCQ(s.Now, c, 10, 50*Millisecond); err != nil {
		t.Fatal(err)
	}
	c.Arm(false)
	s.Post(a, a.Write(0, 1, b.Remote, 0))
	s.Settle()
	if at := e.PollTimeout(); at > s.Now+50*Millisecond {
		t.Errorf("wakes at %v", at)
	}
	if err := a.Destroy(); err != nil {
		t.Fatal(err)
	}
	if err := e.DestroyCQ(c); err != nil {
		t.Fatal(err)
	}
	s.Advance(2 * Second)
	if len(a.Node.Notified) != 0 {
		t.Error("told of a queue that is gone")
	}
	if err := e.ModerateCQ(s.Now, c, 1, 1); !errors.Is(err, qp.ErrUnknown) {
		t.Errorf("a queue that is gone: %v", err)
	}
	if e.NextTimeout() != qp.Never {
		t.Errorf("wakes for it at %v", e.NextTimeout())
	}
}

// TestTimes: completions are stamped with the time of their turn, which a change of the queue's
// size keeps; a queue that was not asked has none.
func TestTimes(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{CQE: 8}, QPConfig{})
	s.Unchecked, a.Node.NoPoll, b.Node.NoPoll = true, true, true
	a.SendCQ().KeepTimes()
	var want []uint64
	for range 5 {
		s.Receive(b, 1)
		s.Post(a, a.Send(0, 1))
		s.Settle()
		want = append(want, uint64(s.Now))
		s.Advance(7 * Microsecond)
	}
	if err := a.Node.Engine.ResizeCQ(a.SendCQ(), 32); err != nil {
		t.Fatal(err)
	}
	var wcs [8]qp.WCEx
	if n := a.SendCQ().PollEx(wcs[:]); n != 5 {
		t.Fatalf("%d completions", n)
	}
	for i, at := range want {
		if wcs[i].Timestamp != at || wcs[i].Opcode != qp.WCSend {
			t.Errorf("completion %d: %+v, want the time %d", i, wcs[i], at)
		}
	}
	if n := b.RecvCQ().PollEx(wcs[:]); n != 5 || wcs[0].Timestamp != 0 || wcs[0].ByteLen != 1 {
		t.Errorf("%d completions without times, %+v", n, wcs[0])
	}
}
