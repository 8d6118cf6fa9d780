package qptest

// Unreliable datagrams and multicast (sections 1.8, 1.11, 6.4, 8.2).

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// gram adds an active UD end.
func (s *Script) gram(nc NodeConfig, cfg QPConfig) *End {
	cfg.Type = qp.UD
	e := s.newEnd(nc, cfg)
	e.Activate()
	return e
}

// handle is an address handle to a node.
func (e *End) handle(to wire.GID, a qp.AHAttr) *qp.AH {
	a.DGID = to
	ah, err := e.Node.Engine.CreateAH(e.Node.PD, a)
	if err != nil {
		panic(err)
	}
	return ah
}

// datagramTo is a signaled datagram of n bytes.
func (e *End) datagramTo(to *End, ah *qp.AH, n int) qp.SendWR {
	wr := e.Send(0, n)
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, to.QPN(), to.Cfg.QKey
	return wr
}

// TestDatagram: payload behind 40 bytes of GRH, for IPv4 20 zeros and the IPv4 header with a right
// checksum, for IPv6 its header; length, source, immediate data.
func TestDatagram(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		s := NewScript(t)
		a, b := s.gram(addr(v6, 1), QPConfig{}), s.gram(addr(v6, 2), QPConfig{QKey: 0x7777})
		ah := a.handle(b.Node.GID, qp.AHAttr{TrafficClass: 0x6a, HopLimit: 9, FlowLabel: 0x12345})
		for _, n := range []int{0, 1, 1000, 4096} {
			b.posted = 0
			id := s.Receive(b, n+40)
			sent := s.Post(a, With(a.datagramTo(b, ah, n), Immediate(0xa1b2c3d4)))
			s.Sent(a, sent, qp.WCSuccess)
			f := s.Keep(a, func(p *wire.Packet) string { return field("TTL", p.Frame.TTL(), 9) })
			head := bytes.Clone(f.pkt[:f.head])
			s.Arrive(f)
			wc := s.Received(b, id, qp.WCSuccess)
			if wc.ByteLen != uint32(n+40) || wc.SrcQP != a.QPN() || wc.Flags != qp.WCGRH|qp.WCWithImm || wc.Imm != 0xa1b2c3d4 ||
				wc.PKeyIndex != 0 {
				t.Errorf("%+v", wc)
			}
			grh := b.Recv.Bytes[:40]
			if v6 && !bytes.Equal(grh, head[:40]) {
				t.Errorf("GRH % x is not the IPv6 header", grh)
			}
			if !v6 {
				h := *(*wire.IPv4)(grh[20:])
				h.UpdateChecksum()
				if !bytes.Equal(grh[:20], make([]byte, 20)) || !bytes.Equal(grh[20:], h[:]) || h.Src() != a.Node.GID {
					t.Errorf("GRH % x is not zeros and an IPv4 header with a right checksum", grh)
				}
			}
			if back, err := qp.AHFromGRH(grh); err != nil || back.DGID != a.Node.GID {
				t.Errorf("AHFromGRH: %v, %v", back, err)
			}
		}
	}
}

// TestDatagramPSN counts up from sq_psn and wraps; receivers do not look at it.
func TestDatagramPSN(t *testing.T) {
	s := NewScript(t)
	a, b := s.gram(NodeConfig{}, QPConfig{PSN: 0xffffff}), s.gram(NodeConfig{}, QPConfig{})
	ah := a.handle(b.Node.GID, qp.AHAttr{})
	one, two := s.Receive(b, 100), s.Receive(b, 100)
	s.Post(a, a.datagramTo(b, ah, 10))
	s.Post(a, a.datagramTo(b, ah, 20))
	x := s.Keep(a, Pkt(wire.UDSendOnly, 0xffffff, AckReq(false)))
	y := s.Keep(a, Pkt(wire.UDSendOnly, 0))
	s.Arrive(y)
	s.Arrive(x)
	if wc := s.Received(b, one, qp.WCSuccess); wc.ByteLen != 60 {
		t.Errorf("%d bytes", wc.ByteLen)
	}
	s.Received(b, two, qp.WCSuccess)
}

// TestQKey: the packet's must be the receiver's; bit 31 in the work request sends the sender's own.
func TestQKey(t *testing.T) {
	s := NewScript(t)
	a, b := s.gram(NodeConfig{}, QPConfig{QKey: 0x1234}), s.gram(NodeConfig{}, QPConfig{QKey: 0x1234})
	ah := a.handle(b.Node.GID, qp.AHAttr{})
	id := s.Receive(b, 100)
	wr := a.datagramTo(b, ah, 10)
	wr.RemoteQKey = 0x1235
	s.Sent(a, s.Post(a, wr), qp.WCSuccess)
	s.Settle()
	s.NoCompletions(b)
	if n := b.Node.Engine.Stats().Drops[wire.DropQKey]; n != 1 {
		t.Errorf("qkey violations: %d", n)
	}
	wr.RemoteQKey = 0x80000000
	s.Post(a, wr)
	s.Settle()
	s.Received(b, id, qp.WCSuccess)
}

// TestDatagramTooLong for the path: LOC_LEN_ERR and SQE; for the receive: dropped and counted, the
// receive stays.
func TestDatagramTooLong(t *testing.T) {
	s := NewScript(t)
	nc := NodeConfig{}
	nc.Engine.MaxMTU = wire.MTU1024
	a, b := s.gram(nc, QPConfig{}), s.gram(NodeConfig{}, QPConfig{})
	ah := a.handle(b.Node.GID, qp.AHAttr{})
	s.Sent(a, s.Post(a, a.datagramTo(b, ah, 1024)), qp.WCSuccess)
	s.Settle()
	bad, behind := s.Post(a, a.datagramTo(b, ah, 1025)), uint64(0)
	s.Sent(a, bad, qp.WCLocLenErr)
	s.InState(a, qp.StateSQE)
	behind = s.Post(a, a.datagramTo(b, ah, 1))
	s.Sent(a, behind, qp.WCWRFlushErr)
	if err := a.Modify(qp.QPAttr{State: qp.StateRTS}, qp.AttrState); err != nil {
		t.Fatal(err)
	}
	id := s.Receive(b, 49)
	s.Post(a, a.datagramTo(b, ah, 10))
	s.Settle()
	s.NoCompletions(b)
	s.Post(a, a.datagramTo(b, ah, 9))
	s.Settle()
	s.Received(b, id, qp.WCSuccess)
	st := b.Node.Engine.Stats()
	if st.Drops[wire.DropTooLong] != 1 || st.Drops[wire.DropNoRecv] != 1 {
		t.Errorf("too long %d, no receive %d", st.Drops[wire.DropTooLong], st.Drops[wire.DropNoRecv])
	}
}

// TestMTUChanges: datagrams go by the MTU that the port has now, also one that has begun and found
// no room. A connection keeps its path MTU, and a new one may not have more than there is.
func TestMTUChanges(t *testing.T) {
	s := NewScript(t)
	a, b := s.gram(NodeConfig{Batch: 1, Budget: 1, Pace: Microsecond}, QPConfig{}), s.gram(NodeConfig{}, QPConfig{})
	c, d := s.Pair(QPConfig{MTU: wire.MTU2048}, QPConfig{MTU: wire.MTU2048})
	ah := a.handle(b.Node.GID, qp.AHAttr{})
	two := [2]qp.SendWR{a.datagramTo(b, ah, 2000), a.datagramTo(b, ah, 2000)}
	for i := range two {
		if err := a.Stage(&two[i]); err != nil {
			t.Fatal(err)
		}
	}
	a.Ring()
	s.Sent(a, two[0].WRID, qp.WCSuccess)
	s.NoCompletions(a)
	a.Node.SetMTU(wire.MTU1024)
	s.Advance(Microsecond)
	s.Sent(a, two[1].WRID, qp.WCLocLenErr)
	for _, mtu := range []wire.MTU{wire.MTU256, wire.MTU4096, wire.MTU1024} {
		a.Node.SetMTU(mtu)
		for more, want := range []qp.WCStatus{qp.WCSuccess, qp.WCLocLenErr} {
			if err := a.Modify(qp.QPAttr{State: qp.StateRTS}, qp.AttrState); err != nil {
				t.Fatal(err)
			}
			id := s.Post(a, a.datagramTo(b, ah, mtu.Bytes()+more))
			s.Advance(Microsecond)
			s.Sent(a, id, want)
		}
		if attr := a.Node.Engine.QueryQP(a.QP.QP); attr.PathMTU != mtu {
			t.Errorf("path MTU %d, want %d", attr.PathMTU, mtu)
		}
	}
	s.Clear()
	c.Node.SetMTU(wire.MTU1024)
	s.Post(c, c.Write(0, 2048, d.Remote, 0))
	s.Drop(c, Pkt(wire.RCWriteOnly, 0))
	q := c.Node.CreateQP(QPConfig{})
	err := q.Modify(qp.QPAttr{State: qp.StateInit, Port: 1}, maskInit)
	if err == nil {
		err = q.Modify(qp.QPAttr{State: qp.StateRTR, PathMTU: wire.MTU2048, AV: qp.AHAttr{DGID: b.Node.GID}}, toRTR[qp.RC])
	}
	if !errors.Is(err, qp.ErrInvalid) || !strings.Contains(err.Error(), "the port takes 1 (256 bytes) to 3 (1024 bytes)") {
		t.Errorf("path MTU 2048: %v", err)
	}
}

// TestAddressHandles: what they check, and that a destroyed one sends nothing.
func TestAddressHandles(t *testing.T) {
	s := NewScript(t)
	a, b := s.gram(NodeConfig{}, QPConfig{}), s.gram(NodeConfig{}, QPConfig{})
	e := a.Node.Engine
	for name, attr := range map[string]qp.AHAttr{
		"no destination":   {},
		"other IP version": {DGID: wire.GIDFrom(netip.MustParseAddr("fd00::1"))},
		"source index":     {DGID: b.Node.GID, SGIDIndex: 1},
		"flow label":       {DGID: b.Node.GID, FlowLabel: 1 << 20},
	} {
		if _, err := e.CreateAH(a.Node.PD, attr); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	ah := a.handle(b.Node.GID, qp.AHAttr{})
	if err := e.DestroyAH(ah); err != nil {
		t.Fatal(err)
	}
	if err := e.DestroyAH(ah); err == nil {
		t.Error("destroyed twice")
	}
	if _, err := a.PostSend(a.datagramTo(b, ah, 1)); err == nil {
		t.Error("a destroyed handle was accepted")
	}
}

// TestGIDTable: a datagram comes to any row that there is, and to one that is empty it does not;
// nothing is made that would be sent from an empty row.
func TestGIDTable(t *testing.T) {
	s := NewScript(t)
	a, b := s.gram(NodeConfig{}, QPConfig{}), s.gram(NodeConfig{Addr: "10.0.0.2", More: []string{"", "10.9.0.2", "fd00::2"}}, QPConfig{})
	rows := b.Node.GIDs
	ah := a.handle(rows[2], qp.AHAttr{})
	id := s.Receive(b, 100)
	deliver := func() {
		t.Helper()
		s.Sent(a, s.Post(a, a.datagramTo(b, ah, 10)), qp.WCSuccess)
		s.Settle()
	}
	deliver()
	s.Received(b, id, qp.WCSuccess)

	b.Node.SetGIDs(rows[0], wire.GID{}, wire.GID{}, rows[3])
	id = s.Receive(b, 100)
	deliver()
	s.NoCompletions(b)
	if n := b.Node.Engine.Stats().Drops[wire.DropAddress]; n != 1 {
		t.Errorf("%d packets to other addresses", n)
	}
	for row, why := range map[uint8]string{1: "is empty", 2: "is empty", 3: "of different IP versions", 4: "the device has 4 GIDs"} {
		_, err := b.Node.Engine.CreateAH(b.Node.PD, qp.AHAttr{DGID: a.Node.GID, SGIDIndex: row})
		if !errors.Is(err, qp.ErrInvalid) || !strings.Contains(err.Error(), why) {
			t.Errorf("row %d: %v, want %q", row, err, why)
		}
	}

	b.Node.SetGIDs(rows...)
	deliver()
	s.Received(b, id, qp.WCSuccess)
}

// TestConnectionAddressGone: what comes to a connection's address while that is not in the GID
// table is dropped, requests and answers alike; the connection goes on when it is back.
func TestConnectionAddressGone(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{}, QPConfig{})
	rows := b.Node.GIDs
	drops := func() uint64 { return b.Node.Engine.Stats().Drops[wire.DropAddress] }
	b.Node.SetGIDs(wire.GID{})
	id := s.Post(a, a.Write(0, 100, b.Remote, 0))
	s.Expect(a, Pkt(wire.RCWriteOnly, 0))
	s.Quiet()
	if drops() != 1 {
		t.Errorf("a request: %d drops", drops())
	}
	b.Node.SetGIDs(rows...)
	s.Await(Second)
	s.Settle()
	s.Sent(a, id, qp.WCSuccess)

	id = s.Post(b, b.Write(0, 100, a.Remote, 0))
	s.Expect(b, Pkt(wire.RCWriteOnly, 0))
	b.Node.SetGIDs(wire.GID{})
	s.Settle()
	if s.NoCompletions(b); drops() != 2 {
		t.Errorf("an answer: %d drops", drops()-1)
	}
	b.Node.SetGIDs(rows...)
	s.Await(Second)
	s.Settle()
	s.Sent(b, id, qp.WCSuccess)
}

// TestMulticast: every attached queue pair gets a copy, each by its own Q_Key and receives.
func TestMulticast(t *testing.T) {
	for _, group := range []string{"224.1.2.3", "ff0e::99"} {
		s := NewScript(t)
		v6 := group[0] == 'f'
		g := wire.GIDFrom(netip.MustParseAddr(group))
		a, b := s.gram(addr(v6, 1), QPConfig{}), s.gram(addr(v6, 2), QPConfig{})
		other := &End{QP: b.Node.CreateQP(QPConfig{Type: qp.UD}), Recv: b.Node.NewRegion("r2", 1000, 0xa00000, 1)}
		other.Activate()
		otherKey := &End{QP: b.Node.CreateQP(QPConfig{Type: qp.UD, QKey: 5}), Recv: b.Node.NewRegion("r3", 1000, 0xb00000, 1)}
		otherKey.Activate()
		b.Node.Join(g)
		for _, e := range []*End{b, other, otherKey} {
			if err := b.Node.Engine.AttachMulticast(e.QP.QP, g); err != nil {
				t.Fatal(err)
			}
			e.Groups = map[wire.GID]bool{g: true}
		}
		ids := []uint64{s.Receive(b, 100), s.Receive(other, 100), s.Receive(otherKey, 100)}
		ah := a.handle(g, qp.AHAttr{})
		wr := a.Send(0, 50)
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, wire.MulticastQPN, a.Cfg.QKey
		s.Sent(a, s.Post(a, wr), qp.WCSuccess)
		s.Settle()
		s.Received(b, ids[0], qp.WCSuccess)
		s.Received(other, ids[1], qp.WCSuccess)
		s.NoCompletions(otherKey)
		if err := b.Node.Engine.DetachMulticast(b.QP.QP, g); err != nil {
			t.Fatal(err)
		}
		b.Groups = nil
		s.Receive(b, 100)
		again := s.Receive(other, 100)
		s.Sent(a, s.Post(a, wr), qp.WCSuccess)
		s.Settle()
		s.Received(other, again, qp.WCSuccess)
		s.NoCompletions(b)
		if err := b.Node.Engine.DetachMulticast(b.QP.QP, g); err == nil {
			t.Error("detached twice")
		}
		if err := other.Modify(qp.QPAttr{State: qp.StateErr}, qp.AttrState); err != nil {
			t.Fatal(err)
		}
		s.Sent(a, s.Post(a, wr), qp.WCSuccess)
		s.Settle() // attached, but in ERR: skipped
		s.NoCompletions(other)
	}
	s := NewScript(t)
	rc, _ := s.Pair(QPConfig{}, QPConfig{})
	ud := s.gram(NodeConfig{}, QPConfig{})
	if err := rc.Node.Engine.AttachMulticast(rc.QP.QP, wire.GIDFrom(netip.MustParseAddr("224.0.0.9"))); err == nil {
		t.Error("RC was attached")
	}
	if err := ud.Node.Engine.AttachMulticast(ud.QP.QP, ud.Node.GID); err == nil {
		t.Error("a unicast address was attached")
	}
}

// TestGSI: QP 1 exists once and talks with Q_Key 80010000H.
func TestGSI(t *testing.T) {
	s := NewScript(t)
	var ends []*End
	for range 2 {
		e := s.newEnd(NodeConfig{}, QPConfig{Type: qp.GSI, QKey: wire.GSIQKey})
		e.Activate()
		ends = append(ends, e)
	}
	a, b := ends[0], ends[1]
	if a.QPN() != 1 {
		t.Fatalf("GSI has number %d", a.QPN())
	}
	id := s.Receive(b, 256+40)
	wr := a.datagramTo(b, a.handle(b.Node.GID, qp.AHAttr{}), 256)
	s.Post(a, wr)
	s.Settle()
	if wc := s.Received(b, id, qp.WCSuccess); wc.SrcQP != 1 {
		t.Errorf("source QP %d", wc.SrcQP)
	}
	cq := a.Node.CreateCQ(1)
	if _, err := a.Node.Engine.CreateQP(qp.QPInit{Type: qp.GSI, PD: a.Node.PD, SendCQ: cq, RecvCQ: cq}); err == nil {
		t.Error("a second QP 1 was made")
	}
}
