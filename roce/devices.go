package roce

// What can be opened on this machine.

import (
	"github.com/goroce/goroce/transport/ports"
	"github.com/goroce/goroce/wire"
)

// DeviceInfo is a device that exists on this machine and whether it can be opened.
type DeviceInfo struct {
	Name      string // for Open: "udp:192.168.1.5"
	Interface string // "eth0"
	GID       GID
	MTU       MTU    // the largest path MTU that fits the interface; 0: not even the smallest does
	NetMTU    int    // of the interface: bytes of an IP packet
	MAC       string // "" if the interface has none
	SpeedMbps int    // 0: unknown
	Up        bool   // administratively up, with a carrier
	Err       error  // nil if Open works now; otherwise what is missing
}

// Devices lists the devices of this machine, one for each address of each interface, usable or not.
// It opens and closes each, so that what it says is what Open does; of xdp, which would take links
// down, it asks what is needed instead. Any goroutine.
func Devices() ([]DeviceInfo, error) {
	list, err := ports.List()
	if err != nil {
		return nil, &Error{Op: "Devices", Device: "this machine", Err: err}
	}
	var devices []DeviceInfo
	for _, l := range list {
		devices = append(devices, DeviceInfo{Name: l.Name, Interface: l.Interface, GID: l.GID, MTU: wire.MTUForNet(l.NetMTU),
			NetMTU: l.NetMTU, MAC: l.MAC, SpeedMbps: l.SpeedMbps, Up: l.Up, Err: l.Err})
	}
	return devices, nil
}
