package qptest

// Memory that the application takes back, in every way there is: once the call has returned, or the
// completion is there, no byte of it leaves by that way any more (section 7.7).
//
// Stages: the ways (takings) → each of them while a READ is being answered, and before a READ that
// was answered is repeated → the same with what the application's own requests send.

import (
	"bytes"
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// taking is a way to take back memory that the peer READs. Before, its key is opened; psn is that
// of the next request of the peer.
type taking struct {
	name    string
	open    func(s *Script, a *End) (key uint32, w *mr.Window) // nil: the region's key
	take    func(s *Script, a *End, w *mr.Window, psn wire.PSN) error
	refuses bool // the READ is refused by a NAK; else the queue pair says nothing more
	failed  bool // another request was refused before
}

func modify(state qp.QPState) func(*Script, *End, *mr.Window, wire.PSN) error {
	return func(_ *Script, a *End, _ *mr.Window, _ wire.PSN) error {
		return a.Modify(qp.QPAttr{State: state}, qp.AttrState)
	}
}

// reregister changes the region of the peer's memory.
func reregister(c mr.Change) func(*Script, *End, *mr.Window, wire.PSN) error {
	return func(_ *Script, a *End, _ *mr.Window, _ wire.PSN) error {
		return a.Node.Memory.Reregister(a.Remote.Region, c, mr.Registration{Mem: make([]byte, endMemory), IOVA: a.Remote.IOVA(),
			Access: mr.LocalWrite | mr.RemoteWrite})
	}
}

// window2 and window1 open what the READs read by a window.
func window2(s *Script, a *End) (key uint32, w *mr.Window) {
	w, err := a.Node.Memory.AllocWindow(a.Node.PD, mr.Window2)
	if err != nil {
		s.T.Fatalf("%v", err)
	}
	s.Sent(a, s.Post(a, bind(a, w, w.RKey()^1, 0, 8000, mr.RemoteRead)), qp.WCSuccess)
	return w.RKey(), w
}

func window1(s *Script, a *End) (key uint32, w *mr.Window) {
	w, err := a.Node.Memory.AllocWindow(a.Node.PD, mr.Window1)
	if err != nil {
		s.T.Fatalf("%v", err)
	}
	if err := s.bindCommon(a, w, 0, 8000); err != nil {
		s.T.Fatalf("%v", err)
	}
	return w.RKey(), w
}

// bindCommon binds a window of type 1 and waits for the completion.
func (s *Script) bindCommon(a *End, w *mr.Window, off, n int) error {
	b := bind(a, w, w.RKey()&^0xff|(w.RKey()+1)&0xff, off, n, mr.RemoteRead).Bind
	id := uint64(w.RKey())
	err := a.QP.QP.BindMW(id, qp.SendSignaled, *b, 0)
	a.Node.Engine.Ring(a.QP.QP)
	a.Node.Kick()
	s.Advance(Millisecond)
	s.Sent(a, id, qp.WCSuccess)
	return err
}

var takings = []taking{
	{name: "Modify(ERR)", take: modify(qp.StateErr)},
	{name: "Modify(ERR) of one that has failed", failed: true, take: func(s *Script, a *End, w *mr.Window, psn wire.PSN) error {
		c := a.write(psn, 0, []byte("x"))
		c.RKey ^= 0xff00
		a.Raw.Inject(c)
		s.InState(a, qp.StateErr)
		return modify(qp.StateErr)(s, a, w, psn)
	}},
	{name: "RESET", take: modify(qp.StateReset)},
	{name: "QP.Close", take: func(_ *Script, a *End, _ *mr.Window, _ wire.PSN) error { return a.Destroy() }},
	{name: "the right of the queue pair", refuses: true, take: func(_ *Script, a *End, _ *mr.Window, _ wire.PSN) error {
		return a.Modify(qp.QPAttr{AccessFlags: mr.RemoteAny &^ mr.RemoteRead}, qp.AttrAccessFlags)
	}},
	{name: "MR.Close", refuses: true, take: func(_ *Script, a *End, _ *mr.Window, _ wire.PSN) error {
		return a.Node.Memory.Deregister(a.Remote.Region)
	}},
	{name: "rights of the region", refuses: true, take: reregister(mr.ChangeAccess)},
	{name: "memory of the region", refuses: true, take: reregister(mr.ChangeTranslation)},
	{name: "MW.Close", open: window2, refuses: true, take: func(_ *Script, a *End, w *mr.Window, _ wire.PSN) error {
		return a.Node.Memory.DeallocWindow(w)
	}},
	{name: "LOCAL_INV", open: window2, refuses: true, take: func(s *Script, a *End, w *mr.Window, _ wire.PSN) error {
		id := s.Post(a, qp.SendWR{Opcode: qp.WRLocalInv, Flags: qp.SendSignaled, InvalidateKey: w.RKey()})
		s.Advance(Millisecond)
		s.Sent(a, id, qp.WCSuccess)
		return nil
	}},
	{name: "SEND_WITH_INV", open: window2, refuses: true, take: func(s *Script, a *End, w *mr.Window, psn wire.PSN) error {
		id := s.Receive(a, 8)
		a.Raw.Inject(Craft{Op: wire.RCSendOnlyInv, PSN: psn, RKey: w.RKey(), Payload: []byte("not read")})
		s.Received(a, id, qp.WCSuccess)
		return nil
	}},
	{name: "type 1 bound elsewhere", open: window1, refuses: true, take: func(s *Script, a *End, w *mr.Window, _ wire.PSN) error {
		return s.bindCommon(a, w, 9000, 8000)
	}},
	{name: "type 1 unbound", open: window1, refuses: true, take: func(s *Script, a *End, w *mr.Window, _ wire.PSN) error {
		return s.bindCommon(a, w, 0, 0)
	}},
}

// left returns what has left since the last Clear: NAKs of a refusal, and bytes of payload.
func (s *Script) left() (refusals, payload int) {
	for _, f := range s.held {
		_, p, _ := f.packet()
		payload += len(p.Payload)
		if p.Opcode == wire.RCAcknowledge && p.AETH().Syndrome() == wire.SynNAKAccess {
			refusals++
		}
	}
	return refusals, payload
}

// TestTakenBack: a READ that is being answered when its memory is taken back, one that is asked for
// again afterwards, and both in one.
func TestTakenBack(t *testing.T) {
	for _, row := range takings {
		for _, under := range []bool{false, true} {
			s := NewScript(t)
			s.Unchecked = true
			nc := NodeConfig{}
			if under { // a port that takes a packet a turn
				nc = NodeConfig{Batch: 1, Budget: 1, Pace: Microsecond}
			}
			a := s.newEnd(nc, QPConfig{})
			p := s.rawPeer(a, NodeConfig{Raw: true}, 0)
			ask := a.read(0, 0, 8000) // 8 packets
			var w *mr.Window
			if row.open != nil {
				ask.RKey, w = row.open(s, a)
			}
			p.Inject(ask)
			if refusals, payload := s.left(); refusals > 0 || under != (payload < 8000) {
				t.Fatalf("%s: %d bytes have left, %d refusals", row.name, payload, refusals)
			}
			if err := row.take(s, a, w, 8); err != nil {
				t.Fatalf("%s: %v", row.name, err)
			}
			refusals, _ := s.left() // the turn of the call may have come to it
			s.Clear()
			copy(a.Remote.Bytes, bytes.Repeat([]byte("SECRET.."), 1000))
			s.Advance(Millisecond)
			p.Inject(ask)
			s.Advance(Second)
			more, payload := s.left()
			if payload > 0 {
				t.Errorf("%s, while it is answered %v: %d bytes left after it had been taken back", row.name, under, payload)
			}
			if refusals += more; (refusals == 1) != row.refuses && !row.failed || refusals > 1 {
				t.Errorf("%s, while it is answered %v: refused %d times", row.name, under, refusals)
			}
		}
	}
}

// TestTakenBackFromSender: what a queue pair sends of its own memory ends with the call that takes
// that back, whether it was never sent, is sent again after a loss, or waits. Reading one's own
// memory takes no right.
func TestTakenBackFromSender(t *testing.T) {
	for _, row := range takings {
		if row.open != nil || row.failed || row.name == "the right of the queue pair" || row.name == "rights of the region" {
			continue
		}
		for _, cfg := range []QPConfig{{}, {Selective: true}, {RateLimit: qp.MinRateLimit}} {
			s := NewScript(t)
			s.Unchecked = true
			a := s.newEnd(NodeConfig{Batch: 1, Budget: 1, Pace: Microsecond}, cfg)
			p := s.rawPeer(a, NodeConfig{Raw: true}, 0)
			a.Local = a.Remote // what the ways take back
			for range 4 {
				s.Post(a, a.Write(0, 5000, a.Remote, 0))
			}
			s.Advance(9 * Microsecond)
			p.ack(wire.SynNAKSeq, 1)
			if _, payload := s.left(); payload == 0 {
				t.Fatalf("%s: nothing was sent", row.name)
			}
			if err := row.take(s, a, nil, 0); err != nil {
				t.Fatalf("%s: %v", row.name, err)
			}
			s.Clear()
			copy(a.Remote.Bytes, bytes.Repeat([]byte("SECRET.."), 1000))
			s.Advance(Millisecond)
			p.ack(wire.SynNAKSeq, 2)
			s.Advance(10 * Second)
			if _, payload := s.left(); payload > 0 {
				t.Errorf("%s, %+v: %d bytes left after it had been taken back", row.name, cfg, payload)
			}
		}
	}
}

// TestWindowEndsWithLife: a window of type 2 that is bound through a queue pair is free again when
// that is reset or destroyed: neither its next peer nor the next queue pair of its number has it.
func TestWindowEndsWithLife(t *testing.T) {
	for _, end := range []taking{takings[2], takings[3]} {
		s := NewScript(t)
		s.Unchecked = true
		a, _ := s.Against(QPConfig{}, 0)
		key, w := window2(s, a)
		if err := end.take(s, a, w, 0); err != nil {
			t.Fatal(err)
		}
		if w.Bound() || w.RKey() != key {
			t.Errorf("%s: the window is bound %v, its key %#x, was %#x", end.name, w.Bound(), w.RKey(), key)
		}
		if err := a.Node.Memory.Deregister(a.Remote.Region); err != nil {
			t.Errorf("%s: %v", end.name, err)
		}
	}
	s := NewScript(t)
	s.Unchecked = true
	a, p := s.Against(QPConfig{}, 0)
	key, _ := window2(s, a)
	if err := a.Modify(qp.QPAttr{State: qp.StateReset}, qp.AttrState); err != nil {
		t.Fatal(err)
	}
	a.ConnectRaw(p.Node, p.QPN, 100)
	c := a.read(100, 0, 8)
	c.RKey = key
	p.Inject(c)
	s.Drop(a, Nak(wire.SynNAKAccess, 100))
}
