package qp

// The queue pair state machine: which transitions exist and which attributes each needs and allows
// (section 5.1).
//
// Stages of ModifyQP: find the row → check the mask → check the values → apply them → enter the
// state.

import (
	"fmt"
	"math/bits"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// transition is one row of the table: the attributes that it needs and those that it allows, for
// each column of service. IBV_QP_STATE is always allowed.
type transition struct {
	from, to QPState
	need     [5]AttrMask // RC, UC, UD, XRC_SEND, XRC_RECV
	may      [5]AttrMask
}

const (
	maskInit      = AttrPKeyIndex | AttrPort | AttrAccessFlags
	maskInitUD    = AttrPKeyIndex | AttrPort | AttrQKey
	maskRTRUC     = AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN
	maskRTRRC     = maskRTRUC | AttrMaxDestRdAtomic | AttrMinRNRTimer
	maskRTRMay    = AttrAltPath | AttrAccessFlags | AttrPKeyIndex
	maskRTSRC     = AttrSQPSN | AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic
	maskLiveUC    = AttrCurState | AttrAccessFlags | AttrAltPath | AttrPathMigState | AttrRateLimit
	maskLiveRC    = maskLiveUC | AttrMinRNRTimer
	maskLiveUD    = AttrCurState | AttrQKey | AttrRateLimit
	maskDrained   = AttrAV | AttrAltPath | AttrAccessFlags | AttrPKeyIndex | AttrPathMigState | AttrRateLimit
	maskDrainedRC = maskDrained | AttrPort | AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic |
		AttrMaxDestRdAtomic | AttrMinRNRTimer
	maskDrainedXS = maskDrained | AttrPort | AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic
	maskDrainedXR = maskDrained | AttrPort | AttrTimeout | AttrMaxDestRdAtomic | AttrMinRNRTimer
	maskNotify    = AttrEnSQDAsyncNotify
)

// transitions is the table of section 5.1. What is missing is invalid. Rate limits, which the
// kernel knows for raw packets only, are taken wherever what they hold up may be sent.
var transitions = []transition{
	{from: StateReset, to: StateReset},
	{from: StateReset, to: StateInit, need: [5]AttrMask{maskInit, maskInit, maskInitUD, maskInit, maskInit}},
	{from: StateInit, to: StateInit, may: [5]AttrMask{maskInit, maskInit, maskInitUD, maskInit, maskInit}},
	{from: StateInit, to: StateRTR, need: [5]AttrMask{maskRTRRC, maskRTRUC, 0, maskRTRUC, maskRTRRC},
		may: [5]AttrMask{maskRTRMay | AttrSelectiveRepeat | AttrLongWindow | AttrFlowControl, maskRTRMay,
			AttrPKeyIndex | AttrQKey, maskRTRMay, maskRTRMay}},
	{from: StateRTR, to: StateRTS, need: [5]AttrMask{maskRTSRC, AttrSQPSN, AttrSQPSN, maskRTSRC,
		AttrSQPSN | AttrTimeout},
		may: [5]AttrMask{maskLiveRC, maskLiveUC, maskLiveUD, maskLiveUC, maskLiveRC}},
	{from: StateRTS, to: StateRTS, may: [5]AttrMask{maskLiveRC, maskLiveUC, maskLiveUD, maskLiveUC, maskLiveRC}},
	{from: StateRTS, to: StateSQD, may: [5]AttrMask{maskNotify, maskNotify, maskNotify, maskNotify, maskNotify}},
	{from: StateSQD, to: StateRTS, may: [5]AttrMask{maskLiveRC, maskLiveUC, maskLiveUD, maskLiveUC, maskLiveRC}},
	{from: StateSQD, to: StateSQD, may: [5]AttrMask{maskDrainedRC, maskDrained,
		AttrPKeyIndex | AttrQKey | AttrRateLimit, maskDrainedXS, maskDrainedXR}},
	{from: StateSQE, to: StateRTS, may: [5]AttrMask{0, AttrCurState | AttrAccessFlags | AttrRateLimit, maskLiveUD}},
}

// findTransition returns the row of from → to, nil if there is none. Every state but RESET goes to
// RESET and ERR.
func findTransition(from, to QPState) *transition {
	if from != StateReset && (to == StateReset || to == StateErr) {
		return &transition{from: from, to: to}
	}
	for i := range transitions {
		if t := &transitions[i]; t.from == from && t.to == to {
			return t
		}
	}
	return nil
}

// ModifyQP sets the attributes that mask names, and moves the queue pair to attr.State if AttrState
// is among them (ibv_modify_qp). An error names the attribute, its value and the rule; then nothing
// has changed.
func (e *Engine) ModifyQP(now Time, q *QP, attr *QPAttr, mask AttrMask) error {
	e.now = now
	if e.qps.find(q.qpn) != q {
		return fmt.Errorf("QP 0x%06x: %w", q.qpn, ErrUnknown)
	}
	from, to := q.State(), q.State()
	if mask&AttrCurState != 0 && attr.CurState != from {
		return invalid("cur_qp_state %v, QP 0x%06x is in %v", attr.CurState, q.qpn, from)
	}
	if mask&AttrState != 0 {
		to = attr.State
	}
	if err := q.checkMask(from, to, mask); err != nil {
		return err
	}
	path, err := e.checkAttr(q, attr, mask)
	if err != nil {
		return err
	}
	if from != to && to == StateSQD {
		q.attr.EnSQDAsyncNotify = false // which is asked for each time
	}
	q.apply(attr, mask)
	if mask&AttrAV != 0 {
		q.path, q.peerAt, q.away = path, q.attr.DestQPN, false
		e.belong(q, path.Dst)
	}
	if mask&AttrRateLimit != 0 {
		e.limitRate(q)
	}
	if mask&AttrState != 0 {
		e.enter(q, from, to)
	}
	return nil
}

// checkMask holds the mask against the row of the transition.
func (q *QP) checkMask(from, to QPState, mask AttrMask) error {
	if err := CheckModify(q.typ, from, to, mask); err != nil {
		return err
	}
	if from == StateSQD && q.attr.SQDraining && to != StateErr && to != StateReset {
		return invalid("QP 0x%06x is still draining: only RESET and ERR are allowed", q.qpn)
	}
	return nil
}

// CheckModify says whether a queue pair of type t may go from one state to another, or stay in it,
// with the attributes of mask: ErrInvalid names those that are missing or too many. The rules are
// those of the verbs, for any device.
func CheckModify(t QPType, from, to QPState, mask AttrMask) error {
	if !t.exists() {
		return invalid("qp_type %d", t)
	}
	row := findTransition(from, to)
	if row == nil || to == StateSQE {
		return invalid("a queue pair cannot go from %v to %v", from, to)
	}
	need, may := row.need[services[t].column], row.may[services[t].column]
	if t == GSI { // section 5.1: GSI has no port attribute
		need &^= AttrPort
		may |= AttrPort
	}
	if missing := need &^ mask; missing != 0 {
		return invalid("%v → %v of a %v queue pair needs %v", from, to, t, missing)
	}
	if extra := mask &^ (need | may | AttrState | AttrCurState); extra != 0 {
		return invalid("%v → %v of a %v queue pair does not take %v", from, to, t, extra)
	}
	if mask&AttrCurState != 0 && may&AttrCurState == 0 {
		return invalid("%v → %v does not take %v", from, to, AttrCurState)
	}
	return nil
}

// checkAttr checks the values that mask names, and returns the header of packets that a new address
// vector gives.
func (e *Engine) checkAttr(q *QP, a *QPAttr, mask AttrMask) (path wire.Path, err error) {
	limits := []struct {
		bit        AttrMask
		value, max uint32
	}{
		{AttrPKeyIndex, uint32(a.PKeyIndex), MaxPKeys - 1},
		{AttrDestQPN, a.DestQPN, wire.QPNMask},
		{AttrMaxRdAtomic, uint32(a.MaxRdAtomic), MaxRdAtomic},
		{AttrMaxDestRdAtomic, uint32(a.MaxDestRdAtomic), MaxRdAtomic},
		{AttrMinRNRTimer, uint32(a.MinRNRTimer), 31},
		{AttrTimeout, uint32(a.Timeout), 31},
		{AttrRetryCnt, uint32(a.RetryCnt), 7},
		{AttrRNRRetry, uint32(a.RNRRetry), 7},
		{AttrRateLimit, a.RateLimit, MaxRateLimit},
	}
	for _, l := range limits {
		if mask&l.bit != 0 && l.value > l.max {
			return path, invalid("%v is %d, at most %d is allowed", l.bit, l.value, l.max)
		}
	}
	const peerRights = mr.LocalWrite | mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic | mr.FlushGlobal |
		mr.FlushPersistent
	switch {
	case mask&AttrAltPath != 0 || mask&AttrPathMigState != 0:
		return path, invalid("%v: RoCE has no path migration", mask&(AttrAltPath|AttrPathMigState))
	case mask&AttrRateLimit != 0 && a.RateLimit != 0 && a.RateLimit < MinRateLimit:
		return path, invalid("rate_limit %d kbit/s, want 0 for none, or %d to %d",
			a.RateLimit, MinRateLimit, MaxRateLimit)
	case mask&AttrPort != 0 && a.Port != 1:
		return path, invalid("port_num %d, the device has port 1 only", a.Port)
	case mask&AttrAccessFlags != 0 && a.AccessFlags&^peerRights != 0:
		return path, invalid("qp_access_flags 0x%x: unknown bits 0x%x",
			uint32(a.AccessFlags), uint32(a.AccessFlags&^peerRights))
	case mask&AttrPathMTU != 0 && (a.PathMTU < 1 || a.PathMTU > e.cfg.MaxMTU):
		return path, invalid("path_mtu %d, the port takes 1 (256 bytes) to %d (%d bytes)",
			a.PathMTU, e.cfg.MaxMTU, e.cfg.MaxMTU.Bytes())
	}
	if mask&AttrAV == 0 {
		return path, nil
	}
	if a.AV.DGID.IsMulticast() {
		return path, invalid("destination %v is a multicast group: only UD sends there", a.AV.DGID)
	}
	port := e.cfg.SrcPort
	if port == 0 { // one source port per connection, so that no router reorders it (section 1.2)
		dest := q.attr.DestQPN
		if mask&AttrDestQPN != 0 {
			dest = a.DestQPN
		}
		port = wire.SrcPortFor(q.qpn, dest, a.AV.FlowLabel)
	}
	av := a.AV
	if e.cfg.ECN {
		av.TrafficClass = ECT(av.TrafficClass)
	}
	return e.path(&av, port)
}

// attributes says how the field of each bit is copied. Those of the state have their own ways.
var attributes = [...]struct {
	bit  AttrMask
	copy func(to, from *QPAttr)
}{
	{AttrPathMTU, func(to, from *QPAttr) { to.PathMTU = from.PathMTU }},
	{AttrQKey, func(to, from *QPAttr) { to.QKey = from.QKey }},
	{AttrRQPSN, func(to, from *QPAttr) { to.RQPSN = from.RQPSN & wire.PSNMask }},
	{AttrSQPSN, func(to, from *QPAttr) { to.SQPSN = from.SQPSN & wire.PSNMask }},
	{AttrDestQPN, func(to, from *QPAttr) { to.DestQPN = from.DestQPN }},
	{AttrAccessFlags, func(to, from *QPAttr) { to.AccessFlags = from.AccessFlags }},
	{AttrAV, func(to, from *QPAttr) { to.AV = from.AV }},
	{AttrPKeyIndex, func(to, from *QPAttr) { to.PKeyIndex = from.PKeyIndex }},
	{AttrPort, func(to, from *QPAttr) { to.Port = from.Port }},
	{AttrTimeout, func(to, from *QPAttr) { to.Timeout = from.Timeout }},
	{AttrRetryCnt, func(to, from *QPAttr) { to.RetryCnt = from.RetryCnt }},
	{AttrRNRRetry, func(to, from *QPAttr) { to.RNRRetry = from.RNRRetry }},
	{AttrMaxRdAtomic, func(to, from *QPAttr) { to.MaxRdAtomic = from.MaxRdAtomic }},
	{AttrMaxDestRdAtomic, func(to, from *QPAttr) { to.MaxDestRdAtomic = from.MaxDestRdAtomic }},
	{AttrMinRNRTimer, func(to, from *QPAttr) { to.MinRNRTimer = from.MinRNRTimer }},
	{AttrSelectiveRepeat, func(to, from *QPAttr) { to.SelectiveRepeat = from.SelectiveRepeat }},
	{AttrLongWindow, func(to, from *QPAttr) { to.LongWindow = from.LongWindow }},
	{AttrFlowControl, func(to, from *QPAttr) { to.FlowControl = from.FlowControl }},
	{AttrRateLimit, func(to, from *QPAttr) { to.RateLimit = from.RateLimit }},
	{AttrEnSQDAsyncNotify, func(to, from *QPAttr) { to.EnSQDAsyncNotify = from.EnSQDAsyncNotify }},
}

// apply copies the fields that mask names, and tells those who keep something that follows from
// them.
func (q *QP) apply(a *QPAttr, mask AttrMask) {
	for i := range attributes {
		if mask&attributes[i].bit != 0 {
			attributes[i].copy(&q.attr, a)
		}
	}
	if mask&AttrPathMTU != 0 {
		q.setMTU(q.attr.PathMTU)
	}
	if mask&AttrMaxDestRdAtomic != 0 {
		q.resp.resize(q.attr.remembers())
	}
	q.rec.configured(mask)
}

// enter does what the new state asks for.
func (e *Engine) enter(q *QP, from, to QPState) {
	switch to {
	case StateReset:
		e.reset(q)
		return
	case StateErr:
		e.fail(q)
		q.resp.dropReplies() // also those of one that has failed by itself (section 7.7)
		return
	case StateRTR:
		if from == StateInit {
			q.resp.start(q.attr.RQPSN, e.cfg.FirstMSN)
		}
	case StateRTS:
		if from == StateRTR {
			q.rec.begin(q.attr.SQPSN)
			q.req.credits.ssn = e.cfg.FirstMSN
		}
	case StateSQD:
		q.attr.SQDraining = from == StateRTS
	}
	q.setState(to)
	e.recordState(q)
	if to == StateSQD {
		e.checkDrained(q)
	}
	e.schedule(q, dueRequest) // posted while draining, or before a spurious RTS → RTS
}

var attrNames = [...]string{"IBV_QP_STATE", "IBV_QP_CUR_STATE", "IBV_QP_EN_SQD_ASYNC_NOTIFY", "IBV_QP_ACCESS_FLAGS",
	"IBV_QP_PKEY_INDEX", "IBV_QP_PORT", "IBV_QP_QKEY", "IBV_QP_AV", "IBV_QP_PATH_MTU", "IBV_QP_TIMEOUT",
	"IBV_QP_RETRY_CNT", "IBV_QP_RNR_RETRY", "IBV_QP_RQ_PSN", "IBV_QP_MAX_QP_RD_ATOMIC", "IBV_QP_ALT_PATH",
	"IBV_QP_MIN_RNR_TIMER", "IBV_QP_SQ_PSN", "IBV_QP_MAX_DEST_RD_ATOMIC", "IBV_QP_PATH_MIG_STATE", "IBV_QP_CAP",
	"IBV_QP_DEST_QPN"}

// String lists the attributes by their verbs names.
func (m AttrMask) String() string {
	if m == 0 {
		return "no attribute"
	}
	s := ""
	for ; m != 0; m &= m - 1 {
		if s != "" {
			s += " "
		}
		switch i := bits.TrailingZeros32(uint32(m)); {
		case i < len(attrNames):
			s += attrNames[i]
		case AttrMask(1)<<i == AttrRateLimit:
			s += "IBV_QP_RATE_LIMIT"
		case AttrMask(1)<<i == AttrSelectiveRepeat:
			s += "selective repeat"
		case AttrMask(1)<<i == AttrLongWindow:
			s += "long window"
		case AttrMask(1)<<i == AttrFlowControl:
			s += "flow control"
		default:
			s += fmt.Sprintf("bit %d", i)
		}
	}
	return s
}
