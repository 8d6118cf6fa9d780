package qptest

// What the responder refuses: the tables of sections 2.7, 6.2, 6.3. Each row says what arrives,
// what goes back, and how the receive and the queue pair end.

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// Packets of one message, by where they stand in it.
func (e *End) sendPart(op wire.Opcode, psn wire.PSN, n int) Craft {
	return Craft{Op: op, PSN: psn, AckReq: true, Payload: make([]byte, n), VA: e.Remote.Addr(0), RKey: e.Remote.RKey(), Len: 4096}
}

// TestOpcodeOrder walks every pair of a message in progress and a next packet (section 2.7): legal
// ones are executed, all others get 61H and end the connection; for UC they drop the message.
func TestOpcodeOrder(t *testing.T) {
	start, inSend, inWrite := [3]bool{idle: true}, [3]bool{sending: true}, [3]bool{writing: true}
	rows := []orderRow{
		{wire.RCSendFirst, 1024, start}, {wire.RCSendMiddle, 1024, inSend}, {wire.RCSendLast, 10, inSend}, {wire.RCSendLastImm, 10, inSend},
		{wire.RCSendOnly, 10, start}, {wire.RCSendOnlyImm, 10, start}, {wire.RCWriteFirst, 1024, start},
		{wire.RCWriteMiddle, 1024, inWrite},
		{wire.RCWriteLast, 1024, inWrite}, {wire.RCWriteLastImm, 1024, inWrite}, {wire.RCWriteOnly, 10, start},
		{wire.RCWriteOnlyImm, 10, start},
		{wire.RCReadRequest, 0, start}, {wire.RCCompareSwap, 0, start}, {wire.RCFetchAdd, 0, start},
	}
	for state := idle; state <= writing; state++ {
		for _, r := range rows {
			t.Run(fmt.Sprintf("%v in state %d", r.op, state), func(t *testing.T) { r.run(t, state) })
		}
	}
}

// What message is in progress.
const (
	idle = iota
	sending
	writing
)

// orderRow is a packet, and after what it is legal.
type orderRow struct {
	op    wire.Opcode
	size  int
	legal [3]bool // with nothing, a SEND, a WRITE in progress
}

func (r *orderRow) run(t *testing.T, state int) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	first, second := s.Receive(a, 9000), s.Receive(a, 9000)
	psn := wire.PSN(0)
	switch state {
	case sending:
		p.Inject(a.sendPart(wire.RCSendFirst, 0, 1024))
		psn = 1
	case writing:
		c := a.sendPart(wire.RCWriteFirst, 0, 1024)
		if r.op != wire.RCWriteMiddle {
			c.Len = 2048
		}
		p.Inject(c)
		psn = 1
	}
	s.Clear()
	c := a.sendPart(r.op, psn, r.size)
	if r.op == wire.RCWriteOnly || r.op == wire.RCWriteOnlyImm || r.op == wire.RCReadRequest {
		c.Len = 10
	}
	p.Inject(c)
	if r.legal[state] {
		s.InState(a, qp.StateRTS)
		return
	}
	s.Drop(a, Nak(wire.SynNAKInvReq, psn, MSN(0)))
	s.InState(a, qp.StateErr)
	if state == sending {
		s.Received(a, first, qp.WCRemInvReqErr)
	} else {
		s.Received(a, first, qp.WCWRFlushErr)
		s.Event(a, qp.EventQPReqErr)
	}
	s.Received(a, second, qp.WCWRFlushErr)
	p.Inject(a.write(psn+1, 0, []byte{1})) // silence
	s.Quiet()
}

// refusal is a request that ends the connection.
type refusal struct {
	name   string
	cfg    QPConfig
	before func(s *Script, a *End) // posts receives and the like
	in     func(a *End) []Craft
	syn    wire.Syndrome
	status qp.WCStatus  // of the receive in use; WCSuccess: there is none
	event  qp.EventType // if there is none
}

// What the rows of refusals are made of.
var (
	data = []byte("12345678")
	one  = func(c func(a *End) Craft) func(*End) []Craft { return func(a *End) []Craft { return []Craft{c(a)} } }
	with = func(c Craft, change func(*Craft)) Craft { change(&c); return c }
	recv = func(n int) func(*Script, *End) { return func(s *Script, a *End) { s.Receive(a, n) } }
	no   = func(a mr.Access) QPConfig { return QPConfig{Access: 0xe &^ a, NoAccess: true} }
)

var refusals = []refusal{
	// The queue pair does not allow the operation: 61H. Access comes before the key and before
	// the receive.
	{name: "WRITE not allowed", cfg: no(mr.RemoteWrite), in: one(func(a *End) Craft {
		return a.write(0, 0, data)
	}), syn: wire.SynNAKInvReq, event: qp.EventQPReqErr},
	{name: "WRITE of nothing not allowed", cfg: no(mr.RemoteWrite), in: one(func(a *End) Craft {
		return a.write(0, 0, nil)
	}), syn: wire.SynNAKInvReq, event: qp.EventQPReqErr},
	{name: "READ not allowed", cfg: no(mr.RemoteRead), in: one(func(a *End) Craft {
		return a.read(0, 0, 8)
	}), syn: wire.SynNAKInvReq, event: qp.EventQPReqErr},
	{name: "atomic not allowed", cfg: no(mr.RemoteAtomic), in: one(func(a *End) Craft {
		return a.add(0, 0, 1)
	}), syn: wire.SynNAKInvReq, event: qp.EventQPReqErr},
	{name: "WRITE with immediate not allowed", cfg: no(mr.RemoteWrite), before: recv(0),
		in:  one(func(a *End) Craft { return with(a.write(0, 0, data), func(c *Craft) { c.Op = wire.RCWriteOnlyImm }) }),
		syn: wire.SynNAKInvReq, status: qp.WCRemInvReqErr},
	{name: "depth 0", cfg: QPConfig{DestRdAtomic: -1}, in: one(func(a *End) Craft {
		return a.read(0, 0, 8)
	}), syn: wire.SynNAKInvReq, event: qp.EventQPReqErr},
	{name: "depth 0, atomic", cfg: QPConfig{DestRdAtomic: -1}, in: one(func(a *End) Craft {
		return a.add(0, 0, 8)
	}), syn: wire.SynNAKInvReq, event: qp.EventQPReqErr},
	{name: "depth 0, ATOMIC WRITE", cfg: QPConfig{DestRdAtomic: -1}, in: one(func(a *End) Craft {
		return a.store(0, 0, 8)
	}), syn: wire.SynNAKInvReq, event: qp.EventQPReqErr},
	{name: "depth 0, FLUSH", cfg: QPConfig{DestRdAtomic: -1}, in: one(func(a *End) Craft {
		return a.flush(0, 0, 8, 1, 0)
	}), syn: wire.SynNAKInvReq, event: qp.EventQPReqErr},
	// Lengths: 61H.
	{name: "FIRST shorter than MTU", before: recv(4096), in: one(func(a *End) Craft {
		return a.sendPart(wire.RCSendFirst, 0, 1020)
	}), syn: wire.SynNAKInvReq, status: qp.WCRemInvReqErr},
	{name: "FIRST longer than MTU", before: recv(4096), in: one(func(a *End) Craft {
		return a.sendPart(wire.RCSendFirst, 0, 2048)
	}), syn: wire.SynNAKInvReq, status: qp.WCRemInvReqErr},
	{name: "ONLY longer than MTU", before: recv(4096), in: one(func(a *End) Craft {
		return a.sendPart(wire.RCSendOnly, 0, 1025)
	}), syn: wire.SynNAKInvReq, status: qp.WCRemInvReqErr},
	{name: "LAST empty", before: recv(4096), in: func(a *End) []Craft {
		return []Craft{a.sendPart(wire.RCSendFirst, 0, 1024), a.sendPart(wire.RCSendLast, 1, 0)}
	}, syn: wire.SynNAKInvReq, status: qp.WCRemInvReqErr},
	{name: "MIDDLE short", before: recv(4096), in: func(a *End) []Craft {
		return []Craft{a.sendPart(wire.RCSendFirst, 0, 1024), a.sendPart(wire.RCSendMiddle, 1, 1000)}
	}, syn: wire.SynNAKInvReq, status: qp.WCRemInvReqErr},
	{name: "SEND longer than the receive", before: recv(7), in: one(func(a *End) Craft {
		return a.sendPart(wire.RCSendOnly, 0, 8)
	}), syn: wire.SynNAKInvReq, status: qp.WCLocLenErr},
	{name: "SEND longer than the receive, later", before: recv(1030), in: func(a *End) []Craft {
		return []Craft{a.sendPart(wire.RCSendFirst, 0, 1024), a.sendPart(wire.RCSendLast, 1, 8)}
	}, syn: wire.SynNAKInvReq, status: qp.WCLocLenErr},
	{name: "WRITE longer than DMALen", in: one(func(a *End) Craft {
		return with(a.write(0, 0, data), func(c *Craft) { c.Len = 7 })
	}), syn: wire.SynNAKInvReq, event: qp.EventQPReqErr},
	{name: "WRITE shorter than DMALen", in: one(func(a *End) Craft {
		return with(a.write(0, 0, data), func(c *Craft) { c.Len = 9 })
	}), syn: wire.SynNAKInvReq, event: qp.EventQPReqErr},
	{name: "WRITE of more than 2^31", in: one(func(a *End) Craft {
		return with(a.sendPart(wire.RCWriteFirst, 0, 1024), func(c *Craft) { c.Len = 1<<31 + 1 })
	}), syn: wire.SynNAKInvReq, event: qp.EventQPReqErr},
	{name: "READ of more than 2^31", in: one(func(a *End) Craft {
		return with(a.read(0, 0, 8), func(c *Craft) { c.Len = 1<<31 + 1 })
	}), syn: wire.SynNAKInvReq, event: qp.EventQPReqErr},
	{name: "misaligned atomic", in: one(func(a *End) Craft { return a.add(0, 4, 1) }), syn: wire.SynNAKInvReq, event: qp.EventQPReqErr},
	// Keys: 62H.
	{name: "WRITE, unknown key", in: one(func(a *End) Craft {
		return with(a.write(0, 0, data), func(c *Craft) { c.RKey ^= 0x100 })
	}), syn: wire.SynNAKAccess, event: qp.EventQPAccessErr},
	{name: "WRITE, wrong key byte", in: one(func(a *End) Craft {
		return with(a.write(0, 0, data), func(c *Craft) { c.RKey ^= 1 })
	}), syn: wire.SynNAKAccess, event: qp.EventQPAccessErr},
	{name: "WRITE, key of memory without the right", in: one(func(a *End) Craft {
		return with(a.write(0, 0, data), func(c *Craft) { c.RKey, c.VA = a.Local.RKey(), a.Local.Addr(0) })
	}), syn: wire.SynNAKAccess, event: qp.EventQPAccessErr},
	{name: "WRITE beyond the end", in: one(func(a *End) Craft {
		return a.write(0, endMemory-7, data)
	}), syn: wire.SynNAKAccess, event: qp.EventQPAccessErr},
	{name: "WRITE before the beginning", in: one(func(a *End) Craft {
		return with(a.write(0, 0, data), func(c *Craft) { c.VA-- })
	}), syn: wire.SynNAKAccess, event: qp.EventQPAccessErr},
	{name: "WRITE around 2^64", in: one(func(a *End) Craft {
		return with(a.write(0, 0, data), func(c *Craft) { c.VA = 1<<64 - 4 })
	}), syn: wire.SynNAKAccess, event: qp.EventQPAccessErr},
	{name: "long WRITE whose end is beyond, at its first packet", in: one(func(a *End) Craft {
		return with(a.sendPart(wire.RCWriteFirst, 0, 1024), func(c *Craft) { c.Len = endMemory + 1 })
	}), syn: wire.SynNAKAccess, event: qp.EventQPAccessErr},
	{name: "READ, unknown key", in: one(func(a *End) Craft {
		return with(a.read(0, 0, 8), func(c *Craft) { c.RKey = 0 })
	}), syn: wire.SynNAKAccess, event: qp.EventQPAccessErr},
	{name: "READ beyond the end", in: one(func(a *End) Craft {
		return a.read(0, 1, endMemory)
	}), syn: wire.SynNAKAccess, event: qp.EventQPAccessErr},
	{name: "atomic, unknown key", in: one(func(a *End) Craft {
		return with(a.add(0, 0, 8), func(c *Craft) { c.RKey = 0xffffffff })
	}), syn: wire.SynNAKAccess, event: qp.EventQPAccessErr},
	{name: "atomic beyond the end", in: one(func(a *End) Craft {
		return a.add(0, endMemory, 8)
	}), syn: wire.SynNAKAccess, event: qp.EventQPAccessErr},
	// The receive itself is bad: 63H.
	{name: "receive of unknown memory", before: func(s *Script, a *End) { a.PostRecv(qp.SGE{Addr: 1, Length: 10, LKey: 77}) },
		in: one(func(a *End) Craft { return a.sendPart(wire.RCSendOnly, 0, 8) }), syn: wire.SynNAKOp, status: qp.WCLocProtErr},
	{name: "receive of read-only memory", before: func(s *Script, a *End) { a.PostRecv(a.Node.NewRegion("ro", 64, 0x3000, 0).SGE(0, 10)) },
		in: one(func(a *End) Craft { return a.sendPart(wire.RCSendOnly, 0, 8) }), syn: wire.SynNAKOp, status: qp.WCLocProtErr},
}

// TestRefusals walks the error table of the RC responder.
func TestRefusals(t *testing.T) {
	for _, r := range refusals {
		t.Run(r.name, func(t *testing.T) { r.run(t) })
	}
}

func (r *refusal) run(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(r.cfg, 0)
	if r.before != nil {
		r.before(s, a)
	}
	send := s.Post(a, a.Send(0, 1))
	s.Clear()
	spare := s.Receive(a, 10)
	packets := r.in(a)
	remote := string(a.Remote.Bytes)
	for i, c := range packets {
		s.Clear()
		s.InState(a, qp.StateRTS)
		c.PSN = wire.PSN(i)
		p.Inject(c)
	}
	s.Drop(a, Nak(r.syn, wire.PSN(len(packets)-1), MSN(0)))
	s.InState(a, qp.StateErr)
	s.Sent(a, send, qp.WCWRFlushErr)
	if r.status != qp.WCSuccess {
		if wc := a.RecvWCs[0]; wc.Status != r.status {
			t.Errorf("the receive ended with %q, want %q", wc.Status, r.status)
		}
		a.RecvWCs = a.RecvWCs[1:]
	} else {
		s.Event(a, r.event)
	}
	s.Received(a, spare, qp.WCWRFlushErr)
	if remote != string(a.Remote.Bytes) {
		t.Error("memory has changed")
	}
	s.Advance(10 * Second)
	s.Quiet()
	s.NoCompletions(a)
}

// TestOrderOfChecks: access before receive, receive before key (section 6.2).
func TestOrderOfChecks(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{Access: mr.RemoteRead}, 0)
	c := a.write(0, 0, []byte{1, 2, 3, 4})
	c.Op = wire.RCWriteOnlyImm
	p.Inject(c) // neither access nor receive
	s.Drop(a, Nak(wire.SynNAKInvReq, 0))

	a, p = s.Against(QPConfig{}, 0)
	c = a.write(0, 0, []byte{1, 2, 3, 4})
	c.Op, c.RKey = wire.RCWriteOnlyImm, 1
	p.Inject(c) // neither receive nor key
	s.Drop(a, Nak(wire.SynRNR|1, 0))
	s.Receive(a, 0)
	p.Inject(c)
	s.Drop(a, Nak(wire.SynNAKAccess, 0))
}

// TestBothSidesOfRefusal: the requester's status for each NAK, between two engines.
func TestBothSidesOfRefusal(t *testing.T) {
	s := NewScript(t)
	for _, c := range []struct {
		change func(a, b *End, wr *qp.SendWR)
		status qp.WCStatus
	}{
		{func(a, b *End, wr *qp.SendWR) { wr.RKey ^= 0x4200 }, qp.WCRemAccessErr},
		{func(a, b *End, wr *qp.SendWR) { wr.RKey = b.Local.RKey(); wr.RemoteAddr = b.Local.Addr(0) }, qp.WCRemAccessErr},
		{func(a, b *End, wr *qp.SendWR) { wr.Opcode = qp.WRSend; s.Receive(b, 9) }, qp.WCRemInvReqErr},
		{func(a, b *End, wr *qp.SendWR) {
			wr.Opcode = qp.WRSend
			b.PostRecv(qp.SGE{Addr: 9, Length: 99, LKey: 9})
		}, qp.WCRemOpErr},
	} {
		s = NewScript(t)
		a, b := s.Pair(QPConfig{}, QPConfig{})
		wr := a.Write(0, 10, b.Remote, 0)
		c.change(a, b, &wr)
		id, behind := s.Post(a, wr), s.Post(a, a.Send(0, 1))
		s.Settle()
		s.Sent(a, id, c.status)
		s.Sent(a, behind, qp.WCWRFlushErr)
		s.InState(a, qp.StateErr)
		s.InState(b, qp.StateErr)
	}
}

// TestZeroLength: an empty WRITE or READ does not look at key or address (C9-88), an empty SEND
// needs no buffer.
func TestZeroLength(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	p.Inject(Craft{Op: wire.RCWriteOnly, PSN: 0, AckReq: true, VA: 1<<64 - 1, RKey: 0xdeadbeef})
	s.Drop(a, Ack(0, MSN(1)))
	p.Inject(Craft{Op: wire.RCReadRequest, PSN: 1, AckReq: true, VA: 7, RKey: 0})
	s.Drop(a, Pkt(wire.RCReadResponseOnly, 1, MSN(2), Size(0)))
	id := s.Receive(a, 0)
	p.Inject(Craft{Op: wire.RCSendOnlyImm, PSN: 2, AckReq: true, Imm: 0x01020304})
	s.Drop(a, Ack(2, MSN(3)))
	if wc := s.Received(a, id, qp.WCSuccess); wc.ByteLen != 0 || wc.Imm != 0x01020304 || wc.Flags != qp.WCWithImm {
		t.Errorf("%+v", wc)
	}
	id = s.Receive(a, 0)
	p.Inject(Craft{Op: wire.RCWriteOnlyImm, PSN: 3, AckReq: true, RKey: 99, VA: 1, Imm: 5})
	s.Drop(a, Ack(3, MSN(4)))
	if wc := s.Received(a, id, qp.WCSuccess); wc.ByteLen != 0 || wc.Imm != 5 || wc.Opcode != qp.WCRecvRDMAWithImm {
		t.Errorf("%+v", wc)
	}
}
