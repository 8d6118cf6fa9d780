package trace

// The completion statuses of ibv_wc_status (section 12.1), with what leads to each (section 6.3).
// Their words are package qp's; what to look at where two test programs meet, and only there, is in
// cmd/roce/internal/session.

const (
	seeFirst = "the first completion with another status than WR_FLUSH_ERR, of this queue pair or of the peer's: " +
		"that is the cause"
	obsolete = "Of the reliable datagram service or a tag-matching device, which RoCE does not have: no sender of " +
		"RoCEv2 makes it."
)

// statuses are in the order of their numbers.
var statuses = []Topic{
	wcStatus(0, "SUCCESS", "The work request was done. For a SEND or WRITE of RC the peer's device has the data (its "+
		"application may not know yet); for UC and UD they have merely left.", nil, nil),
	wcStatus(1, "LOC_LEN_ERR", "A length does not fit at this end.",
		[]string{"a receive buffer is smaller than the message that arrived (for UD: than the message and 40 " +
			"bytes in front)",
			"a UD message is longer than the path MTU", "a READ's answer is longer or shorter than what was asked for",
			"a message is longer than the device allows (2^31 bytes)"},
		[]string{"the sizes of posted receives against what the peer sends", "the path MTU at both ends"}),
	wcStatus(2, "LOC_QP_OP_ERR", "The queue pair could not do this at this end.",
		[]string{"an operation that the queue pair's type does not have",
			"a malformed receive request (rxe: also one that is too small)", "an internal error of the device"},
		[]string{"the opcode and flags of the work request",
			"the syndrome of the NAK that the peer got (roce trace analyze)"}),
	wcStatus(3, "LOC_EEC_OP_ERR", obsolete, nil, nil),
	wcStatus(4, "LOC_PROT_ERR", "The local key does not cover the bytes that the scatter/gather list names.",
		[]string{"the lkey is another region's, or the region was deregistered",
			"address and length run out of the region", "region and queue pair are of different protection domains",
			"the region lacks IBV_ACCESS_LOCAL_WRITE, which a receive, a READ and an atomic need"},
		[]string{"lkey, addr and length of each ibv_sge against ibv_reg_mr's",
			"the rights that the region was registered with"}),
	wcStatus(5, "WR_FLUSH_ERR", "The queue pair was in the error state (or went there) before this work request was "+
		"done; it was thrown out. This is an echo and never the cause.",
		[]string{"an earlier work request failed",
			"the program, or rdma_disconnect, moved the queue pair to IBV_QPS_ERR"}, []string{seeFirst}),
	wcStatus(6, "MW_BIND_ERR", "A memory window could not be bound, or a key not be invalidated.",
		[]string{"the region lacks IBV_ACCESS_MW_BIND", "the range lies outside the region",
			"window, region and queue pair are of different protection domains"}, nil),
	wcStatus(7, "BAD_RESP_ERR", "The answer of the peer was not one that this request can have.",
		[]string{"a defect of the peer's device", "packets of an earlier connection with the same queue pair number"},
		[]string{"the opcodes of the answers (roce trace decode)"}),
	wcStatus(8, "LOC_ACCESS_ERR", "A protection error on the responder's side of a receive.",
		[]string{"a receive buffer that may not be written"},
		[]string{"the rights of the region that the receive names"}),
	wcStatus(9, "REM_INV_REQ_ERR", "The responder refused the request as such (NAK 0x61): nobody asked yet whether "+
		"the key is right. Not to be confused with 10, which is about memory.",
		[]string{"the peer's queue pair does not allow the operation: qp_access_flags lacks REMOTE_WRITE, " +
			"REMOTE_READ or REMOTE_ATOMIC",
			"a SEND is longer than the peer's receive buffer",
			"READs or atomics where the peer has max_dest_rd_atomic 0", "an atomic whose address is no multiple of 8",
			"different path MTUs at the two ends: packets have the wrong length",
			"opcodes out of order: a defect of the sender"},
		[]string{"the peer's ibv_modify_qp to INIT (access flags) and to RTR (path_mtu, max_dest_rd_atomic)",
			"the sizes of its receives"}),
	wcStatus(10, "REM_ACCESS_ERR", "The remote key does not allow this access (NAK 0x62).",
		[]string{"a wrong rkey: mistyped, in the wrong byte order, or of a region that is gone",
			"address and length run out of the remote region",
			"the region lacks REMOTE_WRITE, REMOTE_READ or REMOTE_ATOMIC",
			"region and queue pair of the peer are of different protection domains"},
		[]string{"va, rkey and dmalen in the RETH (roce trace decode -v) against what the peer registered",
			"IBV_EVENT_QP_ACCESS_ERR at the peer"}),
	wcStatus(11, "REM_OP_ERR", "The responder could not finish the operation for a reason of its own (NAK 0x63).",
		[]string{"the peer's receive request names memory that it may not write", "the peer's device had an error",
			"rxe: a SEND longer than the receive buffer"},
		[]string{"the completion with an error at the peer", "lkey and rights of the receive buffers there"}),
	wcStatus(12, "RETRY_EXC_ERR", "The request was repeated retry_cnt times and never acknowledged.",
		[]string{"the peer is gone, or its queue pair is not in RTR or RTS yet, or in ERR",
			"wrong destination: GID, GID index, queue pair number",
			"starting PSNs do not match (sq_psn here, rq_psn there)",
			"a firewall drops UDP port 4791, or a path MTU that the network does not carry",
			"the peer drops packets for a wrong ICRC: NAT or an offload on the way", "too short a timeout"},
		[]string{"a capture at the peer: do the packets arrive?",
			"the drop counters there (roce: Device.Stats; rxe: /sys/class/infiniband/rxe0/ports/1/hw_counters)",
			"ping with the size of the path MTU and DF"}),
	wcStatus(13, "RNR_RETRY_EXC_ERR", "The peer had no receive posted each of the rnr_retry+1 times (RNR NAK).",
		[]string{"the peer posts receives too late, or fewer than there are messages",
			"rnr_retry 0, with a peer that is a little slow", "min_rnr_timer too short for the peer's pauses"},
		[]string{"post receives before the connection is established", "rnr_retry 7 tries for ever",
			"the time between SEND and RNR NAK (roce trace analyze)"}),
	wcStatus(14, "LOC_RDD_VIOL_ERR", obsolete, nil, nil),
	wcStatus(15, "REM_INV_RD_REQ_ERR", obsolete, nil, nil),
	wcStatus(16, "REM_ABORT_ERR", "The operation was aborted by the peer, or by a move of the queue pair while it ran.",
		nil, []string{seeFirst}),
	wcStatus(17, "INV_EECN_ERR", obsolete, nil, nil),
	wcStatus(18, "INV_EEC_STATE_ERR", obsolete, nil, nil),
	wcStatus(19, "FATAL_ERR", "An error that no other status describes; the queue pair is of no use any more.",
		[]string{"the device failed or was removed"}, []string{"IBV_EVENT_DEVICE_FATAL, the kernel's log"}),
	wcStatus(20, "RESP_TIMEOUT_ERR", "No answer to a management datagram came in time.", nil, nil),
	wcStatus(21, "GENERAL_ERR", "A device's error without a better name.", nil,
		[]string{"vendor_err of the completion, and the vendor's list"}),
	wcStatus(22, "TM_ERR", obsolete, nil, nil),
	wcStatus(23, "TM_RNDV_INCOMPLETE", obsolete, nil, nil),
}

func wcStatus(n int, name, means string, causes, look []string) Topic {
	return Topic{"completion status", "IBV_WC_" + name, n, means, causes, look}
}
