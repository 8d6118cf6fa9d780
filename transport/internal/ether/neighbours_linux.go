package ether

// Routes and neighbours: the only place where Ethernet addresses come from. The kernel keeps both
// tables; we ask it by netlink, remember the answer for each destination, and ask again when it
// says that something has changed.
//
//	destination ── route ──▶ next hop ── neighbour table ──▶ Ethernet header
//	                                     nothing there: a datagram to the discard port
//	                                     makes the kernel send ARP or ND
//
// Send never waits for that: it finds the header in a nextHop with one load, and drops the frame if
// it is not there yet, which a reliable connection repeats. resolve is for those who would rather
// wait beforehand.
//
// One goroutine per port does the asking. It sleeps on the netlink socket and on requests.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

const (
	// neighbourRefresh is how often the neighbours in use are looked at without a reason. The
	// kernel trusts an entry for 15 to 45 s after it was confirmed, and only we know that it is in
	// use.
	neighbourRefresh = 10 * time.Second
	// neighbourRetry is how often an unknown neighbour that frames are sent to is looked at again.
	// The kernel repeats its question every second.
	neighbourRetry = time.Second
	// neighbourPoll is how often resolve looks for the answer, which takes 0.1 ms on a quiet
	// network.
	neighbourPoll = time.Millisecond
	// maxNextHops bounds what datagrams to many addresses make us remember.
	maxNextHops = 16384

	discardPort = 9 // RFC 863
)

// Header is an Ethernet header: destination, source, EtherType.
type Header [HeaderLen]byte

// NextHop is where frames to one address go.
type NextHop struct {
	dst    wire.GID
	header atomic.Pointer[Header] // nil: not known
	why    atomic.Pointer[error]  // if not known
	self   atomic.Bool            // ours: our own address, or a group that we have joined
	wanted atomic.Bool            // frames were sent here since the last look at all neighbours
	asked  atomic.Bool            // the goroutine knows about it
}

// source is an address of ours, and a UDP socket that is bound to it, which is not ours to close.
type source struct {
	gid    wire.GID
	nudger int
}

var errResolving = errors.New("the neighbour's Ethernet address is not known yet")

// Header is the Ethernet header for frames to the address; nil: it is not known.
func (h *NextHop) Header() *Header { return h.header.Load() }

// Self tells whether the address is ours: our own, or a group that we have joined.
func (h *NextHop) Self() bool { return h.self.Load() }

// Multicast tells whether the address is a group's.
func (h *NextHop) Multicast() bool { return h.dst.IsMulticast() }

// reason is why there is no header.
func (h *NextHop) reason() error {
	if why := h.why.Load(); why != nil {
		return *why
	}
	return errResolving
}

// Neighbours is the table of one interface.
type Neighbours struct {
	link *host.Link // its lock is for questions: one at a time

	mu      sync.Mutex // guards the following
	hops    map[wire.GID]*NextHop
	sources []source          // our addresses
	groups  map[wire.GID]bool // that we have joined and that do not come back by the interface

	sleep   host.Waiter
	closed  atomic.Bool
	running bool
	done    chan struct{}
}

// openNeighbours starts the table for an interface, with one of its addresses or, with none, all.
// addSource says which are there.
func openNeighbours(index int, only netip.Addr) (t *Neighbours, err error) {
	t = &Neighbours{hops: map[wire.GID]*NextHop{}, groups: map[wire.GID]bool{}, done: make(chan struct{})}
	var those []netip.Addr
	if only.IsValid() {
		those = []netip.Addr{only}
	}
	t.link, err = host.OpenLink(index, those, unix.RTMGRP_NEIGH|unix.RTMGRP_IPV4_ROUTE|unix.RTMGRP_IPV6_ROUTE)
	if err != nil {
		return nil, err
	}
	if err := t.sleep.Open(-1, t.link.Changes()); err != nil {
		t.link.Close()
		return nil, err
	}
	return t, nil
}

// start starts the goroutine.
func (t *Neighbours) start() {
	t.running = true
	go t.watch()
}

func (t *Neighbours) close() {
	t.closed.Store(true)
	if t.running {
		t.sleep.Wake()
		<-t.done
	}
	t.sleep.Close()
	t.link.Close()
}

// MTU is the longest IP packet that the interface takes, in bytes.
func (t *Neighbours) MTU() int { return t.link.MTU() }

// Gone tells whether the interface was removed.
func (t *Neighbours) Gone() bool { return t.link.Gone() }

// Hop returns the entry for a destination, a new one if need be.
func (t *Neighbours) Hop(dst wire.GID) *NextHop {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hops[dst]
	if h != nil {
		return h
	}
	if len(t.hops) >= maxNextHops {
		t.forget()
	}
	h = &NextHop{dst: dst}
	h.self.Store(t.groups[dst] || slices.ContainsFunc(t.sources, func(s source) bool { return s.gid == dst }))
	if dst.IsMulticast() || t.link.Encap == "loopback" {
		h.header.Store(t.headerTo(dst, groupMAC(dst)))
	}
	t.hops[dst] = h
	return h
}

// forget makes room: entries that are not in use go first. The caller holds the lock.
func (t *Neighbours) forget() {
	for _, all := range []bool{false, true} {
		for dst, h := range t.hops {
			if !h.self.Load() && (all || !h.wanted.Load()) {
				delete(t.hops, dst)
			}
		}
		if len(t.hops) < maxNextHops {
			return
		}
	}
}

// want notes that an entry is in use, also one that was forgotten meanwhile. If it is unknown, that
// wakes the goroutine, once.
func (t *Neighbours) want(h *NextHop) {
	h.wanted.Store(true)
	t.mu.Lock()
	t.hops[h.dst] = h
	t.mu.Unlock()
	if h.header.Load() == nil && !h.self.Load() && !h.asked.Swap(true) {
		t.sleep.Wake()
	}
}

// setSelf marks a group as joined or not.
func (t *Neighbours) setSelf(group wire.GID, self bool) {
	t.mu.Lock()
	if t.groups[group] = self; !self {
		delete(t.groups, group)
	}
	t.mu.Unlock()
	t.Hop(group).self.Store(self)
}

// addSource notes an address of ours, dropSource that it has gone, and where it leads now is not
// known.
func (t *Neighbours) addSource(gid wire.GID, nudger int) {
	t.mu.Lock()
	t.sources = append(t.sources, source{gid, nudger})
	t.mu.Unlock()
	t.Hop(gid).self.Store(true)
}

func (t *Neighbours) dropSource(gid wire.GID) {
	t.mu.Lock()
	t.sources = slices.DeleteFunc(t.sources, func(s source) bool { return s.gid == gid })
	t.mu.Unlock()
	t.Hop(gid).self.Store(false)
}

// sourceFor is the address of ours that a question about dst is asked from: of the same IP version,
// and link-local if that is.
func (t *Neighbours) sourceFor(dst wire.GID) (s source, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sources {
		if s.gid.Is4() == dst.Is4() && s.gid.Addr().IsLinkLocalUnicast() == dst.Addr().IsLinkLocalUnicast() {
			return s, true
		}
	}
	i := slices.IndexFunc(t.sources, func(s source) bool { return s.gid.Is4() == dst.Is4() })
	if i < 0 {
		return s, false
	}
	return t.sources[i], true
}

// groupMAC is the Ethernet address of a multicast group (RFC 1112, RFC 2464).
func groupMAC(group wire.GID) [6]byte {
	if group.Is4() {
		return [6]byte{0x01, 0x00, 0x5e, group[13] & 0x7f, group[14], group[15]}
	}
	return [6]byte{0x33, 0x33, group[12], group[13], group[14], group[15]}
}

// headerTo returns the header for frames to an Ethernet address. On loopback all addresses are
// zero.
func (t *Neighbours) headerTo(dst wire.GID, mac [6]byte) *Header {
	h := new(Header)
	if t.link.Encap != "loopback" {
		copy(h[0:], mac[:])
		own := t.link.MAC()
		copy(h[6:], own[:])
	}
	h[12], h[13] = unix.ETH_P_IP>>8, unix.ETH_P_IP&0xff
	if !dst.Is4() {
		h[12], h[13] = unix.ETH_P_IPV6>>8, unix.ETH_P_IPV6&0xff
	}
	return h
}

// watch looks at neighbours when something has changed, when they are asked for, and now and then.
func (t *Neighbours) watch() {
	defer close(t.done)
	pause, refreshed := neighbourRefresh, time.Now()
	for {
		t.sleep.Wait(pause)
		if t.closed.Load() {
			return
		}
		changed := t.link.Drain()
		if changed {
			time.Sleep(host.Settle)
			t.link.Drain()
			t.link.Read()
		}
		refresh := time.Since(refreshed) >= neighbourRefresh
		if refresh {
			refreshed = time.Now()
		}
		pause = neighbourRefresh
		if t.lookAll(changed, refresh) {
			pause = neighbourRetry
		}
	}
}

// lookAll brings entries up to date: all after a change, those in use for a refresh, and unknown
// ones that are wanted.
func (t *Neighbours) lookAll(changed, refresh bool) (unknown bool) {
	t.mu.Lock()
	all := make([]*NextHop, 0, len(t.hops))
	for _, h := range t.hops {
		all = append(all, h)
	}
	t.mu.Unlock()
	t.link.Lock()
	defer t.link.Unlock()
	table := t.table()
	for _, h := range all {
		known, used := h.header.Load() != nil, h.wanted.Load()
		switch {
		case h.dst.IsMulticast() || h.self.Load() || t.link.Encap == "loopback":
			if changed && known {
				// Our own Ethernet address may be another.
				h.header.Store(t.headerTo(h.dst, groupMAC(h.dst)))
			}
		case known && (changed || refresh && used), !known && (changed || used):
			if refresh || !known {
				h.wanted.Store(false)
			}
			t.look(h, table, used)
			unknown = unknown || h.header.Load() == nil
		case !known:
			h.asked.Store(false) // nobody has sent there lately: the next one wakes us
		}
	}
	return unknown
}

// resolve looks for a neighbour until it is known, at most for the timeout or until ctx ends.
func (t *Neighbours) resolve(ctx context.Context, dst wire.GID, timeout time.Duration) error {
	if _, ok := t.sourceFor(dst); !ok {
		return fmt.Errorf("%v can not be reached: the port has no address of that IP version", dst.Addr())
	}
	h := t.Hop(dst)
	for end, first := time.Now().Add(timeout), true; h.header.Load() == nil && !h.self.Load(); first = false {
		t.link.Lock()
		if t.closed.Load() { // under the lock: the sockets are closed under it
			t.link.Unlock()
			return transport.ErrClosed
		}
		lasting := t.look(h, t.table(), first)
		t.link.Unlock()
		if h.header.Load() != nil {
			break
		}
		if lasting || time.Now().After(end) {
			return h.reason()
		}
		select {
		case <-time.After(neighbourPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// table reads the interface's neighbours. The caller holds the link.
func (t *Neighbours) table() map[netip.Addr]netlink.Neigh {
	// A list with holes is good enough: we look again.
	list, _ := t.link.Handle.NeighList(t.link.Index, netlink.FAMILY_ALL)
	table := make(map[netip.Addr]netlink.Neigh, len(list))
	for _, n := range list {
		if a, ok := netip.AddrFromSlice(n.IP); ok {
			table[a.Unmap()] = n
		}
	}
	return table
}

const neighbourValid = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE |
	netlink.NUD_PERMANENT | netlink.NUD_NOARP

// look brings one entry up to date. With nudge the kernel is made to look too, if it knows nothing
// or nothing fresh. lasting says that there is no point in waiting. The caller holds the link.
func (t *Neighbours) look(h *NextHop, table map[netip.Addr]netlink.Neigh, nudge bool) (lasting bool) {
	via, err := t.route(h.dst)
	if err != nil {
		h.unknown(err)
		return true
	}
	n, listed := table[via]
	valid := listed && n.State&neighbourValid != 0 && len(n.HardwareAddr) == 6
	if nudge && (!valid || n.State == netlink.NUD_STALE) {
		t.nudge(h.dst)
	}
	old := h.header.Load()
	switch {
	case valid:
		h.know(t.headerTo(h.dst, [6]byte(n.HardwareAddr)))
	case old == nil || listed && n.State == netlink.NUD_FAILED:
		h.unknown(fmt.Errorf("no route to %v: %v has not answered %s: %w",
			h.dst.Addr(), via, question(h.dst), unix.EHOSTUNREACH))
	// That the kernel has dropped an entry is no reason to stop; but our own Ethernet address may
	// be another.
	default:
		h.know(t.headerTo(h.dst, [6]byte(old[:6])))
	}
	return false
}

// know gives an entry a header.
func (h *NextHop) know(header *Header) {
	if old := h.header.Load(); old == nil || *old != *header {
		h.header.Store(header)
	}
}

// unknown takes an entry's header away.
func (h *NextHop) unknown(why error) {
	h.why.Store(&why)
	h.header.Store(nil)
}

// question is what the kernel sends to find a neighbour.
func question(dst wire.GID) string {
	if dst.Is4() {
		return "ARP"
	}
	return "neighbour solicitations"
}
