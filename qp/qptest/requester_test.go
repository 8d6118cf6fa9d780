package qptest

// The requester: work requests become packets (sections 4.1, 4.3, 6.1). Peers are engines watched
// by the oracle, or raw ones when the point is what the requester does by itself.

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// TestSegmentation walks every operation with data through every path MTU and every length around
// its boundaries, with WRITEs and READs whole and in pieces.
func TestSegmentation(t *testing.T) {
	for mtu := wire.MTU256; mtu <= wire.MTU4096; mtu++ {
		for i := range 4 {
			v6, even := i&1 != 0, i&2 != 0
			s := NewScript(t)
			nc := addr(v6, 1)
			nc.Engine.EvenPackets = even
			a, b := s.newEnd(nc, QPConfig{MTU: mtu, RdAtomic: 64}), s.newEnd(addr(v6, 2), QPConfig{MTU: mtu, DestRdAtomic: 64})
			s.Connect(a.QP, b.QP)
			m := mtu.Bytes()
			for _, n := range []int{0, 1, 2, 3, 4, 5, m - 1, m, m + 1, 2*m - 1, 2 * m, 2*m + 1, 5*m + 7} {
				for _, wr := range []qp.SendWR{a.Send(3, n), With(a.Send(0, n), Immediate(7)), a.Write(1, n, b.Remote, 5),
					With(a.Write(0, n, b.Remote, 0), Immediate(8)), a.Read(0, n, b.Remote, 1)} {
					b.posted = 0
					if wr.Opcode != qp.WRWrite && wr.Opcode != qp.WRRead {
						s.Receive(b, n)
					}
					id := s.Post(a, wr)
					s.Settle()
					s.Sent(a, id, qp.WCSuccess)
				}
			}
		}
	}
}

// addr is a node's address in one of the IP versions.
func addr(v6 bool, i int) NodeConfig {
	if v6 {
		return NodeConfig{Addr: fmt.Sprintf("fd00::%d", i)}
	}
	return NodeConfig{Addr: fmt.Sprintf("10.0.0.%d", i)}
}

// TestScatterGather sends a message from many pieces into many pieces, empty ones among them,
// across packet boundaries.
func TestScatterGather(t *testing.T) {
	s := NewScript(t)
	c := qp.Cap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: qp.MaxSGE, MaxRecvSGE: qp.MaxSGE}
	a, b := s.Pair(QPConfig{Cap: c, MTU: wire.MTU256}, QPConfig{Cap: c, MTU: wire.MTU256})
	var from, to []qp.SGE
	n := 0
	for i := range qp.MaxSGE {
		from = append(from, a.Local.SGE(100*i, i*7%64))
		n += i * 7 % 64
	}
	for i, left := 0, n; left > 0; i++ {
		k := min(left, (i*i*13)%97)
		to = append(to, b.Recv.SGE(200*i, k))
		left -= k
	}
	to = append(to, qp.SGE{LKey: 0xdead, Addr: 5}) // empty: its key means nothing
	if _, err := b.PostRecv(to...); err != nil {
		t.Fatal(err)
	}
	wr := a.Send(0, 0)
	wr.SGL = from
	id := s.Post(a, wr)
	s.Settle()
	s.Sent(a, id, qp.WCSuccess)
	read := a.Read(0, 0, b.Remote, 77) // and a READ that scatters
	read.SGL = from[:9]
	id = s.Post(a, read)
	s.Settle()
	s.Sent(a, id, qp.WCSuccess)
}

func TestPSNWrap(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{PSN: 0xfffffe}, QPConfig{PSN: 0xffffff})
	id := s.Post(a, a.Write(0, 4*1024, b.Remote, 0))
	s.Expect(a, Pkt(wire.RCWriteFirst, 0xfffffe))
	s.Expect(a, Pkt(wire.RCWriteMiddle, 0xffffff))
	s.Expect(a, Pkt(wire.RCWriteMiddle, 0))
	s.Expect(a, Pkt(wire.RCWriteLast, 1))
	s.Expect(b, Ack(0xfffffe)) // the first of a connection is asked for
	s.Expect(b, Ack(1, MSN(1)))
	s.Sent(a, id, qp.WCSuccess)

	id = s.Post(b, b.Read(0, 3*1024, a.Remote, 0)) // the numbers of the replies wrap
	s.Expect(b, Pkt(wire.RCReadRequest, 0xffffff))
	s.Expect(a, Pkt(wire.RCReadResponseFirst, 0xffffff))
	s.Drop(a, Pkt(wire.RCReadResponseMiddle, 0))
	s.Expect(a, Pkt(wire.RCReadResponseLast, 1))
	s.Settle() // the gap asks for the rest at once or the timer does
	s.Advance(2 * Millisecond)
	s.Settle()
	s.Sent(b, id, qp.WCSuccess)
}

// TestReadTakesPSNs: a READ takes as many PSNs as its replies have packets, at least one.
func TestReadTakesPSNs(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{}, QPConfig{})
	s.Post(a, a.Read(0, 2049, b.Remote, 0))
	s.Post(a, a.Read(3000, 0, b.Remote, 0))
	s.Post(a, a.FetchAdd(4000, b.Remote, 0, 1))
	s.Post(a, a.Write(0, 1, b.Remote, 5000))
	s.Expect(a, Pkt(wire.RCReadRequest, 0, AckReq(true)))
	s.Expect(a, Pkt(wire.RCReadRequest, 3))
	s.Expect(a, Pkt(wire.RCFetchAdd, 4, AckReq(true)))
	s.Expect(a, Pkt(wire.RCWriteOnly, 5))
	s.Settle()
}

func TestInline(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{Cap: qp.Cap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 100}}, QPConfig{})
	data := []byte("copied while posting")
	s.Receive(b, 100)
	id := s.Post(a, With(a.Send(0, 0), InlineData(data)))
	f := s.Keep(a, Pkt(wire.RCSendOnly, 0, Payload([]byte("copied while posting"))))
	copy(data, "XXXXXXXXXXXXXXXXXXXX") // the application's again
	s.Advance(Millisecond + 60*Microsecond)
	s.Expect(a, Pkt(wire.RCSendOnly, 0, Payload([]byte("copied while posting"))))
	_ = f
	s.Settle()
	s.Sent(a, id, qp.WCSuccess)
	for name, wr := range map[string]qp.SendWR{
		"too long":       With(a.Send(0, 0), InlineData(make([]byte, 101))),
		"READ":           With(a.Read(0, 0, b.Remote, 0), InlineData(make([]byte, 4))),
		"with elements":  With(a.Send(0, 8), func(wr *qp.SendWR) { wr.Flags, wr.Inline = wr.Flags|qp.SendInline, []byte{1} }),
		"without flag":   With(a.Send(0, 0), func(wr *qp.SendWR) { wr.Inline = []byte{1} }),
		"atomic":         With(a.FetchAdd(0, b.Remote, 0, 1), InlineData(make([]byte, 8))),
		"local invalid.": {Opcode: qp.WRLocalInv, Flags: qp.SendInline, Inline: []byte{1}},
	} {
		if _, err := a.PostSend(wr); !errors.Is(err, qp.ErrInvalid) {
			t.Errorf("inline %s: %v, want ErrInvalid", name, err)
		}
	}
}

// TestPostErrors: what can be known while posting is refused there, and nothing of it is queued
// (section 6.1).
func TestPostErrors(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{}, QPConfig{})
	uc := s.newEnd(NodeConfig{}, QPConfig{Type: qp.UC})
	uc2 := s.newEnd(NodeConfig{}, QPConfig{Type: qp.UC})
	s.Connect(uc.QP, uc2.QP)
	ud := s.newEnd(NodeConfig{}, QPConfig{Type: qp.UD})
	ud.Activate()
	five := make([]qp.SGE, 5)
	for name, c := range map[string]struct {
		q  *End
		wr qp.SendWR
	}{
		"opcode":               {a, qp.SendWR{Opcode: 200}},
		"unassigned opcode":    {a, qp.SendWR{Opcode: 12}},
		"too many elements":    {a, qp.SendWR{Opcode: qp.WRSend, SGL: five}},
		"too long":             {a, qp.SendWR{Opcode: qp.WRSend, SGL: []qp.SGE{{Length: 1 << 31}, {Length: 1}}}},
		"atomic of 4 bytes":    {a, With(a.FetchAdd(0, b.Remote, 0, 1), func(wr *qp.SendWR) { wr.SGL[0].Length = 4 })},
		"atomic of 16 bytes":   {a, With(a.FetchAdd(0, b.Remote, 0, 1), func(wr *qp.SendWR) { wr.SGL[0].Length = 16 })},
		"misaligned atomic":    {a, a.FetchAdd(0, b.Remote, 4, 1)},
		"bind without data":    {a, qp.SendWR{Opcode: qp.WRBindMW}},
		"READ on UC":           {uc, qp.SendWR{Opcode: qp.WRRead}},
		"atomic on UC":         {uc, qp.SendWR{Opcode: qp.WRAtomicCmpAndSwp}},
		"invalidate on UC":     {uc, qp.SendWR{Opcode: qp.WRSendWithInv}},
		"WRITE on UD":          {ud, qp.SendWR{Opcode: qp.WRWrite}},
		"READ on UD":           {ud, qp.SendWR{Opcode: qp.WRRead}},
		"UD without address":   {ud, qp.SendWR{Opcode: qp.WRSend}},
		"SEND_WITH_INV on UD":  {ud, qp.SendWR{Opcode: qp.WRSendWithInv}},
		"local operation, SGL": {a, qp.SendWR{Opcode: qp.WRLocalInv, SGL: five[:1]}},
	} {
		c.wr.WRID = 99
		if _, err := c.q.PostSend(c.wr); !errors.Is(err, qp.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if _, err := a.PostRecv(five...); !errors.Is(err, qp.ErrInvalid) {
		t.Errorf("receive of too many elements: %v", err)
	}
	s.Quiet()
	s.NoCompletions(a, uc, ud)
}

// TestPostMany: a list is taken up to the first bad request; a full queue says ErrFull.
func TestPostMany(t *testing.T) {
	s := NewScript(t)
	a, _ := s.Against(QPConfig{Cap: qp.Cap{MaxSendWR: 4, MaxRecvWR: 2, MaxSendSGE: 1, MaxRecvSGE: 1}}, 0)
	good := func(id uint64) qp.SendWR { return qp.SendWR{WRID: id, Opcode: qp.WRSend, Flags: qp.SendSignaled} }
	if n, err := a.QP.QP.PostSend([]qp.SendWR{good(1), good(2), {Opcode: 77}, good(3)}); n != 2 || !errors.Is(err, qp.ErrInvalid) {
		t.Errorf("posted %d, %v; want 2 and ErrInvalid", n, err)
	}
	if n, err := a.QP.QP.PostSend([]qp.SendWR{good(4), good(5), good(6)}); n != 2 || !errors.Is(err, qp.ErrFull) {
		t.Errorf("posted %d, %v; want 2 and ErrFull", n, err)
	}
	a.Ring()
	for psn := range wire.PSN(4) {
		s.Drop(a, Pkt(wire.RCSendOnly, psn))
	}
	a.Raw.Inject(Craft{Op: wire.RCAcknowledge, Syn: wire.SynACK, PSN: 1})
	s.Sent(a, 1, qp.WCSuccess)
	s.Sent(a, 2, qp.WCSuccess)
	if _, err := a.PostSend(good(7)); err != nil {
		t.Errorf("after two completions: %v", err)
	}
	for i := range 3 {
		if _, err := a.PostRecv(); (i < 2) != (err == nil) || i == 2 && !errors.Is(err, qp.ErrFull) {
			t.Errorf("receive %d: %v", i, err)
		}
	}
}

// TestUnsignaled: no completion for them, but their slots come free with the next one that has one,
// or earlier.
func TestUnsignaled(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{Cap: qp.Cap{MaxSendWR: 4, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}, QPConfig{})
	for range 10 {
		for range 3 {
			s.Post(a, With(a.Write(0, 10, b.Remote, 0), Unsignaled))
		}
		id := s.Post(a, a.Write(0, 10, b.Remote, 0))
		s.Settle()
		s.Sent(a, id, qp.WCSuccess)
		s.NoCompletions(a)
	}
}

func TestSQSigAll(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{SQSigAll: true}, QPConfig{})
	id := s.Post(a, With(a.Write(0, 10, b.Remote, 0), Unsignaled))
	s.Settle()
	s.Sent(a, id, qp.WCSuccess)
}

// TestSolicited: SE is on the last packet of SENDs and of WRITEs with immediate, and on nothing
// else.
func TestSolicited(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{}, QPConfig{})
	s.Receive(b, 3000)
	s.Receive(b, 0)
	s.Post(a, With(a.Send(0, 2000), SolicitedEvent))
	s.Expect(a, Pkt(wire.RCSendFirst, 0, Solicited(false)))
	s.Expect(a, Pkt(wire.RCSendLast, 1, Solicited(true)))
	s.Settle()
	s.Post(a, With(a.Write(0, 2000, b.Remote, 0), Immediate(5), SolicitedEvent))
	s.Expect(a, Pkt(wire.RCWriteFirst, 2, Solicited(false)))
	s.Expect(a, Pkt(wire.RCWriteLastImm, 3, Solicited(true), Imm(5)))
	s.Settle()
	s.Post(a, With(a.Write(0, 20, b.Remote, 0), SolicitedEvent))
	s.Expect(a, Pkt(wire.RCWriteOnly, 4, Solicited(false)))
	s.Settle()
}

// TestAckReq: the last packet of a message asks for an ACK, and so does the one behind which the
// window closes.
func TestAckReq(t *testing.T) {
	s := NewScript(t)
	nc := NodeConfig{}
	nc.Engine.Window = 3
	a := s.newEnd(nc, QPConfig{})
	s.rawPeer(a, NodeConfig{Raw: true}, 0)
	id := s.Post(a, a.Send(0, 5*1024))
	s.Drop(a, Pkt(wire.RCSendFirst, 0))
	s.Drop(a, Pkt(wire.RCSendMiddle, 1))
	s.Drop(a, Pkt(wire.RCSendMiddle, 2, AckReq(true)))
	s.Quiet()
	a.Raw.Inject(Craft{Op: wire.RCAcknowledge, Syn: wire.SynACK, PSN: 2})
	s.Drop(a, Pkt(wire.RCSendMiddle, 3))
	s.Drop(a, Pkt(wire.RCSendLast, 4, AckReq(true)))
	s.NoCompletions(a)
	a.Raw.Inject(Craft{Op: wire.RCAcknowledge, Syn: wire.SynACK, PSN: 4, MSN: 1})
	s.Sent(a, id, qp.WCSuccess)
}

// TestAckReqUnsignaled: once the path has been measured, a message without a completion asks for no
// ACK, but every so many do; and the last of them, or its loss, is found out about by a probe.
func TestAckReqUnsignaled(t *testing.T) {
	s := NewScript(t)
	a := s.newEnd(NodeConfig{}, QPConfig{Cap: qp.Cap{MaxSendWR: 16, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
	s.rawPeer(a, NodeConfig{Raw: true}, 0)
	quiet := func() qp.SendWR { wr := a.Send(0, 8); wr.Flags &^= qp.SendSignaled; return wr }
	s.Post(a, quiet())
	s.Drop(a, Pkt(wire.RCSendOnly, 0, AckReq(true))) // the path is not measured yet
	s.Advance(10 * Microsecond)
	a.Raw.Inject(Craft{Op: wire.RCAcknowledge, Syn: wire.SynACK, PSN: 0, MSN: 1})
	for psn := wire.PSN(1); psn < 9; psn++ {
		s.Post(a, quiet())
		s.Drop(a, Pkt(wire.RCSendOnly, psn, AckReq(psn%4 == 0))) // of 16 slots
	}
	a.Raw.Inject(Craft{Op: wire.RCAcknowledge, Syn: wire.SynACK, PSN: 8, MSN: 9})
	s.Post(a, quiet())
	s.Drop(a, Pkt(wire.RCSendOnly, 9, AckReq(false)))
	s.Await(Millisecond)
	s.Drop(a, Pkt(wire.RCSendOnly, 9, AckReq(true)))
	a.Raw.Inject(Craft{Op: wire.RCAcknowledge, Syn: wire.SynACK, PSN: 9, MSN: 10})
	id := s.Post(a, a.Send(0, 8))
	s.Drop(a, Pkt(wire.RCSendOnly, 10, AckReq(true)))
	a.Raw.Inject(Craft{Op: wire.RCAcknowledge, Syn: wire.SynACK, PSN: 10, MSN: 11})
	s.Sent(a, id, qp.WCSuccess)
}

// TestWindow holds the number of unacknowledged packets to what the engine was configured for; 0 is
// an adaptive window, which begins with DefaultWindow.
func TestWindow(t *testing.T) {
	for _, window := range []int{1, 2, 7, 0} {
		s := NewScript(t)
		nc := NodeConfig{}
		nc.Engine.Window = window
		a := s.newEnd(nc, QPConfig{MTU: wire.MTU256})
		s.rawPeer(a, NodeConfig{Raw: true}, 0)
		if window == 0 {
			window = qp.DefaultWindow
		}
		s.Post(a, a.Write(0, 60_000, a.Remote, 0))
		if len(s.held) != window {
			t.Errorf("window %d: %d packets sent", window, len(s.held))
		}
	}
}

// TestFence: a fenced request waits for all earlier READs and atomics; one that is not does not.
func TestFence(t *testing.T) {
	for _, first := range []qp.WROpcode{qp.WRRead, qp.WRAtomicFetchAndAdd} {
		s := NewScript(t)
		a, b := s.Pair(QPConfig{}, QPConfig{})
		fetch := a.Read(0, 8, b.Remote, 0)
		if first != qp.WRRead {
			fetch = a.FetchAdd(0, b.Remote, 0, 1)
		}
		s.Post(a, fetch)
		s.Post(a, a.Write(100, 10, b.Remote, 100))
		s.Post(a, With(a.Write(200, 10, b.Remote, 0), Fenced))
		s.Expect(a, Pkt(map[bool]wire.Opcode{true: wire.RCReadRequest, false: wire.RCFetchAdd}[first == qp.WRRead], 0))
		s.Expect(a, Pkt(wire.RCWriteOnly, 1))
		if len(s.held) != 2 { // the reply and the ACK; the fenced WRITE waits
			t.Fatalf("%v: %d packets in the air, want 2%s", first, len(s.held), s.air())
		}
		s.Settle()
		if len(a.SendWCs) != 3 || !bytes.Equal(b.Remote.Bytes[:8], a.Local.Bytes[200:208]) {
			t.Errorf("%v: %d completions", first, len(a.SendWCs))
		}
	}
}

// TestRdAtomicLimit: no more READs and atomics are outstanding than max_rd_atomic; other requests
// behind wait with them, as requests go in order.
func TestRdAtomicLimit(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{RdAtomic: 2}, QPConfig{DestRdAtomic: 2})
	var ids []uint64
	for i := range 5 {
		ids = append(ids, s.Post(a, a.Read(100*i, 10, b.Remote, 0)))
		ids = append(ids, s.Post(a, a.FetchAdd(100*i+16, b.Remote, 1024, 1)))
	}
	s.Expect(a, Pkt(wire.RCReadRequest, 0))
	s.Expect(a, Pkt(wire.RCFetchAdd, 1))
	s.Expect(b, Pkt(wire.RCReadResponseOnly, 0))
	s.Expect(a, Pkt(wire.RCReadRequest, 2)) // one answered, one more
	s.Settle()
	for _, id := range ids {
		s.Sent(a, id, qp.WCSuccess)
	}
}

// TestLocalErrors: bad elements are found when the request is sent: LOC_PROT_ERR, RC goes to ERR
// and the rest is flushed; what came before completes first (sections 5.3, 6.1).
func TestLocalErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(a *End, wr *qp.SendWR)
		read   bool
	}{
		"no such key":          {change: func(a *End, wr *qp.SendWR) { wr.SGL[0].LKey ^= 0x100 }},
		"wrong key byte":       {change: func(a *End, wr *qp.SendWR) { wr.SGL[0].LKey ^= 1 }},
		"beyond the end":       {change: func(a *End, wr *qp.SendWR) { wr.SGL[0].Addr = a.Local.Addr(endMemory - 9) }},
		"before the beginning": {change: func(a *End, wr *qp.SendWR) { wr.SGL[0].Addr-- }},
		"wraps around":         {change: func(a *End, wr *qp.SendWR) { wr.SGL[0].Addr = ^uint64(0) - 3 }},
		"READ without LOCAL_WRITE": {read: true, change: func(a *End, wr *qp.SendWR) {
			wr.SGL[0] = a.Node.NewRegion("ro", 64, 0x5000, 0).SGE(0, 10)
		}},
		"another domain": {change: func(a *End, wr *qp.SendWR) {
			pd, _ := a.Node.Memory.AllocPD()
			r, err := a.Node.Memory.Register(pd, make([]byte, 64), 0x5000, mr.LocalWrite)
			if err != nil {
				t.Fatal(err)
			}
			wr.SGL[0] = qp.SGE{Addr: 0x5000, Length: 10, LKey: r.LKey()}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewScript(t)
			a, b := s.Pair(QPConfig{}, QPConfig{})
			before := s.Post(a, a.Write(0, 2000, b.Remote, 0))
			wr := a.Write(0, 10, b.Remote, 0)
			if c.read {
				wr = a.Read(0, 10, b.Remote, 0)
			}
			c.change(a, &wr)
			bad := s.Post(a, wr)
			after := s.Post(a, a.Write(0, 10, b.Remote, 0))
			s.NoCompletions(a)
			s.Settle()
			s.Sent(a, before, qp.WCSuccess)
			s.Sent(a, bad, qp.WCLocProtErr)
			s.Sent(a, after, qp.WCWRFlushErr)
			s.InState(a, qp.StateErr)
			s.InState(b, qp.StateRTS)
		})
	}
}

// TestReadDepthZero: a READ on a queue pair that may have none outstanding cannot wait for ever.
func TestReadDepthZero(t *testing.T) {
	s := NewScript(t)
	a, b := s.Against(QPConfig{RdAtomic: -1}, 0)
	id := s.Post(a, a.Read(0, 10, a.Remote, 0))
	s.Sent(a, id, qp.WCLocQPOpErr)
	s.InState(a, qp.StateErr)
	_ = b
}
