package qp

// What queue pair types and operations are, in two tables. The rest of the package asks for these
// traits, not for types or opcodes, so that another service or operation is another row.
// Stages: queue pair types (services), what a request is answered with, operations (wrTable).

import (
	"fmt"

	"github.com/goroce/goroce/wire"
)

// service is a queue pair type.
type service struct {
	name string
	traits
}

// traits is what a service is like. Queue pairs hold those of their type.
type traits struct {
	opcodes  wire.Service // what its packets are of
	reliable bool         // packets are acknowledged and sent again
	datagram bool         // each work request names its destination
	noSends  bool         // it only responds
	noRecvs  bool         // it only requests
	column   uint8        // in the table of transitions
}

// services holds the types; one without a name does not exist.
var services = [...]service{
	GSI: {"GSI", traits{opcodes: wire.ServiceUD, datagram: true, column: 2}},
	RC:  {"RC", traits{opcodes: wire.ServiceRC, reliable: true}},
	UC:  {"UC", traits{opcodes: wire.ServiceUC, column: 1}},
	UD:  {"UD", traits{opcodes: wire.ServiceUD, datagram: true, column: 2}},

	XRCSend: {"XRC_SEND", traits{opcodes: wire.ServiceXRC, reliable: true, noRecvs: true, column: 3}},
	XRCRecv: {"XRC_RECV", traits{opcodes: wire.ServiceXRC, reliable: true, noSends: true, column: 4}},
}

// xrcColumns is where those of XRC begin: the types that have no receive queue.
const xrcColumns = 3

// exists says whether this stack has queue pairs of type t.
func (t QPType) exists() bool { return int(t) < len(services) && services[t].name != "" }

// String names the type as the verbs do, "RC".
func (t QPType) String() string {
	if !t.exists() {
		return fmt.Sprintf("QPType(%d)", uint8(t))
	}
	return services[t].name
}

// answer is what a reliable responder sends for a request, besides the ACKs of all packets.
type answer uint8

const (
	answerNone  answer = iota
	answerData         // what memory holds, in as many packets as it takes
	answerValue        // 8 bytes
	answerDone         // that it is done: a READ response without data
)

// hasAnswer are the flags of requests whose answer is remembered, to be sent again (section 4.6).
const hasAnswer = wire.OpRead | wire.OpAtomic | wire.OpFlush | wire.OpAtomicWrite

// answerTo is what a request packet is answered with.
func answerTo(p *wire.Packet) answer {
	switch {
	case p.Op.Flags&wire.OpRead != 0:
		return answerData
	case p.Op.Flags&wire.OpAtomic != 0:
		return answerValue
	case p.Op.Flags&hasAnswer != 0:
		return answerDone
	}
	return answerNone
}

// segments holds the opcodes of one operation by the packet's place in the message: those of RC.
// The other services have the same operations.
type segments struct{ first, middle, last, only wire.Opcode }

// at returns the opcode of a packet in a service.
func (s *segments) at(first, last bool, of wire.Service) wire.Opcode {
	op := s.middle
	switch {
	case first && last:
		op = s.only
	case first:
		op = s.first
	case last:
		op = s.last
	}
	return op.Of(of)
}

// wrRule is what an operation may do and be.
type wrRule struct {
	types   uint16 // bit set of 1<<QPType; 0: there is no such operation
	inline  bool   // IBV_SEND_INLINE is allowed (section 6.1)
	atomic  bool   // 8 aligned remote bytes, 8 local bytes
	local   bool   // no packet
	bare    bool   // no elements
	answer  answer
	wc      WCOpcode
	opcodes segments
}

const (
	onReliable  = 1<<RC | 1<<XRCSend
	onConnected = onReliable | 1<<UC
	onAll       = onConnected | 1<<UD | 1<<GSI
)

// wrTable says which operations exist on which queue pairs (section 6.1).
var wrTable = [numWROpcodes]wrRule{
	WRWrite: {types: onConnected, inline: true, wc: WCRDMAWrite,
		opcodes: segments{wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteLast, wire.RCWriteOnly}},
	WRWriteWithImm: {types: onConnected, inline: true, wc: WCRDMAWrite,
		opcodes: segments{wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteLastImm, wire.RCWriteOnlyImm}},
	WRSend: {types: onAll, inline: true, wc: WCSend,
		opcodes: segments{wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLast, wire.RCSendOnly}},
	WRSendWithImm: {types: onAll, inline: true, wc: WCSend,
		opcodes: segments{wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLastImm, wire.RCSendOnlyImm}},
	WRSendWithInv: {types: onReliable, inline: true, wc: WCSend,
		opcodes: segments{wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLastInv, wire.RCSendOnlyInv}},
	WRRead: {types: onReliable, answer: answerData, wc: WCRDMARead,
		opcodes: segments{only: wire.RCReadRequest}},
	WRAtomicCmpAndSwp: {types: onReliable, atomic: true, answer: answerValue, wc: WCCompSwap,
		opcodes: segments{only: wire.RCCompareSwap}},
	WRAtomicFetchAndAdd: {types: onReliable, atomic: true, answer: answerValue, wc: WCFetchAdd,
		opcodes: segments{only: wire.RCFetchAdd}},
	WRLocalInv: {types: onConnected, local: true, bare: true, wc: WCLocalInv},
	WRBindMW:   {types: onConnected, local: true, bare: true, wc: WCBindMW},
	WRFlush: {types: 1 << RC, bare: true, answer: answerDone, wc: WCFlush,
		opcodes: segments{only: wire.RCFlush}},
	WRAtomicWrite: {types: 1 << RC, bare: true, answer: answerDone, wc: WCAtomicWrite,
		opcodes: segments{only: wire.RCAtomicWrite}},
}

// readReplies holds the opcodes of the answer to a READ.
var readReplies = segments{wire.RCReadResponseFirst, wire.RCReadResponseMiddle, wire.RCReadResponseLast,
	wire.RCReadResponseOnly}
