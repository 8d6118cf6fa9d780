//go:build verbs

package librdmacm

// Connecting, and what a queue pair must know of its connection.

/*
#include "glue.h"
*/
import "C"

import (
	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/verbs"
	"github.com/goroce/goroce/wire"
)

// Param are the properties of a connection (rdma_conn_param).
type Param struct {
	PrivateData                        []byte // 255 bytes at most
	ResponderResources, InitiatorDepth uint8
	FlowControl                        bool
	RetryCount, RNRRetryCount          uint8
	SRQ                                bool
	QPN                                uint32
}

func (p *Param) write() (to C.struct_rdma_conn_param) {
	to.private_data_len = C.uint8_t(len(p.PrivateData))
	to.responder_resources, to.initiator_depth = C.uint8_t(p.ResponderResources), C.uint8_t(p.InitiatorDepth)
	to.retry_count, to.rnr_retry_count, to.qp_num = C.uint8_t(p.RetryCount), C.uint8_t(p.RNRRetryCount),
		C.uint32_t(p.QPN)
	if p.FlowControl {
		to.flow_control = 1
	}
	if p.SRQ {
		to.srq = 1
	}
	return to
}

// Listen takes requests; backlog of them may wait to be told.
func (i *ID) Listen(backlog int) error {
	result, errno := C.rdma_listen(i.id, C.int(backlog))
	return answered("rdma_listen", result, errno)
}

// Connect asks the peer for a connection, or in the port space UDP for a queue pair's number.
func (i *ID) Connect(p *Param) error {
	result, errno := C.goroce_connect(i.id, 0, p.write(), pointer(p.PrivateData))
	return answered("rdma_connect", result, errno)
}

// Accept accepts a request.
func (i *ID) Accept(p *Param) error {
	result, errno := C.goroce_connect(i.id, 1, p.write(), pointer(p.PrivateData))
	return answered("rdma_accept", result, errno)
}

// Establish says after the peer's acceptance that the queue pair is ready.
func (i *ID) Establish() error {
	result, errno := C.rdma_establish(i.id)
	return answered("rdma_establish", result, errno)
}

// NotifyEstablished says after Accept that data has come.
func (i *ID) NotifyEstablished() error {
	result, errno := C.rdma_notify(i.id, C.IBV_EVENT_COMM_EST)
	return answered("rdma_notify", result, errno)
}

// Reject refuses a request or an acceptance.
func (i *ID) Reject(private []byte) error {
	result, errno := C.rdma_reject(i.id, pointer(private), C.uint8_t(len(private)))
	return answered("rdma_reject", result, errno)
}

// Disconnect ends the connection, or answers the peer that has.
func (i *ID) Disconnect() error {
	result, errno := C.rdma_disconnect(i.id)
	return answered("rdma_disconnect", result, errno)
}

// Attr are attributes of a queue pair. The row of the GID table is told by its address.
type Attr struct {
	qp.QPAttr
	Mask qp.AttrMask
	SGID wire.GID // where AttrAV is in Mask
}

// InitQPAttr says what a queue pair needs to get into a state (rdma_init_qp_attr).
func (i *ID) InitQPAttr(to qp.QPState) (Attr, error) {
	var mask C.int
	from := C.struct_ibv_qp_attr{qp_state: uint32(to)}
	result, errno := C.rdma_init_qp_attr(i.id, &from, &mask)
	if err := answered("rdma_init_qp_attr", result, errno); err != nil {
		return Attr{}, err
	}
	a := Attr{Mask: qp.AttrMask(mask), QPAttr: qp.QPAttr{State: to, PathMTU: wire.MTU(from.path_mtu),
		DestQPN: uint32(from.dest_qp_num), RQPSN: wire.PSN(from.rq_psn), SQPSN: wire.PSN(from.sq_psn),
		AccessFlags: mr.Access(from.qp_access_flags), MaxRdAtomic: uint8(from.max_rd_atomic),
		MaxDestRdAtomic: uint8(from.max_dest_rd_atomic), MinRNRTimer: uint8(from.min_rnr_timer),
		Timeout: uint8(from.timeout), RetryCnt: uint8(from.retry_cnt), RNRRetry: uint8(from.rnr_retry)}}
	if a.Mask&qp.AttrAV == 0 {
		return a, nil
	}
	ah := &from.ah_attr
	a.AV = qp.AHAttr{DGID: wire.GID(ah.grh.dgid), FlowLabel: uint32(ah.grh.flow_label),
		TrafficClass: uint8(ah.grh.traffic_class), HopLimit: uint8(ah.grh.hop_limit), SL: uint8(ah.sl)}
	var gid C.union_ibv_gid
	missing := C.goroce_query_gid(i.id.verbs, i.id.port_num, C.int(ah.grh.sgid_index), &gid)
	a.SGID = wire.GID(gid)
	if missing != 0 {
		return a, verbs.Refused("ibv_query_gid", nil)
	}
	return a, nil
}
