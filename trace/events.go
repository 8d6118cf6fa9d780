package trace

// Syndromes (section 1.6), asynchronous events (section 12.1), and what leads to dropped packets
// (section 1.13).

import "github.com/goroce/goroce/wire"

// syndromes are those with one meaning; the others are ranges, which ExplainStatus computes.
var syndromes = []Topic{
	{"syndrome", "NAK_PSN_SEQUENCE_ERROR", 0x60, "The responder got a packet with a later PSN than it expected, so " +
		"one is missing. It says so once; the PSN of the NAK is the one that it waits for. The requester sends again " +
		"from there (go-back-N), and nobody else hears of it.",
		[]string{"a packet was lost or overtaken on the way",
			"a full queue: of a switch, of the receiving socket or ring"},
		[]string{"marks and CNPs before it (roce trace analyze)", "the receiver's drop counters, net.core.rmem_max",
			"one source port per queue pair, so that ECMP keeps the order"}},
	{"syndrome", "NAK_INVALID_REQUEST", 0x61, "The responder refuses the request itself. The requester's work " +
		"request ends with IBV_WC_REM_INV_REQ_ERR (9); both queue pairs go to the error state.", nil,
		[]string{"roce trace explain 9"}},
	{"syndrome", "NAK_REMOTE_ACCESS_ERROR", 0x62, "The key does not allow the access. The requester's work request " +
		"ends with IBV_WC_REM_ACCESS_ERR (10); both queue pairs go to the error state.", nil,
		[]string{"roce trace explain 10"}},
	{"syndrome", "NAK_REMOTE_OPERATIONAL_ERROR", 0x63, "The responder could not finish the request for a reason of " +
		"its own. The requester's work request ends with IBV_WC_REM_OP_ERR (11).", nil,
		[]string{"roce trace explain 11"}},
	{"syndrome", "NAK_INVALID_RD_REQUEST", 0x64, "Of the reliable datagram service, which nobody has.", nil, nil},
}

// events are in the order of their numbers.
var events = []Topic{
	asyncEvent(0, "CQ_ERR",
		"A completion queue overran: completions are lost for good, and the queue pairs that complete there fail.",
		"the queue has fewer entries than work requests can complete between two polls", "nobody polls"),
	asyncEvent(1, "QP_FATAL", "A queue pair is in the error state for a reason that no completion tells.",
		"its completion queue overran", "its memory went away, or its device failed"),
	asyncEvent(2, "QP_REQ_ERR", "A peer's request was refused as such (NAK 0x61) and no receive was there to say so.",
		"roce trace explain 9 has the list: access flags of the queue pair, lengths, READs beyond max_dest_rd_atomic"),
	asyncEvent(3, "QP_ACCESS_ERR", "A peer's request named memory that it may not use (NAK 0x62).",
		"a wrong or outdated rkey at the peer", "a range that runs out of the region, or rights that it lacks"),
	asyncEvent(4, "COMM_EST",
		"A packet arrived on a queue pair in RTR: the peer considers the connection established. Harmless.",
		"with the connection manager: the RTU was lost or is late"),
	asyncEvent(5, "SQ_DRAINED", "The send queue of a queue pair in SQD has come to rest."),
	asyncEvent(6, "PATH_MIG", "The connection moved to its alternate path. Not over RoCE."),
	asyncEvent(7, "PATH_MIG_ERR", "It could not. Not over RoCE."),
	asyncEvent(8, "DEVICE_FATAL", "The device is gone or of no use any more.", "the interface was removed",
		"the driver reset the device"),
	asyncEvent(9, "PORT_ACTIVE", "The port's link came up, or its MTU changed."),
	asyncEvent(10, "PORT_ERR",
		"The port's link went down. Queue pairs go on repeating until their retries are used up.",
		"a cable, a switch, ip link set down"),
	asyncEvent(11, "LID_CHANGE", "Of InfiniBand subnets only."),
	asyncEvent(12, "PKEY_CHANGE", "The table of partition keys changed."),
	asyncEvent(13, "SM_CHANGE", "Of InfiniBand subnets only."),
	asyncEvent(14, "SRQ_ERR", "A shared receive queue failed; its queue pairs will too."),
	asyncEvent(15, "SRQ_LIMIT_REACHED",
		"A shared receive queue has fewer receives than its limit: post more, and arm the limit again."),
	asyncEvent(16, "QP_LAST_WQE_REACHED",
		"A queue pair in the error state takes nothing more from its shared receive queue: it can be destroyed now."),
	asyncEvent(17, "CLIENT_REREGISTER", "Of InfiniBand subnets only."),
	asyncEvent(18, "GID_CHANGE", "A row of the GID table changed.",
		"an address was added to or taken from the interface"),
	asyncEvent(19, "WQ_FATAL", "A work queue failed."),
}

func asyncEvent(n int, name, means string, causes ...string) Topic {
	return Topic{"event", "IBV_EVENT_" + name, n, means, causes, nil}
}

// dropCauses are why packets are dropped, where the reason does not say it all.
var dropCauses = map[wire.DropReason][]string{
	wire.DropICRC: {"NAT, or a router that rewrites the IP Identification, changes what the ICRC covers",
		"bytes damaged on the way", "a NIC that cuts runs of packets without counting the Identification up (ethtool " +
			"-K INTERFACE tx-udp-segmentation off)"},
	wire.DropUnknownQPN: {"the queue pair was destroyed, or the peer has an old or wrong number"},
	wire.DropQPState: {"the queue pair is not in RTR yet, or in ERR: one end was faster with its set-up, or " +
		"one has failed"},
	wire.DropAddress: {"the peer sends from another address than it advertised (section 1.12): look " +
		"at its GID index"},
	wire.DropQKey: {"the sender's Q_Key is not the receiver's",
		"rxe and the bit for the sender's own key (section 1.11)"},
	wire.DropNoRecv:        {"fewer receives than messages: UC and UD lose those without a word"},
	wire.DropDuplicate:     {"an ACK was lost or late, so the peer sent again"},
	wire.DropPKey:          {"the peer is in another partition: it sends something else than 0xffff"},
	wire.DropOutOfSequence: {"a packet before it was lost: the NAK for that has been sent already"},
}
