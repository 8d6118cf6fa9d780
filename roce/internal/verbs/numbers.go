//go:build verbs

package verbs

// The numbers of this module are those of the library: nothing is translated. What differs does not
// compile.

/*
#include "glue.h"
*/
import "C"

import (
	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// zero has one element, so that only the index 0 compiles.
var zero [1]struct{}

var _ = []struct{}{
	zero[C.IBV_QPT_RC^int(qp.RC)], zero[C.IBV_QPT_UC^int(qp.UC)], zero[C.IBV_QPT_UD^int(qp.UD)],
	zero[C.IBV_QPT_XRC_SEND^int(qp.XRCSend)], zero[C.IBV_QPT_XRC_RECV^int(qp.XRCRecv)],

	zero[C.IBV_QPS_RESET^int(qp.StateReset)], zero[C.IBV_QPS_INIT^int(qp.StateInit)],
	zero[C.IBV_QPS_RTR^int(qp.StateRTR)], zero[C.IBV_QPS_RTS^int(qp.StateRTS)], zero[C.IBV_QPS_SQD^int(qp.StateSQD)],
	zero[C.IBV_QPS_SQE^int(qp.StateSQE)], zero[C.IBV_QPS_ERR^int(qp.StateErr)],

	zero[C.IBV_QP_STATE^int(qp.AttrState)], zero[C.IBV_QP_CUR_STATE^int(qp.AttrCurState)],
	zero[C.IBV_QP_EN_SQD_ASYNC_NOTIFY^int(qp.AttrEnSQDAsyncNotify)],
	zero[C.IBV_QP_ACCESS_FLAGS^int(qp.AttrAccessFlags)], zero[C.IBV_QP_PKEY_INDEX^int(qp.AttrPKeyIndex)],
	zero[C.IBV_QP_PORT^int(qp.AttrPort)], zero[C.IBV_QP_QKEY^int(qp.AttrQKey)], zero[C.IBV_QP_AV^int(qp.AttrAV)],
	zero[C.IBV_QP_PATH_MTU^int(qp.AttrPathMTU)], zero[C.IBV_QP_TIMEOUT^int(qp.AttrTimeout)],
	zero[C.IBV_QP_RETRY_CNT^int(qp.AttrRetryCnt)], zero[C.IBV_QP_RNR_RETRY^int(qp.AttrRNRRetry)],
	zero[C.IBV_QP_RQ_PSN^int(qp.AttrRQPSN)], zero[C.IBV_QP_MAX_QP_RD_ATOMIC^int(qp.AttrMaxRdAtomic)],
	zero[C.IBV_QP_MIN_RNR_TIMER^int(qp.AttrMinRNRTimer)], zero[C.IBV_QP_SQ_PSN^int(qp.AttrSQPSN)],
	zero[C.IBV_QP_MAX_DEST_RD_ATOMIC^int(qp.AttrMaxDestRdAtomic)], zero[C.IBV_QP_CAP^int(qp.AttrCap)],
	zero[C.IBV_QP_DEST_QPN^int(qp.AttrDestQPN)], zero[C.IBV_QP_RATE_LIMIT^int(qp.AttrRateLimit)],

	zero[C.IBV_WR_RDMA_WRITE^int(qp.WRWrite)], zero[C.IBV_WR_RDMA_WRITE_WITH_IMM^int(qp.WRWriteWithImm)],
	zero[C.IBV_WR_SEND^int(qp.WRSend)], zero[C.IBV_WR_SEND_WITH_IMM^int(qp.WRSendWithImm)],
	zero[C.IBV_WR_RDMA_READ^int(qp.WRRead)], zero[C.IBV_WR_ATOMIC_CMP_AND_SWP^int(qp.WRAtomicCmpAndSwp)],
	zero[C.IBV_WR_ATOMIC_FETCH_AND_ADD^int(qp.WRAtomicFetchAndAdd)], zero[C.IBV_WR_LOCAL_INV^int(qp.WRLocalInv)],
	zero[C.IBV_WR_BIND_MW^int(qp.WRBindMW)], zero[C.IBV_WR_SEND_WITH_INV^int(qp.WRSendWithInv)],

	zero[C.IBV_SEND_FENCE^int(qp.SendFence)], zero[C.IBV_SEND_SIGNALED^int(qp.SendSignaled)],
	zero[C.IBV_SEND_SOLICITED^int(qp.SendSolicited)], zero[C.IBV_SEND_INLINE^int(qp.SendInline)],

	zero[C.IBV_WC_SUCCESS^int(qp.WCSuccess)], zero[C.IBV_WC_LOC_LEN_ERR^int(qp.WCLocLenErr)],
	zero[C.IBV_WC_LOC_QP_OP_ERR^int(qp.WCLocQPOpErr)], zero[C.IBV_WC_LOC_PROT_ERR^int(qp.WCLocProtErr)],
	zero[C.IBV_WC_WR_FLUSH_ERR^int(qp.WCWRFlushErr)], zero[C.IBV_WC_MW_BIND_ERR^int(qp.WCMWBindErr)],
	zero[C.IBV_WC_BAD_RESP_ERR^int(qp.WCBadRespErr)], zero[C.IBV_WC_LOC_ACCESS_ERR^int(qp.WCLocAccessErr)],
	zero[C.IBV_WC_REM_INV_REQ_ERR^int(qp.WCRemInvReqErr)], zero[C.IBV_WC_REM_ACCESS_ERR^int(qp.WCRemAccessErr)],
	zero[C.IBV_WC_REM_OP_ERR^int(qp.WCRemOpErr)], zero[C.IBV_WC_RETRY_EXC_ERR^int(qp.WCRetryExcErr)],
	zero[C.IBV_WC_RNR_RETRY_EXC_ERR^int(qp.WCRNRRetryExcErr)], zero[C.IBV_WC_FATAL_ERR^int(qp.WCFatalErr)],
	zero[C.IBV_WC_GENERAL_ERR^int(qp.WCGeneralErr)],

	zero[C.IBV_WC_SEND^int(qp.WCSend)], zero[C.IBV_WC_RDMA_WRITE^int(qp.WCRDMAWrite)],
	zero[C.IBV_WC_RDMA_READ^int(qp.WCRDMARead)], zero[C.IBV_WC_COMP_SWAP^int(qp.WCCompSwap)],
	zero[C.IBV_WC_FETCH_ADD^int(qp.WCFetchAdd)], zero[C.IBV_WC_BIND_MW^int(qp.WCBindMW)],
	zero[C.IBV_WC_LOCAL_INV^int(qp.WCLocalInv)], zero[C.IBV_WC_RECV^int(qp.WCRecv)],
	zero[C.IBV_WC_RECV_RDMA_WITH_IMM^int(qp.WCRecvRDMAWithImm)],

	zero[C.IBV_WC_GRH^int(qp.WCGRH)], zero[C.IBV_WC_WITH_IMM^int(qp.WCWithImm)],
	zero[C.IBV_WC_WITH_INV^int(qp.WCWithInv)],

	zero[C.IBV_ACCESS_LOCAL_WRITE^int(mr.LocalWrite)], zero[C.IBV_ACCESS_REMOTE_WRITE^int(mr.RemoteWrite)],
	zero[C.IBV_ACCESS_REMOTE_READ^int(mr.RemoteRead)], zero[C.IBV_ACCESS_REMOTE_ATOMIC^int(mr.RemoteAtomic)],
	zero[C.IBV_ACCESS_MW_BIND^int(mr.MWBind)], zero[C.IBV_ACCESS_ZERO_BASED^int(mr.ZeroBased)],
	zero[C.IBV_ACCESS_RELAXED_ORDERING^int(mr.RelaxedOrdering)],

	zero[C.IBV_EVENT_CQ_ERR^int(qp.EventCQErr)], zero[C.IBV_EVENT_QP_FATAL^int(qp.EventQPFatal)],
	zero[C.IBV_EVENT_QP_REQ_ERR^int(qp.EventQPReqErr)], zero[C.IBV_EVENT_QP_ACCESS_ERR^int(qp.EventQPAccessErr)],
	zero[C.IBV_EVENT_COMM_EST^int(qp.EventCommEst)], zero[C.IBV_EVENT_SQ_DRAINED^int(qp.EventSQDrained)],
	zero[C.IBV_EVENT_DEVICE_FATAL^int(qp.EventDeviceFatal)], zero[C.IBV_EVENT_PORT_ACTIVE^int(qp.EventPortActive)],
	zero[C.IBV_EVENT_PORT_ERR^int(qp.EventPortErr)], zero[C.IBV_EVENT_QP_LAST_WQE_REACHED^int(qp.EventQPLastWQE)],
	zero[C.IBV_EVENT_GID_CHANGE^int(qp.EventGIDChange)], zero[C.IBV_EVENT_SRQ_ERR^int(qp.EventSRQErr)],
	zero[C.IBV_EVENT_SRQ_LIMIT_REACHED^int(qp.EventSRQLimit)],

	zero[C.IBV_SRQ_MAX_WR^int(qp.SRQMaxWR)], zero[C.IBV_SRQ_LIMIT^int(qp.SRQLimit)],

	zero[C.IBV_MTU_256^int(wire.MTU256)], zero[C.IBV_MTU_4096^int(wire.MTU4096)],
}
