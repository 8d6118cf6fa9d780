package rdmacm

// Which device an address is of, and what uses it.
//
// Stages: a row of a device's GID table; the devices of a channel, which were given or are opened
// when they are needed; the way to a destination; sharing a device's agent.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/goroce/goroce/internal/route"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/hub"
	"github.com/goroce/goroce/wire"
)

// rowOf is the row of a device's GID table that has an address.
func rowOf(dev *roce.Device, gid roce.GID) (row uint8, ok bool) {
	for i, g := range dev.GIDs() {
		if g == gid && !g.IsZero() {
			return uint8(i), true
		}
	}
	return 0, false
}

// gidOf is the GID of an address, whatever its zone.
func gidOf(a netip.Addr) roce.GID { return roce.GID(a.WithZone("").As16()) }

// named is an address whose zone is a name: "fe80::1%2" and "fe80::1%eth0" may be the same, and
// programs of C give the number (sin6_scope_id).
func named(a netip.Addr) netip.Addr {
	if index, err := strconv.Atoi(a.Zone()); err == nil {
		if i, err := net.InterfaceByIndex(index); err == nil {
			return a.WithZone(i.Name)
		}
	}
	return a
}

// path is where an ID is, and how its peer is reached.
type path struct {
	agent  *agent
	local  netip.Addr // with a zone if it is link-local
	remote netip.Addr
	port   uint16 // that the speaker has given local already; 0: none
	mtu    roce.MTU
}

// agents are those of all devices that were used; owned are those of the devices that this package
// has opened, by name. Its lock is held for moments only: a device or a name that is busy being
// opened or closed is so by a channel that ends with that.
var agents = struct {
	sync.Mutex
	of    map[*roce.Device]*agent
	owned map[string]*agent
	busy  map[any]chan struct{} // by *roce.Device or name
}{of: make(map[*roce.Device]*agent), owned: make(map[string]*agent), busy: make(map[any]chan struct{})}

// idleLocked waits until nobody opens or closes what has the key. The caller has the lock of
// agents, which is open meanwhile.
func idleLocked(key any) {
	for wait := agents.busy[key]; wait != nil; wait = agents.busy[key] {
		agents.Unlock()
		<-wait
		agents.Lock()
	}
}

// beginLocked says that the caller opens or closes what has the keys. It has the lock of agents.
func beginLocked(keys ...any) (end func()) {
	wait := make(chan struct{})
	for _, k := range keys {
		agents.busy[k] = wait
	}
	return func() {
		agents.Lock()
		defer agents.Unlock()
		for _, k := range keys {
			delete(agents.busy, k)
		}
		close(wait)
	}
}

// share returns the agent of a device, for one more user. The first one says where queue pair 1 is;
// if that has ended, and the last one has gone, the next is the first again.
func share(dev *roce.Device, qp1 func(*roce.Device) (QP1, error)) (*agent, error) {
	agents.Lock()
	idleLocked(dev)
	a := agents.of[dev]
	if a != nil && !a.spent() {
		defer agents.Unlock()
		a.take()
		return a, nil
	}
	if a != nil {
		a.over = true
		delete(agents.of, dev)
	}
	end := beginLocked(dev)
	agents.Unlock()
	defer end()
	if a != nil {
		a.stop()
	}
	return shareNew(dev, qp1)
}

// spent tells whether nothing is left of an agent. The caller has the lock of agents.
func (a *agent) spent() bool {
	m, ok := a.speaker.(*machine)
	return ok && a.users == 0 && a.ownedName == "" && m.ended()
}

// shareNew makes the agent of a device that the caller has said is busy.
func shareNew(dev *roce.Device, qp1 func(*roce.Device) (QP1, error)) (*agent, error) {
	a, err := newAgent(dev, qp1)
	if err != nil {
		return nil, err
	}
	if err := dev.AtClose(a.retire); err != nil {
		return nil, errors.Join(err, a.stop())
	}
	agents.Lock()
	defer agents.Unlock()
	agents.of[dev] = a
	a.take()
	return a, nil
}

// take counts one more user. The caller has the lock of agents.
func (a *agent) take() {
	if a.users++; a.users == 1 && a.ownedName != "" {
		a.abandoned(false, false)
	}
}

// open shares the agent of an address's device, which it opens if need be.
func open(kind string, addr netip.Addr) (*agent, error) {
	name := kind + ":" + addr.String()
	if kind == "verbs" { // one has several addresses
		var err error
		if name, err = kernelDevice(addr); err != nil {
			return nil, err
		}
	}
	agents.Lock()
	idleLocked(name)
	if a := agents.owned[name]; a != nil {
		defer agents.Unlock()
		a.take()
		return a, nil
	}
	end := beginLocked(name)
	agents.Unlock()
	defer end()
	dev, err := roce.Open(name, nil)
	shared := func() bool { return hub.Has(context.Background(), addr.String(), wire.UDPPort) }
	if kind == "udp" && errors.Is(err, syscall.EADDRINUSE) && shared() {
		dev, err = roce.Open("hub:"+addr.String(), nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (a device of this process that has the address is named in Config.Devices)", err)
	}
	a, err := share(dev, nil)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	agents.Lock()
	defer agents.Unlock()
	a.ownedName = name
	agents.owned[name] = a
	return a, nil
}

// opened shares the agent of an address's device if that is open, and has the address; else it is
// nil.
func opened(kind string, addr netip.Addr) *agent {
	agents.Lock()
	defer agents.Unlock()
	name := kind + ":" + addr.String()
	a := agents.owned[name]
	if a == nil || agents.busy[name] != nil {
		return nil
	}
	if _, has := rowOf(a.dev, gidOf(addr)); !has {
		return nil
	}
	a.take()
	return a
}

// release ends what share and open began. The device of the last user is closed if this package has
// opened it.
func (a *agent) release() {
	agents.Lock()
	defer agents.Unlock()
	a.users--
	if a.users == 0 && a.ownedName != "" {
		a.abandoned(true, false)
	}
}

// finish closes a device that this package has opened, unless somebody uses it again.
func (a *agent) finish() {
	agents.Lock()
	if a.users > 0 || agents.owned[a.ownedName] != a {
		agents.Unlock()
		return
	}
	delete(agents.owned, a.ownedName)
	delete(agents.of, a.dev)
	end := beginLocked(a.dev, a.ownedName)
	agents.Unlock()
	defer end()
	a.closing.Store(true)
	if a.dev.Close() == nil {
		return
	}
	// Somebody has, say, a protection domain on it yet. It stays this package's, for the next who
	// needs the address, and is tried again.
	b, err := shareNew(a.dev, nil)
	if err != nil {
		return
	}
	agents.Lock()
	defer agents.Unlock()
	b.users, b.ownedName = 0, a.ownedName
	agents.owned[b.ownedName] = b
	b.abandoned(true, true)
}

// retire is what a device does first when it is closed.
func (a *agent) retire() error {
	if a.closing.Load() { // by finish
		return a.stop()
	}
	agents.Lock()
	if a.over {
		defer agents.Unlock()
		return nil
	}
	if a.users > 0 {
		defer agents.Unlock()
		return fmt.Errorf("%w: device %s still has %d rdma_cm IDs", ErrBusy, a.dev.Name(), a.users)
	}
	delete(agents.of, a.dev)
	end := beginLocked(a.dev)
	agents.Unlock()
	defer end()
	return a.stop()
}

// share is share in a channel. ErrInvalid if channels before it say otherwise where queue pair 1 of
// the device is.
func (ch *EventChannel) share(dev *roce.Device) (*agent, error) {
	a, err := share(dev, ch.qp1)
	if err != nil || isKernel(dev) || a.lentQP1 == (ch.qp1 != nil) {
		return a, err
	}
	a.release()
	if a.lentQP1 {
		return nil, fmt.Errorf("%w: device %s has its queue pair 1 from another channel's Config.QP1: "+
			"this one must have it too", ErrInvalid, dev.Name())
	}
	return nil, fmt.Errorf("%w: device %s has had a queue pair 1 of its own since a channel without Config.QP1 used it",
		ErrInvalid, dev.Name())
}

// open shares the agent of an address's device in a channel that has none of its own.
func (ch *EventChannel) open(addr netip.Addr) (*agent, error) {
	if ch.opens == nil {
		return open(ch.kind, addr)
	}
	dev, err := ch.opens(addr)
	switch {
	case err != nil:
		return nil, fmt.Errorf("Config.Open of %v: %w", addr, err)
	case dev == nil:
		return nil, fmt.Errorf("%w: Config.Open of %v has returned no device", ErrInvalid, addr)
	}
	if _, ok := rowOf(dev, gidOf(addr)); !ok || !inZone(dev, addr) {
		return nil, fmt.Errorf("%w: Config.Open of %v has returned %s, which has another address",
			ErrInvalid, addr, dev.Name())
	}
	return ch.share(dev)
}

// bound finds the agent of a local address, for one more user. In a channel without devices of its
// own one is opened. ErrInvalid if nobody has the address.
func (ch *EventChannel) bound(addr netip.Addr) (*agent, error) {
	if len(ch.devices) == 0 {
		if ch.opens == nil {
			if a := opened(ch.kind, addr); a != nil {
				return a, nil
			}
		}
		if err := isLocal(addr); err != nil {
			return nil, err
		}
		return ch.open(addr)
	}
	for _, dev := range ch.devices {
		if _, ok := rowOf(dev, gidOf(addr)); ok && inZone(dev, addr) {
			return ch.share(dev)
		}
	}
	return nil, fmt.Errorf("%w: address %v: none of the devices has it: %s", errAway, addr, ch.names())
}

// inZone says whether a link-local address is of the device's interface, as far as either is known.
func inZone(dev *roce.Device, addr netip.Addr) bool {
	info := dev.PortInfo()
	return addr.Zone() == "" || info.Interface == "" || addr.Zone() == info.Interface ||
		addr.Zone() == fmt.Sprint(info.Index)
}

// all are the agents that a listener on all addresses of a version, or of both, is about, each for
// one more user.
func (ch *EventChannel) all(addr netip.Addr, v4too bool) (list []*agent, err error) {
	defer func() {
		if err != nil {
			for _, a := range list {
				a.release()
			}
			list = nil
		}
	}()
	if len(ch.devices) > 0 {
		for _, dev := range ch.devices {
			a, err := ch.share(dev)
			if err != nil {
				return list, err
			}
			list = append(list, a)
		}
		return list, nil
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, have := range addrs {
		n, ok := have.(*net.IPNet)
		if !ok {
			continue
		}
		own, _ := netip.AddrFromSlice(n.IP)
		if own = own.Unmap(); own.IsLinkLocalUnicast() || own.Is4() != addr.Is4() && !(own.Is4() && v4too) {
			continue // a link-local address is listened on by naming it
		}
		a, err := ch.open(own)
		switch {
		case (ch.kind == "verbs" || ch.opens != nil) && errors.Is(err, syscall.EADDRNOTAVAIL):
			// no device has it
			continue
		case err == nil && slices.Contains(list, a): // a device of several addresses
			a.release()
			continue
		case err != nil:
			return list, fmt.Errorf("listening on all addresses: %w", err)
		}
		list = append(list, a)
	}
	return list, nil
}

// way finds the way from src, which may be unspecified, to dst, for one more user of its agent.
func (ch *EventChannel) way(src, dst netip.Addr) (path, error) {
	if src.IsValid() && !src.IsUnspecified() {
		a, err := ch.bound(src)
		if err != nil {
			return path{}, err
		}
		return a.orRelease(a.wayFrom(src, dst))
	}
	if len(ch.devices) == 0 {
		own, err := route.Source(dst)
		if err != nil {
			return path{}, noWay(err)
		}
		a, err := ch.open(own)
		if err != nil {
			return path{}, err
		}
		return a.orRelease(a.wayFrom(own, dst))
	}
	r, err := route.To(dst, netip.Addr{})
	return ch.among(dst, r, err)
}

// among chooses one of the channel's devices: the one that has the source address of the route; or
// one on the same interface; or one that is on no interface, whose packets no routing table knows.
func (ch *EventChannel) among(dst netip.Addr, r route.Route, noRoute error) (path, error) {
	for _, fits := range []func(*roce.Device) (netip.Addr, bool){
		func(d *roce.Device) (netip.Addr, bool) {
			_, ok := rowOf(d, gidOf(r.Source))
			return r.Source, ok && noRoute == nil && d.PortInfo().Interface != "" && inZone(d, r.Source)
		},
		func(d *roce.Device) (netip.Addr, bool) {
			own, ok := alike(d, dst)
			return own, ok && noRoute == nil && d.PortInfo().Index == r.Index
		},
		func(d *roce.Device) (netip.Addr, bool) {
			own, ok := alike(d, dst)
			return own, ok && d.PortInfo().Interface == ""
		},
	} {
		for _, dev := range ch.devices {
			own, ok := fits(dev)
			if !ok {
				continue
			}
			a, err := ch.share(dev)
			if err != nil {
				return path{}, err
			}
			if own == r.Source && noRoute == nil {
				return a.orRelease(a.by(r, dst))
			}
			return a.orRelease(a.wayFrom(own, dst))
		}
	}
	if noRoute != nil {
		return path{}, noWay(noRoute)
	}
	return path{}, fmt.Errorf("%w: the route to %v is by %s from %v, and none of the devices is there: %s",
		ErrUnreachable, dst, r.Interface, r.Source, ch.names())
}

// orRelease passes a way on; without one, its user is none any more.
func (a *agent) orRelease(p path, err error) (path, error) {
	if err != nil {
		a.release()
	}
	return p, err
}

// wayFrom is the way from an address of the agent's device.
func (a *agent) wayFrom(src, dst netip.Addr) (path, error) {
	if src.Is4() != dst.Is4() {
		return path{}, fmt.Errorf("%w: from %v to %v: one is IPv4 and one IPv6", ErrInvalid, src, dst)
	}
	info := a.dev.PortInfo()
	if info.Interface == "" {
		return path{agent: a, local: src, remote: dst, mtu: a.dev.QueryPort().ActiveMTU}, nil
	}
	r, err := route.From(src, route.Link{Name: info.Interface, Index: info.Index, MTU: info.NetMTU}, dst)
	if err != nil {
		return path{}, noWay(err)
	}
	return a.by(r, dst)
}

// by is the way by a route, with the largest path MTU that it and the device take.
func (a *agent) by(r route.Route, dst netip.Addr) (path, error) {
	if r.MTU() == 0 {
		return path{}, fmt.Errorf("%w: the route to %v takes IP packets of %d bytes, too short for RoCE's "+
			"smallest path MTU", ErrUnreachable, dst, r.NetMTU)
	}
	return path{agent: a, local: r.Source, remote: dst, mtu: min(r.MTU(), a.dev.QueryPort().ActiveMTU)}, nil
}

// alike is an address of the device from where dst can be reached, as far as the two tell: of the
// same version, and link-local if it is.
func alike(dev *roce.Device, dst netip.Addr) (netip.Addr, bool) {
	for _, g := range dev.GIDs() {
		own := g.Addr()
		if !g.IsZero() && own.Is4() == dst.Is4() && own.IsLinkLocalUnicast() == dst.IsLinkLocalUnicast() {
			return own, true
		}
	}
	return netip.Addr{}, false
}

// names lists the channel's devices for an error.
func (ch *EventChannel) names() string {
	var list []string
	for _, d := range ch.devices {
		list = append(list, d.Name())
	}
	return strings.Join(list, ", ")
}

// noWay makes an error of the routes one of this package.
func noWay(err error) error { return fmt.Errorf("%w: %w", ErrUnreachable, err) }
