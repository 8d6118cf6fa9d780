package qp

// Failing on purpose: work requests that end as somebody wants them to, so that an application can
// test what it does then. The packets, states and events are those of the real failure.
// Stages: send requests, receive requests.

import "github.com/goroce/goroce/wire"

// Purpose says which work requests fail although nothing is wrong with them. Its functions run in
// the engine, and must not call it.
type Purpose struct {
	// Send is asked before each send work request is executed: a status other than WCSuccess is
	// what it ends with. nil: none fails.
	Send func(op WROpcode) WCStatus
	// Recv is asked when a message needs a receive request, each time that the packet comes.
	// NoRecv answers it as if there were none; a status that a receive request can fail with
	// (RecvCanFail) ends the request so. nil: none fails.
	Recv func() WCStatus
}

// NoRecv, as the answer of Purpose.Recv, stands for an empty receive queue: RC answers with an RNR
// NAK, UC and UD drop the message.
const NoRecv = WCRNRRetryExcErr

// recvPurposes are the statuses that a receive request can fail with, and the fault whose
// consequences they have.
var recvPurposes = map[WCStatus]fault{
	NoRecv:         faultNoRecv,
	WCLocLenErr:    faultTooLong,
	WCLocProtErr:   faultMemory,
	WCRemAccessErr: faultKey,
	WCRemInvReqErr: faultOrder,
}

// RecvCanFail says whether a receive request can fail with the status, or it is NoRecv.
func RecvCanFail(status WCStatus) bool { _, ok := recvPurposes[status]; return ok }

// onPurpose is what is to become of the send request that is about to be executed.
func (e *Engine) onPurpose(s *sendSlot) WCStatus {
	if e.cfg.Purpose.Send == nil {
		return WCSuccess
	}
	return e.cfg.Purpose.Send(s.opcode)
}

// recvOnPurpose is the objection to a packet that needs a receive request, if there is to be one.
// The request is claimed, as it fails.
func (e *Engine) recvOnPurpose(q *QP, p *wire.Packet) fault {
	if e.cfg.Purpose.Recv == nil || p.Op.Flags&wire.OpConsumesRecv == 0 {
		return faultNone
	}
	f := recvPurposes[e.cfg.Purpose.Recv()]
	if f != faultNone && f != faultNoRecv && !e.claim(q, false) {
		return faultNoRecv
	}
	return f
}
