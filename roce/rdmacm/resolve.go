package rdmacm

// From addresses to a device and a way to the peer.
//
// Stages: which ports of the port spaces are taken; binding to a local address and port; resolving
// the peer's address, which chooses device and source address; resolving the route, which over IP
// is known by then.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
)

// portKey is a port of a space. Nobody else knows them: a port of RDMA_PS_TCP is none of TCP. The
// table is the process's.
type portKey struct {
	space PortSpace
	port  uint16
}

// hold is an ID's claim on a port of an address.
type hold struct {
	addr      netip.Addr // unspecified: all of its version, and with v4too those of IPv4
	v4too     bool
	devices   []*roce.Device // that it is about; nil: all
	peer      netip.AddrPort // of one that connects: the only one that it is about; invalid: all
	reuse     bool
	listening bool
}

// overlaps says whether there are addresses of both ends that both are about.
func (h *hold) overlaps(o *hold) bool {
	if h.peer.IsValid() && o.peer.IsValid() && h.peer != o.peer {
		return false
	}
	if h.devices != nil && o.devices != nil && !slices.ContainsFunc(h.devices, func(d *roce.Device) bool {
		return slices.Contains(o.devices, d)
	}) {
		return false
	}
	if h.addr.Is4() != o.addr.Is4() {
		return h.v4too && h.addr.IsUnspecified() || o.v4too && o.addr.IsUnspecified()
	}
	return h.addr.IsUnspecified() || o.addr.IsUnspecified() || h.addr == o.addr
}

var ports = struct {
	sync.Mutex
	taken map[portKey][]*hold
}{taken: make(map[portKey][]*hold)}

// takePort claims a port, or with port 0 one that is free. Several may have the same if all of them
// allow it and none listens, or if they connect to different peers. ErrBusy.
func takePort(space PortSpace, port uint16, h *hold) (uint16, error) {
	ports.Lock()
	defer ports.Unlock()
	if port != 0 {
		k := portKey{space, port}
		if !free(k, h) {
			return 0, fmt.Errorf("%w: port %d of %v on %v: another ID of this process has it",
				errTaken, port, space, h.addr)
		}
		ports.taken[k] = append(ports.taken[k], h)
		return port, nil
	}
	const n = maxEphemeral - minEphemeral + 1
	first := int(random() % n)
	for i := range n {
		k := portKey{space, uint16(minEphemeral + (first+i)%n)}
		if free(k, h) {
			ports.taken[k] = append(ports.taken[k], h)
			return k.port, nil
		}
	}
	return 0, fmt.Errorf("%w: all ports of %v from %d to %d on %v are taken, or by connections to the same peer",
		ErrBusy, space, minEphemeral, maxEphemeral, h.addr)
}

func free(k portKey, h *hold) bool {
	return !slices.ContainsFunc(ports.taken[k], func(o *hold) bool {
		return o != h && h.overlaps(o) && !(h.reuse && o.reuse && !h.listening && !o.listening)
	})
}

// listenPort makes a claim that of a listener. ErrBusy if others share the port.
func listenPort(space PortSpace, port uint16, h *hold) error {
	ports.Lock()
	defer ports.Unlock()
	h.listening = true
	if !free(portKey{space, port}, h) {
		h.listening = false
		return fmt.Errorf("%w: port %d of %v on %v: another ID of this process shares it",
			errTaken, port, space, h.addr)
	}
	return nil
}

// unlistenPort makes it again one of an ID that does not listen.
func unlistenPort(h *hold) {
	ports.Lock()
	defer ports.Unlock()
	h.listening = false
}

// releasePort ends a claim.
func releasePort(space PortSpace, port uint16, h *hold) {
	ports.Lock()
	defer ports.Unlock()
	k := portKey{space, port}
	left := slices.DeleteFunc(ports.taken[k], func(o *hold) bool { return o == h })
	if len(left) == 0 {
		delete(ports.taken, k)
	} else {
		ports.taken[k] = left
	}
}

// resolveTime is how long a neighbour may take to answer if the caller gives no time.
const resolveTime = 2 * time.Second

// BindAddr gives the ID a local address and port (rdma_bind_addr). An unspecified address is all of
// them, 0.0.0.0 those of IPv4 and :: both; port 0 is one that is free, which LocalAddr tells. A
// link-local address should have its zone. ErrInvalid if no device has the address, ErrBusy if the
// port is in use, ErrState. As with TCP the first two are syscall.EADDRNOTAVAIL and EADDRINUSE too.
func (id *ID) BindAddr(addr netip.AddrPort) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if _, ok := id.state.next(callBind); !ok {
		return fail("BindAddr", id.step(callBind))
	}
	if err := id.bind(addr); err != nil {
		return fail("BindAddr", err)
	}
	return id.step(callBind)
}

// bind claims address and port, and an address's agent. The caller has the lock.
func (id *ID) bind(to netip.AddrPort) error {
	addr, port := named(to.Addr().Unmap()), to.Port()
	h := &hold{addr: addr.WithZone(""), devices: id.ch.devices, reuse: id.options.reuseAddr}
	switch {
	case !addr.IsValid() || addr.IsMulticast():
		return fmt.Errorf("%w: local address %v", ErrInvalid, to)
	case addr.IsUnspecified():
		h.v4too = addr.Is6() && !id.options.afOnly
	default:
		a, err := id.ch.bound(addr)
		if err != nil {
			return err
		}
		if err := id.use(a); err != nil {
			return err
		}
		h.devices = []*roce.Device{a.dev}
		if port, err = id.one().bind(netip.AddrPortFrom(addr, port)); err != nil {
			id.unuse()
			return err
		}
	}
	port, err := takePort(id.space, port, h)
	if err != nil {
		id.unuse()
		return err
	}
	id.claim, id.local = h, netip.AddrPortFrom(addr, port)
	return nil
}

// ResolveAddr finds the device and the source address by which dst can be reached
// (rdma_resolve_addr), and whose Ethernet address that takes. src is the address to use; if the ID
// is bound, or the system is to choose, it is the zero AddrPort. A link-local dst needs its zone.
// timeout is how long the neighbour may take to answer; 0 is 2 s. Then comes EventAddrResolved or
// EventAddrError, whose Err says what is missing. ErrState, and of src the errors of BindAddr.
func (id *ID) ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if _, ok := id.state.next(callResolveAddr); !ok {
		return fail("ResolveAddr", id.step(callResolveAddr))
	}
	to := named(dst.Addr().Unmap())
	if !to.IsValid() || to.IsUnspecified() || !to.IsMulticast() && dst.Port() == 0 {
		return fail("ResolveAddr", fmt.Errorf("%w: destination %v: want an address and a port", ErrInvalid, dst))
	}
	if src.IsValid() && id.state == idle {
		if err := id.bind(src); err != nil {
			return fail("ResolveAddr", err)
		}
	}
	id.step(callResolveAddr)
	id.peer = netip.AddrPortFrom(to, dst.Port())
	p, err := id.findWay(to)
	if err != nil {
		id.addrResolved(p, err)
		return nil
	}
	if timeout <= 0 {
		timeout = resolveTime
	}
	id.one().resolveAddr(p, timeout)
	return nil
}

// findWay finds the way to dst, from the address that the ID is bound to. The ID becomes a user of
// its agent. The caller has the lock.
func (id *ID) findWay(dst netip.Addr) (path, error) {
	src := id.local.Addr()
	if a := id.agent(); a != nil {
		return a.wayFrom(src, dst)
	}
	if src.IsValid() && src.Is4() != dst.Is4() && !(src.Is6() && id.claim.v4too) {
		return path{}, fmt.Errorf("%w: from %v to %v: one is IPv4 and one IPv6", ErrInvalid, src, dst)
	}
	p, err := id.ch.way(netip.Addr{}, dst)
	if err == nil {
		err = id.use(p.agent)
	}
	return p, err
}

// addrResolved is the end of ResolveAddr. The caller has the lock.
func (id *ID) addrResolved(p path, err error) {
	if err == nil && id.state == addrQuery {
		err = id.settle(p)
	}
	if err == nil {
		id.happened(addrDone, nil)
		return
	}
	on := addrFailed
	if id.claim == nil {
		on = addrUnbound
	}
	if id.claim == nil || id.claim.addr.IsUnspecified() {
		id.unuse() // of the device that the way was by: the next way may be by another
	}
	id.happened(on, new(Event).errno(codeOf(err), err))
}

// settle gives the ID the local address of its way: a port if it has none, and of all addresses the
// one. The caller has the lock.
func (id *ID) settle(p path) error {
	h := &hold{
		addr:    p.local.WithZone(""),
		devices: []*roce.Device{p.agent.dev},
		peer:    id.peer,
		reuse:   id.options.reuseAddr,
	}
	if id.claim == nil {
		port, err := takePort(id.space, p.port, h)
		if err != nil {
			return err
		}
		id.claim, id.local = h, netip.AddrPortFrom(p.local, port)
	}
	id.local = netip.AddrPortFrom(p.local, id.local.Port())
	id.path = cm.Path{Local: gidOf(p.local), Remote: gidOf(p.remote), HopLimit: 64}
	id.mtu = p.mtu
	return nil
}

// codeOf is the errno of an error, for Event.Status.
func codeOf(err error) syscall.Errno {
	var code syscall.Errno
	var addr addressError
	switch {
	case errors.As(err, &code):
		return code
	case errors.As(err, &addr):
		return addr.code
	case errors.Is(err, context.DeadlineExceeded):
		return syscall.ETIMEDOUT
	case errors.Is(err, ErrInvalid):
		return syscall.EINVAL
	case errors.Is(err, ErrBusy):
		return syscall.EADDRINUSE
	}
	return syscall.EHOSTUNREACH
}

// ResolveRoute finds the route to the address that was resolved (rdma_resolve_route). Over IP it is
// known by then, and timeout is not needed. Then comes EventRouteResolved, or of a device of the
// kernel, which may have lost it, EventRouteError. ErrState.
func (id *ID) ResolveRoute(timeout time.Duration) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.step(callResolveRoute); err != nil {
		return fail("ResolveRoute", err)
	}
	id.path.TrafficClass = id.options.tos
	id.path.FlowLabel = uint32(id.local.Port())*31 + uint32(id.peer.Port())&0xfffff // section 9.2
	id.path.FlowLabel &= 0xfffff
	if timeout <= 0 {
		timeout = resolveTime
	}
	id.one().resolveRoute(timeout)
	return nil
}

// isLocal is an error unless an interface of this machine has the address.
func isLocal(addr netip.Addr) error {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && (n.IP.Equal(addr.AsSlice()) ||
			n.IP.IsLoopback() && n.Contains(addr.AsSlice())) {
			return nil
		}
	}
	return fmt.Errorf("%w: address %v: no interface of this machine has it", errAway, addr)
}
