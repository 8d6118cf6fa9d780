//go:build verbs

package verbs

// The device: what it can do, what its port is like now, and its end.

/*
#include "glue.h"
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"unsafe"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
)

// Device is an open device with one of its ports. All methods may be called from any goroutine.
type Device struct {
	name   string // as given to Open
	device string // the kernel's: "mlx5_0"
	port   uint8
	cfg    Config

	context    *C.struct_ibv_context
	attr       C.struct_ibv_device_attr
	ex         C.struct_ibv_device_attr_ex // zero if the driver does not say
	rows       []row
	link       *net.Interface // of the addresses; nil: not in this network namespace
	maxMessage uint32
	activeMTU  uint8
	before     qp.Stats // what the port had counted before

	events    *Descriptor
	freeEvent func()

	mu     sync.Mutex
	live   map[unsafe.Pointer]any // queue pairs and their queues, by the library's objects
	closed bool
}

// Attr is what the device can do (ibv_device_attr).
type Attr struct {
	FWVer                                         string
	NodeGUID, SysImageGUID                        uint64
	MaxMRSize, PageSizeCap                        uint64
	VendorID, VendorPartID, HWVer                 uint32
	MaxQP, MaxQPWR                                int
	DeviceCaps                                    uint64 // also those of device_cap_flags_ex
	MaxSGE, MaxSGERd, MaxCQ, MaxCQE, MaxMR, MaxPD int
	MaxQPRdAtom, MaxResRdAtom, MaxQPInitRdAtom    int
	AtomicCap                                     uint8
	MaxMW, MaxAH, MaxPKeys                        int
	MaxSRQ, MaxSRQWR, MaxSRQSGE                   int
	LocalCAAckDelay                               uint8
	NumCompVectors                                int
	HCACoreClock, CompletionTimestampMask         uint64
	MaxCQCount, MaxCQPeriod                       int
	MaxMcastGrp                                   int
	MaxMcastQPAttach, MaxTotalMcastQPAttach       int
	ODP                                           uint64
	ODPOfRC, ODPOfUC, ODPOfUD, ODPOfXRC           uint32
}

// Attr returns what the device can do.
func (d *Device) Attr() Attr {
	a, odp := &d.attr, &d.ex.odp_caps
	return Attr{
		FWVer: C.GoString(&a.fw_ver[0]), NodeGUID: guid(a.node_guid), SysImageGUID: guid(a.sys_image_guid),
		MaxMRSize: uint64(a.max_mr_size), PageSizeCap: uint64(a.page_size_cap),
		VendorID: uint32(a.vendor_id), VendorPartID: uint32(a.vendor_part_id), HWVer: uint32(a.hw_ver),
		MaxQP: int(a.max_qp), MaxQPWR: int(a.max_qp_wr),
		DeviceCaps: uint64(a.device_cap_flags) | uint64(d.ex.device_cap_flags_ex), MaxSGE: int(a.max_sge),
		MaxSGERd: int(a.max_sge_rd), MaxCQ: int(a.max_cq), MaxCQE: int(a.max_cqe), MaxMR: int(a.max_mr),
		MaxPD: int(a.max_pd), MaxQPRdAtom: int(a.max_qp_rd_atom), MaxResRdAtom: int(a.max_res_rd_atom),
		MaxQPInitRdAtom: int(a.max_qp_init_rd_atom), AtomicCap: uint8(a.atomic_cap), MaxMW: int(a.max_mw),
		MaxAH: int(a.max_ah), MaxPKeys: int(a.max_pkeys), MaxSRQ: int(a.max_srq), MaxSRQWR: int(a.max_srq_wr),
		MaxSRQSGE: int(a.max_srq_sge), LocalCAAckDelay: uint8(a.local_ca_ack_delay),
		NumCompVectors: int(d.context.num_comp_vectors), HCACoreClock: uint64(d.ex.hca_core_clock),
		CompletionTimestampMask: uint64(d.ex.completion_timestamp_mask), MaxCQCount: int(d.ex.cq_mod_caps.max_cq_count),
		MaxCQPeriod: int(d.ex.cq_mod_caps.max_cq_period), MaxMcastGrp: int(a.max_mcast_grp),
		MaxMcastQPAttach: int(a.max_mcast_qp_attach), MaxTotalMcastQPAttach: int(a.max_total_mcast_qp_attach),
		ODP: uint64(odp.general_caps), ODPOfRC: uint32(odp.per_transport_caps.rc_odp_caps),
		ODPOfUC: uint32(odp.per_transport_caps.uc_odp_caps), ODPOfUD: uint32(odp.per_transport_caps.ud_odp_caps),
		ODPOfXRC: uint32(d.ex.xrc_odp_caps),
	}
}

// Clock reads the device's clock.
func (d *Device) Clock() (uint64, error) {
	var ticks C.uint64_t
	err := answered("ibv_query_rt_values_ex", int(C.goroce_read_clock(d.context, &ticks)))
	return uint64(ticks), err
}

// guid reads what the library keeps in network order.
func guid(be C.__be64) uint64 { return binary.BigEndian.Uint64((*[8]byte)(unsafe.Pointer(&be))[:]) }

// PortAttr is what the port is like (ibv_port_attr).
type PortAttr struct {
	State, PhysState, LinkLayer uint8
	MaxMTU, ActiveMTU           uint8
	GIDTblLen, PKeyTblLen       int
	PortCaps                    uint32
	MaxMsgSz                    uint64
	BadPKeyCntr, QKeyViolCntr   uint64
	ActiveWidth, ActiveSpeed    uint8
}

// Port returns what the port is like now. If the device does not answer it is down.
func (d *Device) Port() PortAttr {
	a, err := d.queryPort()
	if err != nil {
		return PortAttr{State: C.IBV_PORT_DOWN, LinkLayer: C.IBV_LINK_LAYER_ETHERNET}
	}
	return PortAttr{State: uint8(a.state), PhysState: uint8(a.phys_state), LinkLayer: uint8(a.link_layer),
		MaxMTU: uint8(a.max_mtu), ActiveMTU: uint8(a.active_mtu), GIDTblLen: len(d.rows),
		PKeyTblLen: int(a.pkey_tbl_len), PortCaps: uint32(a.port_cap_flags), MaxMsgSz: uint64(a.max_msg_sz),
		BadPKeyCntr: uint64(a.bad_pkey_cntr), QKeyViolCntr: uint64(a.qkey_viol_cntr),
		ActiveWidth: uint8(a.active_width), ActiveSpeed: uint8(a.active_speed)}
}

// Info describes the port in the terms of the others.
func (d *Device) Info() transport.Info {
	port := d.Port()
	i := transport.Info{Name: d.name, Kind: "verbs", GIDs: d.GIDs(), MaxRun: 1, Up: port.State == C.IBV_PORT_ACTIVE,
		SpeedMbps: speed(port.ActiveWidth, port.ActiveSpeed), Mode: fmt.Sprintf("libibverbs, %s port %d",
			d.device, d.port)}
	if d.link != nil {
		i.Interface, i.Index, i.MAC, i.NetMTU = d.link.Name, d.link.Index, d.link.HardwareAddr, d.link.MTU
		i.Loopback = d.link.Flags&net.FlagLoopback != 0
	}
	return i
}

// speed is that of all lanes of a port in Mbit/s; 0 if the codes are unknown.
func speed(width, speed uint8) int {
	lanes := map[uint8]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}[width]
	return lanes * map[uint8]int{
		1:   2500,
		2:   5000,
		4:   10000,
		8:   10000,
		16:  14000,
		32:  25000,
		64:  50000,
		128: 100000,
	}[speed]
}

// Close closes the device, on which nothing may be left. A second Close does nothing.
func (d *Device) Close() error {
	d.mu.Lock()
	again := d.closed
	d.closed = true
	d.mu.Unlock()
	if again {
		return nil
	}
	d.events.Close()
	d.freeEvent()
	return answered("ibv_close_device", int(C.ibv_close_device(d.context)))
}
