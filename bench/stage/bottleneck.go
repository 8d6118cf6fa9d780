//go:build linux

package stage

// A bottleneck: senders, a switch and a receiver, each in a namespace of its own. The link from the
// switch to the receiver is slower than what the senders can send; its queue is Queue.
//
//	sender0 ── \
//	            switch ── a queue, the slow link ── receiver
//	sender1 ── /
//
// The receiver has an address for each sender.

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
)

// Bottleneck is such a network.
type Bottleneck struct {
	Senders  []*End
	Receiver *End
	Targets  []netip.Addr // the receiver's addresses, one for each sender

	hub     *End
	forward *forwarder
}

// hubPort is the name of the switch's interface i.
func hubPort(i int) string { return fmt.Sprintf("port%d", i) }

// NewBottleneck makes a bottleneck for a number of senders.
func NewBottleneck(senders, mtu int, q Queue) (b *Bottleneck, err error) {
	last := processor(senders)
	b = &Bottleneck{hub: &End{Name: "switch", CPU: last}}
	for i := range senders + 1 {
		e := &End{Name: fmt.Sprintf("sender%d", i), CPU: processor(i), Interface: fmt.Sprintf("fair%d", i),
			Addr: netip.AddrFrom4([4]byte{198, 51, 100, byte(1 + i)}),
			MAC:  net.HardwareAddr{2, 0, 0x5e, 0, 2, byte(1 + i)}}
		if i < senders {
			b.Senders = append(b.Senders, e)
			b.Targets = append(b.Targets, netip.AddrFrom4([4]byte{198, 51, 100, byte(101 + i)}))
		} else {
			e.Name, e.CPU, b.Receiver = "receiver", last, e
		}
	}
	for _, e := range append(b.ends(), b.hub) {
		if err = e.enter(); err != nil {
			b.Close()
			return nil, err
		}
	}
	if err = b.join(mtu, q); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *Bottleneck) ends() []*End { return append(append([]*End{}, b.Senders...), b.Receiver) }

// Close ends the threads, and with them the programs and the namespaces.
func (b *Bottleneck) Close() {
	if b.forward != nil {
		b.forward.close()
	}
	for _, e := range append(b.ends(), b.hub) {
		e.leave()
	}
}

// join plugs the ends into the switch.
func (b *Bottleneck) join(mtu int, q Queue) error {
	for i, e := range b.ends() {
		if err := b.plug(i, e, mtu); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		if err := e.Do(func() error { return b.configure(e) }); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	if err := b.hub.Do(func() (err error) { return b.switchOn(mtu, q) }); err != nil {
		return err
	}
	return settle(append(b.ends(), b.hub)...)
}

// plug makes the cable between an end and the switch. The kernel cuts up runs of packets in front
// of it: on a wire each packet is by itself.
func (b *Bottleneck) plug(i int, e *End, mtu int) error {
	there, err := b.hub.thread.Open()
	if err != nil {
		return err
	}
	defer there.Close()
	return e.Do(func() error {
		link := netlink.NewLinkAttrs()
		link.Name, link.MTU, link.HardwareAddr = e.Interface, mtu, e.MAC
		veth := &netlink.Veth{
			LinkAttrs:     link,
			PeerName:      hubPort(i),
			PeerMTU:       uint32(mtu),
			PeerNamespace: netlink.NsFd(int(there.Fd())),
		}
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("veth pair: %w", err)
		}
		return netlink.LinkSetGSOMaxSegs(veth, 1)
	})
}

// configure gives an end its addresses and its neighbours'. It runs in the end's namespace.
func (b *Bottleneck) configure(e *End) error {
	link, err := e.up()
	if err != nil {
		return err
	}
	// The senders have different processors, so packets of one sender that the switch passes on for
	// the other would overtake each other, which they do not in a switch.
	if err := e.steer(e.Interface, true); err != nil {
		return err
	}
	if err := e.cutRuns(); err != nil {
		return err
	}
	addrs, neighbours := []netip.Addr{e.Addr}, map[netip.Addr]*End{}
	if e == b.Receiver {
		addrs = append(addrs, b.Targets...)
		for _, s := range b.Senders {
			neighbours[s.Addr] = s
		}
	} else {
		for _, a := range append(b.Targets, b.Receiver.Addr) {
			neighbours[a] = b.Receiver
		}
	}
	for _, a := range addrs {
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(),
			Mask: net.CIDRMask(prefixBits, 32)}}); err != nil {
			return fmt.Errorf("address %v: %w", a, err)
		}
	}
	for a, n := range neighbours {
		if err := netlink.NeighSet(&netlink.Neigh{
			LinkIndex:    link.Attrs().Index,
			State:        netlink.NUD_PERMANENT,
			IP:           a.AsSlice(),
			HardwareAddr: n.MAC,
		}); err != nil {
			return fmt.Errorf("neighbour %v: %w", a, err)
		}
	}
	return nil
}

// cutRuns has the kernel cut up runs of UDP from raw sockets too: those do not say how many packets
// a run has, so that the limit of plug does not hold for them.
func (e *End) cutRuns() error {
	t, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer t.Close()
	if err := t.Change(e.Interface, map[string]bool{"tx-udp-segmentation": false}); err != nil {
		return fmt.Errorf("tx-udp-segmentation off: %w", err)
	}
	return nil
}

// switchOn starts the switch. It runs in the switch's namespace.
func (b *Bottleneck) switchOn(mtu int, q Queue) (err error) {
	var ports []string
	for i := range b.ends() {
		port, err := netlink.LinkByName(hubPort(i))
		if err == nil {
			err = netlink.LinkSetUp(port)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", hubPort(i), err)
		}
		ports = append(ports, hubPort(i))
	}
	b.forward, err = newForwarder(q, mtu, b.hub.CPU, ports, b.ends())
	return err
}

// Reading is what the switch has counted.
type Reading struct {
	At         time.Time
	Bytes      []uint64 // that came from each sender, with Ethernet headers
	Passed     int      // packets that have left by the slow link
	Backlog    int      // bytes that wait for it
	Drops      int      // packets for which there was no room
	Marked     uint64   // packets marked "congestion experienced"
	Unmarkable uint64   // packets that would have been, but said that nobody would care
	Refused    int      // packets that the kernel had no room for: the switch's own fault
}

// faultless is an error if packets were lost that no queue of the path has lost.
func faultless(first, last Reading) error {
	if lost := last.Refused - first.Refused; lost > 0 {
		return fmt.Errorf("the switch itself lost %d packets: this machine is too busy or too slow", lost)
	}
	return nil
}

// Read reads the switch's counters.
func (b *Bottleneck) Read() Reading { return b.forward.read() }

// contest are the programs of a contest that goes on.
type contest struct {
	servers, clients []*process
	ended            chan *process // clients, as they end
}

// at is the end of a play that is, or is not, the receiver.
func (b *Bottleneck) at(play int, receiver bool) *End {
	if receiver {
		return b.Receiver
	}
	return b.Senders[play]
}

// start starts a play for each sender, with the servers at the receiver, unless it goes back.
func (b *Bottleneck) start(ctx context.Context, plays []Play) (c *contest, err error) {
	c = &contest{ended: make(chan *process, len(plays))}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	for i := range plays {
		server, err := b.at(i, !plays[i].Back).start(ctx, plays[i].Server)
		if err != nil {
			return c, fmt.Errorf("server: %w", err)
		}
		c.servers = append(c.servers, server)
		if err := server.waitOpen(ctx, plays[i].Ready); err != nil {
			return c, fmt.Errorf("server: %w", err)
		}
	}
	for i := range plays {
		client, err := b.at(i, plays[i].Back).start(ctx, plays[i].Client)
		if err != nil {
			return c, fmt.Errorf("client: %w", err)
		}
		c.clients = append(c.clients, client)
		go func() {
			<-client.ended
			c.ended <- client
		}()
	}
	return c, nil
}

// stop kills what is left.
func (c *contest) stop() {
	for _, p := range append(c.clients, c.servers...) {
		p.stop()
	}
}

// Compete performs a play for each sender, all at the same time, with the servers at the receiver,
// and reads the switch's counters: when all have started, every so often, and when the time is up.
// Then everything is stopped. A client that ends earlier is an error.
func (b *Bottleneck) Compete(ctx context.Context, plays []Play, every, length time.Duration) (readings []Reading,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, plays[0].Limit)
	defer cancel()
	c, err := b.start(ctx, plays)
	if err != nil {
		return nil, err
	}
	defer c.stop()
	tick, end := time.NewTicker(every), time.After(length)
	defer tick.Stop()
	for over := false; ; {
		if readings = append(readings, b.Read()); over {
			return readings, faultless(readings[0], readings[len(readings)-1])
		}
		select {
		case <-tick.C:
		case <-end:
			over = true
		case client := <-c.ended:
			return nil, client.explain(fmt.Errorf("ended early: %w", client.err))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Share performs a play for each sender as Compete does, until all clients have ended by
// themselves, and returns what they wrote to their standard output, with the switch's counters at
// two times after the clients' start, or at their end if that comes first.
func (b *Bottleneck) Share(ctx context.Context, plays []Play, from, to time.Duration) (said [][]byte,
	first, last Reading, err error) {
	ctx, cancel := context.WithTimeout(ctx, plays[0].Limit)
	defer cancel()
	c, err := b.start(ctx, plays)
	if err != nil {
		return nil, first, last, err
	}
	defer c.stop()
	started, running := time.Now(), len(c.clients)
	for _, r := range []struct {
		at time.Duration
		*Reading
	}{{from, &first}, {to, &last}} {
		for due := time.After(time.Until(started.Add(r.at))); due != nil && running > 0; {
			select {
			case <-due:
				due = nil
			case <-c.ended:
				running--
			}
		}
		*r.Reading = b.Read()
	}
	for _, client := range c.clients {
		if err := client.wait(ctx); err != nil {
			return nil, first, last, fmt.Errorf("client: %w", err)
		}
		said = append(said, client.stdout.Bytes())
	}
	return said, first, last, faultless(first, last)
}
