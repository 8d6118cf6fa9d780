//go:build verbs

package verbs

// The addresses of a device: the rows of its GID table that are of RoCE v2, in an order in which
// the first is the one to use. The table of the device has others between them, of RoCE v1, and the
// link-local address first. Where iWARP is spoken they are those of the interface.

/*
#include "glue.h"
*/
import "C"

import (
	"net"
	"slices"

	"github.com/goroce/goroce/wire"
)

// row is an address of the device.
type row struct {
	gid   wire.GID
	index uint8 // in the device's own table
	link  int   // index of the interface that has the address
}

// queryGIDs reads the table: IPv4 addresses, then global ones of IPv6, then link-local ones, and
// those of a kind in the order of the device. size is how many rows the device's table has.
func (d *Device) queryGIDs(size int) ([]row, error) {
	all := make([]C.struct_ibv_gid_entry, size*int(d.attr.phys_port_cnt))
	if len(all) == 0 {
		return nil, nil
	}
	n, err := C.goroce_query_gids(d.context, &all[0], C.size_t(len(all)))
	if n < 0 {
		if err == nil {
			return nil, answered("ibv_query_gid_table", int(n))
		}
		return nil, Refused("ibv_query_gid_table", err)
	}
	if d.context.device.transport_type == C.IBV_TRANSPORT_IWARP && n > 0 {
		return addresses(int(all[0].ndev_ifindex))
	}
	var rows []row
	for i := range all[:n] {
		e := &all[i]
		if e.port_num != C.uint32_t(d.port) || e.gid_type != C.IBV_GID_TYPE_ROCE_V2 || e.gid_index > 255 {
			continue
		}
		rows = append(rows, row{wire.GID(e.gid), uint8(e.gid_index), int(e.ndev_ifindex)})
	}
	return ranked(rows), nil
}

// addresses are those of a device that speaks iWARP: its table has no addresses, and nothing needs
// their indexes there.
func addresses(link int) (rows []row, err error) {
	of, err := net.InterfaceByIndex(link)
	if err != nil {
		return nil, err
	}
	list, err := of.Addrs()
	if err != nil {
		return nil, err
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			rows = append(rows, row{gid: wire.GID(n.IP.To16()), link: link})
		}
	}
	return ranked(rows), nil
}

// ranked sorts rows, the best first.
func ranked(rows []row) []row {
	slices.SortStableFunc(rows, func(a, b row) int { return rank(a.gid) - rank(b.gid) })
	return rows[:min(len(rows), 256)]
}

// rank says how good an address is to begin with.
func rank(g wire.GID) int {
	switch {
	case g.Is4():
		return 0
	case g.Addr().IsLinkLocalUnicast():
		return 2
	}
	return 1
}

// GIDs are the addresses.
func (d *Device) GIDs() []wire.GID {
	gids := make([]wire.GID, len(d.rows))
	for i := range d.rows {
		gids[i] = d.rows[i].gid
	}
	return gids
}

// GIDLink is the index of the interface that has the address of a row; 0: it is in another network
// namespace.
func (d *Device) GIDLink(row int) int { return d.rows[row].link }

// rowOf returns the row that has an index of the device's own table; 0 if none has.
func (d *Device) rowOf(index uint8) uint8 {
	return uint8(max(slices.IndexFunc(d.rows, func(r row) bool { return r.index == index }), 0))
}
