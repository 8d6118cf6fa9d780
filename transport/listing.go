package transport

// What a machine has to offer: for `roce devices`.

import (
	"net/netip"

	"github.com/goroce/goroce/wire"
)

// Listing is one port of this machine that could be opened, or that could if something were
// different: package ports lists them.
type Listing struct {
	Name      string     `json:"name"` // to open it by: "udp:eth0", "udp:127.0.0.1"
	Kind      string     `json:"kind"` // "udp", "packet", "xdp"
	Interface string     `json:"interface"`
	Address   netip.Addr `json:"address"` // zero, "" in JSON: all of the interface
	GID       wire.GID   `json:"-"`       // of the address, or of the interface's first
	MAC       string     `json:"mac,omitempty"`
	NetMTU    int        `json:"net_mtu"`
	PathMTU   int        `json:"path_mtu"` // the largest RoCE path MTU that fits, 0 if none does
	SpeedMbps int        `json:"speed_mbps,omitempty"`
	Up        bool       `json:"up"`
	// Err is what is missing; nil: the port can be opened now.
	Err     error  `json:"-"`
	Problem string `json:"problem,omitempty"` // Err in words
}
