package roce

// The records and numbers of the verbs, under their verbs names. They are aliases of the engine's
// and the memory table's types, so nothing is copied between this API and the rings below it.
// Numeric values are those of libibverbs.

import (
	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// Addresses and sizes that packets carry.
type (
	// GID is a RoCEv2 address: an IPv6 address, or an IPv4 address as ::ffff:a.b.c.d.
	GID = wire.GID
	// PSN is a packet sequence number, 24 bits.
	PSN = wire.PSN
	// MTU is a path MTU as ibv_mtu numbers it: 1..5 for 256..4096 bytes of payload a packet.
	MTU = wire.MTU
)

// Path MTUs.
const (
	MTU256  = wire.MTU256
	MTU512  = wire.MTU512
	MTU1024 = wire.MTU1024
	MTU2048 = wire.MTU2048
	MTU4096 = wire.MTU4096
)

// ParseGID reads an IPv4 or IPv6 address, or a GID as verbs tools print it.
func ParseGID(s string) (GID, error) { return wire.ParseGID(s) }

// Access is a set of rights on memory (ibv_access_flags); see PD.RegMR and QPAttr.AccessFlags.
type Access = mr.Access

// Rights. Local reading needs none; RemoteWrite and RemoteAtomic on a region need LocalWrite as
// well.
const (
	// receives, READ replies and atomic results may be written here
	LocalWrite      = mr.LocalWrite
	RemoteWrite     = mr.RemoteWrite     // peers may RDMA WRITE
	RemoteRead      = mr.RemoteRead      // peers may RDMA READ
	RemoteAtomic    = mr.RemoteAtomic    // peers may compare-and-swap and fetch-and-add
	MWBind          = mr.MWBind          // memory windows may be bound to the region
	ZeroBased       = mr.ZeroBased       // addresses count from 0
	RelaxedOrdering = mr.RelaxedOrdering // accepted and without effect
)

// Queue pairs.
type (
	// QPType is a transport service (ibv_qp_type).
	QPType = qp.QPType
	// QPState is a queue pair's state (ibv_qp_state).
	QPState = qp.QPState
	// QPAttr holds the attributes of a queue pair (ibv_qp_attr).
	QPAttr = qp.QPAttr
	// AttrMask says which fields of a QPAttr a Modify sets (ibv_qp_attr_mask).
	AttrMask = qp.AttrMask
	// CongestionParams are the constants of the congestion control; see Config.Congestion.
	CongestionParams = qp.CongestionParams
	// QPCap is a queue pair's size (ibv_qp_cap).
	QPCap = qp.Cap
	// AHAttr is an address vector (ibv_ah_attr).
	AHAttr = qp.AHAttr
	// AH is an address handle: where a datagram goes. It is immutable; see PD.CreateAH.
	AH = qp.AH
)

// Queue pair types.
const (
	GSI = qp.GSI // QP 1, the general services interface
	RC  = qp.RC  // reliable connection
	UC  = qp.UC  // unreliable connection
	UD  = qp.UD  // unreliable datagram
)

// Queue pair states.
const (
	StateReset = qp.StateReset
	StateInit  = qp.StateInit
	StateRTR   = qp.StateRTR
	StateRTS   = qp.StateRTS
	StateSQD   = qp.StateSQD
	StateSQE   = qp.StateSQE
	StateErr   = qp.StateErr
)

// Attribute mask bits (IBV_QP_*).
const (
	AttrState            = qp.AttrState
	AttrCurState         = qp.AttrCurState
	AttrEnSQDAsyncNotify = qp.AttrEnSQDAsyncNotify
	AttrAccessFlags      = qp.AttrAccessFlags
	AttrPKeyIndex        = qp.AttrPKeyIndex
	AttrPort             = qp.AttrPort
	AttrQKey             = qp.AttrQKey
	AttrAV               = qp.AttrAV
	AttrPathMTU          = qp.AttrPathMTU
	AttrTimeout          = qp.AttrTimeout
	AttrRetryCnt         = qp.AttrRetryCnt
	AttrRNRRetry         = qp.AttrRNRRetry
	AttrRQPSN            = qp.AttrRQPSN
	AttrMaxRdAtomic      = qp.AttrMaxRdAtomic
	AttrAltPath          = qp.AttrAltPath
	AttrMinRNRTimer      = qp.AttrMinRNRTimer
	AttrSQPSN            = qp.AttrSQPSN
	AttrMaxDestRdAtomic  = qp.AttrMaxDestRdAtomic
	AttrPathMigState     = qp.AttrPathMigState
	AttrCap              = qp.AttrCap
	AttrDestQPN          = qp.AttrDestQPN
	AttrSelectiveRepeat  = qp.AttrSelectiveRepeat // this stack's own, see QPAttr.SelectiveRepeat
)

// Work requests.
type (
	// SendWR is a send work request (ibv_send_wr).
	SendWR = qp.SendWR
	// RecvWR is a receive work request (ibv_recv_wr).
	RecvWR = qp.RecvWR
	// SGE is a piece of registered memory (ibv_sge); MR.SGE makes one.
	SGE = qp.SGE
	// WROpcode is the operation of a send work request (ibv_wr_opcode).
	WROpcode = qp.WROpcode
	// SendFlags modify a send work request (ibv_send_flags).
	SendFlags = qp.SendFlags
	// BindInfo says what a BIND_MW request binds (ibv_mw_bind_info).
	BindInfo = qp.BindInfo
)

// Work request opcodes.
const (
	WRWrite             = qp.WRWrite
	WRWriteWithImm      = qp.WRWriteWithImm
	WRSend              = qp.WRSend
	WRSendWithImm       = qp.WRSendWithImm
	WRRead              = qp.WRRead
	WRAtomicCmpAndSwp   = qp.WRAtomicCmpAndSwp
	WRAtomicFetchAndAdd = qp.WRAtomicFetchAndAdd
	WRLocalInv          = qp.WRLocalInv
	WRBindMW            = qp.WRBindMW
	WRSendWithInv       = qp.WRSendWithInv
)

// Send flags.
const (
	// wait until all earlier READs and atomics of this queue are complete
	SendFence     = qp.SendFence
	SendSignaled  = qp.SendSignaled  // yield a completion on success also
	SendSolicited = qp.SendSolicited // wake a peer that waits for solicited completions only
	SendInline    = qp.SendInline    // the data is SendWR.Inline, copied while posting
)

// Completions.
type (
	// WC is a work completion (ibv_wc).
	WC = qp.WC
	// WCStatus says how a work request ended (ibv_wc_status).
	WCStatus = qp.WCStatus
	// WCOpcode says what completed (ibv_wc_opcode); receives have bit 7 set.
	WCOpcode = qp.WCOpcode
	// WCFlags say which fields of a WC hold something (ibv_wc_flags).
	WCFlags = qp.WCFlags
)

// Completion statuses.
const (
	WCSuccess        = qp.WCSuccess
	WCLocLenErr      = qp.WCLocLenErr
	WCLocQPOpErr     = qp.WCLocQPOpErr
	WCLocProtErr     = qp.WCLocProtErr
	WCWRFlushErr     = qp.WCWRFlushErr
	WCMWBindErr      = qp.WCMWBindErr
	WCBadRespErr     = qp.WCBadRespErr
	WCLocAccessErr   = qp.WCLocAccessErr
	WCRemInvReqErr   = qp.WCRemInvReqErr
	WCRemAccessErr   = qp.WCRemAccessErr
	WCRemOpErr       = qp.WCRemOpErr
	WCRetryExcErr    = qp.WCRetryExcErr
	WCRNRRetryExcErr = qp.WCRNRRetryExcErr
	WCFatalErr       = qp.WCFatalErr
	WCGeneralErr     = qp.WCGeneralErr
)

// Completion opcodes.
const (
	WCSend            = qp.WCSend
	WCRDMAWrite       = qp.WCRDMAWrite
	WCRDMARead        = qp.WCRDMARead
	WCCompSwap        = qp.WCCompSwap
	WCFetchAdd        = qp.WCFetchAdd
	WCBindMW          = qp.WCBindMW
	WCLocalInv        = qp.WCLocalInv
	WCRecv            = qp.WCRecv
	WCRecvRDMAWithImm = qp.WCRecvRDMAWithImm
)

// Completion flags.
const (
	WCGRH     = qp.WCGRH     // UD: the first 40 bytes of the receive buffer hold the GRH
	WCWithImm = qp.WCWithImm // Imm is the sender's SendWR.Imm
	WCWithInv = qp.WCWithInv // InvalidatedRKey is the rkey that the sender invalidated
)

// GRHSize is how many bytes a UD receive buffer holds in front of the payload.
const GRHSize = qp.GRHSize

// EventType is an asynchronous event (ibv_event_type).
type EventType = qp.EventType

// Asynchronous events.
const (
	EventCQErr       = qp.EventCQErr
	EventQPFatal     = qp.EventQPFatal
	EventQPReqErr    = qp.EventQPReqErr
	EventQPAccessErr = qp.EventQPAccessErr
	EventCommEst     = qp.EventCommEst
	EventSQDrained   = qp.EventSQDrained
	EventDeviceFatal = qp.EventDeviceFatal
	EventPortActive  = qp.EventPortActive
	EventPortErr     = qp.EventPortErr
	EventQPLastWQE   = qp.EventQPLastWQE
	EventGIDChange   = qp.EventGIDChange
)
