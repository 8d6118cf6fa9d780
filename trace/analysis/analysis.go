package analysis

// Packets to flows. Stages: what receivers drop says nothing of the protocol and is only counted →
// the flow of the packet → what was captured twice is left out → marks → by the opcode's kind.

import (
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// maxFlows is how many flows are told apart; packets of others are counted.
const maxFlows = 1 << 16

// flowKey is who sends to which queue pair of whom.
type flowKey struct {
	src, dst wire.GID
	qp       uint32
	from     uint32 // the sender's queue pair, of datagrams, which name it; else 0
	service  wire.Service
}

// Flow is what goes from one address to one queue pair of another: requests, and the responses to
// what the other way asks for.
type Flow struct {
	Src, Dst wire.GID
	DestQP   uint32
	SrcQP    uint32 // of datagrams; of connections it is Peer's DestQP
	Service  wire.Service
	Peer     *Flow  // the other way, nil if it is not known
	Known    string // how Peer was recognised

	First, Last  int64 // times of packets, nanoseconds
	Packets      uint64
	Payload      uint64 // bytes
	Marked       uint64 // packets that a switch marked (ECN)
	CNPs         uint64 // congestion notifications: they slow the other way down
	BadICRC      uint64
	Malformed    uint64
	SeenTwice    uint64 // the same packet, captured at another place or by a mirror
	PathMTU      int    // 0: not known
	Requests     Requests
	Responses    Responses
	Findings     []Finding          // the first of them
	MoreFindings int                // how many there were beside
	Weights      [numWeights]uint64 // all findings, by Weight

	order  int // of appearance
	point  point
	since  int64  // how long before the packet at hand an equal one was seen; -1: none was
	twins  uint64 // equal packets at about the same distance
	apart  int64  // that distance
	req    requester
	latest *Finding // of the packet at hand
	drawn  *Graph   // nil: none is wanted
}

// Analysis is what is known so far. It is not for concurrent use.
type Analysis struct {
	Packets, Others uint64  // packets of RoCE, and of anything else
	Problems        uint64  // packets of RoCE whose headers make no sense
	Unsorted        uint64  // packets beyond what is told apart
	HeadersCut      uint64  // packets of RoCE whose headers the capture has cut off
	RunsCut         uint64  // runs of packets of which the capture has the first only
	Lost            uint64  // records of the device that captured: it did more than it has recorded
	Flows           []*Flow // in order of appearance

	first, last int64
	flows       map[flowKey]*Flow
	between     map[[2]wire.GID][]*Flow // flows that have no Peer yet
	copies      copies
	cm          connections
	recorded    map[uint32]*Recorded // by queue pair
	inFlight    int                  // messages of all flows
	graphs      int                  // flows that may still have one
}

// New begins an analysis.
func New() *Analysis {
	return &Analysis{
		flows:    map[flowKey]*Flow{},
		between:  map[[2]wire.GID][]*Flow{},
		copies:   copies{newest: map[twin]sighting{}},
		cm:       connections{asked: map[commKey]asked{}},
		recorded: map[uint32]*Recorded{},
	}
}

// Remark is what Add has to say of a packet.
type Remark struct {
	Twice   bool     // it was captured before, at another place
	Finding *Finding // what was found by it, nil if nothing was
}

// Add takes the next packet of the capture.
func (a *Analysis) Add(p *trace.Packet) Remark {
	if p.Kind == trace.Other {
		a.Others++
		return Remark{}
	}
	if a.Packets == 0 {
		a.first = p.Time
	}
	a.Packets++
	a.last = max(a.last, p.Time)
	if p.RunCut {
		a.RunsCut++
	}
	if !p.Parsed {
		if p.HeadCut {
			a.HeadersCut++
		} else {
			a.Problems++
		}
		return Remark{}
	}
	f := a.flow(p)
	if f == nil {
		a.Unsorted++
		return Remark{}
	}
	f.latest = nil
	twice := a.take(f, p)
	return Remark{twice, f.latest}
}

// take counts a packet of a flow, and follows it. It says whether it was captured before.
func (a *Analysis) take(f *Flow, p *trace.Packet) (twice bool) {
	if p.ICRC == trace.ICRCWrong {
		f.BadICRC++
		f.draws(p).mark(MarkDamaged, p.Time, p.Wire.BTH.PSN(), 1, p.Number)
		f.find(p, Lost, "the ICRC is wrong: the receiver drops this packet, and the sender hears nothing of it",
			"section 3", see(p).as("it has the ICRC 0x%08x, and its bytes make another", p.Wire.ICRC()))
		return false
	}
	if a.copies.copied(f, p) {
		f.SeenTwice++
		return true
	}
	f.point = place(p)
	a.count(f, p)
	switch op := p.Wire.Op; {
	case op.Flags&wire.OpCNP != 0:
		f.CNPs++
	case f.Service == wire.ServiceUD:
		a.datagram(f, p)
	case op.Flags&wire.OpRequest != 0:
		a.request(f, p)
	case op.Flags&wire.OpResponse != 0:
		a.response(f, p)
	}
	return false
}

// flow returns the packet's flow.
func (a *Analysis) flow(p *trace.Packet) *Flow {
	src, dst := p.GIDs()
	k := flowKey{src: src, dst: dst, qp: p.Wire.BTH.DestQP(), service: p.Wire.Opcode.Service()}
	if k.service == wire.ServiceCNP {
		k.service = a.serviceOf(k)
	}
	if h := p.Wire.DETH(); h != nil {
		k.from = h.SrcQP()
	}
	return a.flowOf(k)
}

// serviceOf says what the flow is that a congestion notification belongs to.
func (a *Analysis) serviceOf(k flowKey) wire.Service {
	for _, k.service = range []wire.Service{wire.ServiceRC, wire.ServiceUC, wire.ServiceXRC} {
		if a.flows[k] != nil {
			return k.service
		}
	}
	return wire.ServiceRC
}

func (a *Analysis) flowOf(k flowKey) *Flow {
	f := a.flows[k]
	if f == nil && len(a.flows) < maxFlows {
		f = &Flow{Src: k.src, Dst: k.dst, DestQP: k.qp, SrcQP: k.from, Service: k.service, order: len(a.Flows)}
		f.req.flight.sum = &a.inFlight
		if a.graphs > 0 && k.service != wire.ServiceUD {
			a.graphs--
			f.drawn = &Graph{origin: a.first, Width: 1}
		}
		a.flows[k] = f
		a.Flows = append(a.Flows, f)
		if k.service != wire.ServiceUD {
			at := [2]wire.GID{k.src, k.dst}
			a.between[at] = append(a.between[at], f)
		}
	}
	return f
}

// count takes what every packet has.
func (a *Analysis) count(f *Flow, p *trace.Packet) {
	if f.Packets == 0 {
		f.First = p.Time
	}
	f.Packets++
	f.Last = max(f.Last, p.Time)
	f.Payload += uint64(len(p.Wire.Payload))
	f.drawn.count(p.Time, len(p.Wire.Payload), p.Number)
	if p.Kind == trace.RoCEv2 && p.Frame.ECN() == wire.ECNCongestion {
		f.Marked++
		f.draws(p).mark(MarkCongestion, p.Time, p.Wire.BTH.PSN(), 1, p.Number)
	}
	// FIRST and MIDDLE are as long as the path MTU.
	if p.Wire.Op.Payload == wire.PayloadFull && !p.RunCut {
		f.learnMTU(len(p.Wire.Payload))
	}
}

// learnMTU notes the path MTU, which is that of both ways.
func (f *Flow) learnMTU(n int) {
	if f.PathMTU == 0 {
		f.PathMTU = n
	}
	f.settle()
	if f.Peer != nil && f.Peer.PathMTU == 0 {
		f.Peer.PathMTU = f.PathMTU
		f.Peer.settle()
	}
}

// datagram takes a UD packet: a message of its own.
func (a *Analysis) datagram(f *Flow, p *trace.Packet) {
	f.Requests.done(kindOf(p.Wire.Op), uint64(len(p.Wire.Payload)), -1)
	if m := wire.MADOf(&p.Wire); m != nil {
		a.manage(f, p, m)
	}
}
