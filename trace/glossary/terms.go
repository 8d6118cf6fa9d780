package glossary

// terms are in the order in which the lessons bring them. A name that is written small may begin a
// sentence. An explanation uses no term that a reader has not met by then.
var terms = []Term{
	// what RDMA does
	{"RDMA", "Remote direct memory access: a program's memory is read or written from another machine, and neither " +
		"operating system has a hand in it.", ""},
	{"WRITE", "The operation that puts bytes of the own memory into the peer's.", ""},
	{"device", "What moves the bytes: a network adapter (NIC) in hardware, or a program that speaks the same " +
		"packets. " +
		"In the verbs: ibv_device.", ""},
	{"region", "Memory that was registered: the device knows its address, its length and what may be done to it. In " +
		"the verbs: struct ibv_mr.", "memory region"},
	{"lkey", "The local key of a region: with it the own program's requests name the region to the own device.", ""},
	{"rkey", "The remote key of a region: whoever knows it may do from afar what the region allows. Its owner gives " +
		"it " +
		"to the peer.", ""},
	{"queue pair", "One end of a connection: a send queue and a receive queue. Short: QP.", "QP"},
	{"send queue", "What the device is still to do for its program, the oldest first. Short: SQ.", "SQ"},
	{"receive queue", "Memory that waits for messages of the peer, the oldest first. Short: RQ.", "RQ"},
	{"work request", "An order to the device: what to do, with which memory, and a number of the program's own, " +
		"wr_id, " +
		"to know it again. In the verbs: struct ibv_send_wr.", "wr"},
	{"post", "To put a work request into a queue. Nothing is done yet when the call is back.", "posted|posting"},
	{"PSN", "Packet sequence number, 24 bits: each packet of a request has one more than the one before, so that " +
		"a missing one shows.", ""},
	{"RETH", "The header of a packet that says which remote memory is meant: address, rkey and length (RDMA extended " +
		"transport header).", ""},
	{"ACK", "Acknowledgement: the packet by which a device says that it has all packets up to a PSN.", ""},
	{"completion", "The device's word to its program that a work request is done, or why not. In the verbs: struct " +
		"ibv_wc.", ""},
	{"completion queue", "Where completions wait until the program takes them. Short: CQ.", "CQ"},
	{"poll", "To look into a completion queue and take what is there: ibv_poll_cq.", "polled|polling"},
	{"path MTU", "The most bytes of payload in a packet: 256, 512, 1024, 2048 or 4096. Both ends must mean the " +
		"same.", "MTU"},
	{"AckReq", "A bit in a packet's header: please acknowledge this one.", ""},
	{"SEND", "The operation that brings a message into memory that the receiver has chosen.", ""},
	{"receive", "A work request in the receive queue: memory for one message. In the verbs: struct ibv_recv_wr.", ""},
	{"READ", "The operation that fetches bytes of the peer's memory.", ""},
	{"LOCAL_WRITE", "The right of the own device to write into a region; IBV_ACCESS_LOCAL_WRITE when it is " +
		"registered.", ""},
	{"REMOTE_READ", "The right of a peer to READ from a region; IBV_ACCESS_REMOTE_READ when it is registered.", ""},
	{"REMOTE_WRITE", "The right of a peer to WRITE into a region; IBV_ACCESS_REMOTE_WRITE when it is registered.", ""},
	{"AETH", "The header of a packet that says how far a device has come with its peer's requests (acknowledge " +
		"extended " +
		"transport header).", ""},
	{"fetch-and-add", "An operation that adds to 8 bytes of the peer's memory and brings back what was there " +
		"before.", ""},
	{"compare-and-swap", "An operation that puts a new value into 8 bytes of the peer's memory if they hold an " +
		"expected " +
		"one, and brings back what was there before.", ""},
	{"REMOTE_ATOMIC", "The right of a peer to change a region by fetch-and-add and compare-and-swap.", ""},
	{"IBV_ATOMIC_HCA", "What a device promises of atomic operations: against others through the same device, and " +
		"nothing beyond.", ""},
	{"IBV_ATOMIC_GLOB", "What a device promises of atomic operations: also against the processor's atomic " +
		"instructions.", ""},
	{"UC", "Unreliable connection: the kind of queue pair that is connected, without acknowledgements.", ""},
	{"NAK", "Negative acknowledgement: the packet by which a device says that a request is refused, or that one is " +
		"missing.", ""},
	{"event", "News from the device beside completions, for ibv_get_async_event.", "asynchronous event"},
	{"UD", "Unreliable datagram: the kind of queue pair that is not connected; each message is one packet.", ""},
	{"address handle", "Where a datagram goes: the address of the peer's device, made once for each. In the verbs: " +
		"struct ibv_ah.", ""},
	{"Q_Key", "A number that a datagram must bear to be taken by the queue pair it is for.", ""},
	{"multicast", "One packet for all who have joined a group.", ""},
	{"scatter/gather element", "A piece of memory in a work request: address, length, lkey. In the verbs: struct " +
		"ibv_sge. Short: SGE.", "scatter/gather|SGE"},
	// what goes wrong
	{"error state", "The state ERR of a queue pair: whatever is in it, or posted to it, comes back with " +
		"IBV_WC_WR_FLUSH_ERR, and " +
		"nothing is executed any more.", "ERR"},
	{"qp_access_flags", "What a queue pair lets its peer do to any memory at all; it is given with ibv_modify_qp.", ""},
	{"max_send_sge", "The most elements that a work request in the send queue may have; fixed when the queue pair " +
		"is made.", "max_recv_sge"},
	{"inline", "Of a work request: its bytes are copied into it when it is posted, so that the device need not " +
		"fetch them.", ""},
	{"bad_wr", "Which request of a list ibv_post_send has refused.", ""},
	{"signaled", "Of a work request: it is to yield a completion.", ""},
	{"RNR NAK", "Receiver not ready: no receive is posted, come back in so many milliseconds.", ""},
	{"min_rnr_timer", "For how long a queue pair asks its peer to wait when it has no receive: a code, 12 is 0.64 " +
		"ms.", ""},
	{"rnr_retry", "How often a queue pair sends again when its peer was not ready; 7 is for ever.", ""},
	{"protection domain", "A group of regions and queue pairs that may work together. A key of another domain does " +
		"not " +
		"count.", "domain"},
	{"RESET", "The state in which a queue pair begins: nothing can be posted.", ""},
	{"INIT", "The state of a queue pair in which it may be given receives.", ""},
	{"RTR", "Ready to receive: the state in which a queue pair takes packets.", ""},
	{"RTS", "Ready to send: the state in which a queue pair does everything.", ""},
	{"retry_cnt", "How often a queue pair sends again when it hears nothing.", ""},
	{"sgid_index", "Which of its addresses a queue pair sends from: a row of the device's GID table.", ""},
	{"GID", "An address of a device, 16 bytes: an IPv6 address, or an IPv4 address in the form of one.", ""},
	// loss
	{"go-back-N", "Repair by sending everything again from the lost packet on.", ""},
	{"timeout", "How long a queue pair waits for an answer before it sends again: a code, 4.096 us times two to its " +
		"power.", ""},
	{"duplicate", "A packet with a PSN that has been executed: it is answered again, and not executed again.", ""},
	{"probe", "The oldest packet sent once more, to get an answer, before the timeout.", ""},
	{"ICRC", "Invariant CRC: the checksum at a packet's end, over all that no router may change.", ""},
	{"selective repeat", "Repair by sending again what is missing, and nothing else.", ""},
	{"ECN", "Explicit congestion notification: two bits of the IP header, which a switch sets when packets wait in " +
		"it.", ""},
	{"CNP", "Congestion notification packet: the receiver tells the sender that a switch has marked its packets.", ""},
	{"DCQCN", "The rule by which RoCE devices slow down at a CNP and become faster again.", ""},
	{"PFC", "Priority flow control: an Ethernet switch tells its neighbour to pause one class of traffic.", ""},
	{"window", "How many packets may be under way before an answer must come.", ""},
	// memory, costs
	{"memory window", "A part of a region with a key of its own, which requests open and close.", ""},
	{"doorbell", "The store that tells a device that there is something in a queue.", ""},
	{"immediate", "4 bytes that go with a SEND or WRITE, and come with the receiver's completion.", "immediate data"},
	{"pin", "To keep pages in memory where they are, so that a device may rely on their physical " +
		"addresses.", "pinned|pinning"},
}
