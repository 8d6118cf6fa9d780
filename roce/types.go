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

// ParseGID reads an IPv4 or IPv6 address, or a GID as verbs tools print it. The error quotes s.
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
	OnDemand        = mr.OnDemand        // see PD.RegMRAt; beside that accepted and without effect
	HugeTLB         = mr.HugeTLB         // accepted and without effect
	FlushGlobal     = mr.FlushGlobal     // peers may FLUSH, so that all see what was written
	FlushPersistent = mr.FlushPersistent // peers may FLUSH to storage: see PD.RegMR
	RelaxedOrdering = mr.RelaxedOrdering // accepted and without effect
)

// MWType is the type of a memory window (ibv_mw_type).
type MWType = mr.WindowType

// Types of memory windows; see MW.
const (
	MWType1 = mr.Window1
	MWType2 = mr.Window2 // what the architecture calls 2B
)

// Queue pairs.
type (
	// QPType is a transport service (ibv_qp_type).
	QPType = qp.QPType
	// QPState is a queue pair's state (ibv_qp_state).
	QPState = qp.QPState
	// QPAttr holds the attributes of a queue pair (ibv_qp_attr); units, ranges: go doc qp.QPAttr.
	//
	//	State, CurState              QPState
	//	PathMTU                      MTU
	//	QKey                         uint32 // UD
	//	RQPSN, SQPSN                 PSN
	//	DestQPN                      uint32
	//	AccessFlags                  Access
	//	Cap                          QPCap
	//	AV                           AHAttr
	//	PKeyIndex                    uint16
	//	EnSQDAsyncNotify, SQDraining bool
	//	MaxRdAtomic, MaxDestRdAtomic uint8
	//	MinRNRTimer, Port, Timeout   uint8
	//	RetryCnt, RNRRetry           uint8
	//	RateLimit                    uint32 // kbit/s, 0 for no limit
	//	SelectiveRepeat, LongWindow  bool   // this stack's own, as the next
	//	FlowControl                  bool
	QPAttr = qp.QPAttr
	// PathInfo is what a queue pair knows of its path, see QP.PathInfo; more: go doc qp.PathInfo.
	//
	//	MTU                     MTU
	//	RTT, Deviation, BaseRTT qp.Time // nanoseconds, as a time.Duration
	//	State                   WindowState
	//	Window                  int     // packets
	//	WindowBytes             uint64
	//	InFlight                int
	//	Cuts, Resent            uint64
	//	Rate                    uint64  // bits per second; 0: not paced
	//	Limited                 bool    // by congestion control
	//	TooLong                 bool    // long packets did not arrive, short ones did
	PathInfo = qp.PathInfo
	// WindowState says what the window of a queue pair is (docs/congestion.md).
	WindowState = qp.WindowState
	// AttrMask says which fields of a QPAttr a Modify sets (ibv_qp_attr_mask).
	AttrMask = qp.AttrMask
	// CongestionParams are the constants of the congestion control, see Config.Congestion; units:
	// go doc qp.CongestionParams.
	//
	//	LineRate, MinRate                   uint64 // bits per second
	//	G                                   float64
	//	AlphaTimer, CutInterval, RaiseTimer qp.Time
	//	RaiseBytes                          uint64
	//	FastRecoveries                      uint32
	//	StepRate, BigStepRate               uint64 // bits per second
	//	CNPInterval                         qp.Time
	CongestionParams = qp.CongestionParams
	// QPCap is a queue pair's size (ibv_qp_cap).
	//
	//	MaxSendWR, MaxRecvWR   uint32 // work requests
	//	MaxSendSGE, MaxRecvSGE uint32 // scatter/gather elements of one
	//	MaxInlineData          uint32 // bytes
	QPCap = qp.Cap
	// AHAttr is an address vector (ibv_ah_attr): where packets go. More: go doc qp.AHAttr.
	//
	//	DGID         GID    // destination
	//	SGIDIndex    uint8  // row of the device's GID table: the source
	//	TrafficClass uint8
	//	HopLimit     uint8  // 0 means 64
	//	FlowLabel    uint32 // 20 bits
	//	SL           uint8
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
	// RawPacket is the verbs' number for queue pairs of whole Ethernet frames: CreateQP refuses it
	RawPacket QPType = 8
	// the two ends of an extended reliable connection: see XRCD
	XRCSend = qp.XRCSend // it sends, names the peer's shared receive queues, and has no RecvCQ
	XRCRecv = qp.XRCRecv // it receives for them, needs a QPInitAttr.XRCD, and has no queues
)

// Queue pair states.
const (
	StateReset = qp.StateReset // new, or nothing of before counts
	StateInit  = qp.StateInit  // receives can be posted
	StateRTR   = qp.StateRTR   // ready to receive: it knows its peer
	StateRTS   = qp.StateRTS   // ready to send
	StateSQD   = qp.StateSQD   // the send queue is drained: new requests wait
	StateSQE   = qp.StateSQE   // UC, UD: a send request failed, receiving goes on
	StateErr   = qp.StateErr   // every request is flushed
)

// Attribute mask bits (IBV_QP_*), each for the fields of its name. AttrAltPath, AttrPathMigState
// and AttrCap are refused.
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
	AttrRateLimit        = qp.AttrRateLimit
	AttrSelectiveRepeat  = qp.AttrSelectiveRepeat // this stack's own, see QPAttr.SelectiveRepeat
	AttrLongWindow       = qp.AttrLongWindow      // this stack's own, see QPAttr.LongWindow
	AttrFlowControl      = qp.AttrFlowControl     // this stack's own, see QPAttr.FlowControl
)

// Work requests.
type (
	// SendWR is a send work request (ibv_send_wr); more of each field: go doc qp.SendWR.
	//
	//	WRID          uint64
	//	Opcode        WROpcode
	//	Flags         SendFlags
	//	SGL           []SGE      // registered memory
	//	Inline        []byte     // the data itself, with SendInline
	//	Imm           uint32     // WITH_IMM
	//	InvalidateKey uint32     // SEND_WITH_INV: the peer's rkey; LOCAL_INV: our own
	//	RemoteAddr    uint64     // WRITE, READ, atomics, FLUSH, ATOMIC WRITE
	//	RKey          uint32     // the same
	//	RemoteSRQN    uint32     // XRC_SEND
	//	CompareAdd    uint64     // CAS: the expected value; FAA: the addend
	//	Swap          uint64     // CAS, ATOMIC WRITE: the new value
	//	AH            *AH        // UD
	//	RemoteQPN     uint32     // UD
	//	RemoteQKey    uint32     // UD
	//	Flush         FlushInfo  // FLUSH
	//	Bind          *BindInfo  // BIND_MW
	SendWR = qp.SendWR
	// RecvWR is a receive work request (ibv_recv_wr).
	//
	//	WRID uint64
	//	SGL  []SGE // on UD the first GRHSize bytes take the GRH
	RecvWR = qp.RecvWR
	// SGE is a piece of registered memory (ibv_sge). MR.SGE makes one.
	//
	//	Addr   uint64
	//	Length uint32 // bytes
	//	LKey   uint32
	SGE = qp.SGE
	// WROpcode is the operation of a send work request (ibv_wr_opcode).
	WROpcode = qp.WROpcode
	// SendFlags modify a send work request (ibv_send_flags).
	SendFlags = qp.SendFlags
	// BindInfo says what a BIND_MW request binds (ibv_mw_bind_info).
	//
	//	WindowKey uint32 // the window's present rkey
	//	NewKey    uint32 // the rkey it gets: same upper 24 bits
	//	LKey      uint32 // the region
	//	Addr      uint64
	//	Length    uint64 // bytes
	//	Access    Access
	BindInfo = qp.BindInfo
)

// Work request opcodes.
const (
	// RDMA WRITE: the peer's memory, not its application
	WRWrite = qp.WRWrite
	// the same, and a receive request of the peer completes
	WRWriteWithImm      = qp.WRWriteWithImm
	WRSend              = qp.WRSend              // a message into a receive request of the peer
	WRSendWithImm       = qp.WRSendWithImm       // the same, with 32 bits for its completion
	WRRead              = qp.WRRead              // RDMA READ of the peer's memory
	WRAtomicCmpAndSwp   = qp.WRAtomicCmpAndSwp   // compare and swap 8 bytes of the peer's memory
	WRAtomicFetchAndAdd = qp.WRAtomicFetchAndAdd // add to 8 bytes of the peer's memory
	WRLocalInv          = qp.WRLocalInv          // take a window's key back
	WRBindMW            = qp.WRBindMW            // bind a window of type 2 to a part of a region
	// a SEND that takes a window's key of the peer back
	WRSendWithInv = qp.WRSendWithInv
	// RC: what was written before is visible, or on storage; see SendWR.Flush
	WRFlush = qp.WRFlush
	// RC: SendWR.Swap becomes 8 aligned bytes of the peer's memory, in one store
	WRAtomicWrite = qp.WRAtomicWrite
)

// Placement says how far a FLUSH brings data (ibv_placement_type), a set.
type Placement = qp.Placement

// Selectivity says what a FLUSH is about (ibv_selectivity_level).
type Selectivity = qp.Selectivity

// FlushInfo says what a FLUSH flushes.
//
//	Length      uint32 // bytes, with SelectivityRange
//	Placement   Placement
//	Selectivity Selectivity
type FlushInfo = qp.FlushInfo

// What FLUSH does, and to what.
const (
	PlacementGlobal     = qp.PlacementGlobal     // visible to all of the peer's machine
	PlacementPersistent = qp.PlacementPersistent // on the storage behind the peer's memory
	SelectivityRange    = qp.SelectivityRange    // a range of bytes
	SelectivityMR       = qp.SelectivityMR       // all that the key opens
)

// Send flags.
const (
	// wait until all earlier READs, atomics, FLUSHes and ATOMIC WRITEs of this queue are complete
	SendFence     = qp.SendFence
	SendSignaled  = qp.SendSignaled  // yield a completion on success also
	SendSolicited = qp.SendSolicited // wake a peer that waits for solicited completions only
	SendInline    = qp.SendInline    // data is copied while posting: Inline, or what SGL names
)

// Completions.
type (
	// WC is a work completion (ibv_wc). Unless Status is WCSuccess only WRID, Status, QPN and
	// VendorErr mean anything.
	//
	//	WRID            uint64
	//	ByteLen         uint32
	//	Imm             uint32 // with WCWithImm
	//	QPN             uint32
	//	SrcQP           uint32 // UD
	//	PKeyIndex       uint16
	//	Status          WCStatus
	//	Opcode          WCOpcode
	//	Flags           WCFlags
	//	VendorErr       uint8       // VendorErrTooLong, or what a driver says
	//	SL              uint8       // with WCGRH, as ConnectX: 9 over IPv6, 10 over IPv4
	//	NetworkType     NetworkType // with WCGRH
	//	InvalidatedRKey uint32 // with WCWithInv
	WC = qp.WC
	// WCEx is a work completion with what its queue was asked to keep beside; see
	// CQInitAttr.WCFlags.
	//
	//	WC
	//	Timestamp uint64 // of the device's clock
	//	Wallclock uint64 // nanoseconds since 1970, UTC
	WCEx = qp.WCEx
	// WCStatus says how a work request ended (ibv_wc_status).
	WCStatus = qp.WCStatus
	// WCOpcode says what completed (ibv_wc_opcode); receives have bit 7 set.
	WCOpcode = qp.WCOpcode
	// WCFlags say which fields of a WC hold something (ibv_wc_flags).
	WCFlags = qp.WCFlags
	// NetworkType is the kind of network header that a datagram came with: WC.NetworkType.
	NetworkType = qp.NetworkType
)

// Network types, by the kernel's numbers.
const (
	NetworkIPv4 = qp.NetworkIPv4
	NetworkIPv6 = qp.NetworkIPv6
)

// Completion statuses.
const (
	WCSuccess = qp.WCSuccess
	// a message was too long, for the receive request or at all
	WCLocLenErr      = qp.WCLocLenErr
	WCLocQPOpErr     = qp.WCLocQPOpErr     // this side could not do the request, as with a dead AH
	WCLocProtErr     = qp.WCLocProtErr     // an SGE names memory that it may not use
	WCWRFlushErr     = qp.WCWRFlushErr     // the queue pair failed before its turn
	WCMWBindErr      = qp.WCMWBindErr      // a window cannot be bound so
	WCBadRespErr     = qp.WCBadRespErr     // the peer's answer is none to the request
	WCLocAccessErr   = qp.WCLocAccessErr   // never by this stack
	WCRemInvReqErr   = qp.WCRemInvReqErr   // the peer says: the request breaks a rule
	WCRemAccessErr   = qp.WCRemAccessErr   // the peer says: that key does not open this
	WCRemOpErr       = qp.WCRemOpErr       // the peer could not do it
	WCRetryExcErr    = qp.WCRetryExcErr    // the peer does not answer
	WCRNRRetryExcErr = qp.WCRNRRetryExcErr // the peer never had a receive request
	WCFatalErr       = qp.WCFatalErr       // never by this stack
	WCGeneralErr     = qp.WCGeneralErr     // never by this stack
)

// VendorErrTooLong is WC.VendorErr, with WCRetryExcErr, where long packets, or the long answers of
// a READ, did not arrive, while short ones did: ErrTooLong says what helps.
const VendorErrTooLong = qp.VendorErrTooLong

// What a window is, PathInfo.State.
const (
	WindowFixed   = qp.WindowFixed   // as Config.Window has it
	WindowFree    = qp.WindowFree    // nothing has overflowed yet, or for long
	WindowTrying  = qp.WindowTrying  // a larger one is tried: somebody else keeps the queue full
	WindowSharing = qp.WindowSharing // it is a share of a queue that has overflowed
)

// Completion opcodes.
const (
	WCSend            = qp.WCSend            // of WRSend and its kin
	WCRDMAWrite       = qp.WCRDMAWrite       // of WRWrite and its kin
	WCRDMARead        = qp.WCRDMARead        // of WRRead
	WCCompSwap        = qp.WCCompSwap        // of WRAtomicCmpAndSwp
	WCFetchAdd        = qp.WCFetchAdd        // of WRAtomicFetchAndAdd
	WCBindMW          = qp.WCBindMW          // of WRBindMW
	WCLocalInv        = qp.WCLocalInv        // of WRLocalInv
	WCFlush           = qp.WCFlush           // of WRFlush
	WCAtomicWrite     = qp.WCAtomicWrite     // of WRAtomicWrite
	WCRecv            = qp.WCRecv            // of a receive request that took a SEND
	WCRecvRDMAWithImm = qp.WCRecvRDMAWithImm // of one that the peer's WRWriteWithImm took
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
	EventCQErr       = qp.EventCQErr       // the completion queue was overrun
	EventQPFatal     = qp.EventQPFatal     // the queue pair failed for want of a completion queue
	EventQPReqErr    = qp.EventQPReqErr    // the peer's request broke a rule
	EventQPAccessErr = qp.EventQPAccessErr // the peer's request had no right to what it named
	EventCommEst     = qp.EventCommEst     // the first packet came before RTS
	EventSQDrained   = qp.EventSQDrained   // what had left before StateSQD is done
	EventDeviceFatal = qp.EventDeviceFatal // the interface was removed: nothing comes back
	// the link is up, the port's calls work again, or the MTU is another: ask QueryPort
	EventPortActive = qp.EventPortActive
	EventPortErr    = qp.EventPortErr // the link is down, or the port's calls fail
	// the shared receive queue is broken; never by this stack
	EventSRQErr   = qp.EventSRQErr
	EventSRQLimit = qp.EventSRQLimit // a shared receive queue has come below its limit
	// the queue pair has failed and takes nothing more from its shared receive queue
	EventQPLastWQE = qp.EventQPLastWQE
	EventGIDChange = qp.EventGIDChange // a row of the GID table is empty now, or another
)
