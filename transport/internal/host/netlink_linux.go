package host

// The interface below a port as the kernel's tables have it, in the network namespace in which the
// port was opened, whichever thread asks. Lanes of one address share it.
//
// Stages: opening; reading, which tells what has changed; describing, for which the kernel is asked
// again only when it has said that something has changed; the goroutine of ports that have no other
// one to read when it says so.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/event"
	"github.com/goroce/goroce/transport/internal/gid"
	"github.com/goroce/goroce/wire"
)

// Settle is how long to wait after a change before the tables are read: changes come in swarms.
const Settle = 5 * time.Millisecond

// Link is an interface and its addresses, or some of them.
type Link struct {
	Index int
	Encap string // "ether", "loopback", ...
	*event.Output
	only  []netip.Addr // the addresses that count, in order; none: all of the interface
	users atomic.Int32 // lanes
	// Serve, if not nil, is told the rows of addresses that the interface has now, before anybody
	// hears of them, and returns those that the port serves. It is set before the first Read.
	Serve func(rows []wire.GID) []wire.GID

	sync.Mutex // guards Handle: one question at a time
	Handle     *netlink.Handle
	table      gid.Table
	described  *transport.Info // the last answer of Describe; nil: something has changed since
	until      time.Time       // as long as described is good

	changes int // netlink socket that tells of changes
	mtu     atomic.Int32
	mac     atomic.Pointer[[6]byte]
	gone    atomic.Bool

	watching sync.Once
	sleep    Waiter
	ending   atomic.Bool
	done     chan struct{} // closed when the goroutine has ended; nil: it was not started
}

// OpenLink opens the tables of an interface, for some of its addresses or, with none, for all. The
// kernel tells of changes of the interface and its addresses, and of what more names (RTMGRP_NEIGH,
// ...).
func OpenLink(index int, only []netip.Addr, more uint32) (l *Link, err error) {
	l = &Link{Index: index, changes: -1}
	for _, a := range only {
		l.only = append(l.only, a.WithZone(""))
	}
	l.users.Store(1)
	if l.Handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	l.changes, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.NETLINK_ROUTE)
	if err == nil {
		err = unix.Bind(l.changes, &unix.SockaddrNetlink{Family: unix.AF_NETLINK,
			Groups: unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR | more})
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("netlink: %w", err)
	}
	facts, err := l.read()
	if err != nil {
		l.Close()
		return nil, err
	}
	l.Output = event.New(facts)
	return l, nil
}

// Share is the same link for another lane, which closes it too. There may be none.
func (l *Link) Share() *Link {
	if l != nil {
		l.users.Add(1)
	}
	return l
}

// Close ends the goroutine, if there is one, and frees the descriptors, when the last lane calls
// it.
func (l *Link) Close() {
	if l.users.Add(-1) > 0 {
		return
	}
	l.watching.Do(func() {}) // from now on nobody starts it
	if l.done != nil {
		l.ending.Store(true)
		l.sleep.Wake()
		<-l.done
		l.sleep.Close()
	}
	if l.Output != nil {
		l.Output.Close()
	}
	if l.changes >= 0 {
		unix.Close(l.changes)
	}
	l.Lock()
	defer l.Unlock()
	l.Handle.Close()
}

// MTU is the longest IP packet that the interface takes, in bytes, when it was last read.
func (l *Link) MTU() int { return int(l.mtu.Load()) }

// MAC is the Ethernet address of the interface when it was last read.
func (l *Link) MAC() [6]byte { return *l.mac.Load() }

// Gone tells whether the interface was removed.
func (l *Link) Gone() bool { return l.gone.Load() }

// Changes is the socket that is readable when something has changed.
func (l *Link) Changes() int { return l.changes }

// Drain empties that socket. What the messages say is not read: what counts is what the tables say
// now.
func (l *Link) Drain() (any bool) {
	l.Lock() // a describe beside it sees the messages, or that they were taken
	defer l.Unlock()
	defer func() {
		if any {
			l.described = nil
		}
	}()
	var buf [64]byte
	for {
		_, _, err := unix.Recvfrom(l.changes, buf[:], unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		switch err {
		case nil, unix.ENOBUFS: // some were lost: a change too
			any = true
		case unix.EINTR:
		default:
			return any
		}
	}
}

// Read reads the tables again, and tells what has changed. One goroutine at a time.
func (l *Link) Read() {
	facts, err := l.read()
	if err != nil {
		return
	}
	if l.Serve != nil {
		facts.GIDs = l.Serve(facts.GIDs)
	}
	l.Note(facts)
}

// GIDs are the rows of addresses that the port serves, as they were last read. Nobody modifies
// them.
func (l *Link) GIDs() []wire.GID { return l.Facts().GIDs }

// read reads the tables. An interface that has gone has neither carrier nor address.
func (l *Link) read() (facts event.Facts, err error) {
	l.Lock()
	defer l.Unlock()
	link, err := l.Handle.LinkByIndex(l.Index)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) && l.Output != nil {
		l.gone.Store(true)
		facts.GIDs = l.table.Set(nil)
		return facts, nil
	}
	if err != nil {
		return facts, err
	}
	a := link.Attrs()
	var mac [6]byte
	copy(mac[:], a.HardwareAddr)
	l.mac.Store(&mac)
	l.mtu.Store(int32(a.MTU))
	if l.Output == nil {
		l.Encap = a.EncapType
	}
	// This fails if the list changes meanwhile, of which we hear.
	addrs, err := l.Handle.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return facts, err
	}
	gids := l.table.Set(l.own(addrs, a.Flags&net.FlagLoopback != 0))
	return event.Facts{Up: up(a), MTU: a.MTU, GIDs: gids}, nil
}

// own lists those of the interface's addresses that are the port's, the best first. One that the
// kernel still looks for at others (duplicate address detection) can not be used yet. On lo the
// whole of 127.0.0.0/8 is local although only 127.0.0.1 is listed.
func (l *Link) own(addrs []netlink.Addr, loopback bool) (list []wire.GID) {
	const unusable = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED
	for _, want := range l.only {
		if slices.ContainsFunc(addrs, func(a netlink.Addr) bool {
			p, ok := prefixOf(a)
			return ok && (p.Addr() == want || loopback && p.Contains(want))
		}) {
			list = append(list, wire.GIDFrom(want))
		}
	}
	if len(l.only) > 0 {
		return list
	}
	var all []netip.Addr
	for _, a := range addrs {
		p, ok := prefixOf(a)
		if ok && (a.Flags&unusable == 0 || a.Flags&unix.IFA_F_OPTIMISTIC != 0) {
			all = append(all, p.Addr())
		}
	}
	for _, a := range rank(all) {
		list = append(list, wire.GIDFrom(a))
	}
	return list
}

// up tells whether packets can come and go.
func up(a *netlink.LinkAttrs) bool {
	return a.Flags&net.FlagUp != 0 && a.Flags&net.FlagRunning != 0
}

func prefixOf(a netlink.Addr) (p netip.Prefix, ok bool) {
	ip, ok := netip.AddrFromSlice(a.IP)
	if !ok {
		return p, false
	}
	bits, _ := a.Mask.Size()
	return netip.PrefixFrom(ip.Unmap(), bits), true
}

// describedFor is how long Describe's answer is good without a word of the kernel's: it says
// nothing of a speed that was set by hand.
const describedFor = time.Second

// Describe fills in what Info says about the interface.
func (l *Link) Describe(info *transport.Info) {
	l.Lock()
	defer l.Unlock()
	if l.described == nil || time.Now().After(l.until) || l.waiting() {
		l.described, l.until = l.ask(), time.Now().Add(describedFor)
	}
	info.GIDs = l.GIDs()
	d := l.described
	if d == nil {
		return
	}
	info.Interface, info.Index, info.NetMTU, info.Up, info.Loopback = d.Interface, d.Index, d.NetMTU, d.Up, d.Loopback
	info.MAC, info.SpeedMbps, info.Addresses = slices.Clone(d.MAC), d.SpeedMbps, slices.Clone(d.Addresses)
}

// waiting tells whether the kernel says that something has changed. It says so before the change's
// maker goes on, so that a caller that asks after a change sees it. The caller has the lock.
func (l *Link) waiting() bool {
	for {
		_, _, err := unix.Recvfrom(l.changes, nil, unix.MSG_DONTWAIT|unix.MSG_PEEK)
		if err != unix.EINTR {
			return err != unix.EAGAIN
		}
	}
}

// ask asks the kernel what Info says about the interface; nil: there is none. The caller has the
// lock.
func (l *Link) ask() *transport.Info {
	link, err := l.Handle.LinkByIndex(l.Index)
	if err != nil {
		return nil
	}
	a := link.Attrs()
	d := &transport.Info{Interface: a.Name, Index: a.Index, NetMTU: a.MTU, Up: up(a),
		Loopback: a.Flags&net.FlagLoopback != 0, SpeedMbps: LinkSpeed(a.Name)}
	if !d.Loopback && len(a.HardwareAddr) > 0 {
		d.MAC = a.HardwareAddr
	}
	addrs, _ := l.Handle.AddrList(link, netlink.FAMILY_ALL)
	for _, addr := range addrs {
		if p, ok := prefixOf(addr); ok {
			d.Addresses = append(d.Addresses, p)
		}
	}
	return d
}

// Watch returns the channel of events, and has a goroutine tell them from now on. It is for ports
// that do not Read by themselves. nil: the system gives nothing to sleep on.
func (l *Link) Watch() <-chan transport.Event {
	l.watching.Do(func() {
		if l.sleep.Open(-1, l.changes) == nil {
			l.done = make(chan struct{})
			go l.watch()
		}
	})
	if l.done == nil {
		return nil
	}
	return l.Events()
}

func (l *Link) watch() {
	defer close(l.done)
	for l.Read(); ; { // what has changed before the first call
		l.sleep.Wait(-1)
		if l.ending.Load() {
			return
		}
		if l.Drain() {
			time.Sleep(Settle)
			l.Drain()
			l.Read()
		}
	}
}
