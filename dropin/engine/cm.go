package main

// The devices of librdmacm.so.1: who makes an event channel, or a socket, asks for their Config.
//
// Those that the user has chosen (GOROCE_DEVICES) are opened with the first channel, and IDs may be
// on them alone. If nobody has chosen there is one for each interface, which is opened when an
// address of it is needed. None is closed: programs see them in contexts that stay.

// #include <stdint.h>
import "C"

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

// cmDevices are the devices by their places in C's list.
var cmDevices struct {
	sync.Mutex
	names  []string
	open   map[*roce.Device]int
	chosen []*roce.Device // in the order of the list; nil: nobody has chosen
}

// goroce_cm_devices tells the list, once.
//
//export goroce_cm_devices
func goroce_cm_devices(names **C.char, n C.int, chosen C.int) C.int {
	cmDevices.Lock()
	defer cmDevices.Unlock()
	cmDevices.names, cmDevices.open, cmDevices.chosen = nil, map[*roce.Device]int{}, nil
	for _, name := range unsafe.Slice(names, int(n)) {
		cmDevices.names = append(cmDevices.names, C.GoString(name))
	}
	if chosen == 0 {
		return 0
	}
	var failed error
	for i := range cmDevices.names {
		d, err := opened(i)
		if err == nil {
			cmDevices.chosen = append(cmDevices.chosen, d)
		} else {
			failed = errors.Join(failed, err)
		}
	}
	if no := errno(failed); cmDevices.chosen == nil {
		return no
	}
	return 0
}

// opened is the device at a place of the list, open. The caller has the lock.
func opened(i int) (*roce.Device, error) {
	for d, at := range cmDevices.open {
		if at == i {
			return d, nil
		}
	}
	d, err := use(cmDevices.names[i])
	if err != nil {
		return nil, err
	}
	cmDevices.open[d.Device] = i
	return d.Device, nil
}

// cmConfig says which devices IDs may be on.
func cmConfig() rdmacm.Config {
	cmDevices.Lock()
	defer cmDevices.Unlock()
	if cmDevices.chosen != nil {
		return rdmacm.Config{Devices: cmDevices.chosen}
	}
	return rdmacm.Config{Open: deviceOf}
}

// deviceOf opens the device of the interface that has an address.
func deviceOf(addr netip.Addr) (*roce.Device, error) {
	cmDevices.Lock()
	defer cmDevices.Unlock()
	for i, name := range cmDevices.names {
		_, what, _ := strings.Cut(name, ":")
		if has(what, addr.WithZone("")) {
			return opened(i)
		}
	}
	return nil, fmt.Errorf("%w: no device has the address %v: %w", rdmacm.ErrInvalid, addr, syscall.EADDRNOTAVAIL)
}

// onLoopback says whether a device of the list is on the loopback, by its name: another process may
// have it, and who asks for it is not to be heard on the others instead.
func onLoopback() bool {
	cmDevices.Lock()
	defer cmDevices.Unlock()
	for _, name := range cmDevices.names {
		_, what, _ := strings.Cut(name, ":")
		if a, err := netip.ParseAddr(what); err == nil && a.Unmap().IsLoopback() {
			return true
		}
		if i, err := net.InterfaceByName(what); err == nil && i.Flags&net.FlagLoopback != 0 {
			return true
		}
	}
	return false
}

// has says whether an interface has an address.
func has(name string, addr netip.Addr) bool {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return false
	}
	addrs, _ := i.Addrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(addr.AsSlice()) {
			return true
		}
	}
	return false
}
