//go:build linux

package launch

// Stages: a device as it is; reserving the addresses, for as long as the program runs; opening a
// device for a moment, which says what it has and whether its port is free; which of this machine
// there are; the devices that the program gets.
//
// An address is one process'. Two that begin at the same moment must not both find it free, nor may
// the one find it taken because the other looks: so each first takes a socket of the address' name,
// which the program inherits, and which is free again when the program and its children are over.
// Those of a hub are for all who ask.

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/hub"
)

// opened is a device of goroce's as it is.
type opened struct {
	name string // "udp:eth0"
	rows []row
	attr roce.DeviceAttr
	port roce.PortAttr
}

// device is one that the program meets.
type device struct {
	name string // "mlx5_0"
	on   *opened
	look *Look
	rows []row
}

// String says on which addresses it is.
func (d *device) String() string {
	var at []string
	for _, r := range d.on.rows {
		if !r.gid.IsZero() {
			at = append(at, r.gid.Addr().String())
		}
	}
	return fmt.Sprintf("%s is %s (%s)", d.name, d.on.name, strings.Join(at, ", "))
}

// errTaken is that of an address that another process has.
var errTaken = errors.New("it is in use by another process, and an address has one owner")

// addresses are those of a device's name: the address in it, or those of its interface.
func addresses(name string) ([]netip.Addr, error) {
	_, what, _ := strings.Cut(name, ":")
	if a, err := netip.ParseAddr(what); err == nil {
		return []netip.Addr{a}, nil
	}
	i, err := net.InterfaceByName(what)
	if err != nil {
		return nil, fmt.Errorf("%s: want a name such as udp:eth0 or udp:10.0.0.1 (roce devices lists them): %w",
			name, err)
	}
	all, err := i.Addrs()
	var list []netip.Addr
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				list = append(list, ip.Unmap())
			}
		}
	}
	return list, err
}

// reservation is addresses that are taken, for this process and the program that follows it: open
// sockets.
type reservation []int

// reserve takes addresses, all or none.
func reserve(addrs []netip.Addr) (taken reservation, err error) {
	for _, a := range addrs {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err == nil {
			taken = append(taken, fd)
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: "@goroce/" + a.WithZone("").String()})
		}
		if err != nil {
			taken.giveBack()
			if errors.Is(err, unix.EADDRINUSE) {
				err = errTaken
			}
			return nil, err
		}
	}
	for i, fd := range taken { // programs may count on theirs beginning with 3
		if high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, 200); err == nil {
			unix.Close(fd)
			taken[i] = high
		}
	}
	return taken, nil
}

func (r reservation) giveBack() {
	for _, fd := range r {
		unix.Close(fd)
	}
}

// open takes a device for the program.
func open(name string) (*opened, error) {
	addrs, err := addresses(name)
	if err != nil {
		return nil, err
	}
	var taken reservation
	if !strings.HasPrefix(name, "hub:") {
		if taken, err = reserve(addrs); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	d, err := roce.Open(name, &roce.Config{NoBackground: true})
	if err != nil {
		taken.giveBack() // the program does not have it
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%s: %w", name, errTaken)
		}
		return nil, err
	}
	defer d.Close()
	o := &opened{name: name, attr: d.Query(), port: d.QueryPort()}
	for i := range o.port.GIDTblLen {
		r := row{ndev: o.port.Interface}
		if e, err := d.QueryGIDEx(i); err == nil {
			r.gid = e.GID
			if link, err := net.InterfaceByIndex(e.IfIndex); err == nil {
				r.ndev = link.Name
			}
		}
		o.rows = append(o.rows, r)
	}
	return o, nil
}

// loopback takes the next address of 127.0.0.0/24 that is free.
func loopback() (*opened, error) {
	for n := byte(1); n < 255; n++ {
		o, err := open("udp:" + netip.AddrFrom4([4]byte{127, 0, 0, n}).String())
		if !errors.Is(err, errTaken) {
			return o, err
		}
	}
	return nil, errors.New("all of 127.0.0.1 to 127.0.0.254 are in use")
}

// interfaces are those of this machine that have addresses, the loopback last.
func interfaces() (names []string, err error) {
	all, err := net.Interfaces()
	for _, last := range []net.Flags{0, net.FlagLoopback} {
		for _, i := range all {
			addrs, _ := i.Addrs()
			if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == last && len(addrs) > 0 {
				names = append(names, i.Name)
			}
		}
	}
	return names, err
}

// named takes devices that the user has named.
func named(names []string) (list []*opened, err error) {
	of := map[netip.Addr]string{}
	for _, name := range names {
		addrs, err := addresses(name)
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			if other, ok := of[a.WithZone("")]; ok {
				return nil, fmt.Errorf("--dev %s: %s of it is that of --dev %s already, and an address is one device's",
					name, a, other)
			}
			of[a.WithZone("")] = name
		}
		o, err := open(name)
		if errors.Is(err, errTaken) {
			if free, other := loopback(); other == nil {
				err = fmt.Errorf("%w: --dev %s is free", err, free.name)
			}
		}
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

// free takes what is free on this machine, at most so many devices, and says why others are left
// out. An interface is shared with others by way of a hub, if there can be one; else it must be
// free, and the loopback's is the next address if its own are taken.
func free(most int) (list []*opened, left []error, err error) {
	names, err := interfaces()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if len(list) == most {
			break
		}
		o, err := open("hub:" + name)
		if err != nil && !errors.Is(err, hub.ErrNone) {
			left = append(left, err) // it is to be known that others are not met here
		}
		if err != nil {
			o, err = open("udp:" + name)
		}
		if i, _ := net.InterfaceByName(name); errors.Is(err, errTaken) && i != nil && i.Flags&net.FlagLoopback != 0 {
			left = append(left, err)
			o, err = loopback()
		}
		if err != nil {
			left = append(left, err)
			continue
		}
		list = append(list, o)
	}
	if len(list) == 0 {
		return nil, nil, cmp.Or(errors.Join(left...), errors.New("no interface is up and has an address"))
	}
	return list, left, nil
}

// choose makes the devices of a profile, on those that the user has named or that are free, and if
// these are too few, on addresses of the loopback. It says why devices of the machine are left out.
func choose(p *Profile, names []string) (list []*device, left []error, err error) {
	var looks []*Look
	var called []string
	for i := range p.Devices {
		for n := range max(p.Devices[i].Count, 1) {
			looks, called = append(looks, &p.Devices[i]), append(called, p.Devices[i].name(n))
		}
	}
	var on []*opened
	if len(names) > 0 {
		on, err = named(names)
	} else {
		on, left, err = free(cmp.Or(len(looks), maxDevices))
	}
	for err == nil && len(on) < len(looks) {
		var o *opened
		o, err = loopback()
		on = append(on, o)
	}
	if err == nil && len(looks) > 0 && len(on) > len(looks) {
		err = fmt.Errorf("--dev names %d devices, and the profile has %d", len(on), len(looks))
	}
	for i := 0; err == nil && i < len(on); i++ {
		d := &device{name: fmt.Sprintf("roce%d", i), on: on[i], look: &Look{}, rows: on[i].rows}
		if len(looks) > 0 {
			d.name, d.look = called[i], looks[i]
		}
		if d.look.GIDs != nil {
			if d.rows, err = d.look.rows(d.on); err != nil {
				err = fmt.Errorf("%s on %s: %w; --dev names another device", d.name, d.on.name, err)
			}
		}
		list = append(list, d)
	}
	return list, left, err
}
