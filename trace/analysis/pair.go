package analysis

// Which two flows are the two ways of one connection. Packets of a connection do not name their
// sender's queue pair. A REQ and its REP of the connection manager do, so a connection whose
// beginning was captured is known at once (section 9). Of others a response tells: its PSN is one
// that the other way has outstanding.

import (
	"fmt"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// maxAsked is how many REQs without an answer are kept in mind.
const maxAsked = 1 << 14

// commKey is a communication ID of an address.
type commKey struct {
	who wire.GID
	id  uint32
}

// asked is what a REQ says.
type asked struct {
	qp      uint32
	mtu     int
	port    uint16
	service wire.Service
	at      int64
	number  int
	psn     wire.PSN
}

// connections are what the connection manager's messages have said so far.
type connections struct {
	asked map[commKey]asked
}

// manage reads a message of the connection manager.
func (a *Analysis) manage(f *Flow, p *trace.Packet, m *wire.MAD) {
	msg, err := wire.ParseCM(m)
	if err != nil {
		return
	}
	switch msg := msg.(type) {
	case *wire.CMReq:
		if len(a.cm.asked) < maxAsked {
			_, port, _ := wire.CMServicePort(msg.ServiceID)
			a.cm.asked[commKey{f.Src, msg.LocalCommID}] = asked{msg.LocalQPN, msg.PathMTU.Bytes(), port,
				serviceOfREQ(msg), p.Time, p.Number, p.Wire.BTH.PSN()}
		}
	case *wire.CMRep:
		k := commKey{f.Dst, msg.RemoteCommID}
		if req, ok := a.cm.asked[k]; ok {
			delete(a.cm.asked, k)
			there := a.flowOf(flowKey{src: f.Dst, dst: f.Src, qp: msg.LocalQPN, service: req.service})
			back := a.flowOf(flowKey{src: f.Src, dst: f.Dst, qp: req.qp, service: req.service})
			if there != nil && back != nil && there.Peer == nil && back.Peer == nil {
				a.pair(there, back, fmt.Sprintf("connection manager, port %d, packets %d and %d",
					req.port, req.number, p.Number))
				there.learnMTU(req.mtu)
			}
		}
	case *wire.CMRej:
		req := a.cm.asked[commKey{f.Dst, msg.RemoteCommID}]
		f.find(p, Failed, fmt.Sprintf("the connection is refused: %v (roce trace explain \"rej %d\")",
			msg.Reason, msg.Reason), "section 9.3", seen{req.number, req.at, req.psn}.as("the REQ, for port %d",
			req.port),
			see(p).as("the REJ, reason %d", msg.Reason))
	}
}

// serviceOfREQ is the service that a REQ asks for.
func serviceOfREQ(m *wire.CMReq) wire.Service {
	switch {
	case m.TransportServiceType == 1:
		return wire.ServiceUC
	case m.TransportServiceType == 3 && m.ExtendedTransportType == 1:
		return wire.ServiceXRC
	}
	return wire.ServiceRC
}

func (a *Analysis) pair(f, g *Flow, how string) {
	f.Peer, g.Peer = g, f
	f.Known, g.Known = how, how
	f.learnMTU(max(f.PathMTU, g.PathMTU))
	for _, x := range []*Flow{f, g} {
		at := [2]wire.GID{x.Src, x.Dst}
		free := a.between[at]
		for i := range free {
			if free[i] == x {
				a.between[at] = append(free[:i], free[i+1:]...)
				break
			}
		}
	}
}

// meet looks for the requests that a response in g is to. Several that could be it are left alone:
// a later response may decide.
func (a *Analysis) meet(g *Flow, p *trace.Packet) {
	const most = 256 // flows that are looked at
	var found *Flow
	free := a.between[[2]wire.GID{g.Dst, g.Src}]
	for _, f := range free[:min(len(free), most)] {
		if f.Service != g.Service || f == g || !f.req.outstanding(p.Wire.BTH.PSN()) {
			continue
		}
		if found != nil {
			return
		}
		found = f
	}
	if found != nil {
		a.pair(found, g, "sequence numbers")
	}
}
