package qp

// The vocabulary of the verbs: enumerations with the numeric values of ibv_* and the work request
// and completion records.
// Stages: queue pair (type, state, attributes), work requests, completions, events, errors. Values:
// section 12.1 of the protocol reference; they equal libibverbs' so that a C library can share the
// rings.

import (
	"errors"
	"fmt"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// Time is a point on the caller's monotone clock in nanoseconds. The engine never reads a clock.
type Time int64

// Never is the deadline that does not come.
const Never Time = 1<<63 - 1

// QPType is a queue pair's transport service (ibv_qp_type).
type QPType uint8

// Queue pair types. GSI is the kernel's number for QP 1, the general services interface.
const (
	GSI QPType = 1
	RC  QPType = 2
	UC  QPType = 3
	UD  QPType = 4
	// XRCSend and XRCRecv are the two ends of an XRC connection (xrc.go).
	XRCSend QPType = 9
	XRCRecv QPType = 10
)

// QPState is a queue pair's state (ibv_qp_state).
type QPState uint8

// Queue pair states.
const (
	StateReset QPState = 0
	StateInit  QPState = 1
	StateRTR   QPState = 2
	StateRTS   QPState = 3
	StateSQD   QPState = 4
	StateSQE   QPState = 5
	StateErr   QPState = 6
)

// AttrMask says which fields of a QPAttr a Modify sets (ibv_qp_attr_mask).
type AttrMask uint32

// Attribute mask bits.
const (
	AttrState            AttrMask = 1 << 0
	AttrCurState         AttrMask = 1 << 1
	AttrEnSQDAsyncNotify AttrMask = 1 << 2
	AttrAccessFlags      AttrMask = 1 << 3
	AttrPKeyIndex        AttrMask = 1 << 4
	AttrPort             AttrMask = 1 << 5
	AttrQKey             AttrMask = 1 << 6
	AttrAV               AttrMask = 1 << 7
	AttrPathMTU          AttrMask = 1 << 8
	AttrTimeout          AttrMask = 1 << 9
	AttrRetryCnt         AttrMask = 1 << 10
	AttrRNRRetry         AttrMask = 1 << 11
	AttrRQPSN            AttrMask = 1 << 12
	AttrMaxRdAtomic      AttrMask = 1 << 13
	AttrAltPath          AttrMask = 1 << 14
	AttrMinRNRTimer      AttrMask = 1 << 15
	AttrSQPSN            AttrMask = 1 << 16
	AttrMaxDestRdAtomic  AttrMask = 1 << 17
	AttrPathMigState     AttrMask = 1 << 18
	AttrCap              AttrMask = 1 << 19
	AttrDestQPN          AttrMask = 1 << 20
	AttrRateLimit        AttrMask = 1 << 25
	AttrLongWindow       AttrMask = 1 << 29 // these three are this stack's own; ...
	AttrFlowControl      AttrMask = 1 << 30 // ...
	AttrSelectiveRepeat  AttrMask = 1 << 31 // ... ibv_qp_attr_mask ends at bit 25
)

// Cap is a queue pair's size (ibv_qp_cap): work requests, scatter/gather elements per request,
// bytes of inline data.
type Cap struct {
	MaxSendWR, MaxRecvWR   uint32
	MaxSendSGE, MaxRecvSGE uint32
	MaxInlineData          uint32
}

// AHAttr is an address vector (ibv_ah_attr with its GRH): where packets go and what their IP
// headers say.
type AHAttr struct {
	DGID         wire.GID // destination: an IPv6 address or ::ffff:a.b.c.d
	SGIDIndex    uint8    // row of the device's GID table, not an empty one: the source address
	TrafficClass uint8    // IPv4 TOS / IPv6 traffic class, ECN bits included; but see Config.ECN
	HopLimit     uint8    // TTL; 0 means 64
	FlowLabel    uint32   // 20 bits; chooses the UDP source port where the port can
	SL           uint8    // carried for the API; RoCEv2 has no field for it without a VLAN
}

// QPAttr holds the attributes of a queue pair (ibv_qp_attr). Modify reads the fields its mask
// names; Query fills all.
type QPAttr struct {
	State        QPState
	CurState     QPState
	PathMTU      wire.MTU // 1..5 for 256..4096 bytes, at most the port's active MTU (UD: that)
	QKey         uint32   // UD
	RQPSN, SQPSN wire.PSN // 24 bits
	DestQPN      uint32   // 24 bits
	// what the peer may do: RemoteRead, RemoteWrite, RemoteAtomic, FlushGlobal, FlushPersistent
	AccessFlags      mr.Access
	Cap              Cap
	AV               AHAttr
	PKeyIndex        uint16
	EnSQDAsyncNotify bool // on the way to SQD: EventSQDrained is wanted, this time
	SQDraining       bool // SQD: something that was started is not complete yet
	// READs and atomics this side may have outstanding, 0..128; FLUSHes and ATOMIC WRITEs count too
	MaxRdAtomic     uint8
	MaxDestRdAtomic uint8 // such requests of the peer that this side remembers, 0..128
	MinRNRTimer     uint8 // code 0..31 written into RNR NAKs (section 1.6)
	Port            uint8 // 1
	Timeout         uint8 // code 0..31: 4.096 us * 2^n, 0 waits for ever
	RetryCnt        uint8 // 0..7 retries after a timeout or a sequence NAK
	RNRRetry        uint8 // 0..7 retries after RNR NAKs, 7 is for ever

	// RateLimit bounds what is sent with a payload, READ responses included, in kbit/s:
	// MinRateLimit..MaxRateLimit, 0 for no limit. Congestion may slow it down further. It can be
	// changed at any time from RTR on, and counts from the next packet on; RESET clears it. For
	// packets that leave late those behind make up with a burst: for 200 us, or as long as 60
	// packets take, up to 4 ms, as timers may be that late.
	RateLimit uint32

	// SelectiveRepeat lets an RC queue pair repair the loss of a packet by repeating that packet,
	// instead of everything behind it (go-back-N). It is no feature of the InfiniBand architecture:
	// both ends must be of this stack and must have agreed to it before RTR, out of band, as they
	// agree on the path MTU. Off, nothing of it is on the wire. On, the responder keeps what comes
	// after a gap, up to MaxWindow packets, and executes it in order when the gap is filled; and
	// the MSN field of an ACKNOWLEDGE packet has another meaning:
	//   - in a NAK "PSN sequence error" it names a gap: the upper 12 bits say how far behind the
	//     NAK's PSN it begins, the lower 12 bits how many packets are missing; the one after them
	//     has arrived. 0 is the NAK of the standard: all from its PSN on. The NAK's PSN is the
	//     expected one, as in the standard, so a requester that did not agree goes back there and
	//     takes nothing for acknowledged that was not executed. One that agreed takes nothing for
	//     acknowledged at all.
	//   - in an ACK it is the PSN of the newest packet that has arrived; if it is newer than the
	//     ACK's, what follows the ACK's is still missing.
	// Set with AttrSelectiveRepeat on the way from INIT to RTR; RESET clears it. Where only one end
	// has it nothing is lost, but losses are repaired slowly; the same is true of an end from
	// before November 2026, which named gaps in another way. A requester that did not agree goes
	// back for each gap it is told of, and for one that alone agreed each lost packet waits for the
	// ack timeout or a probe.
	SelectiveRepeat bool

	// LongWindow lets the window of selective repeat grow beyond MaxWindow, to MaxLongWindow, for
	// paths that hold more. Both ends must have agreed to it as to SelectiveRepeat, without which
	// it has no effect: the responder keeps as many, and the NAKs name gaps in another way. The
	// upper 16 bits say how far behind the NAK's PSN the gap begins, the lower 8 its length: up to
	// 127 as they are, n beyond that for (n-127)*128. A longer gap takes several NAKs, the first of
	// which name its beginning. And the responder remembers twice MaxDestRdAtomic requests, of
	// which the requester has up to twice MaxRdAtomic outstanding while its window is beyond 4 MiB.
	// Set with AttrLongWindow on the way from INIT to RTR; RESET clears it. Where only
	// one end has it nothing is lost, as with SelectiveRepeat; but a responder that did not agree
	// may refuse READs that are more than it remembers, or have forgotten one whose answer was
	// lost, which ends the connection.
	LongWindow bool

	// FlowControl lets the requester of an RC queue pair obey the credits in the peer's ACKs
	// (section 4.8, end-to-end flow control): a SEND or WRITE with immediate data waits while the
	// peer has said that it has no receive for it, instead of being sent and refused by an RNR NAK.
	// One at a time goes all the same, to ask. The peer need not agree: credits of hardware are
	// obeyed; rxe and this stack send none, which is no limit. Off, credits are counted, as
	// rcvd_credits, and no more. With SelectiveRepeat it has no effect. Set with AttrFlowControl on
	// the way from INIT to RTR; RESET clears it.
	FlowControl bool
}

// QPInit is what CreateQP needs (ibv_qp_init_attr).
type QPInit struct {
	Type           QPType
	PD             mr.PD
	SendCQ, RecvCQ *CQ
	Cap            Cap
	SRQ            *SRQ // for receives; nil: a queue of its own, of the size in Cap
	XRCD           XRCD // XRC_RECV: of the shared receive queues that requests may name
	SQSigAll       bool // every send work request yields a completion
	Context        any  // the owner's own value, returned by QP.Context

	// WholeMessages keeps a WRITE one message of FIRST, MIDDLE and LAST packets, and a READ one
	// request, as the standard has it, also where Config.EvenPackets would cut them.
	WholeMessages bool
}

// WROpcode is the operation of a send work request (ibv_wr_opcode).
type WROpcode uint8

// Work request opcodes.
const (
	WRWrite             WROpcode = 0
	WRWriteWithImm      WROpcode = 1
	WRSend              WROpcode = 2
	WRSendWithImm       WROpcode = 3
	WRRead              WROpcode = 4
	WRAtomicCmpAndSwp   WROpcode = 5
	WRAtomicFetchAndAdd WROpcode = 6
	WRLocalInv          WROpcode = 7
	WRBindMW            WROpcode = 8
	WRSendWithInv       WROpcode = 9
	WRFlush             WROpcode = 14
	WRAtomicWrite       WROpcode = 15
	numWROpcodes                 = 16
)

// SendFlags modify a send work request (ibv_send_flags).
type SendFlags uint8

// Send flags.
const (
	// wait until all earlier READs, atomics, FLUSHes and ATOMIC WRITEs are complete
	SendFence     SendFlags = 1 << 0
	SendSignaled  SendFlags = 1 << 1 // yield a completion on success also
	SendSolicited SendFlags = 1 << 2 // wake a peer that waits for solicited completions only
	SendInline    SendFlags = 1 << 3 // data is copied while posting: Inline, or what SGL names
)

// SGE is a piece of registered memory (ibv_sge). Length 0 is zero bytes.
type SGE struct {
	Addr   uint64 // as the region's keys count addresses
	Length uint32 // bytes
	LKey   uint32 // of the region
}

// SendWR is a send work request (ibv_send_wr). The slices are read during PostSend only; the memory
// that SGL names belongs to the queue pair until the request completes.
type SendWR struct {
	WRID   uint64
	Opcode WROpcode
	Flags  SendFlags
	// SGL are the pieces of the message. With SendInline their addresses are those of the process,
	// and their keys are not looked at, as in C; what is not mapped there is ErrInvalid.
	SGL []SGE
	// Inline is the data, with SendInline; SGL must be empty then.
	Inline []byte

	Imm uint32 // WITH_IMM: the peer's WC.Imm; C's imm_data is htonl(Imm)
	// SEND_WITH_INV: the peer's rkey, behind a READ by it with SendFence; LOCAL_INV: our own
	InvalidateKey uint32

	RemoteAddr uint64 // WRITE, READ, atomics, FLUSH, ATOMIC WRITE
	RKey       uint32
	RemoteSRQN uint32 // XRC_SEND: number of the peer's shared receive queue, with every operation
	CompareAdd uint64 // CAS: the expected value; FAA: the addend
	Swap       uint64 // CAS, ATOMIC WRITE: the new value; the latter in this machine's byte order

	AH         *AH // UD
	RemoteQPN  uint32
	RemoteQKey uint32 // with bit 31 set the queue pair's own Q_Key is sent instead

	// What few ask for comes last: a batch of ordinary requests is two cache lines each.
	Flush FlushInfo // FLUSH
	Bind  *BindInfo // BIND_MW
}

// BindInfo binds a memory window (ibv_mw_bind_info); a BIND_MW request is for windows of type 2,
// QP.BindMW for those of type 1. The new key's low byte is the caller's to choose, the rest is the
// window's.
type BindInfo struct {
	WindowKey uint32 // the window's present rkey
	NewKey    uint32 // the rkey it gets: same upper 24 bits
	LKey      uint32 // the region
	Addr      uint64
	Length    uint64 // bytes; type 1: 0 unbinds
	Access    mr.Access
	type1     bool
	serial    uint32 // type 1: see BindMW
}

// Placement says how far a FLUSH brings data (ibv_placement_type), a set of the two.
type Placement uint8

// Placements.
const (
	PlacementGlobal     Placement = 1 // visible to all of the peer's processors and devices
	PlacementPersistent Placement = 2 // on storage that outlives a power failure
)

// Selectivity says what a FLUSH is about (ibv_selectivity_level).
type Selectivity uint8

// Selectivities.
const (
	SelectivityRange Selectivity = 0 // FlushInfo.Length bytes from SendWR.RemoteAddr
	SelectivityMR    Selectivity = 1 // all that SendWR.RKey opens
)

// FlushInfo says what a FLUSH request flushes, beside SendWR.RemoteAddr and RKey (ibv_wr_flush).
type FlushInfo struct {
	Length      uint32 // bytes, with SelectivityRange
	Placement   Placement
	Selectivity Selectivity
}

// RecvWR is a receive work request (ibv_recv_wr). On UD queue pairs the first 40 bytes of the
// buffer take the GRH.
type RecvWR struct {
	WRID uint64
	SGL  []SGE
}

// WCStatus says how a work request ended (ibv_wc_status).
type WCStatus uint8

// Completion statuses.
const (
	WCSuccess        WCStatus = 0
	WCLocLenErr      WCStatus = 1
	WCLocQPOpErr     WCStatus = 2
	WCLocProtErr     WCStatus = 4
	WCWRFlushErr     WCStatus = 5
	WCMWBindErr      WCStatus = 6
	WCBadRespErr     WCStatus = 7
	WCLocAccessErr   WCStatus = 8
	WCRemInvReqErr   WCStatus = 9
	WCRemAccessErr   WCStatus = 10
	WCRemOpErr       WCStatus = 11
	WCRetryExcErr    WCStatus = 12
	WCRNRRetryExcErr WCStatus = 13
	WCFatalErr       WCStatus = 19
	WCGeneralErr     WCStatus = 21
)

// WCOpcode says what completed (ibv_wc_opcode). Receives have bit 7 set.
type WCOpcode uint8

// Completion opcodes.
const (
	WCSend            WCOpcode = 0
	WCRDMAWrite       WCOpcode = 1
	WCRDMARead        WCOpcode = 2
	WCCompSwap        WCOpcode = 3
	WCFetchAdd        WCOpcode = 4
	WCBindMW          WCOpcode = 5
	WCLocalInv        WCOpcode = 6
	WCFlush           WCOpcode = 8
	WCAtomicWrite     WCOpcode = 9
	WCRecv            WCOpcode = 128
	WCRecvRDMAWithImm WCOpcode = 129
)

// WCFlags say which fields of a WC hold something (ibv_wc_flags).
type WCFlags uint8

// Completion flags.
const (
	WCGRH     WCFlags = 1
	WCWithImm WCFlags = 2
	WCWithInv WCFlags = 8
)

// NetworkType is the kind of network header of a packet (rdma_network_type in the kernel).
type NetworkType uint8

// The kinds that RoCEv2 has.
const (
	NetworkIPv4 NetworkType = 2
	NetworkIPv6 NetworkType = 3
)

// WC is a work completion (ibv_wc). Unless Status is WCSuccess only WRID, Status, QPN and VendorErr
// mean anything.
type WC struct {
	WRID      uint64
	ByteLen   uint32
	Imm       uint32 // WCWithImm: the sender's SendWR.Imm
	QPN       uint32
	SrcQP     uint32 // UD
	PKeyIndex uint16 // 0: a device has one P_Key
	Status    WCStatus
	Opcode    WCOpcode
	Flags     WCFlags
	VendorErr uint8 // VendorErrTooLong, or what the driver of a device of the kernel says of it
	// SL is, with WCGRH, what ConnectX has here for lack of a service level, and UCX goes by: 8, as
	// UDP is below, with 1 of IPv6 or 2 of IPv4. Of a device of the kernel it is what the driver
	// says.
	SL uint8
	// NetworkType is, with WCGRH, how the datagram came (network_hdr_type); 0: nobody says
	NetworkType NetworkType
	// InvalidatedRKey is, with WCWithInv, the rkey that the sender has invalidated.
	InvalidatedRKey uint32
}

// WCEx is a work completion with what a completion queue may be asked to keep beside
// (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP and its kin); what it was not asked for is 0.
type WCEx struct {
	WC
	Timestamp uint64 // of the device's clock: when the completion was published
	Wallclock uint64 // the same in nanoseconds since 1970, UTC
}

// EventType is an asynchronous event (ibv_event_type).
type EventType uint8

// Asynchronous events that this stack raises.
const (
	EventCQErr       EventType = 0
	EventQPFatal     EventType = 1
	EventQPReqErr    EventType = 2
	EventQPAccessErr EventType = 3
	EventCommEst     EventType = 4
	EventSQDrained   EventType = 5
	EventDeviceFatal EventType = 8 // of the device below: not raised by an engine, as the next
	EventPortActive  EventType = 9
	EventPortErr     EventType = 10
	EventSRQErr      EventType = 14 // of other devices than this stack
	EventSRQLimit    EventType = 15
	EventQPLastWQE   EventType = 16
	EventGIDChange   EventType = 18 // of the device below
	numEventTypes              = 21
)

// Event is an asynchronous event and the object it concerns; the others are nil.
type Event struct {
	Type EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
}

var (
	stateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}
	wrNames    = [numWROpcodes]string{"RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM", "RDMA_READ",
		"ATOMIC_CMP_AND_SWP", "ATOMIC_FETCH_AND_ADD", "LOCAL_INV", "BIND_MW", "SEND_WITH_INV", WRFlush: "FLUSH",
		WRAtomicWrite: "ATOMIC_WRITE"}
	// in the order of their numbers, also of those that no queue pair of ours ends with
	statusNames = [...]string{"success", "local length error", "local QP operation error",
		"local EE context operation error", "local protection error", "Work Request Flushed Error",
		"memory bind operation error", "bad response error", "local access error", "remote invalid request error",
		"remote access error", "remote operation error", "transport retry counter exceeded",
		"RNR retry counter exceeded", "local RDD violation error", "remote invalid RD request", "aborted error",
		"invalid EE context number", "invalid EE context state", "fatal error", "response timeout error",
		"general error"}
	wcNames = map[WCOpcode]string{WCSend: "SEND", WCRDMAWrite: "RDMA_WRITE", WCRDMARead: "RDMA_READ",
		WCCompSwap: "COMP_SWAP", WCFetchAdd: "FETCH_ADD", WCBindMW: "BIND_MW", WCLocalInv: "LOCAL_INV",
		WCFlush: "FLUSH", WCAtomicWrite: "ATOMIC_WRITE", WCRecv: "RECV", WCRecvRDMAWithImm: "RECV_RDMA_WITH_IMM"}
	eventNames = [numEventTypes]string{EventCQErr: "CQ error", EventQPFatal: "local work queue catastrophic error",
		EventQPReqErr:    "invalid request local work queue error",
		EventQPAccessErr: "local access violation work queue error", EventCommEst: "communication established",
		EventSQDrained: "send queue drained", EventPortActive: "port active", EventPortErr: "port error",
		EventQPLastWQE: "last WQE reached", EventDeviceFatal: "local catastrophic error",
		EventGIDChange: "GID table change", EventSRQErr: "SRQ catastrophic error", EventSRQLimit: "SRQ limit reached"}
)

func name[T ~uint8](names []string, v T, kind string) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}

// String names the state as the verbs do, "RTS".
func (s QPState) String() string { return name(stateNames[:], s, "QPState") }

// String names the operation as the verbs do, "RDMA_WRITE".
func (o WROpcode) String() string { return name(wrNames[:], o, "WROpcode") }

// String explains the status in the words of ibv_wc_status_str.
func (s WCStatus) String() string { return name(statusNames[:], s, "WCStatus") }

// String names the event in the words of ibv_event_type_str.
func (t EventType) String() string { return name(eventNames[:], t, "EventType") }

// String names the completed operation, "RDMA_WRITE" or "RECV".
func (o WCOpcode) String() string {
	if s, ok := wcNames[o]; ok {
		return s
	}
	return fmt.Sprintf("WCOpcode(%d)", uint8(o))
}

// The kinds of errors of this package; the errors returned wrap one of them and name the value and
// the rule. The verbs' errno is in brackets.
var (
	ErrInvalid = errors.New("invalid argument")                               // [EINVAL]
	ErrState   = errors.New("not allowed in this state")                      // [EINVAL]
	ErrFull    = errors.New("queue is full")                                  // [ENOMEM]
	ErrLimit   = errors.New("device limit reached")                           // [ENOMEM]
	ErrBusy    = errors.New("still in use")                                   // [EBUSY]
	ErrOverrun = errors.New("completion queue was overrun")                   // IBV_EVENT_CQ_ERR
	ErrUnknown = errors.New("object belongs to another lane or is destroyed") // [EINVAL]
)

// invalid reports a value that breaks a rule of the verbs.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
