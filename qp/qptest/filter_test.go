package qptest

// What never reaches a queue pair (section 1.13): each reason has a counter and no effect. The
// packets are right but for one thing, and the ICRC is made after the change unless that is the
// point.

import (
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

func TestFilters(t *testing.T) {
	body := func(change func(b []byte)) func(*wire.Frame) { return func(f *wire.Frame) { change(f.Body) } }
	bth := func(change func(h *wire.BTH)) func(*wire.Frame) {
		return func(f *wire.Frame) { change((*wire.BTH)(f.Body)) }
	}
	for name, c := range map[string]struct {
		tamper func(*wire.Frame) // before the ICRC
		spoil  func(*wire.Frame) // after it
		reason wire.DropReason
	}{
		"ICRC":            {spoil: body(func(b []byte) { b[len(b)-1] ^= 1 }), reason: wire.DropICRC},
		"payload bit":     {spoil: body(func(b []byte) { b[wire.BTHLen+16] ^= 0x10 }), reason: wire.DropICRC},
		"address bit":     {spoil: body(func(b []byte) { b[wire.BTHLen+3] ^= 1 }), reason: wire.DropICRC},
		"UDP source port": {spoil: func(f *wire.Frame) { f.UDP().SetSrcPort(1) }, reason: wire.DropICRC},
		"Identification":  {spoil: func(f *wire.Frame) { f.IPv4().SetIdentification(7) }, reason: wire.DropICRC},
		"TVer":            {tamper: bth(func(h *wire.BTH) { h.SetTVer(1) }), reason: wire.DropTVer},
		"unknown QPN":     {tamper: bth(func(h *wire.BTH) { h.SetDestQP(h.DestQP() ^ 1) }), reason: wire.DropUnknownQPN},
		"QPN 0":           {tamper: bth(func(h *wire.BTH) { h.SetDestQP(0) }), reason: wire.DropUnknownQPN},
		"P_Key":           {tamper: bth(func(h *wire.BTH) { h.SetPKey(0x7ffe) }), reason: wire.DropPKey},
		"P_Key 0":         {tamper: bth(func(h *wire.BTH) { h.SetPKey(0x8000) }), reason: wire.DropPKey},
		"UC opcode":       {tamper: bth(func(h *wire.BTH) { h.SetOpcode(wire.UCWriteOnly) }), reason: wire.DropQPType},
		"UD opcode":       {tamper: bth(func(h *wire.BTH) { h.SetOpcode(wire.UDSendOnly) }), reason: wire.DropQPType},
		"XRC opcode":      {tamper: bth(func(h *wire.BTH) { h.SetOpcode(wire.XRCSendOnly) }), reason: wire.DropQPType},
		"unknown opcode":  {tamper: bth(func(h *wire.BTH) { h.SetOpcode(0x1f) }), reason: wire.DropOpcode},
		"pad beyond payload": {reason: wire.DropPad,
			tamper: func(f *wire.Frame) { f.Body = f.Body[:wire.BTHLen+16+4]; f.Body[1] |= 0x30 }},
		"shorter than headers":  {tamper: func(f *wire.Frame) { f.Body = f.Body[:wire.BTHLen+8] }, reason: wire.DropShort},
		"shorter than a packet": {spoil: func(f *wire.Frame) { f.Body = f.Body[:15] }, reason: wire.DropShort},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewScript(t)
			a, p := s.Against(QPConfig{}, 0)
			craft := a.write(0, 0, []byte("payload!"))
			craft.Break = c.spoil
			relength := func(f *wire.Frame) { // the IP and UDP header of what is left
				f.IPv4().SetTotalLength(uint16(f.Len()))
				f.UDP().SetLength(uint16(8 + len(f.Body)))
				f.IPv4().UpdateChecksum()
			}
			if c.tamper != nil {
				craft.Tamper = func(f *wire.Frame) { c.tamper(f); relength(f) }
			}
			before := string(a.Remote.Bytes)
			f := craft.Frame(&p.path, a.QPN())
			relength(&f)
			p.InjectFrame(&f)
			st := a.Node.Engine.Stats()
			if st.Drops[c.reason] != 1 {
				t.Errorf("counter %v is %d; all: %v", c.reason, st.Drops[c.reason], drops(&st))
			}
			s.Quiet()
			if before != string(a.Remote.Bytes) {
				t.Error("memory has changed")
			}
			p.Inject(a.write(0, 0, []byte("payload!"))) // the good one still gets through
			s.Drop(a, Ack(0))
		})
	}
}

// drops lists the counters that are not 0.
func drops(st *qp.Stats) map[string]uint64 {
	m := map[string]uint64{}
	for r, n := range st.Drops {
		if n > 0 {
			m[wire.DropReason(r).String()] = n
		}
	}
	return m
}

// TestAccepted: fields that must not matter.
func TestAccepted(t *testing.T) {
	for name, craft := range map[string]Craft{
		"M bit":                  {MigReq: true},
		"limited member's P_Key": {Tamper: func(f *wire.Frame) { (*wire.BTH)(f.Body).SetPKey(0x7fff) }},
		"FECN and BECN":          {Break: func(f *wire.Frame) { f.Body[4] |= 0xc0 }},
		"reserved bits":          {Tamper: func(f *wire.Frame) { f.Body[8] |= 0x7f }},
		"UDP checksum":           {Break: func(f *wire.Frame) { f.UDP().SetChecksum(0x1234) }},
		"TOS and TTL":            {Break: func(f *wire.Frame) { f.IPv4().SetTOS(0xfc); f.IPv4().SetTTL(1); f.IPv4().UpdateChecksum() }},
		"any source port":        {Tamper: func(f *wire.Frame) { f.UDP().SetSrcPort(0) }},
		"Identification":         {Tamper: func(f *wire.Frame) { f.IPv4().SetIdentification(0xbeef); f.IPv4().UpdateChecksum() }},
		"no DF":                  {Tamper: func(f *wire.Frame) { f.IPv4().SetFragment(0); f.IPv4().UpdateChecksum() }},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewScript(t)
			a, p := s.Against(QPConfig{}, 0)
			c := a.write(0, 0, []byte("payload!"))
			c.MigReq, c.Tamper, c.Break = craft.MigReq, craft.Tamper, craft.Break
			p.Inject(c)
			s.Drop(a, Ack(0, MSN(1)))
		})
	}
}

// TestAddresses: a connection hears its peer only: not another host, and not under another address
// of ours.
func TestAddresses(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	stranger := s.rawPeer(&End{QP: &QP{Node: a.Node, Cfg: QPConfig{DontConnect: true}, QP: a.QP.QP}, Local: a.Local},
		NodeConfig{Raw: true, Addr: "10.9.9.9"}, 0)
	stranger.to = a.QP
	stranger.Inject(a.write(0, 0, []byte("spoof")))
	s.Quiet()
	st := a.Node.Engine.Stats()
	if st.Drops[wire.DropAddress] != 1 {
		t.Errorf("dropped: %v", drops(&st))
	}
	path, err := wire.NewPath(p.GID, stranger.GID, 1, 0, 64, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := a.write(0, 0, []byte("other"))
	f := c.Frame(&path, a.QPN())
	p.InjectFrame(&f)
	s.Quiet()
	st = a.Node.Engine.Stats()
	if st.Drops[wire.DropAddress] != 2 {
		t.Errorf("dropped: %v", drops(&st))
	}
	p.Inject(a.write(0, 0, []byte("right")))
	s.Drop(a, Ack(0))
}

// TestStateFilter: requests need RTR, responses RTS; RESET, INIT and ERR hear nothing.
func TestStateFilter(t *testing.T) {
	for state := qp.StateReset; state <= qp.StateErr; state++ {
		if state == qp.StateSQE { // RC is never there
			continue
		}
		s := NewScript(t)
		a, p := s.Against(QPConfig{DontConnect: true}, 0)
		a.WalkTo(state, p.GID, p.QPN, 0)
		p.Inject(a.write(0, 0, []byte("hello")))
		if hears := state == qp.StateRTR || state == qp.StateRTS || state == qp.StateSQD; hears {
			s.Drop(a, Ack(0))
		} else {
			s.Quiet()
			st := a.Node.Engine.Stats()
			if st.Drops[wire.DropQPState] != 1 {
				t.Errorf("%v: dropped %v", state, drops(&st))
			}
		}
		st := a.Node.Engine.Stats()
		before := st.Drops[wire.DropQPState] + st.Drops[wire.DropGhost]
		p.ack(wire.SynACK, 0)
		st = a.Node.Engine.Stats()
		if st.Drops[wire.DropQPState]+st.Drops[wire.DropGhost] != before+1 {
			t.Errorf("%v: an ACK for nothing was not dropped", state)
		}
	}
}

// TestSynthesisedHead: a port that cannot see Identification still gets packets in, and broken ones
// not.
func TestSynthesisedHead(t *testing.T) {
	s := NewScript(t)
	a := s.newEnd(NodeConfig{SynthHead: true}, QPConfig{})
	p := s.rawPeer(a, NodeConfig{Raw: true}, 0)
	for psn := range wire.PSN(20) {
		c := a.write(psn, 0, []byte{byte(psn)})
		c.Tamper = func(f *wire.Frame) { f.IPv4().SetIdentification(uint16(psn) * 3331); f.IPv4().UpdateChecksum() }
		p.Inject(c)
		s.Drop(a, Ack(psn))
	}
	c := a.write(20, 0, []byte{20})
	c.Break = func(f *wire.Frame) { f.Body[wire.BTHLen+17] ^= 0xff }
	p.Inject(c)
	s.Quiet()
}
