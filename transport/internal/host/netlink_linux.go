package host

// The interface below a port as the kernel's tables have it, in the network namespace in which the
// port was opened, whichever thread asks. Lanes of one address share it.
//
// Stages: opening; reading, which tells what has changed; describing; the goroutine of ports that
// have no other one to read when the kernel says that something has changed.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/event"
)

// Settle is how long to wait after a change before the tables are read: changes come in swarms.
const Settle = 5 * time.Millisecond

// Link is an interface and one of its addresses.
type Link struct {
	Index int
	Encap string // "ether", "loopback", ...
	*event.Output
	addr  netip.Addr
	users atomic.Int32 // lanes

	sync.Mutex // guards Handle: one question at a time
	Handle     *netlink.Handle

	changes int // netlink socket that tells of changes
	mtu     atomic.Int32
	mac     atomic.Pointer[[6]byte]
	gone    atomic.Bool

	watching sync.Once
	sleep    Waiter
	ending   atomic.Bool
	done     chan struct{} // closed when the goroutine has ended; nil: it was not started
}

// OpenLink opens the tables. The kernel tells of changes of the interface and its addresses, and of
// what more names (RTMGRP_NEIGH, ...).
func OpenLink(index int, addr netip.Addr, more uint32) (l *Link, err error) {
	l = &Link{Index: index, addr: addr.WithZone(""), changes: -1}
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

// Read reads the tables again, and tells what has changed.
func (l *Link) Read() {
	if facts, err := l.read(); err == nil {
		l.Note(facts)
	}
}

// read reads the tables. An interface that has gone has neither carrier nor address.
func (l *Link) read() (facts event.Facts, err error) {
	l.Lock()
	defer l.Unlock()
	link, err := l.Handle.LinkByIndex(l.Index)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) && l.Output != nil {
		l.gone.Store(true)
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
	facts = event.Facts{Up: up(a), MTU: a.MTU}
	// This fails if the list changes meanwhile, of which we hear.
	addrs, err := l.Handle.AddrList(link, netlink.FAMILY_ALL)
	for _, addr := range addrs {
		p, ok := prefixOf(addr)
		if ok && (p.Addr() == l.addr || a.Flags&net.FlagLoopback != 0 && p.Contains(l.addr)) {
			facts.Address = true
		}
	}
	return facts, err
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

// Describe fills in what Info says about the interface.
func (l *Link) Describe(info *transport.Info) {
	l.Lock()
	defer l.Unlock()
	link, err := l.Handle.LinkByIndex(l.Index)
	if err != nil {
		return
	}
	a := link.Attrs()
	info.Interface, info.Index, info.NetMTU, info.Up = a.Name, a.Index, a.MTU, up(a)
	info.Loopback = a.Flags&net.FlagLoopback != 0
	if !info.Loopback && len(a.HardwareAddr) > 0 {
		info.MAC = a.HardwareAddr
	}
	info.SpeedMbps = LinkSpeed(a.Name)
	addrs, _ := l.Handle.AddrList(link, netlink.FAMILY_ALL)
	for _, addr := range addrs {
		if p, ok := prefixOf(addr); ok {
			info.Addresses = append(info.Addresses, p)
		}
	}
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
