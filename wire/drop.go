package wire

import "strconv"

// DropReason says why a packet went no further. The first ones are found out by this package, the
// others by the queue pairs above it; all are listed here so that a counter has one name wherever
// it is shown.
type DropReason uint8

const (
	DropNone          DropReason = iota // not dropped
	DropShort                           // fewer bytes than its headers need
	DropIPVersion                       // neither IPv4 nor IPv6
	DropIPHeader                        // IPv4 options, a fragment, a wrong header checksum
	DropNotUDP                          // another protocol, or IPv6 extension headers
	DropPort                            // UDP destination port is not 4791
	DropLength                          // IP or UDP length disagrees with the bytes that are there
	DropTVer                            // BTH transport version is not 0
	DropOpcode                          // no such opcode
	DropPad                             // pad count larger than the payload
	DropICRC                            // invariant CRC is wrong
	DropUnknownQPN                      // no such queue pair
	DropQPType                          // opcode does not belong to the queue pair's type
	DropQPState                         // queue pair is not in a state to receive this
	DropAddress                         // source or destination is not that of the connection
	DropPKey                            // partition key does not match
	DropQKey                            // queue key does not match
	DropNoRecv                          // UC or UD message without a posted receive
	DropTooLong                         // longer than the receive buffer or the path MTU
	DropDuplicate                       // duplicate that needs no answer
	DropOutOfSequence                   // gap in the sequence, already NAKed
	DropGhost                           // response to a request that is no longer there
	DropNoResource                      // no room to remember it: READ or ATOMIC beyond the limit
	DropMalformed                       // headers contradict each other or the message so far
	DropCQFull                          // completion queue overrun
	NumDropReasons                      // how many there are
)

// DropReasons holds the counter name of each reason, as statistics show it.
var DropReasons = [NumDropReasons]string{
	DropNone:          "none",
	DropShort:         "rx_short",
	DropIPVersion:     "rx_ip_version",
	DropIPHeader:      "rx_ip_header",
	DropNotUDP:        "rx_not_udp",
	DropPort:          "rx_port",
	DropLength:        "rx_length",
	DropTVer:          "rx_tver",
	DropOpcode:        "rx_opcode",
	DropPad:           "rx_pad",
	DropICRC:          "rx_icrc_errors",
	DropUnknownQPN:    "rx_unknown_qpn",
	DropQPType:        "rx_qp_type",
	DropQPState:       "rx_qp_state",
	DropAddress:       "rx_address",
	DropPKey:          "bad_pkey",
	DropQKey:          "qkey_violations",
	DropNoRecv:        "rx_no_recv",
	DropTooLong:       "rx_too_long",
	DropDuplicate:     "duplicate_request",
	DropOutOfSequence: "out_of_sequence",
	DropGhost:         "rx_ghost",
	DropNoResource:    "rx_no_resource",
	DropMalformed:     "rx_malformed",
	DropCQFull:        "cq_overrun",
}

// dropTexts explains each reason to a person.
var dropTexts = [NumDropReasons]string{
	DropNone:          "not dropped",
	DropShort:         "too short for its headers",
	DropIPVersion:     "neither IPv4 nor IPv6",
	DropIPHeader:      "IP header with options, of a fragment, or with a wrong checksum",
	DropNotUDP:        "not UDP",
	DropPort:          "UDP destination port is not 4791",
	DropLength:        "IP or UDP length disagrees with the bytes that are there",
	DropTVer:          "transport version is not 0",
	DropOpcode:        "unknown opcode",
	DropPad:           "pad count larger than the payload",
	DropICRC:          "bad ICRC",
	DropUnknownQPN:    "no such queue pair",
	DropQPType:        "opcode does not fit the type of the queue pair",
	DropQPState:       "queue pair is not ready for it",
	DropAddress:       "not from or not to the address of the connection",
	DropPKey:          "partition key mismatch",
	DropQKey:          "queue key mismatch",
	DropNoRecv:        "no receive posted",
	DropTooLong:       "longer than the receive buffer or the path MTU",
	DropDuplicate:     "duplicate",
	DropOutOfSequence: "out of sequence",
	DropGhost:         "answers a request that is no longer outstanding",
	DropNoResource:    "too many outstanding READ or ATOMIC requests",
	DropMalformed:     "headers contradict each other",
	DropCQFull:        "completion queue is full",
}

// String returns the counter name.
func (r DropReason) String() string {
	if r < NumDropReasons {
		return DropReasons[r]
	}
	return "DropReason(" + strconv.Itoa(int(r)) + ")"
}

// Explain returns the reason as a phrase for a person.
func (r DropReason) Explain() string {
	if r < NumDropReasons {
		return dropTexts[r]
	}
	return r.String()
}
