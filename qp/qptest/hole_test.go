package qptest

// A path that drops what is too long for it and says nothing: a black hole.

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// TestBlackHole: who fails because long packets, or the long answers of a READ, do not arrive is
// told so by the completion, and by the queue pair, before the retries are used up. Whoever fails
// because nothing arrives is not, nor who may retry once only.
func TestBlackHole(t *testing.T) {
	const long = 1100 // bytes of an IP packet
	everything := func(*wire.Packet) bool { return true }
	tooLong := func(p *wire.Packet) bool { return p.Frame.Len() > long }
	for _, c := range []struct {
		name  string
		cfg   QPConfig
		drop  func(*wire.Packet) bool
		bytes int
		read  bool
		says  uint8
		fails bool
	}{
		{"write", QPConfig{}, tooLong, 64 << 10, false, qp.VendorErrTooLong, true},
		{"write, selective repeat", QPConfig{Selective: true}, tooLong, 64 << 10, false, qp.VendorErrTooLong, true},
		{"read", QPConfig{RdAtomic: 16, DestRdAtomic: 16}, tooLong, 64 << 10, true, qp.VendorErrTooLong, true},
		{"write of one packet", QPConfig{}, tooLong, 4096, false, qp.VendorErrTooLong, true},
		{"write that fits", QPConfig{}, tooLong, 1000, false, 0, false},
		{"nothing comes", QPConfig{}, everything, 64 << 10, false, 0, true},
		{"one retry", QPConfig{RetryCnt: 1}, tooLong, 64 << 10, false, 0, true},
	} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, used before: %v", c.name, before), func(t *testing.T) {
				s := NewScript(t)
				s.Hold = false
				c.cfg.MTU = wire.MTU4096
				a, b := s.Pair(c.cfg, c.cfg)
				if before {
					short := s.Post(a, a.Write(0, 64, b.Remote, 0))
					if err := s.Run(); err != nil {
						t.Fatal(err)
					}
					s.Sent(a, short, qp.WCSuccess)
				}
				for _, way := range []*Link{s.Link(a.Node, b.Node), s.Link(b.Node, a.Node)} {
					way.Drop = c.drop
				}
				wr := a.Write(0, c.bytes, b.Remote, 0)
				if c.read {
					wr = a.Read(0, c.bytes, b.Remote, 0)
				}
				began, id := s.Now, s.Post(a, wr)
				if err := s.Run(); err != nil {
					t.Fatal(err)
				}
				if !c.fails {
					s.Sent(a, id, qp.WCSuccess)
					return
				}
				wc := s.Sent(a, id, qp.WCRetryExcErr)
				info, err := a.Node.Engine.PathInfo(a.QP.QP)
				if took := s.Now - began; wc.VendorErr != c.says || err != nil || info.TooLong != (c.says != 0) || took > 20*Millisecond {
					t.Errorf("%+v, %+v, %v after %d ns", wc, info, err, took)
				}
			})
		}
	}
}

// TestPathInfo: what a queue pair says of its path is what the path is.
func TestPathInfo(t *testing.T) {
	s := NewScript(t)
	s.Hold = false
	s.Faults = Faults{Delay: 100 * Microsecond}
	a, b := s.Pair(QPConfig{Selective: true, RateLimit: 1_000_000}, QPConfig{Selective: true})
	info := func() qp.PathInfo {
		t.Helper()
		p, err := a.Node.Engine.PathInfo(a.QP.QP)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := info(); p.MTU != wire.MTU1024 || p.RTT != 0 || p.State != qp.WindowFree || p.Window != qp.DefaultWindow ||
		p.WindowBytes != 1024*qp.DefaultWindow || p.Rate != 1e9 || p.Limited {
		t.Errorf("before anything was sent: %+v", p)
	}
	lost := 0
	s.Link(a.Node, b.Node).Drop = func(p *wire.Packet) bool {
		if p.BTH.PSN() != 5 || lost > 0 {
			return false
		}
		lost++
		return true
	}
	id := s.Post(a, a.Write(0, 20000, b.Remote, 0))
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	s.Sent(a, id, qp.WCSuccess)
	if p := info(); p.BaseRTT < 200*Microsecond || p.BaseRTT > 300*Microsecond || p.RTT < p.BaseRTT || p.Resent != 1 || p.Cuts != 0 ||
		p.InFlight != 0 || p.TooLong {
		t.Errorf("after a loss by chance: %+v", p)
	}
	ud := a.Node.CreateQP(QPConfig{Type: qp.UD})
	if p, err := a.Node.Engine.PathInfo(ud.QP); err == nil {
		t.Errorf("of UD: %+v", p)
	}
}
