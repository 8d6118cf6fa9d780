//go:build linux

package launch

// The view: a folder with the file devices, which libibverbs reads for its list of devices, and
// below it what the kernel would show of them in /sys/class and /dev/infiniband, to which
// libgoroce-view.so leads a program that looks there.
//
// Stages: the folder; the lines for libibverbs; what sysfs has of a device, of its port, and of its
// character device.

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// viewOf makes the files for some devices. withCM: the libraries have the connection manager.
func viewOf(devices []*device, withCM bool) files {
	f := files{"sys/class/infiniband_verbs/abi_version": {data: "6\n"}}
	var lines strings.Builder
	for i, d := range devices {
		d.describe(&lines)
		d.show(f, path.Join("sys/class/infiniband", d.name))
		d.showCharacter(f, i)
	}
	f["devices"] = file{data: lines.String()}
	if withCM {
		f["dev/infiniband/rdma_cm"] = file{link: "/dev/null"}
	}
	return f
}

// describe writes the lines of a device: a word that says what the line is, and its values. Its
// names and GIDs are as they are if the profile says nothing of them.
func (d *device) describe(b *strings.Builder) {
	fmt.Fprintf(b, "device %s %s %016x\n", d.name, d.on.name, d.on.attr.NodeGUID)
	if d.look.FWVer != "" {
		fmt.Fprintf(b, "fw_ver %s\n", d.look.FWVer)
	}
	set := maps.Clone(d.look.Attributes)
	if s, ok := states[d.look.State]; ok {
		if set == nil {
			set = map[string]uint64{}
		}
		set["state"] = s.state
		set["phys_state"] = d.look.attribute("phys_state", s.phys)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		fmt.Fprintf(b, "set %s %d\n", name, set[name])
	}
	if d.look.GIDs != nil {
		for i, r := range d.rows {
			kind := 2
			if r.v1 {
				kind = 1
			}
			fmt.Fprintf(b, "gid %d %d %x %s\n", i, kind, r.gid[:], cmp.Or(r.ndev, "-"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.look.Refuse)) {
		r := d.look.Refuse[name]
		fmt.Fprintf(b, "refuse %s %d %d\n", name, r.number(), r.After)
	}
}

// show makes the folder of a device.
func (d *device) show(f files, at string) {
	a, l := d.on.attr, d.look
	put := func(name, format string, values ...any) {
		f[path.Join(at, name)] = file{data: fmt.Sprintf(format, values...) + "\n"}
	}
	put("node_type", "1: CA")
	put("node_guid", "%s", groups(a.NodeGUID))
	put("sys_image_guid", "%s", groups(a.SysImageGUID))
	put("node_desc", "%s", d.on.name)
	put("fw_ver", "%s", cmp.Or(l.FWVer, a.FWVer))
	put("hca_type", "%s", cmp.Or(l.HCAType, "goroce"))
	put("board_id", "%s", cmp.Or(l.BoardID, "goroce"))
	put("hw_rev", "%x", l.attribute("hw_ver", uint64(a.HWVer)))
	put("device/vendor", "0x%04x", l.attribute("vendor_id", uint64(a.VendorID)))
	put("device/device", "0x%04x", l.attribute("vendor_part_id", uint64(a.VendorPartID)))
	put("device/numa_node", "-1")
	if d.on.port.Interface != "" {
		put(path.Join("device/net", d.on.port.Interface, "dev_port"), "0")
	}
	d.showPort(put)
}

// stateNames and physNames are how the kernel says these numbers.
var (
	stateNames = map[uint64]string{1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE", 5: "ACTIVE_DEFER"}
	physNames  = map[uint64]string{1: "Sleep", 2: "Polling", 3: "Disabled", 4: "PortConfigurationTraining", 5: "LinkUp"}
	widths     = map[uint64]float64{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
	speeds     = map[uint64]struct {
		gbit float64 // of a lane
		name string
	}{1: {2.5, "SDR"}, 2: {5, "DDR"}, 4: {10, "QDR"}, 8: {10, "FDR10"}, 16: {14, "FDR"}, 32: {25, "EDR"},
		64:  {50, "HDR"},
		128: {100, "NDR"}}
)

// showPort makes the folder of a device's one port.
func (d *device) showPort(put func(name, format string, values ...any)) {
	p, l := d.on.port, d.look
	port := func(name, format string, values ...any) { put(path.Join("ports/1", name), format, values...) }
	state, phys := l.attribute("state", uint64(p.State)), l.attribute("phys_state", uint64(p.PhysState))
	width := widths[l.attribute("active_width", uint64(p.ActiveWidth))]
	speed := speeds[l.attribute("active_speed", uint64(p.ActiveSpeed))]
	port("state", "%d: %s", state, stateNames[state])
	port("phys_state", "%d: %s", phys, physNames[phys])
	port("rate", "%g Gb/sec (%gX %s)", width*speed.gbit, width, speed.name)
	port("link_layer", "Ethernet")
	port("cap_mask", "0x%08x", l.attribute("port_cap_flags", uint64(p.PortCaps)))
	for _, name := range []string{"lid", "lid_mask_count", "sm_lid", "sm_sl"} {
		port(name, "0x0")
	}
	port("pkeys/0", "0xffff")
	for i, r := range d.rows {
		var words []string
		for at := 0; at < len(r.gid); at += 2 {
			words = append(words, fmt.Sprintf("%02x%02x", r.gid[at], r.gid[at+1]))
		}
		port(fmt.Sprint("gids/", i), "%s", strings.Join(words, ":"))
		if r.gid.IsZero() {
			continue // of an empty row the kernel says nothing more
		}
		kind := v2
		if r.v1 {
			kind = "IB/" + v1
		}
		port(fmt.Sprint("gid_attrs/types/", i), "%s", kind)
		port(fmt.Sprint("gid_attrs/ndevs/", i), "%s", r.ndev)
	}
}

// showCharacter makes what there is of a device's character device. It is one to who asks what it
// is, and there is nothing behind it.
func (d *device) showCharacter(f files, number int) {
	name := fmt.Sprint("uverbs", number)
	at := path.Join("sys/class/infiniband_verbs", name)
	f[path.Join(at, "ibdev")] = file{data: d.name + "\n"}
	f[path.Join(at, "abi_version")] = file{data: "1\n"}
	f[path.Join(at, "dev")] = file{data: fmt.Sprintf("231:%d\n", 192+number)}
	f[path.Join(at, "device")] = file{link: path.Join("../../infiniband", d.name, "device")}
	f[path.Join("dev/infiniband", name)] = file{link: "/dev/null"}
}

// groups is a GUID as the kernel prints it.
func groups(guid uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", guid>>48, guid>>32&0xffff, guid>>16&0xffff, guid&0xffff)
}
