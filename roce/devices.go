package roce

// What can be opened on this machine.

// DeviceInfo is a device that exists on this machine and whether it can be opened.
type DeviceInfo struct {
	Name      string // for Open: "udp:192.168.1.5"
	Interface string // "eth0"
	GID       GID
	MTU       MTU   // the path MTU that fits the interface; 0: not even the smallest one does
	NetMTU    int   // of the interface, bytes of IP packet
	Err       error // nil, or what is missing to open it
}

// Devices lists the devices of this machine, usable or not.
func Devices() ([]DeviceInfo, error) { return nil, nil }
