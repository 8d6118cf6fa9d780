// Package ether is what the ports that make Ethernet packets themselves have in common, AF_PACKET
// and AF_XDP: the addresses of one interface, or one of them.
//
//	port_linux.go         opening on an interface, Ethernet headers (this file)
//	rows_linux.go         the addresses, while they come and go
//	group_linux.go        multicast
//	neighbours_linux.go   neighbours, and so Ethernet addresses
//	route_linux.go        which neighbour leads to an address
//	martian_linux.go      sources that are forged
//	self_linux.go         frames to ourselves, which no interface would bring back
package ether

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/count"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// Lengths of headers in bytes.
const (
	HeaderLen = 14                  // Ethernet
	VLANLen   = 4                   // an 802.1Q tag
	HeaderMax = HeaderLen + VLANLen // the longest that a packet may have in front of IP
)

// Port is embedded by these ports.
type Port struct {
	Kind    string     // "packet", "xdp"
	Name    string     // as given to Open
	Addr    netip.Addr // the one of the name, or the best of the interface when it was opened
	QPNs    wire.QPNSpace
	Options transport.Options

	*Station
	first  bool     // of the lanes: it tells of events
	Hop    *NextHop // where the last frame went
	self   selfQueue
	groups groups

	Closed atomic.Bool
	host.Waiter
	host.Degradations
	count.Counters
}

// Init makes p the first lane of an address, or of that which an interface has: where is what
// follows the kind in the name.
func (p *Port) Init(kind, name, where string, o transport.Options) (err error) {
	p.Kind, p.Name, p.Options, p.Station, p.first = kind, name, o, newStation(), true
	p.users.Store(1)
	iface := ""
	if p.Addr, iface, err = host.Address(name, where); err != nil {
		return err
	}
	p.All = iface != ""
	if o.UDPPort != wire.UDPPort {
		return p.Fail(fmt.Sprintf("%s ports send to UDP port %d only; %d is for udp ports",
			kind, wire.UDPPort, o.UDPPort), nil)
	}
	return nil
}

// InitLane makes p another lane of a port that is open.
func (p *Port) InitLane(first *Port) {
	p.Kind, p.Name, p.Options, p.Addr, p.Station = first.Kind, first.Name, first.Options, first.Addr, first.Station
	p.users.Add(1)
	p.Hop = first.Hop
}

// Interfaced is the index of the interface, once it is held.
func (p *Port) Interfaced() int { return p.iface }

// Fail is an error for people.
func (p *Port) Fail(reason string, err error) error {
	return &transport.OpenError{Name: p.Name, Reason: reason, Err: err}
}

// Interface is the interface that has our address.
func (p *Port) Interface() (*net.Interface, error) {
	if i, ok := host.InterfaceOf(p.Addr); ok {
		return i, nil
	}
	return nil, p.Fail(fmt.Sprintf("%v is not an address of this machine; its addresses are %s",
		p.Addr, host.LocalAddresses()), nil)
}

// LetGo undoes Hold, with the last lane.
func (p *Port) LetGo() error {
	p.Waiter.Close()
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	if p.first && p.Peers != nil {
		p.Peers.link.Output.Close()
	}
	if p.users.Add(-1) > 0 {
		return nil
	}
	return p.Station.close()
}

// HeaderFor returns the Ethernet header for a frame; nil if it is not known. p.Hop is then where
// the frame goes.
func (p *Port) HeaderFor(f *wire.Frame) *Header {
	if p.All && !fromOne(f, p.Rows()) {
		p.Hop = &p.nowhere
		return nil
	}
	if !f.To(&p.Hop.dst) {
		p.Hop = p.Peers.Hop(f.Dst())
	}
	if !p.Hop.wanted.Load() {
		p.Peers.want(p.Hop)
	}
	return p.Hop.header.Load()
}

// ToSelf gives a frame to the next Recv. false: there is no room before that.
func (p *Port) ToSelf(f *wire.Frame) bool {
	if !p.self.put(f) {
		return false
	}
	p.WakeAll()
	return true
}

// TakeSelf fills frames with those to ourselves and returns how many.
func (p *Port) TakeSelf(frames []wire.Frame) int { return p.self.take(frames) }

// Lost counts frames that could not go.
func (p *Port) Lost(why error, frames int) {
	switch why {
	case unix.EMSGSIZE:
		p.SendTooLong.Add(uint64(frames))
	case unix.ENETDOWN, unix.ENETUNREACH, unix.EHOSTUNREACH:
		p.SendUnreachable.Add(uint64(frames))
	default:
		p.SendRefused.Add(uint64(frames))
	}
	p.LastError(why)
}

// Unreachable counts a frame whose next hop is not known.
func (p *Port) Unreachable() {
	p.SendUnreachable.Add(1)
	p.LastError(p.Hop.reason())
}

// Resolve implements Resolver.
func (p *Port) Resolve(ctx context.Context, dst wire.GID, timeout time.Duration) error {
	if p.Closed.Load() {
		return fmt.Errorf("transport: %s: resolve %v: %w", p.Name, dst.Addr(), transport.ErrClosed)
	}
	if err := p.Peers.resolve(ctx, dst, timeout); err != nil {
		return fmt.Errorf("transport: %s: %w", p.Name, err)
	}
	return nil
}

// Events implements transport.Notifier.
func (p *Port) Events() <-chan transport.Event {
	if !p.first {
		return nil
	}
	return p.Peers.link.Events()
}

// Describe is what Info says about every such port.
func (p *Port) Describe() transport.Info {
	info := transport.Info{
		Name:     p.Name,
		Kind:     p.Kind,
		Why:      p.Options.Why,
		GIDs:     p.Rows(),
		QPNs:     p.QPNs,
		Degraded: p.Degraded(),
	}
	p.Peers.link.Describe(&info)
	return info
}

// Stats are the counters, without what the kernel has counted.
func (p *Port) Stats() transport.Stats {
	s := p.Counters.Stats()
	s.Wakes = p.Wakes()
	return s
}
