package main

// Devices. Several contexts of one name share a device, as several ibv_open_device of one NIC do.
//
// Stages: opening, closing; what a device, a port, a row of the GID table are; events.

// #include <infiniband/verbs.h>
import "C"

import (
	"context"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/transport"
)

var bg = context.Background()

// device is one that contexts share.
type device struct {
	*roce.Device
	name     string
	contexts int      // and one if the connection manager uses it
	hidden   *roce.PD // of XRC queue pairs that receive, which have none in C
}

// ctx is an ibv_context.
type ctx struct {
	*device
	stop func() // ends its events
}

var devices struct {
	sync.Mutex
	open map[string]*device
}

// owner is the Context of what C has made: its ibv_context, and its own structure.
type owner struct{ ctx, self uintptr }

// use opens a device, or finds it open, for one more user.
func use(name string) (*device, error) {
	devices.Lock()
	defer devices.Unlock()
	d := devices.open[name]
	if d == nil {
		dev, err := roce.Open(name, &roce.Config{Transport: transport.Options{OwnThread: true}, Wrap: recorded(name)})
		if err != nil {
			return nil, err
		}
		d = &device{Device: dev, name: name}
		if devices.open == nil {
			devices.open = map[string]*device{}
		}
		devices.open[name] = d
	}
	d.contexts++
	return d, nil
}

//export goroce_open
func goroce_open(name *C.char, context C.uintptr_t, asyncFD C.int, out *C.uint32_t) C.int {
	d, err := use(C.GoString(name))
	if err != nil {
		return errno(err)
	}
	c := &ctx{device: d}
	c.stop = d.OnEvent(func(e roce.AsyncEvent) { tell(int(asyncFD), uintptr(context), e) })
	return made(nil, c, c.close, out)
}

func (c *ctx) close() error {
	devices.Lock()
	defer devices.Unlock()
	c.stop()
	d := c.device
	if d.contexts--; d.contexts > 0 {
		return nil
	}
	for _, list := range left(d.Device) { // as the kernel does for who closes a device of its own
		for _, e := range list {
			closeObject(e.object)
			drop(e.number)
		}
	}
	if d.hidden != nil {
		d.hidden.Close()
	}
	delete(devices.open, d.name)
	return d.Device.Close()
}

// closer is an object of which nothing is to be done but to be closed.
type closer interface{ Close() error }

// goroce_close closes any object.
//
//export goroce_close
func goroce_close(h C.uint32_t) C.int {
	object, ok := find[any](handle(h))
	if !ok {
		return invalid
	}
	if err := closeObject(object); err != nil {
		return errno(err)
	}
	drop(handle(h))
	return 0
}

func closeObject(object any) error {
	switch o := object.(type) {
	case *ctx:
		return o.close()
	case *ah:
		return o.pd.DestroyAH(o.AH)
	case closer:
		return o.Close()
	}
	return nil
}

// ranks is how many kinds of objects must be closed one after the other.
const ranks = 5

// rank says when an object can be closed: what it is made of comes later.
func rank(object any) int {
	switch object.(type) {
	case *queuePair:
		return 0
	case *sharedQueue, *roce.MW, *ah:
		return 1
	case *completionQueue, *roce.MR, *roce.XRCD:
		return 2
	case *roce.PD, *roce.CompChannel:
		return 3
	}
	return ranks - 1
}

// goroce_flush sends what is still owed, for a process that ends without closing, and tells the
// peers of connections, as the kernel does for who ends with IDs; then, called once more, it closes
// sockets, which may have to wait for their peers.
//
//export goroce_flush
func goroce_flush(sockets C.int) {
	if sockets != 0 {
		if closeSockets() {
			flush()
		}
		return
	}
	flush()
	some := false
	for x := range all[*cmID] {
		x.ID.Close()
		some = true
	}
	if some {
		flush()
	}
}

func flush() {
	devices.Lock()
	defer devices.Unlock()
	for _, d := range devices.open {
		d.Flush()
	}
}

//export goroce_query_device
func goroce_query_device(h C.uint32_t, out *C.struct_ibv_device_attr_ex) C.int {
	c, ok := find[*ctx](handle(h))
	if !ok {
		return invalid
	}
	a := c.Query()
	*out = C.struct_ibv_device_attr_ex{}
	o := &out.orig_attr
	for i, b := range []byte(a.FWVer)[:min(len(a.FWVer), len(o.fw_ver)-1)] {
		o.fw_ver[i] = C.char(b)
	}
	o.node_guid, o.sys_image_guid = bigEndian(a.NodeGUID), bigEndian(a.SysImageGUID)
	o.max_mr_size, o.page_size_cap = C.uint64_t(a.MaxMRSize), C.uint64_t(a.PageSizeCap)
	o.vendor_id, o.vendor_part_id, o.hw_ver = C.uint32_t(a.VendorID), C.uint32_t(a.VendorPartID), C.uint32_t(a.HWVer)
	o.max_qp, o.max_qp_wr = C.int(a.MaxQP), C.int(a.MaxQPWR)
	o.device_cap_flags = C.uint(a.DeviceCaps)
	out.device_cap_flags_ex = C.uint64_t(a.DeviceCaps)
	o.max_sge, o.max_sge_rd = C.int(a.MaxSGE), C.int(a.MaxSGERd)
	o.max_cq, o.max_cqe, o.max_mr, o.max_pd = C.int(a.MaxCQ), C.int(a.MaxCQE), C.int(a.MaxMR), C.int(a.MaxPD)
	o.max_qp_rd_atom, o.max_res_rd_atom = C.int(a.MaxQPRdAtom), C.int(a.MaxResRdAtom)
	o.max_qp_init_rd_atom, o.atomic_cap = C.int(a.MaxQPInitRdAtom), C.enum_ibv_atomic_cap(a.AtomicCap)
	o.max_mw, o.max_ah = C.int(a.MaxMW), C.int(a.MaxAH)
	o.max_mcast_grp, o.max_mcast_qp_attach = C.int(a.MaxMcastGrp), C.int(a.MaxMcastQPAttach)
	o.max_total_mcast_qp_attach = C.int(a.MaxTotalMcastQPAttach)
	o.max_srq, o.max_srq_wr, o.max_srq_sge = C.int(a.MaxSRQ), C.int(a.MaxSRQWR), C.int(a.MaxSRQSGE)
	o.max_pkeys, o.local_ca_ack_delay = C.uint16_t(a.MaxPKeys), C.uint8_t(a.LocalCAAckDelay)
	o.phys_port_cnt = C.uint8_t(a.PhysPortCnt)
	out.odp_caps.general_caps = C.uint64_t(a.ODP.General)
	out.odp_caps.per_transport_caps.rc_odp_caps = C.uint32_t(a.ODP.RC)
	out.odp_caps.per_transport_caps.uc_odp_caps = C.uint32_t(a.ODP.UC)
	out.odp_caps.per_transport_caps.ud_odp_caps = C.uint32_t(a.ODP.UD)
	out.xrc_odp_caps = C.uint32_t(a.ODP.XRC)
	out.completion_timestamp_mask = C.uint64_t(a.CompletionTimestampMask)
	out.hca_core_clock = C.uint64_t(a.HCACoreClock)
	out.phys_port_cnt_ex = C.uint32_t(a.PhysPortCnt)
	out.cq_mod_caps.max_cq_count, out.cq_mod_caps.max_cq_period = C.uint16_t(a.MaxCQCount), C.uint16_t(a.MaxCQPeriod)
	out.packet_pacing_caps.qp_rate_limit_min = C.uint32_t(a.RateLimitMin)
	out.packet_pacing_caps.qp_rate_limit_max = C.uint32_t(a.RateLimitMax)
	if a.RateLimitMax > 0 {
		out.packet_pacing_caps.supported_qpts = 1<<C.IBV_QPT_RC | 1<<C.IBV_QPT_UC
	}
	return 0
}

// bigEndian is a number as C stores those that are __be64.
func bigEndian(n uint64) C.__be64 {
	var b [8]byte
	for i := range b {
		b[i] = byte(n >> (56 - 8*i))
	}
	return *(*C.__be64)(unsafe.Pointer(&b))
}

//export goroce_query_port
func goroce_query_port(h C.uint32_t, out *C.struct_ibv_port_attr) C.int {
	c, ok := find[*ctx](handle(h))
	if !ok {
		return invalid
	}
	p := c.QueryPort()
	out.state = C.enum_ibv_port_state(p.State)
	out.max_mtu, out.active_mtu = C.enum_ibv_mtu(p.MaxMTU), C.enum_ibv_mtu(p.ActiveMTU)
	out.gid_tbl_len, out.max_msg_sz = C.int(p.GIDTblLen), C.uint32_t(p.MaxMsgSz)
	out.port_cap_flags = C.uint32_t(p.PortCaps)
	out.bad_pkey_cntr, out.qkey_viol_cntr = C.uint32_t(p.BadPKeyCntr), C.uint32_t(p.QKeyViolCntr)
	out.pkey_tbl_len = C.uint16_t(p.PKeyTblLen)
	out.active_width, out.active_speed = C.uint8_t(p.ActiveWidth), C.uint8_t(p.ActiveSpeed)
	out.phys_state, out.link_layer = C.uint8_t(p.PhysState), C.uint8_t(p.LinkLayer)
	out.max_vl_num = 1
	return 0
}

//export goroce_query_gid
func goroce_query_gid(h C.uint32_t, row C.uint32_t, out *C.struct_ibv_gid_entry) C.int {
	c, ok := find[*ctx](handle(h))
	if !ok {
		return invalid
	}
	if int(row) >= c.QueryPort().GIDTblLen {
		return invalid
	}
	*out = C.struct_ibv_gid_entry{gid_index: row, port_num: 1, gid_type: C.IBV_GID_TYPE_ROCE_V2}
	if e, err := c.QueryGIDEx(int(row)); err == nil {
		*(*roce.GID)(unsafe.Pointer(&out.gid)) = e.GID
		out.ndev_ifindex = C.uint32_t(e.IfIndex)
	}
	return 0
}

//export goroce_query_clock
func goroce_query_clock(h C.uint32_t, ns *C.uint64_t) C.int {
	c, ok := find[*ctx](handle(h))
	if !ok {
		return invalid
	}
	v, err := c.QueryRTValues()
	*ns = C.uint64_t(v.RawClock)
	return errno(err)
}

// tell writes an event into a context's pipe, as ibv_get_async_event hands it on. Each context has
// those of its own objects, and all have the device's. It is called in a turn, and the pipe does
// not block: who reads nothing loses what does not fit.
func tell(fd int, context uintptr, e roce.AsyncEvent) {
	own := owner{context, 1} // the port's number
	switch {
	case e.QP != nil:
		own, _ = e.QP.Context().(owner)
	case e.CQ != nil:
		own, _ = e.CQ.Context().(owner)
	case e.SRQ != nil:
		own, _ = e.SRQ.Context().(owner)
	}
	if own.ctx != context {
		return
	}
	var event C.struct_ibv_async_event
	*(*uintptr)(unsafe.Pointer(&event.element)) = own.self
	event.event_type = C.enum_ibv_event_type(e.Type)
	unix.Write(fd, unsafe.Slice((*byte)(unsafe.Pointer(&event)), unsafe.Sizeof(event)))
}
