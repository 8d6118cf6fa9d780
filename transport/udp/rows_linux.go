package udp

// The sockets of a port: one for each address of its GID table, bound to it, and one for each group
// joined. So the destination of what arrives is known, what leaves has the source that it should,
// and addresses of this machine that are not ours are others'.
//
//	row 0  10.0.0.1 ── a socket for each lane      the kernel tells of an address that comes:
//	row 1  (empty)                                 sockets are opened; of one that goes: they are
//	row 2  fe80::1  ── a socket for each lane      closed, so that the address is free
//
// Stages: the station, which has the addresses; opening a row; following the interface; the list
// that Recv and Send go by.
//
// A goroutine that receives or sends has the lane's turn, and only that one closes descriptors. One
// that follows the interface takes sockets out of the list, and leaves them to be closed.

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// station is what the lanes of a device share.
type station struct {
	name string
	opt  transport.Options
	addr netip.Addr // the one of the name, or the best of the interface when it was opened
	all  bool       // the addresses of the interface, not one
	slot Slot       // whose sockets these are, if they were given
	// zone is the interface index, for link-local peers and multicast; 0: no interface has the
	// address.
	zone  int
	apart bool           // a slot's addresses are of several interfaces: their rows stay
	link  *host.Link     // nil: the system does not tell of it
	where host.Namespace // in which sockets are opened

	mu     sync.Mutex
	lanes  []*port
	rows   []wire.GID // that have sockets
	closed int        // lanes that are
}

// socket is one that receives: what comes to an address of ours, or to a group.
type socket struct {
	recv  receiver
	addr  netip.Addr
	tx    int  // of an address: to send by, the same one or another
	zone  int  // the interface of the address, as station.zone
	joins int  // of a group
	ready bool // it has something; for Recv
	known bool // to port.sockets.epoll, as the next under the lock of these

	before uint32 // packets that the kernel had no room for when who had the slot had it
}

// sockets are those of a lane.
type sockets struct {
	sync.Mutex
	rows   []*socket // by row of the GID table; nil: empty
	groups map[wire.GID]*socket
	left   []*socket
	epoll  int // in which all are if there are several; -1: there is one
	// list is what Recv and Send go by: it is replaced as a whole.
	list atomic.Pointer[socketList]
}

// socketList is all sockets at a time.
type socketList struct {
	rows []*socket // of addresses
	all  []*socket // to receive from: those, and groups
	both bool      // IPv4 and IPv6 are among the addresses
	left bool      // some are to be closed
}

// openRows opens the sockets of all addresses.
func (st *station) openRows(iface string) error {
	addrs := []netip.Addr{st.addr}
	switch {
	case st.slot.given():
		addrs = st.slot.Addrs
	case st.all:
		gids := host.GIDsOf(iface)
		if st.link != nil {
			gids = st.link.GIDs()
		}
		addrs = nil
		for _, g := range gids {
			addrs = append(addrs, g.Addr())
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	err := st.openAll(addrs)
	for tries := 1; errors.Is(err, errPortTaken) && tries < portTries; tries++ {
		st.forgetPorts()
		err = st.openAll(addrs)
	}
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(st.rows, func(g wire.GID) bool { return !g.IsZero() }) {
		return &transport.OpenError{Name: st.name, Reason: "none of the interface's addresses can be used at present"}
	}
	return nil
}

// openAll opens a row for each address. The caller holds st.mu.
func (st *station) openAll(addrs []netip.Addr) error {
	for i, a := range addrs {
		err := st.openRow(i, a)
		if st.all && errors.Is(err, unix.EADDRNOTAVAIL) {
			continue // it has gone meanwhile, of which we hear
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openRow opens the sockets of a row in every lane. The caller holds st.mu.
func (st *station) openRow(i int, addr netip.Addr) error {
	for len(st.rows) <= i {
		st.rows = append(st.rows, wire.GID{})
	}
	for lane, p := range st.lanes {
		s, err := p.openSocket(i, addr)
		if err == nil {
			p.setRow(i, s)
			if lane == 0 && len(st.lanes) > 1 && !st.slot.given() {
				admitLanes(s.recv.fd)
			}
			err = p.WatchSocket(s.recv.fd)
		}
		if err != nil {
			st.closeRow(i)
			return err
		}
	}
	if lanes := len(st.lanes); lanes > 1 && !st.slot.given() {
		if err := steerSockets(st.lanes[0].rowSocket(i).recv.fd, lanes); err != nil {
			st.closeRow(i)
			return &transport.OpenError{
				Name:   st.name,
				Reason: "this kernel can not steer packets to lanes (SO_ATTACH_REUSEPORT_CBPF): open one lane",
				Err:    err,
			}
		}
	}
	st.rows[i] = wire.GIDFrom(addr)
	return nil
}

// closeRow has the sockets of a row closed. The caller holds st.mu.
func (st *station) closeRow(i int) {
	st.rows[i] = wire.GID{}
	for _, p := range st.lanes {
		p.setRow(i, nil)
	}
}

// serve follows the interface: rows are the addresses that it has now. It returns those that have
// sockets.
func (st *station) serve(rows []wire.GID) []wire.GID {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.all || st.closed > 0 {
		return rows
	}
	for i, g := range rows {
		if i < len(st.rows) && st.rows[i] == g {
			continue
		}
		if i < len(st.rows) && !st.rows[i].IsZero() {
			st.closeRow(i)
		}
		if g.IsZero() {
			continue
		}
		if err := st.where.Do(func() error { return st.openRow(i, g.Addr()) }); err != nil && len(st.lanes) > 0 {
			st.lanes[0].Degrade("address "+g.Addr().String(), "its row of the GID table is empty", err)
		}
	}
	return slices.Clone(st.rows)
}

// zoneOf is the interface index of an address. Those of a slot may be of several interfaces.
func (st *station) zoneOf(addr netip.Addr) int {
	if !st.slot.given() {
		return st.zone
	}
	if i, ok := host.InterfaceOf(addr); ok {
		return i.Index
	}
	return 0
}

// openSocket opens the socket of an address, which is in a row, and that to send by.
func (p *port) openSocket(row int, addr netip.Addr) (s *socket, err error) {
	var fd int
	if p.slot.given() {
		fd, err = p.slot.copy(row, p.lane)
	} else {
		fd, err = unix.Socket(family(addr), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	}
	if err != nil {
		return nil, &transport.OpenError{Name: p.name, Reason: "the system gives no UDP socket", Err: err}
	}
	s = &socket{addr: addr, tx: fd, zone: p.zoneOf(addr)}
	s.recv.fd = fd
	if err := p.setUpSocket(s); err != nil {
		p.disown(s)
		s.close()
		return nil, err
	}
	return s, nil
}

func (p *port) setUpSocket(s *socket) error {
	fd := s.recv.fd
	if err := p.setOptions(fd, s.addr); err != nil {
		return &transport.OpenError{Name: p.name, Reason: "this kernel lacks a socket option that RoCE needs", Err: err}
	}
	if p.slot.given() {
		own(fd, os.Getpid())
		unix.SetNonblock(fd, true) // handing it over may have changed it
		if err := empty(fd); err != nil {
			return &transport.OpenError{Name: p.name, Reason: "what came before can not be dropped", Err: err}
		}
		s.before = uint32(s.kernelDrops())
	} else if err := p.bind(fd, s.addr); err != nil {
		return host.BindError(p.name, s.addr, p.opt.UDPPort, err)
	}
	if err := p.chooseSender(s); err != nil {
		return &transport.OpenError{Name: p.name, Reason: "the system gives no UDP socket to send by", Err: err}
	}
	p.multicastOut(s)
	p.growBuffers(s)
	s.recv.init(fd, wire.GIDFrom(s.addr), p.opt.UDPPort, p.probeRuns(fd))
	return nil
}

// bind gives a socket its address, which it shares with those of other lanes.
func (p *port) bind(fd int, addr netip.Addr) error {
	setV6Only(fd, addr)
	if p.lane > 0 {
		admitLanes(fd)
	}
	return unix.Bind(fd, host.Sockaddr(addr, p.opt.UDPPort, p.zone))
}

// bindTentative has a socket take an address of IPv6 which is there, but of which the kernel still
// asks the neighbours whether it is one of theirs: seconds after the start of a container. Until
// they have had their time, nothing is sent from it. An error shows when it is bound.
func bindTentative(fd int, addr netip.Addr) {
	if addr.Is6() {
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
	}
}

// setV6Only keeps a socket of IPv6 from IPv4, which must be said before it is bound. An error shows
// then.
func setV6Only(fd int, addr netip.Addr) {
	if addr.Is6() {
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
}

// close closes the descriptors.
func (s *socket) close() error {
	var err error
	if s.tx != s.recv.fd && s.tx > 0 {
		err = unix.Close(s.tx)
	}
	return errors.Join(err, unix.Close(s.recv.fd))
}

// rowSocket is the socket of a row; nil: the row is empty.
func (p *port) rowSocket(i int) *socket {
	p.sockets.Lock()
	defer p.sockets.Unlock()
	return p.sockets.rows[i]
}

// setRow gives a row a socket, or with nil takes it away.
func (p *port) setRow(i int, s *socket) {
	p.sockets.Lock()
	defer p.sockets.Unlock()
	for len(p.sockets.rows) <= i {
		p.sockets.rows = append(p.sockets.rows, nil)
	}
	if old := p.sockets.rows[i]; old != nil {
		p.leave(old)
	}
	p.sockets.rows[i] = s
	p.publish()
}

// leave ends a socket: its address or group is free when it returns, and the next call of Recv
// closes the descriptors. What the kernel has counted of it stays counted. The caller holds
// p.sockets.
func (p *port) leave(s *socket) {
	p.RecvOverflow.Add(s.kernelDrops())
	p.disown(s)
	s.blank()
	p.sockets.left = append(p.sockets.left, s)
	p.WakeAll()
}

// blank puts sockets of another kind, which are bound to nothing and reach nobody, under the
// descriptors: a goroutine that is about to use them finds nothing there. Where the system gives
// none the address is free when they are closed.
func (s *socket) blank() {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for _, old := range []int{s.recv.fd, s.tx} {
		unix.Dup3(fd, old, unix.O_CLOEXEC)
	}
}

// publish gives Recv and Send a new list. The caller holds p.sockets.
func (p *port) publish() {
	ss := &p.sockets
	l := &socketList{left: len(ss.left) > 0}
	for _, s := range ss.rows {
		if s != nil {
			l.rows = append(l.rows, s)
			l.both = l.both || s.addr.Is4() != l.rows[0].addr.Is4()
		}
	}
	l.all = slices.Clone(l.rows)
	for _, s := range ss.groups {
		l.all = append(l.all, s)
	}
	if len(l.all) > 1 {
		p.acquaint(l.all)
	}
	ss.list.Store(l)
}

// acquaint puts sockets into the epoll. One that can not be is asked each time. The caller holds
// p.sockets.
func (p *port) acquaint(all []*socket) {
	ss := &p.sockets
	if ss.epoll < 0 {
		ss.epoll, _ = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	}
	for _, s := range all {
		if !s.known {
			ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(s.recv.fd)}
			s.known = unix.EpollCtl(ss.epoll, unix.EPOLL_CTL_ADD, s.recv.fd, &ev) == nil
		}
	}
}

// closeLeft closes the sockets that were left.
func (p *port) closeLeft() (err error) {
	p.sockets.Lock()
	defer p.sockets.Unlock()
	for _, s := range p.sockets.left {
		p.UnwatchSocket(s.recv.fd)
		p.UnwatchSocket(s.tx)
		err = errors.Join(err, s.close())
	}
	p.sockets.left = nil
	p.publish()
	return err
}

// closeSockets closes all.
func (p *port) closeSockets() error {
	p.sockets.Lock()
	for _, s := range p.sockets.list.Load().all {
		p.RecvOverflow.Add(s.kernelDrops())
		p.disown(s)
		p.sockets.left = append(p.sockets.left, s)
	}
	p.sockets.rows = nil
	clear(p.sockets.groups)
	p.sockets.Unlock()
	err := p.closeLeft()
	if p.sockets.epoll >= 0 {
		unix.Close(p.sockets.epoll)
	}
	return err
}
