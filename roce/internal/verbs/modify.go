//go:build verbs

package verbs

// The attributes of a queue pair, to and fro.
// Stages of Modify: the present state → the table of transitions, which names what is missing → the
// values that have limits → ibv_modify_qp → what follows from the new state.

/*
#include "glue.h"
*/
import "C"

import (
	"context"
	"fmt"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// queried are the attributes that Query asks for.
const queried = qp.AttrState | qp.AttrCurState | qp.AttrAccessFlags | qp.AttrPKeyIndex | qp.AttrPort | qp.AttrQKey |
	qp.AttrAV | qp.AttrPathMTU | qp.AttrTimeout | qp.AttrRetryCnt | qp.AttrRNRRetry | qp.AttrRQPSN |
	qp.AttrMaxRdAtomic | qp.AttrMinRNRTimer | qp.AttrSQPSN | qp.AttrMaxDestRdAtomic | qp.AttrCap | qp.AttrDestQPN

// query asks the device. The caller has the control lock.
func (q *QP) query(mask qp.AttrMask) (a C.struct_ibv_qp_attr, err error) {
	if q.closed {
		return a, closed("QP")
	}
	var init C.struct_ibv_qp_init_attr
	err = answered("ibv_query_qp", int(C.ibv_query_qp(q.qp, &a, C.int(mask), &init)))
	return a, err
}

// State is the present state, which the device is asked for; after Close it is RESET.
func (q *QP) State() qp.QPState {
	q.control.Lock()
	defer q.control.Unlock()
	a, err := q.query(qp.AttrState)
	switch {
	case q.closed:
		return qp.StateReset
	case err != nil:
		return qp.QPState(q.state.Load())
	}
	q.state.Store(uint32(a.qp_state)) // over iWARP the kernel brings it to RTS
	return qp.QPState(a.qp_state)
}

// Query returns the present attributes.
func (q *QP) Query() (qp.QPAttr, error) {
	q.control.Lock()
	defer q.control.Unlock()
	a, err := q.query(queried)
	if err != nil {
		return qp.QPAttr{}, err
	}
	attr := qp.QPAttr{State: qp.QPState(a.qp_state), CurState: qp.QPState(a.qp_state), PathMTU: wire.MTU(a.path_mtu),
		QKey: uint32(a.qkey), RQPSN: wire.PSN(a.rq_psn), SQPSN: wire.PSN(a.sq_psn), DestQPN: uint32(a.dest_qp_num),
		AccessFlags: mr.Access(a.qp_access_flags), Cap: q.cap, PKeyIndex: uint16(a.pkey_index),
		EnSQDAsyncNotify: a.en_sqd_async_notify != 0, SQDraining: a.sq_draining != 0,
		MaxRdAtomic: uint8(a.max_rd_atomic), MaxDestRdAtomic: uint8(a.max_dest_rd_atomic),
		MinRNRTimer: uint8(a.min_rnr_timer), Timeout: uint8(a.timeout), RetryCnt: uint8(a.retry_cnt),
		RNRRetry: uint8(a.rnr_retry)}
	if a.qp_state != C.IBV_QPS_RESET {
		attr.Port = 1
	}
	if a.ah_attr.is_global != 0 {
		attr.AV = q.pd.dev.readAV(&a.ah_attr)
	}
	return attr, nil
}

// Modify sets the attributes that mask names. The driver may have to find the neighbour's Ethernet
// address for a new address vector; ctx is looked at before that only.
func (q *QP) Modify(ctx context.Context, attr *qp.QPAttr, mask qp.AttrMask) error {
	q.control.Lock()
	defer q.control.Unlock()
	now, err := q.query(qp.AttrState)
	if err != nil {
		return err
	}
	from, to := qp.QPState(now.qp_state), qp.QPState(now.qp_state)
	if mask&qp.AttrState != 0 {
		to = attr.State
	}
	if mask&(qp.AttrSelectiveRepeat|qp.AttrLongWindow) != 0 {
		return unsupported("selective repeat: %s goes back to the packet that is missing", q.pd.dev.device)
	}
	if mask&qp.AttrFlowControl != 0 {
		return unsupported("flow control: what %s does with credits is its own affair", q.pd.dev.device)
	}
	if mask&qp.AttrRateLimit != 0 {
		return unsupported("rate limits: the kernel has them for queue pairs of raw packets only")
	}
	if mask&qp.AttrCurState != 0 && attr.CurState != from {
		return invalid("cur_qp_state %v, QP 0x%06x is in %v", attr.CurState, q.qpn, from)
	}
	if err := qp.CheckModify(q.typ, from, to, mask); err != nil {
		return err
	}
	if err := q.checkValues(attr, mask); err != nil {
		return err
	}
	if mask&qp.AttrAV != 0 && ctx.Err() != nil {
		return ctx.Err()
	}
	a, err := q.write(attr, mask)
	if err != nil {
		return err
	}
	if to == qp.StateReset {
		q.save()
	}
	if err := answered("ibv_modify_qp", int(C.ibv_modify_qp(q.qp, &a, C.int(mask)))); err != nil {
		return fmt.Errorf("%v → %v: %w", from, to, err)
	}
	q.state.Store(uint32(to))
	if to == qp.StateReset {
		if from >= qp.StateRTS {
			q.drawStart()
		}
		q.forget()
	}
	return nil
}

// checkValues names a value that is over its limit, of which the device would only say EINVAL.
func (q *QP) checkValues(a *qp.QPAttr, mask qp.AttrMask) error {
	d := q.pd.dev
	for _, l := range []struct {
		bit        qp.AttrMask
		value, max uint32
	}{
		{qp.AttrPKeyIndex, uint32(a.PKeyIndex), max(uint32(d.attr.max_pkeys), 1) - 1},
		{qp.AttrDestQPN, a.DestQPN, wire.QPNMask},
		{qp.AttrMaxRdAtomic, uint32(a.MaxRdAtomic), uint32(d.attr.max_qp_init_rd_atom)},
		{qp.AttrMaxDestRdAtomic, uint32(a.MaxDestRdAtomic), uint32(d.attr.max_qp_rd_atom)},
		{qp.AttrMinRNRTimer, uint32(a.MinRNRTimer), 31},
		{qp.AttrTimeout, uint32(a.Timeout), 31},
		{qp.AttrRetryCnt, uint32(a.RetryCnt), 7},
		{qp.AttrRNRRetry, uint32(a.RNRRetry), 7},
		{qp.AttrPathMTU, uint32(a.PathMTU), uint32(d.activeMTU)},
	} {
		if mask&l.bit != 0 && l.value > l.max {
			return invalid("%v is %d, %s allows at most %d", l.bit, l.value, d.device, l.max)
		}
	}
	const peerRights = mr.LocalWrite | mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic | mr.FlushGlobal |
		mr.FlushPersistent
	switch {
	case mask&(qp.AttrAltPath|qp.AttrPathMigState) != 0:
		return invalid("%v: RoCE has no path migration", mask&(qp.AttrAltPath|qp.AttrPathMigState))
	case mask&qp.AttrPort != 0 && a.Port != 1:
		return invalid("port_num %d: what was opened is one port, 1", a.Port)
	case mask&qp.AttrPathMTU != 0 && a.PathMTU < 1:
		return invalid("path_mtu %d, want 1 (256 bytes) to %d", a.PathMTU, d.activeMTU)
	case mask&qp.AttrAccessFlags != 0 && a.AccessFlags&^peerRights != 0:
		return invalid("qp_access_flags 0x%x: unknown bits 0x%x",
			uint32(a.AccessFlags), uint32(a.AccessFlags&^peerRights))
	case mask&qp.AttrAV != 0 && a.AV.DGID.IsMulticast():
		return invalid("destination %v is a multicast group: only UD sends there", a.AV.DGID)
	}
	return nil
}

// write makes the library's attributes. The numbers are the same.
func (q *QP) write(a *qp.QPAttr, mask qp.AttrMask) (to C.struct_ibv_qp_attr, err error) {
	d := q.pd.dev
	to.qp_state, to.cur_qp_state = uint32(a.State), uint32(a.CurState)
	to.path_mtu, to.qkey = uint32(a.PathMTU), C.uint32_t(a.QKey)
	to.rq_psn, to.sq_psn = C.uint32_t(a.RQPSN&wire.PSNMask), C.uint32_t(a.SQPSN&wire.PSNMask)
	to.dest_qp_num, to.qp_access_flags = C.uint32_t(a.DestQPN), C.uint(a.AccessFlags)
	to.pkey_index, to.port_num = C.uint16_t(a.PKeyIndex), C.uint8_t(d.port)
	if a.EnSQDAsyncNotify {
		to.en_sqd_async_notify = 1
	}
	to.max_rd_atomic, to.max_dest_rd_atomic = C.uint8_t(a.MaxRdAtomic), C.uint8_t(a.MaxDestRdAtomic)
	to.min_rnr_timer, to.timeout = C.uint8_t(a.MinRNRTimer), C.uint8_t(a.Timeout)
	to.retry_cnt, to.rnr_retry = C.uint8_t(a.RetryCnt), C.uint8_t(a.RNRRetry)
	if mask&qp.AttrAV != 0 {
		err = d.writeAV(&to.ah_attr, &a.AV)
	}
	return to, err
}
