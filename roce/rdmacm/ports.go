package rdmacm

// Which ports of the port spaces are taken. Nobody else knows them: a port of RDMA_PS_TCP is none
// of TCP. The table is the process's.

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"

	"github.com/goroce/goroce/roce"
)

// portKey is a port of a space.
type portKey struct {
	space PortSpace
	port  uint16
}

// hold is an ID's claim on a port of an address.
type hold struct {
	addr      netip.Addr // unspecified: all of its version, and with v4too those of IPv4
	v4too     bool
	devices   []*roce.Device // that it is about; nil: all
	reuse     bool
	listening bool
}

// overlaps says whether there is an address that both are about.
func (h *hold) overlaps(o *hold) bool {
	if h.devices != nil && o.devices != nil && !slices.ContainsFunc(h.devices, func(d *roce.Device) bool { return slices.Contains(o.devices, d) }) {
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
// allow it and none listens. ErrBusy.
func takePort(space PortSpace, port uint16, h *hold) (uint16, error) {
	ports.Lock()
	defer ports.Unlock()
	if port != 0 {
		k := portKey{space, port}
		if !free(k, h) {
			return 0, fmt.Errorf("%w: port %d of %v on %v: another ID of this process has it", ErrBusy, port, space, h.addr)
		}
		ports.taken[k] = append(ports.taken[k], h)
		return port, nil
	}
	const n = maxEphemeral - minEphemeral + 1
	first := rand.IntN(n)
	for i := range n {
		k := portKey{space, uint16(minEphemeral + (first+i)%n)}
		if free(k, h) {
			ports.taken[k] = append(ports.taken[k], h)
			return k.port, nil
		}
	}
	return 0, fmt.Errorf("%w: all ports of %v from %d to %d on %v are taken", ErrBusy, space, minEphemeral, maxEphemeral, h.addr)
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
		return fmt.Errorf("%w: port %d of %v on %v: another ID of this process shares it", ErrBusy, port, space, h.addr)
	}
	return nil
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
