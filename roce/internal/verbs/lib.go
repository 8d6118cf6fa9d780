//go:build verbs

package verbs

// Which devices there are, and opening one.
// Stages: the names → the one that is asked for → its context → what does not change: attributes,
// port, addresses → its events.

/*
#cgo LDFLAGS: -libverbs
#include "glue.h"
*/
import "C"

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"unsafe"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft"
)

// Prefix is what the names of these devices begin with: "verbs:mlx5_0", and "verbs:mlx4_0/2" for
// the second port of a device that has two.
const Prefix = "verbs:"

// missing says what a machine without a device lacks.
const missing = "no RDMA device: a NIC needs its driver and the module ib_uverbs; " +
	"\"rdma link add rxe0 type rxe netdev eth0\" makes one on any interface"

// Names lists the kernel's RDMA devices, "mlx5_0". The error says what is missing if there are
// none.
func Names() (names []string, err error) {
	err = eachDevice(func(d *C.struct_ibv_device) bool {
		names = append(names, C.GoString(C.ibv_get_device_name(d)))
		return true
	})
	if err == nil && len(names) == 0 {
		err = unsupported(missing)
	}
	return names, err
}

// eachDevice calls f with every device until it returns false.
func eachDevice(f func(d *C.struct_ibv_device) bool) error {
	var n C.int
	list, err := C.ibv_get_device_list(&n)
	if list == nil {
		return fmt.Errorf("%s: %w", missing, Refused("ibv_get_device_list", err))
	}
	defer C.ibv_free_device_list(list)
	for _, d := range unsafe.Slice(list, int(n)) {
		if !f(d) {
			break
		}
	}
	return nil
}

// Config says how a device works.
type Config struct {
	// Event is told of asynchronous events, on a goroutine of the device, which it must not hold
	// up. nil: nobody is interested.
	Event func(soft.Event)
}

// Open opens a device by its name with Prefix.
func Open(name string, cfg Config) (d *Device, err error) {
	d = &Device{name: name, cfg: cfg, live: make(map[unsafe.Pointer]any)}
	if d.device, d.port, err = split(name); err != nil {
		return nil, err
	}
	if d.context, err = openContext(d.device); err != nil {
		return nil, err
	}
	if err = d.learn(); err == nil {
		err = d.listen()
	}
	if err != nil {
		C.ibv_close_device(d.context)
		return nil, err
	}
	return d, nil
}

// split takes a name apart.
func split(name string) (device string, port uint8, err error) {
	device, number, ok := strings.Cut(strings.TrimPrefix(name, Prefix), "/")
	if !ok {
		return device, 1, nil
	}
	n, err := strconv.ParseUint(number, 10, 8)
	if err != nil || n == 0 {
		return "", 0, invalid("%q: behind the slash is the number of a port, from 1", name)
	}
	return device, uint8(n), nil
}

func openContext(device string) (context *C.struct_ibv_context, err error) {
	var names []string
	listing := eachDevice(func(d *C.struct_ibv_device) bool {
		name := C.GoString(C.ibv_get_device_name(d))
		names = append(names, name)
		if name != device {
			return true
		}
		var errno error
		if context, errno = C.ibv_open_device(d); context == nil {
			err = fmt.Errorf("%w (may this user use /dev/infiniband?)", Refused("ibv_open_device", errno))
		}
		return false
	})
	switch {
	case listing != nil:
		return nil, listing
	case context != nil || err != nil:
		return context, err
	case len(names) == 0:
		return nil, unsupported(missing)
	}
	return nil, invalid("no device %q here, but %s%s", device, Prefix, strings.Join(names, ", "+Prefix))
}

// learn asks for all that does not change.
func (d *Device) learn() error {
	if err := answered("ibv_query_device", int(C.ibv_query_device(d.context, &d.attr))); err != nil {
		return err
	}
	if C.goroce_query_device_ex(d.context, &d.ex) != 0 {
		d.ex = C.struct_ibv_device_attr_ex{}
	}
	if d.port > uint8(d.attr.phys_port_cnt) {
		return invalid("%s has %d ports, there is no port %d", d.device, d.attr.phys_port_cnt, d.port)
	}
	port, err := d.queryPort()
	if err != nil {
		return err
	}
	if port.link_layer != C.IBV_LINK_LAYER_ETHERNET {
		return unsupported("port %d of %s is no Ethernet port: there is no RoCE on it", d.port, d.device)
	}
	d.maxMessage, d.activeMTU = uint32(port.max_msg_sz), uint8(port.active_mtu)
	if d.rows, err = d.queryGIDs(int(port.gid_tbl_len)); err != nil {
		return err
	}
	if len(d.rows) == 0 {
		return unsupported("port %d of %s has no address of RoCE v2 or iWARP: give its interface an IP address",
			d.port, d.device)
	}
	for _, r := range d.rows {
		if d.link, err = net.InterfaceByIndex(r.link); err == nil {
			break // no error: it may be in another network namespace
		}
	}
	d.before = readCounters(d.counterFolder())
	return nil
}

// queryPort asks for the port's present attributes.
func (d *Device) queryPort() (attr C.struct_ibv_port_attr, err error) {
	err = answered("ibv_query_port", int(C.goroce_query_port(d.context, C.uint8_t(d.port), &attr)))
	return attr, err
}

func (d *Device) counterFolder() string {
	return fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/hw_counters", d.device, d.port)
}

// Stats are the counters of the port since the device was opened. Everybody's traffic on the port
// counts.
func (d *Device) Stats() qp.Stats { return since(readCounters(d.counterFolder()), d.before) }
