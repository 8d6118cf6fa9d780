package roce

// What a device and its port can do. Names are those of ibv_device_attr and ibv_port_attr.

import (
	"fmt"

	"github.com/goroce/goroce/transport"
)

// AtomicCap says how far atomics are atomic (ibv_atomic_cap).
type AtomicCap uint8

// The values. This stack uses the processor's atomic instructions, so it is AtomicGlob: whoever
// else uses them, by sync/atomic, in another process or through another device, is covered.
const (
	AtomicNone AtomicCap = iota // no atomics
	AtomicHCA                   // among all accesses through the device
	AtomicGlob                  // among these and the processor's atomic instructions
)

// String is the name without IBV_: "ATOMIC_GLOB".
func (a AtomicCap) String() string {
	if names := [...]string{"ATOMIC_NONE", "ATOMIC_HCA", "ATOMIC_GLOB"}; int(a) < len(names) {
		return names[a]
	}
	return fmt.Sprintf("AtomicCap(%d)", uint8(a))
}

// DeviceCaps are the optional abilities of a device (ibv_device_cap_flags, and from bit 32 on
// device_cap_flags_ex).
type DeviceCaps uint64

// The abilities that this stack has.
const (
	CapCurrQPStateMod  DeviceCaps = 1 << 7  // Modify honours AttrCurState
	CapPortActiveEvent DeviceCaps = 1 << 10 // EventPortActive
	CapRCRNRNakGen     DeviceCaps = 1 << 12 // RNR NAKs
	CapSRQResize       DeviceCaps = 1 << 13 // SRQ.Modify with SRQMaxWR
	CapMemWindow       DeviceCaps = 1 << 17
	CapXRC             DeviceCaps = 1 << 20 // Device.OpenXRCD
	CapMemWindow2B     DeviceCaps = 1 << 24 // windows of type 2B
	CapFlushGlobal     DeviceCaps = 1 << 38 // it serves FLUSH for visibility
	CapFlushPersistent DeviceCaps = 1 << 39 // and to storage
	CapAtomicWrite     DeviceCaps = 1 << 40 // it serves ATOMIC WRITE
)

// DeviceAttr is what a device can do (ibv_device_attr).
type DeviceAttr struct {
	FWVer string
	// EUI-64 of the interface's MAC address; without one, the lower half of the GID
	NodeGUID     uint64
	SysImageGUID uint64
	MaxMRSize    uint64 // bytes
	// bit mask of page sizes; any will do: what is registered need not be whole pages
	PageSizeCap  uint64
	VendorID     uint32
	VendorPartID uint32
	HWVer        uint32
	MaxQP        int
	MaxQPWR      int // work requests of a queue
	DeviceCaps   DeviceCaps
	MaxSGE       int // elements of a work request
	MaxSGERd     int // elements of a READ
	// bytes of inline data; 0: not known, as verbs learn it from ibv_create_qp
	MaxInline       int
	MaxCQ           int
	MaxCQE          int
	MaxMR           int
	MaxPD           int
	MaxQPRdAtom     int // READs and atomics of its peer that a queue pair remembers
	MaxResRdAtom    int // the same for all queue pairs together
	MaxQPInitRdAtom int // READs and atomics that a queue pair may have outstanding
	AtomicCap       AtomicCap
	MaxMW           int
	MaxAH           int
	MaxMcastGrp     int // multicast groups with members
	// queue pairs attached to one group, and to all groups, each counted once a group
	MaxMcastQPAttach, MaxTotalMcastQPAttach int
	MaxSRQ                                  int
	MaxSRQWR                                int // work requests of a shared receive queue
	MaxSRQSGE                               int // elements of one
	MaxPKeys                                int
	LocalCAAckDelay                         uint8 // this side answers within 4.096 us * 2^n
	PhysPortCnt                             uint8 // 1
	NumCompVectors                          int   // CQInitAttr.Vector is below it
	SelectiveRepeat                         bool  // AttrSelectiveRepeat: this stack's own
	FlowControl                             bool  // AttrFlowControl: this stack's own
	// kHz of the clock that stamps completions and that QueryRTValues reads; 0: there is none
	HCACoreClock            uint64
	CompletionTimestampMask uint64 // the bits of WCEx.Timestamp
	MaxCQCount              int    // of CQModeration; 0: there is no moderation
	MaxCQPeriod             int    // microseconds, the same
	// bounds of QPAttr.RateLimit in kbit/s (ibv_packet_pacing_caps); 0: there is no AttrRateLimit
	RateLimitMin, RateLimitMax uint32
	ODP                        ODPCaps
}

// ODPCaps say what regions that are registered OnDemand can be used for (ibv_odp_caps): in general,
// and by the requests of each kind of queue pair.
type ODPCaps struct {
	General         ODPGeneralCaps
	RC, UC, UD, XRC ODPTransportCaps
}

// ODPGeneralCaps are bits of ODPCaps.General (ibv_odp_general_caps).
type ODPGeneralCaps uint64

// What there may be in general.
const (
	ODPSupport         ODPGeneralCaps = 1 << 0
	ODPSupportImplicit ODPGeneralCaps = 1 << 1 // of the whole address space: RegMRAt
)

// ODPTransportCaps are the requests of a kind of queue pair that may use such a region
// (ibv_odp_transport_cap_bits).
type ODPTransportCaps uint32

// The kinds of requests.
const (
	ODPSupportSend    ODPTransportCaps = 1 << 0
	ODPSupportRecv    ODPTransportCaps = 1 << 1
	ODPSupportWrite   ODPTransportCaps = 1 << 2
	ODPSupportRead    ODPTransportCaps = 1 << 3
	ODPSupportAtomic  ODPTransportCaps = 1 << 4
	ODPSupportSRQRecv ODPTransportCaps = 1 << 5
)

// Query returns the device's limits and abilities (ibv_query_device).
func (d *Device) Query() DeviceAttr { return d.provider.attr() }

// RTValues are what a device measures at the moment (ibv_values_ex).
type RTValues struct {
	RawClock uint64 // of the clock that stamps completions, DeviceAttr.HCACoreClock ticks a ms
}

// QueryRTValues reads the device's clock (ibv_query_rt_values_ex). ErrNotSupported if it has none.
func (d *Device) QueryRTValues() (v RTValues, err error) {
	v.RawClock, err = d.provider.rawClock()
	return v, d.fail("QueryRTValues", err)
}

// PortState is a port's state (ibv_port_state).
type PortState uint8

// Port states.
const (
	PortDown   PortState = 1
	PortActive PortState = 4
)

// String prints the state as ibv_devinfo does.
func (s PortState) String() string {
	switch s {
	case PortDown:
		return "PORT_DOWN"
	case PortActive:
		return "PORT_ACTIVE"
	}
	return fmt.Sprintf("PortState(%d)", uint8(s))
}

// Numbers of PortAttr.
const (
	PhysDisabled      = 3       // PortAttr.PhysState without carrier
	PhysLinkUp        = 5       // PortAttr.PhysState
	LinkLayerEthernet = 2       // PortAttr.LinkLayer
	PortCMSup         = 1 << 16 // PortAttr.PortCaps: communication management
	PortIPBasedGIDs   = 1 << 26 // PortAttr.PortCaps
)

// PortAttr describes the device's one port (ibv_port_attr).
type PortAttr struct {
	State  PortState
	MaxMTU MTU // the largest path MTU of the stack
	// the largest path MTU that fits the interface, now and when the device was opened
	ActiveMTU    MTU
	GIDTblLen    int
	PortCaps     uint32 // PortIPBasedGIDs
	MaxMsgSz     uint64 // bytes
	BadPKeyCntr  uint64 // packets
	QKeyViolCntr uint64 // packets
	PKeyTblLen   int
	ActiveWidth  uint8 // 1: 1x, 2: 4x
	ActiveSpeed  uint8 // a lane's: 1 SDR, 2 DDR, 4 QDR, 8 FDR10, 16 FDR, 32 EDR, 64 HDR
	SpeedMbps    int   // what the interface says; 0 is unknown
	NetMTU       int   // longest IP packet in bytes
	PhysState    uint8 // PhysLinkUp or PhysDisabled
	LinkLayer    uint8 // LinkLayerEthernet
	Interface    string
}

// QueryPort returns the port's present state (ibv_query_port).
func (d *Device) QueryPort() PortAttr { return d.provider.portAttr() }

// speedCode is how the kernel tells an Ethernet speed in InfiniBand's terms: the next that is not
// slower.
func speedCode(mbps int) (width, speed uint8) {
	const x1, x4 = 1, 2
	for _, row := range []struct {
		mbps         int
		width, speed uint8
	}{
		{1000, x1, 1}, {10000, x1, 8}, {20000, x4, 2}, {25000, x1, 32}, {40000, x4, 8}, {100000, x4, 32},
	} {
		if mbps <= row.mbps {
			return row.width, row.speed
		}
	}
	return x4, 64
}

// QueryGID returns row i of the GID table as it is now (ibv_query_gid); an empty row is the zero
// GID. ErrInvalid if there is no such row.
func (d *Device) QueryGID(i int) (GID, error) {
	gids := d.provider.gids()
	if i < 0 || i >= len(gids) {
		return GID{}, d.fail("QueryGID", fmt.Errorf("%w: index %d, the device has %d GIDs", ErrInvalid, i, len(gids)))
	}
	return gids[i], nil
}

// GIDType is the protocol of a row of the GID table (ibv_gid_type).
type GIDType uint8

// GIDTypeRoCEv2 is the type of every row that a device of this package has
// (IBV_GID_TYPE_ROCE_V2).
const GIDTypeRoCEv2 GIDType = 2

// String prints "RoCE v2".
func (t GIDType) String() string {
	if t == GIDTypeRoCEv2 {
		return "RoCE v2"
	}
	return fmt.Sprintf("GIDType(%d)", uint8(t))
}

// GIDEntry is a row of the GID table (ibv_gid_entry).
type GIDEntry struct {
	GID     GID
	Index   int // the row
	Port    uint8
	Type    GIDType
	IfIndex int // of the network interface that has the address; 0: none is known
}

// QueryGIDEx returns row i of the GID table with what belongs to it (ibv_query_gid_ex). ErrInvalid
// if there is no such row, or it is empty.
func (d *Device) QueryGIDEx(i int) (GIDEntry, error) {
	gid, err := d.QueryGID(i)
	if err != nil {
		return GIDEntry{}, err
	}
	if gid.IsZero() {
		return GIDEntry{}, d.fail("QueryGIDEx", fmt.Errorf("%w: row %d of the GID table is empty", ErrInvalid, i))
	}
	return GIDEntry{GID: gid, Index: i, Port: 1, Type: GIDTypeRoCEv2, IfIndex: d.provider.gidLink(i)}, nil
}

// firstGID is the first address in the GID table; zero if there is none.
func (d *Device) firstGID() (first GID) {
	for _, g := range d.provider.gids() {
		if !g.IsZero() {
			return g
		}
	}
	return first
}

// GIDs returns the GID table as it is now: row i is QueryGID(i) and AHAttr.SGIDIndex i. An empty
// row is the zero GID.
func (d *Device) GIDs() []GID { return append([]GID(nil), d.provider.gids()...) }

// PortInfo returns what the packet port says about itself, with the features that the system has
// refused so far; of a closed device what it said when it was opened.
func (d *Device) PortInfo() transport.Info { return d.provider.portInfo() }
