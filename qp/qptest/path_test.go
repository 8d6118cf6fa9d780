package qptest

// What the address vector of a connection makes of its packets' headers (sections 1.1, 1.2).

import (
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// TestAddressVector: hop limit, traffic class and flow label are in every packet of a connection,
// requests and answers; the flow label chooses the UDP source port, and without one the numbers of
// both queue pairs do. Another address vector that is set while the queue drains counts from then
// on.
func TestAddressVector(t *testing.T) {
	for _, typ := range []qp.QPType{qp.RC, qp.UC} {
		for _, v6 := range []bool{false, true} {
			for _, av := range []qp.AHAttr{{}, {HopLimit: 1, TrafficClass: 0x68, FlowLabel: 0xabcde},
				{HopLimit: 255, TrafficClass: 0xfc, FlowLabel: 1}} {
				s := NewScript(t)
				a := s.newEnd(addr(v6, 1), QPConfig{
					Type:         typ,
					HopLimit:     av.HopLimit,
					TrafficClass: av.TrafficClass,
					FlowLabel:    av.FlowLabel,
				})
				b := s.newEnd(addr(v6, 2), QPConfig{Type: typ, TrafficClass: av.TrafficClass})
				s.Connect(a.QP, b.QP)
				like := func(av qp.AHAttr) Match {
					hops := av.HopLimit
					if hops == 0 {
						hops = 64
					}
					port := wire.SrcPortFor(a.QPN(), b.QPN(), av.FlowLabel)
					return func(p *wire.Packet) string {
						f := p.Frame
						if h := f.IPv6(); h != nil && h.FlowLabel() != av.FlowLabel {
							return field("flow label", h.FlowLabel(), av.FlowLabel)
						}
						return field("TTL, TOS, source port", [3]uint16{uint16(f.TTL()), uint16(f.TOS()), f.SrcPort()},
							[3]uint16{uint16(hops), uint16(av.TrafficClass), port})
					}
				}
				s.Receive(b, 1)
				s.Post(a, a.Send(0, 1))
				s.Expect(a, like(av))
				s.Settle()
				s.Receive(a, 1)
				s.Post(b, b.Send(0, 1))
				s.Expect(b, func(*wire.Packet) string { return "" })
				if typ == qp.RC {
					s.Expect(a, like(av)) // the ACK
				}
				other := av
				other.DGID, other.HopLimit, other.FlowLabel = b.Node.GID, 7, 0x23456
				for _, m := range []struct {
					attr qp.QPAttr
					mask qp.AttrMask
				}{{qp.QPAttr{State: qp.StateSQD}, qp.AttrState}, {qp.QPAttr{AV: other}, qp.AttrAV},
					{qp.QPAttr{State: qp.StateRTS}, qp.AttrState}} {
					if err := a.Modify(m.attr, m.mask); err != nil {
						t.Fatal(err)
					}
				}
				a.port = 0 // the model expects a connection to keep it
				s.Post(a, a.Send(0, 1))
				s.Drop(a, like(other))
			}
		}
	}
}

// TestSourcePort: a port that sends from one UDP port alone has all packets come from there.
func TestSourcePort(t *testing.T) {
	s := NewScript(t)
	nc := NodeConfig{}
	nc.Engine.SrcPort = 4791
	a := s.newEnd(nc, QPConfig{FlowLabel: 0xabcde})
	s.rawPeer(a, NodeConfig{Raw: true}, 0)
	s.Post(a, a.Send(0, 1))
	s.Drop(a, func(p *wire.Packet) string { return field("source port", p.Frame.SrcPort(), 4791) })
}
