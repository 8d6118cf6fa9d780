package main

// Memory and where datagrams go: protection domains, regions, windows, address handles.

// #include <infiniband/verbs.h>
import "C"

import (
	"unsafe"

	"github.com/goroce/goroce/roce"
)

// ah is an address handle, which only its domain can end.
type ah struct {
	*roce.AH
	pd *roce.PD
}

//export goroce_alloc_pd
func goroce_alloc_pd(h C.uint32_t, out *C.uint32_t) C.int {
	c, ok := find[*ctx](handle(h))
	if !ok {
		return invalid
	}
	pd, err := c.AllocPD()
	if err != nil {
		return errno(err)
	}
	return made(c.Device, pd, pd.Close, out)
}

//export goroce_reg_mr
func goroce_reg_mr(h C.uint32_t, addr C.uintptr_t, length, iova C.uint64_t, access C.uint32_t,
	mr *C.struct_ibv_mr) C.int {
	pd, ok := find[*roce.PD](handle(h))
	if !ok {
		return invalid
	}
	m, err := pd.RegMRAt(uintptr(addr), uint64(length), uint64(iova), roce.Access(access))
	return region(pd, m, err, mr)
}

//export goroce_alloc_null_mr
func goroce_alloc_null_mr(h C.uint32_t, mr *C.struct_ibv_mr) C.int {
	pd, ok := find[*roce.PD](handle(h))
	if !ok {
		return invalid
	}
	m, err := pd.AllocNullMR()
	return region(pd, m, err, mr)
}

// region fills in what C knows of a new region.
func region(pd *roce.PD, m *roce.MR, err error, mr *C.struct_ibv_mr) C.int {
	if err != nil {
		return errno(err)
	}
	mr.lkey, mr.rkey = C.uint32_t(m.LKey()), C.uint32_t(m.RKey())
	return made(pd.Device(), m, m.Close, &mr.handle)
}

//export goroce_rereg_mr
func goroce_rereg_mr(h C.uint32_t, flags C.int, pd C.uint32_t, addr unsafe.Pointer, length C.uint64_t,
	access C.uint32_t, mr *C.struct_ibv_mr) C.int {
	m, ok := find[*roce.MR](handle(h))
	p, isPD := find[*roce.PD](handle(pd))
	if !ok || pd != 0 && !isPD {
		return invalid
	}
	memory := unsafe.Slice((*byte)(addr), int(length))
	if err := m.Rereg(roce.ReregFlags(flags), p, memory, roce.Access(access)); err != nil {
		return errno(err)
	}
	mr.lkey, mr.rkey = C.uint32_t(m.LKey()), C.uint32_t(m.RKey())
	return 0
}

//export goroce_alloc_mw
func goroce_alloc_mw(h C.uint32_t, typ C.int, mw *C.struct_ibv_mw) C.int {
	pd, ok := find[*roce.PD](handle(h))
	if !ok {
		return invalid
	}
	w, err := pd.AllocMW(roce.MWType(typ))
	if err != nil {
		return errno(err)
	}
	mw.rkey = C.uint32_t(w.RKey())
	return made(pd.Device(), w, w.Close, &mw.handle)
}

// windowAccess are the rights of a window. Programs ask for those of the region with them, which
// say nothing of a peer's, and NICs do not look.
func windowAccess(flags uint32) roce.Access { return roce.Access(flags) &^ roce.LocalWrite }

// goroce_bind_mw binds a window of type 1 (ibv_bind_mw).
//
//export goroce_bind_mw
func goroce_bind_mw(h C.uint32_t, mw *C.struct_ibv_mw, b *C.struct_ibv_mw_bind) C.int {
	q, ok := find[*queuePair](handle(h))
	w, isMW := find[*roce.MW](handle(mw.handle))
	if !ok || !isMW {
		return invalid
	}
	attr := roce.MWBindAttr{WRID: uint64(b.wr_id), Flags: roce.SendFlags(b.send_flags), Addr: uint64(b.bind_info.addr),
		Length: uint64(b.bind_info.length), Access: windowAccess(uint32(b.bind_info.mw_access_flags))}
	if b.bind_info.mr != nil {
		if attr.MR, ok = find[*roce.MR](handle(b.bind_info.mr.handle)); !ok {
			return invalid
		}
	}
	if err := q.BindMW(w, attr); err != nil {
		return errno(err)
	}
	mw.rkey = C.uint32_t(w.RKey())
	return 0
}

// vector is an address vector of C's. Programs leave rubbish above a flow label's 20 bits.
func vector(a *C.struct_ibv_ah_attr) roce.AHAttr {
	return roce.AHAttr{DGID: *(*roce.GID)(unsafe.Pointer(&a.grh.dgid)), SGIDIndex: uint8(a.grh.sgid_index),
		TrafficClass: uint8(a.grh.traffic_class), HopLimit: uint8(a.grh.hop_limit),
		FlowLabel: uint32(a.grh.flow_label) & 0xfffff, SL: uint8(a.sl)}
}

// setVector is the way back.
func setVector(a *C.struct_ibv_ah_attr, v roce.AHAttr) {
	*a = C.struct_ibv_ah_attr{is_global: 1, port_num: 1, sl: C.uint8_t(v.SL)}
	*(*roce.GID)(unsafe.Pointer(&a.grh.dgid)) = v.DGID
	a.grh.sgid_index, a.grh.traffic_class = C.uint8_t(v.SGIDIndex), C.uint8_t(v.TrafficClass)
	a.grh.hop_limit, a.grh.flow_label = C.uint8_t(v.HopLimit), C.uint32_t(v.FlowLabel)
}

//export goroce_create_ah
func goroce_create_ah(h C.uint32_t, a *C.struct_ibv_ah_attr, out *C.uint32_t) C.int {
	pd, ok := find[*roce.PD](handle(h))
	if !ok || a.is_global == 0 { // RoCE has no other addresses
		return invalid
	}
	x, err := pd.CreateAH(bg, vector(a))
	if err != nil {
		return errno(err)
	}
	return made(pd.Device(), &ah{x, pd}, func() error { return pd.DestroyAH(x) }, out)
}

// goroce_ah_from_grh is the way back to who sent a datagram (ibv_init_ah_from_wc).
//
//export goroce_ah_from_grh
func goroce_ah_from_grh(grh unsafe.Pointer, a *C.struct_ibv_ah_attr) C.int {
	from := roce.WC{Flags: roce.WCGRH, Opcode: roce.WCRecv}
	v, err := roce.AHAttrFromWC(&from, unsafe.Slice((*byte)(grh), roce.GRHSize))
	if err != nil {
		return errno(err)
	}
	setVector(a, v)
	return 0
}
