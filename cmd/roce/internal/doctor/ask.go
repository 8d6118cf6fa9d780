package doctor

// Filling the record: the route is asked for, the device opened, and then the peer, in several ways
// at a time.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/internal/route"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/wire"
)

// Ports that nobody should have: the RDMA port that is asked for a connection is that of the
// discard service, and the UDP port that refuses datagrams the first one of traceroute.
const (
	nobodysRDMA = 9
	nobodysUDP  = 33434
)

// ask fills in the record. The error is of the options alone, such as a name that is none.
func ask(ctx context.Context, o Options) (*facts, error) {
	f := &facts{}
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", o.Host)
	if err != nil {
		return nil, err
	}
	f.peer = list[0].Unmap()
	f.device = o.Dev
	if f.route, f.noRoute = route.To(f.peer, netip.Addr{}); f.noRoute != nil {
		return f, nil
	}
	if f.device == "" {
		f.device = "udp:" + f.route.Source.String()
	}
	s, err := session.Open(session.Options{Dev: o.Dev}, f.own())
	if f.noOpen = err; err == nil {
		defer s.Close()
		f.device, f.gids = s.Name(), s.GIDs()
		f.linkUp, f.active = s.Port.State == roce.PortActive, s.Port.ActiveMTU
	}
	f.cut = cutOf(f.route.Interface)
	f.askPeer(ctx, o, s)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// Only now has somebody wanted the next hop's address.
	f.neighbour = neighbourOf(f.route.Index, f.route.NextHop)
	return f, nil
}

// own is the address to open a device of. On loopback that is another one than the peer's.
func (f *facts) own() netip.Addr {
	if f.peer.Is4() && f.peer.IsLoopback() {
		return f.peer.Next()
	}
	return f.route.Source
}

// self says whether the peer is the device of this visit, which is nobody else then.
func (f *facts) self() bool { return slices.Contains(f.gids, wire.GIDFrom(f.peer)) }

// askPeer sends datagrams and a connection request, side by side, since silence takes its time. s
// is nil if there is no device.
func (f *facts) askPeer(parent context.Context, o Options, s *session.Session) {
	ctx, cancel := context.WithTimeout(parent, o.Wait)
	defer cancel()
	var asking sync.WaitGroup
	n := max(f.route.NetMTU-headers(f.peer.Is4()), 0)
	if f.route.Local {
		n = 0
	}
	asking.Go(func() { f.host, f.full = compare(ctx, f.route, f.peer, n) })
	// When the peer's connection manager has answered, the port is known to be open.
	unanswered, answered := context.WithCancel(ctx)
	defer answered()
	if !f.self() {
		asking.Go(func() { f.port = knock(unanswered, f.route, f.peer, wire.UDPPort, toNobody()) })
	}
	if s != nil && !f.self() {
		asking.Go(func() {
			if f.cm = askCM(ctx, s.Device, f.peer); f.cm.answer == cmRejected || f.cm.answer == cmAccepted {
				answered()
			}
		})
	}
	asking.Wait()
}

// toNobody is a packet for queue pair 0, which no RoCE device has: whoever has the port drops it. A
// datagram that is too short to be a packet must not be sent: rxe does not live through it (section
// 13).
func toNobody() []byte {
	packet := make([]byte, int(wire.UDSendOnly.Info().HdrLen)+wire.ICRCLen)
	(*wire.BTH)(packet).Put(wire.UDSendOnly, 0, 0, wire.DefaultPKey, 0, 0)
	return packet
}

// askCM asks for a connection to a port that nobody has: a refusal proves that the peer is there,
// and that both ways are open.
func askCM(ctx context.Context, dev *roce.Device, peer netip.Addr) cmAnswer {
	to := net.JoinHostPort(peer.String(), strconv.Itoa(nobodysRDMA))
	c, err := rdmacm.Dial(ctx, to, &rdmacm.ConnConfig{Config: rdmacm.Config{Devices: []*roce.Device{dev}}})
	var no *rdmacm.RejectedError
	switch {
	case err == nil:
		c.Close(ctx) // whatever comes of it: we wanted nothing
		return cmAnswer{answer: cmAccepted}
	case errors.As(err, &no):
		return cmAnswer{cmRejected, no}
	case ctx.Err() != nil, errors.Is(err, rdmacm.ErrUnreachable):
		return cmAnswer{cmSilent, fmt.Errorf("no answer: %w", err)}
	default:
		return cmAnswer{cmFailed, err}
	}
}
