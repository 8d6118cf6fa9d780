package qptest

// Memory windows of type 2, LOCAL_INV and SEND_WITH_INV (section 7.5). The oracle does not model
// windows, so these scripts run without it and look for themselves.

import (
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// bound returns an end with a raw peer and a window of 100 bytes at offset 1000 of its remote
// memory.
func bound(t *testing.T, s *Script, access mr.Access) (a *End, p *Raw, w *mr.Window) {
	a, p = s.Against(QPConfig{}, 0)
	w, err := a.Node.Memory.AllocWindow(a.Node.PD, mr.Window2)
	if err != nil {
		t.Fatal(err)
	}
	id := s.Post(a, bind(a, w, w.RKey()&^0xff|0x42, 1000, 100, access))
	s.Quiet() // nothing of it is on the wire
	if wc := s.Sent(a, id, qp.WCSuccess); wc.Opcode != qp.WCBindMW {
		t.Errorf("completion %+v", wc)
	}
	if w.RKey()&0xff != 0x42 || !w.Bound() {
		t.Errorf("key %#x, bound %v", w.RKey(), w.Bound())
	}
	return a, p, w
}

func bind(a *End, w *mr.Window, key uint32, off, n int, access mr.Access) qp.SendWR {
	return qp.SendWR{Opcode: qp.WRBindMW, Flags: qp.SendSignaled,
		Bind: &qp.BindInfo{
			WindowKey: w.RKey(),
			NewKey:    key,
			LKey:      a.Remote.LKey(),
			Addr:      a.Remote.Addr(off),
			Length:    uint64(n),
			Access:    access,
		}}
}

// through is a WRITE through a window.
func through(key uint32, a *End, psn wire.PSN, off int, b string) Craft {
	c := a.write(psn, off, []byte(b))
	c.RKey = key
	return c
}

// TestWindow opens what it was bound to, to the queue pair that bound it.
func TestWindowAccess(t *testing.T) {
	s := NewScript(t)
	a, p, w := bound(t, s, mr.RemoteWrite)
	p.Inject(through(w.RKey(), a, 0, 1000, "first bytes"))
	s.Drop(a, Ack(0, MSN(1)))
	if string(a.Remote.Bytes[1000:1011]) != "first bytes" {
		t.Error("not written")
	}
	for name, c := range map[string]func(a *End, w *mr.Window) Craft{
		"before it":         func(a *End, w *mr.Window) Craft { return through(w.RKey(), a, 0, 999, "x") },
		"beyond it":         func(a *End, w *mr.Window) Craft { return through(w.RKey(), a, 0, 1100, "x") },
		"across its end":    func(a *End, w *mr.Window) Craft { return through(w.RKey(), a, 0, 1098, "xyz") },
		"old key":           func(a *End, w *mr.Window) Craft { return through(w.RKey()^1, a, 0, 1000, "x") },
		"right not granted": func(a *End, w *mr.Window) Craft { c := a.read(0, 1000, 4); c.RKey = w.RKey(); return c },
	} {
		s := NewScript(t)
		a, p, w := bound(t, s, mr.RemoteWrite)
		p.Inject(c(a, w))
		s.Drop(a, Nak(wire.SynNAKAccess, 0))
		s.InState(a, qp.StateErr)
		_ = name
	}
	// Another queue pair of the same domain may not use it.
	s = NewScript(t)
	a, _, w = bound(t, s, mr.RemoteWrite)
	other := &End{QP: a.Node.CreateQP(QPConfig{}), Local: a.Local, Remote: a.Remote, Recv: a.Recv}
	q := s.rawPeer(other, NodeConfig{Raw: true}, 0)
	q.Inject(through(w.RKey(), a, 0, 1000, "x"))
	s.Drop(other, Nak(wire.SynNAKAccess, 0))
}

// TestBindErrors: MW_BIND_ERR, and the connection is over.
func TestBindErrors(t *testing.T) {
	for name, c := range map[string]func(a *End, w *mr.Window) qp.SendWR{
		"nothing":       func(a *End, w *mr.Window) qp.SendWR { return bind(a, w, w.RKey(), 0, 0, mr.RemoteRead) },
		"beyond region": func(a *End, w *mr.Window) qp.SendWR { return bind(a, w, w.RKey(), 0, endMemory+1, mr.RemoteRead) },
		"region may not": func(a *End, w *mr.Window) qp.SendWR {
			wr := bind(a, w, w.RKey(), 0, 10, mr.RemoteRead)
			wr.Bind.LKey, wr.Bind.Addr = a.Local.LKey(), a.Local.Addr(0)
			return wr
		},
		"no such region": func(a *End, w *mr.Window) qp.SendWR {
			wr := bind(a, w, w.RKey(), 0, 10, mr.RemoteRead)
			wr.Bind.LKey++
			return wr
		},
	} {
		s := NewScript(t)
		a, _ := s.Against(QPConfig{}, 0)
		w, err := a.Node.Memory.AllocWindow(a.Node.PD, mr.Window2)
		if err != nil {
			t.Fatal(err)
		}
		id := s.Post(a, c(a, w))
		if len(a.SendWCs) != 1 {
			t.Fatalf("%s: %d completions", name, len(a.SendWCs))
		}
		s.Sent(a, id, qp.WCMWBindErr)
		s.InState(a, qp.StateErr)
	}
	// Bound already.
	s := NewScript(t)
	a, _, w := bound(t, s, mr.RemoteRead)
	s.Sent(a, s.Post(a, bind(a, w, w.RKey(), 0, 10, mr.RemoteRead)), qp.WCMWBindErr)
}

// TestLocalInvalidate waits for everything posted before it, then the key is dead and can be bound
// again; what follows it waits for it.
func TestLocalInvalidate(t *testing.T) {
	s := NewScript(t)
	a, p, w := bound(t, s, mr.RemoteWrite)
	key := w.RKey()
	before := s.Post(a, a.Send(0, 10))
	inv := s.Post(a, qp.SendWR{Opcode: qp.WRLocalInv, Flags: qp.SendSignaled, InvalidateKey: key})
	after := s.Post(a, a.Send(0, 10))
	s.Drop(a, Pkt(wire.RCSendOnly, 0))
	s.Quiet()
	s.NoCompletions(a)
	if !w.Bound() {
		t.Error("invalidated before the SEND was done")
	}
	p.ack(wire.SynACK, 0)
	s.Sent(a, before, qp.WCSuccess)
	if wc := s.Sent(a, inv, qp.WCSuccess); wc.Opcode != qp.WCLocalInv {
		t.Errorf("completion %+v", wc)
	}
	if w.Bound() {
		t.Error("still bound")
	}
	s.Drop(a, Pkt(wire.RCSendOnly, 1))
	p.ack(wire.SynACK, 1)
	s.Sent(a, after, qp.WCSuccess)
	s.Sent(a, s.Post(a, bind(a, w, key^0x13, 0, 8, mr.RemoteWrite)), qp.WCSuccess)
	p.Inject(through(w.RKey(), a, 0, 0, "again"))
	s.Drop(a, Ack(0))
	p.Inject(through(key, a, 1, 0, "old!!"))
	s.Drop(a, Nak(wire.SynNAKAccess, 1))
}

// TestLocalAmongRetries: a local operation between requests is done once and completes in its
// place, however often what is around it is sent again.
func TestLocalAmongRetries(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	w, err := a.Node.Memory.AllocWindow(a.Node.PD, mr.Window2)
	if err != nil {
		t.Fatal(err)
	}
	ids := []uint64{s.Post(a, a.Send(0, 10)), s.Post(a, bind(a, w, w.RKey()^1, 0, 10, mr.RemoteRead)), s.Post(a, a.Send(0, 2000)),
		s.Post(a, a.Read(0, 10, a.Remote, 0))}
	for _, from := range []wire.PSN{0, 1, 2} {
		s.Clear()
		s.NoCompletions(a)
		p.ack(wire.SynNAKSeq, from)
		if from == 1 {
			s.Sent(a, ids[0], qp.WCSuccess)
			s.Sent(a, ids[1], qp.WCSuccess)
		}
		if from == 0 {
			s.Drop(a, Pkt(wire.RCSendOnly, 0))
		}
		if from <= 1 {
			s.Drop(a, Pkt(wire.RCSendFirst, 1))
		}
		s.Drop(a, Pkt(wire.RCSendLast, 2))
		s.Drop(a, Pkt(wire.RCReadRequest, 3))
		s.Quiet()
	}
	p.Inject(Craft{Op: wire.RCReadResponseOnly, PSN: 3, Syn: wire.SynACK, Payload: make([]byte, 10)})
	s.Sent(a, ids[2], qp.WCSuccess)
	s.Sent(a, ids[3], qp.WCSuccess)
}

// TestLocalInvalidateErrors: a region cannot be invalidated, nor what does not exist.
func TestLocalInvalidateErrors(t *testing.T) {
	for _, key := range []func(a *End) uint32{func(a *End) uint32 { return a.Remote.RKey() }, func(*End) uint32 { return 0x12345678 }} {
		s := NewScript(t)
		a, _ := s.Against(QPConfig{}, 0)
		id := s.Post(a, qp.SendWR{Opcode: qp.WRLocalInv, InvalidateKey: key(a)})
		s.Sent(a, id, qp.WCLocQPOpErr)
		s.InState(a, qp.StateErr)
	}
}

// TestRemoteInvalidate: SEND_WITH_INV takes the window away with the last packet, and the receive
// says which.
func TestRemoteInvalidate(t *testing.T) {
	s := NewScript(t)
	a, p, w := bound(t, s, mr.RemoteWrite)
	id := s.Receive(a, 2000)
	p.Inject(Craft{Op: wire.RCSendFirst, PSN: 0, Payload: make([]byte, 1024)})
	if !w.Bound() {
		t.Error("invalidated by the first packet")
	}
	p.Inject(Craft{Op: wire.RCSendLastInv, PSN: 1, AckReq: true, RKey: w.RKey(), Payload: make([]byte, 6)})
	s.Drop(a, Ack(1, MSN(1)))
	if wc := s.Received(a, id, qp.WCSuccess); wc.Flags != qp.WCWithInv || wc.InvalidatedRKey != w.RKey() || wc.ByteLen != 1030 {
		t.Errorf("completion %+v", wc)
	}
	if w.Bound() {
		t.Error("still bound")
	}
	p.Inject(through(w.RKey(), a, 2, 1000, "late"))
	s.Drop(a, Nak(wire.SynNAKAccess, 2))
}

// TestRemoteInvalidateErrors: class J: the SEND is acknowledged, then its receive fails and so does
// the queue pair (table 13, row 12).
func TestRemoteInvalidateErrors(t *testing.T) {
	for name, key := range map[string]func(a *End) uint32{
		"a region":   func(a *End) uint32 { return a.Remote.RKey() },
		"no such":    func(*End) uint32 { return 0x55667788 },
		"key byte":   func(a *End) uint32 { return a.Remote.RKey() ^ 1 },
		"lkey of it": func(a *End) uint32 { return a.Local.LKey() },
	} {
		s := NewScript(t)
		a, p := s.Against(QPConfig{}, 0)
		id := s.Receive(a, 10)
		p.Inject(Craft{Op: wire.RCSendOnlyInv, PSN: 0, AckReq: true, RKey: key(a), Payload: make([]byte, 4)})
		s.Drop(a, Ack(0))
		s.InState(a, qp.StateErr)
		if len(a.RecvWCs) != 1 {
			t.Fatalf("%s: %d completions", name, len(a.RecvWCs))
		}
		s.Received(a, id, qp.WCRemInvReqErr)
	}
}

// TestSendWithInvOnWire: the opcodes and the key, one packet and several.
func TestSendWithInvOnWire(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	s.Post(a, With(a.Send(0, 10), Invalidating(0xabcdef12)))
	s.Drop(a, Pkt(wire.RCSendOnlyInv, 0, Inv(0xabcdef12), AckReq(true), Size(10)))
	s.Post(a, With(a.Send(0, 1034), Invalidating(0xabcdef13), SolicitedEvent))
	s.Drop(a, Pkt(wire.RCSendFirst, 1, Solicited(false)))
	s.Drop(a, Pkt(wire.RCSendLastInv, 2, Inv(0xabcdef13), Solicited(true)))
	p.ack(wire.SynACK, 2)
	if len(a.SendWCs) != 2 || a.SendWCs[1].Opcode != qp.WCSend {
		t.Errorf("completions %+v", a.SendWCs)
	}
}

// TestDeregisteredUnderRead: memory that goes away while its READ is being answered: the requester
// is told, nobody reads freed memory, the connection is over.
func TestDeregisteredUnderRead(t *testing.T) {
	s := NewScript(t)
	a := s.newEnd(NodeConfig{Batch: 1, Budget: 1, Pace: Microsecond}, QPConfig{})
	p := s.rawPeer(a, NodeConfig{Raw: true}, 0)
	p.Inject(a.read(0, 0, 5000))
	s.Drop(a, Pkt(wire.RCReadResponseFirst, 0))
	if err := a.Node.Memory.Deregister(a.Remote.Region); err != nil {
		t.Fatal(err)
	}
	s.Advance(Millisecond)
	s.Drop(a, Nak(wire.SynNAKAccess, 1))
	s.Quiet()
	s.InState(a, qp.StateErr)
}

// TestDeregisteredUnderWrite: memory that goes away while it is being sent: LOC_PROT_ERR, and no
// packet with what was not read.
func TestDeregisteredUnderWrite(t *testing.T) {
	s := NewScript(t)
	a := s.newEnd(NodeConfig{Batch: 1, Budget: 1, Pace: Microsecond}, QPConfig{})
	s.rawPeer(a, NodeConfig{Raw: true}, 0)
	id := s.Post(a, a.Write(0, 5000, a.Remote, 0))
	s.Drop(a, Pkt(wire.RCWriteFirst, 0))
	if err := a.Node.Memory.Deregister(a.Local.Region); err != nil {
		t.Fatal(err)
	}
	s.Advance(Millisecond)
	s.Quiet()
	s.Sent(a, id, qp.WCLocProtErr)
	s.InState(a, qp.StateErr)
}
