package trace

// Counters: those of our devices (qp.Stats), of Linux's rxe and of mlx5 (rdma statistic, the folder
// hw_counters of sysfs), and those of mlx5's Ethernet port (ethtool -S) that a search for losses
// meets. What others count is told by the names in their drivers and by the kernel's documents.

import (
	"strconv"
	"strings"

	"github.com/goroce/goroce/wire"
)

// counter is a row: who reports it, at which end of a connection it counts what, what it means when
// it grows, and what to look at next. A P in a name is a priority, 0 to 7.
type counter struct {
	name, by, end string
	counts        string
	grows         []string
	look          []string
}

// Where a counter counts, seen from the packets that it is about.
const (
	atRequester = "the requester"
	atResponder = "the responder"
	atBoth      = "either end"
	atSender    = "who sends the data"
	atReceiver  = "who receives the data"
	atPort      = "the Ethernet port"
)

// Who reports a counter.
const (
	byOurs  = "goroce"
	byAll   = "goroce, rxe and mlx5"
	byRxe   = "rxe"
	byMlx5  = "mlx5"
	oursRxe = "goroce and rxe"
	oursMlx = "goroce and mlx5"
	byPort  = "mlx5 (ethtool -S)"
)

// What to look at next, where several counters lead to the same.
const (
	lookLoss = "where it was lost: rx_discards_phy and rx_prioP_discards of both ports, the switch's drops, drop " +
		"counters here"
	lookAnalyze  = "roce trace analyze of a capture: which PSN, and whether all of one switch port"
	lookReceives = "the peer's receives: how many are posted, how often its completion queue is polled"
	lookMarks    = "np_ecn_marked_roce_packets and np_cnp_sent at the receiver, rp_cnp_handled at the sender"
	lookPauses   = "rx_prioP_pause_duration: how long the port was silent; tx_prioP_pause at the other end of the cable"
	lookStatus   = "the completion's status (roce trace explain 9, 10, 11, 12 or 13)"
)

// counterRows are in the order in which a request meets them: sent, received, lost and sent again,
// not ready, refused, given up, congestion, the port.
var counterRows = []counter{
	{"sent_pkts", oursRxe, atBoth, "Packets sent.", nil, nil},
	{"rcvd_pkts", oursRxe, atBoth, "Packets received.", nil, nil},
	{"rdma_sends", byRxe, atRequester, "Messages (SEND) that were handed over.", nil, nil},
	{"rdma_recvs", byRxe, atResponder, "Messages (SEND) that were received.", nil, nil},
	{"rx_write_requests", byMlx5, atResponder, "RDMA WRITE requests that arrived.", nil, nil},
	{"rx_read_requests", byMlx5, atResponder, "RDMA READ requests that arrived.", nil, nil},
	{"rx_atomic_requests", byMlx5, atResponder, "Atomic requests that arrived.", nil, nil},
	{"rx_dct_connect", byMlx5, atResponder, "Requests to connect to a dynamically connected target (DCT).", nil, nil},
	{"rdma_tx_packets", byMlx5, atBoth, "RDMA packets sent; must be switched on (rdma statistic set ... " +
		"optional-counters).",
		nil, nil},
	{"rdma_tx_bytes", byMlx5, atBoth, "Bytes of those packets.", nil, nil},
	{"rdma_rx_packets", byMlx5, atBoth, "RDMA packets received; must be switched on as well.", nil, nil},
	{"rdma_rx_bytes", byMlx5, atBoth, "Bytes of those packets.", nil, nil},

	{"retransmitted_pkts", byOurs, atRequester, "Request packets that were sent again.",
		[]string{"packets lost on the way, or overtaken", "a peer without a receive: RNR NAKs", "a peer that answers " +
			"late"},
		[]string{"packet_seq_err, local_ack_timeout_err and rcvd_rnr_nak say which", lookAnalyze}},
	{"out_of_sequence", oursMlx, atResponder, "Packets that came while an earlier one was missing.",
		[]string{"a packet was lost on the way, or overtaken"},
		[]string{"packet_seq_err at the peer: the NAKs that came of it", "ECMP: one source port per queue pair keeps " +
			"the order",
			lookLoss}},
	{"out_of_seq_request", byRxe, atResponder, "The same as out_of_sequence of mlx5: requests with another PSN than " +
		"the next.",
		[]string{"a packet was lost on the way, or overtaken"}, []string{"rcvd_seq_err at the peer", lookLoss}},
	{"kept_out_of_sequence", byOurs, atResponder,
		"Of those out of sequence, the ones that were kept until the gap was filled (selective repeat).", nil, nil},
	{"kept_given_up", byOurs, atResponder,
		"Of those kept, the ones that were dropped as another peer had less than its share of the room.",
		[]string{"many peers that lose packets at the same time"}, nil},
	{"duplicate_request", byAll, atResponder, "Requests that had been executed before.",
		[]string{"an ACK was lost or late, so the peer sent again", "the peer's ack timeout is shorter than the " +
			"round trip"},
		[]string{"local_ack_timeout_err at the peer"}},
	{"packet_seq_err", oursMlx, atRequester, "NAKs of the peer, PSN sequence error: a packet of ours was missing " +
		"there.",
		[]string{"a packet was lost on the way, or overtaken"}, []string{lookLoss, lookAnalyze}},
	{"rcvd_seq_err", byRxe, atRequester, "The same as packet_seq_err: NAKs of the peer, PSN sequence error.",
		[]string{"a packet was lost on the way, or overtaken"}, []string{lookLoss, lookAnalyze}},
	{"implied_nak_seq_err", oursMlx, atRequester,
		"Answers of READs or atomics that came while an earlier one was missing: it is asked for again.",
		[]string{"an answer was lost on the way, or overtaken"}, []string{lookLoss}},
	{"local_ack_timeout_err", oursMlx, atRequester,
		"Times that the peer said nothing for as long as the ack timeout, 4.096 us * 2^timeout (section 4.7).",
		[]string{"the last packet of a message, or its ACK, was lost", "a peer that is gone, or busy for longer than " +
			"that",
			"with many of them: a firewall, a wrong address, a path that drops long packets"},
		[]string{"packet_seq_err beside it: then packets are lost; none: the peer hears or says nothing",
			"the drop counters of the peer, rx_icrc_encapsulated there"}},
	{"completer_retry_err", byRxe, atRequester, "Times that the requester went back and sent again.",
		[]string{"a NAK, PSN sequence error", "the ack timeout"}, []string{"rcvd_seq_err: how many of them are NAKs"}},
	{"ack_deferred", byRxe, atRequester, "Responses that were left to the completer's task instead of being looked " +
		"at at once.",
		[]string{"load, and no error"}, nil},
	{"send_err", byRxe, atBoth, "Packets that the network stack of the host did not take.",
		[]string{"no route or neighbour", "the interface is down", "no memory for the packet"}, []string{"ip -s " +
			"link, dmesg"}},
	{"probes", byOurs, atRequester, "Packets sent once more to ask a silent peer where it is, before the ack " +
		"timeout. They " +
		"use up no retry.", []string{"the last packets of messages are lost, or their ACKs"}, nil},
	{"roce_adp_retrans", byMlx5, atRequester, "Adaptive retransmissions of RoCE traffic.",
		[]string{"packets lost on the way"}, []string{"packet_seq_err, local_ack_timeout_err"}},
	{"roce_adp_retrans_to", byMlx5, atRequester, "Times that adaptive retransmission has reached a timeout.",
		[]string{"the peer was silent"}, []string{"local_ack_timeout_err"}},
	{"roce_slow_restart", byMlx5, atRequester, "Times that slow restart was used: sending begins slowly after a " +
		"pause.", nil, nil},
	{"roce_slow_restart_cnps", byMlx5, atRequester, "Congestion notifications that slow restart has made.", nil,
		[]string{lookMarks}},
	{"roce_slow_restart_trans", byMlx5, atRequester, "Times that slow restart changed to the slow state.", nil, nil},
	{"window_grown", byOurs, atRequester, "Times that the window of a queue pair grew beyond where it began.", nil,
		nil},
	{"window_cut", byOurs, atRequester, "Times that losses made the window of a queue pair smaller.",
		[]string{"a queue on the way was full"}, []string{lookLoss}},

	{"out_of_buffer", oursMlx, atResponder,
		"Messages that found no receive posted: the peer gets an RNR NAK and waits, a datagram is lost.",
		[]string{"fewer receives than messages", "an application that polls too seldom to post them again"},
		[]string{"how many receives are posted; a shared receive queue (SRQ) with a limit event"}},
	{"send_rnr_err", byRxe, atResponder, "RNR NAKs sent: no receive was posted.",
		[]string{"fewer receives than messages"}, []string{"how many receives are posted"}},
	{"srq_over_share", byOurs, atResponder,
		"Messages for which a shared receive queue had a receive, but the peer had its share of them.", nil, nil},
	{"flush_waits", byOurs, atResponder, "RNR NAKs because storage takes its time with a FLUSH.", nil, nil},
	{"rcvd_rnr_nak", byOurs, atRequester, "RNR NAKs of the peer: it had no receive posted.",
		[]string{"fewer receives than messages, at the peer"}, []string{lookReceives}},
	{"rcvd_rnr_err", byRxe, atRequester, "RNR NAKs of the peer: it had no receive posted.",
		[]string{"fewer receives than messages, at the peer"}, []string{lookReceives}},
	{"rnr_nak_retry_err", oursMlx, atRequester, "Of mlx5: RNR NAKs that were received; the queue pair fails only if " +
		"they go " +
		"on for longer than rnr_retry allows. Of goroce: requests that have failed so, IBV_WC_RNR_RETRY_EXC_ERR (13).",
		[]string{"the peer has no receive posted"}, []string{lookReceives}},
	{"retry_rnr_exceeded_err", byRxe, atRequester, "Requests that failed because the peer had no receive for longer " +
		"than " +
		"rnr_retry allows: IBV_WC_RNR_RETRY_EXC_ERR (13).", []string{"the peer has no receive posted"},
		[]string{lookReceives}},
	{"req_rnr_retries_exceeded", byMlx5, atRequester, "Requests that failed because the peer had no receive for " +
		"longer than " +
		"rnr_retry allows: IBV_WC_RNR_RETRY_EXC_ERR (13).", []string{"the peer has no receive posted"},
		[]string{lookReceives}},
	{"rcvd_credits", byOurs, atRequester, "Acknowledgements that said how many receives the peer has (section 4.8).",
		nil, nil},
	{"credit_waits", byOurs, atRequester,
		"Times that messages waited for receives of the peer instead of being refused.", nil, []string{lookReceives}},

	{"req_remote_invalid_request", oursMlx, atRequester, "Requests of ours that the peer has refused as invalid (NAK " +
		"0x61).",
		[]string{"access flags of the peer's queue pair, lengths, READs beyond max_dest_rd_atomic"},
		[]string{"roce trace explain 9"}},
	{"req_remote_access_errors", oursMlx, atRequester, "Requests of ours whose memory the peer has refused (NAK 0x62).",
		[]string{"a wrong or outdated rkey, a range that runs out of the region, or rights that it lacks"},
		[]string{"roce trace explain 10"}},
	{"req_remote_operation_errors", byOurs, atRequester, "Requests of ours that the peer could not finish (NAK 0x63).",
		nil, []string{"roce trace explain 11"}},
	{"resp_remote_invalid_request", byOurs, atResponder, "Requests of the peer that were refused here as invalid " +
		"(NAK 0x61).",
		nil, []string{"roce trace explain 9"}},
	{"resp_remote_access_errors", oursMlx, atResponder, "Requests of the peer whose memory was refused here (NAK " +
		"0x62).",
		[]string{"the peer has a wrong or outdated rkey"}, []string{"roce trace explain 10"}},
	{"resp_remote_operation_errors", byOurs, atResponder, "Requests of the peer that could not be finished here (NAK " +
		"0x63).",
		nil, []string{"roce trace explain 11"}},
	{"resp_local_length_error", byMlx5, atResponder, "Messages whose length did not fit here: IBV_WC_LOC_LEN_ERR (1).",
		[]string{"a receive is smaller than the message"}, []string{"roce trace explain 1"}},
	{"req_cqe_error", oursMlx, atRequester, "Send work requests that ended with an error.", nil, []string{lookStatus}},
	{"resp_cqe_error", oursMlx, atResponder, "Receive work requests that ended with an error.", nil,
		[]string{lookStatus}},
	{"req_cqe_flush_error", byMlx5, atRequester, "Send work requests that were thrown out: IBV_WC_WR_FLUSH_ERR (5).",
		[]string{"an earlier one failed, or the queue pair was closed"}, []string{"roce trace explain 5"}},
	{"resp_cqe_flush_error", byMlx5, atResponder, "Receive work requests that were thrown out: IBV_WC_WR_FLUSH_ERR " +
		"(5).",
		[]string{"the queue pair failed or was closed: at the end of a program this is usual"}, []string{"roce trace " +
			"explain 5"}},
	{"retry_exceeded_err", oursRxe, atRequester, "Requests that failed as no retry was left: IBV_WC_RETRY_EXC_ERR " +
		"(12).",
		[]string{"a peer that is gone, or hears nothing"}, []string{"roce trace explain 12"}},
	{"req_transport_retries_exceeded", byMlx5, atRequester,
		"Requests that failed as no retry was left: IBV_WC_RETRY_EXC_ERR (12).",
		[]string{"a peer that is gone, or hears nothing"}, []string{"roce trace explain 12"}},
	{"memory_faults", byOurs, atBoth, "Accesses to registered memory that was gone or protected.",
		[]string{"munmap or mprotect of memory that is still registered"}, nil},
	{"link_downed", byRxe, atBoth, "Times that the link of the interface below went down.",
		[]string{"a cable, a switch, ip link set down"}, nil},
	{"rx_icrc_encapsulated", byMlx5, atReceiver,
		"Packets of RoCEv2 with a wrong ICRC, which it drops. Their sender hears nothing of it.", nil, nil},

	{"np_ecn_marked_roce_packets", oursMlx, atReceiver, "Packets that arrived with the mark of a switch: congestion " +
		"(ECN).",
		[]string{"a queue on the way is longer than the switch's threshold"},
		[]string{"np_cnp_sent: what was made of them", "the switch port with the queue"}},
	{"np_cnp_sent", oursMlx, atReceiver, "Congestion notifications (CNP) sent, because marked packets arrived here. " +
		"Fewer than " +
		"the marks: one for a while (section 8).", []string{"a switch on the way marks packets: its queue is long"},
		[]string{"rp_cnp_handled at the sender: did they arrive?"}},
	{"rp_cnp_handled", oursMlx, atSender, "Congestion notifications (CNP) that arrived: the sender has slowed down.",
		[]string{"a switch on the way marks packets: its queue is long", "several senders to one receiver (incast)"},
		[]string{"throughput; np_cnp_sent at the receiver: how many were lost"}},
	{"rp_cnp_ignored", byMlx5, atSender, "Congestion notifications (CNP) that arrived and changed nothing.",
		[]string{"congestion control is switched off here for their priority"},
		[]string{"the port's congestion control (mlnx_qos, sysfs ecn/roce_rp)"}},
	{"cc_rx_ce_pkts", byMlx5, atReceiver, "Packets that arrived with the mark of a switch (CE); must be switched on.",
		[]string{"a queue on the way is long"}, []string{lookMarks}},
	{"cc_rx_cnp_pkts", byMlx5, atSender, "Congestion notifications (CNP) received; must be switched on.",
		[]string{"a queue on the way is long"}, []string{lookMarks}},
	{"cc_tx_cnp_pkts", byMlx5, atReceiver, "Congestion notifications (CNP) sent; must be switched on.",
		[]string{"marked packets arrive"}, []string{lookMarks}},

	{"rx_prioP_pause", byPort, atPort, "Pauses (PFC) that the switch has asked for in this priority. The port was " +
		"silent " +
		"meanwhile.", []string{"a switch or a receiver behind it is full"}, []string{lookPauses, lookMarks}},
	{"rx_prioP_pause_duration", byPort, atPort, "Microseconds for which this priority was silent, as the switch has " +
		"asked.",
		[]string{"a switch or a receiver behind it is full"}, []string{"who fills it: tx_prioP_pause at the " +
			"receivers"}},
	{"rx_prioP_pause_transition", byPort, atPort, "Times that a pause of this priority ended.", nil, nil},
	{"tx_prioP_pause", byPort, atPort, "Pauses (PFC) that this port has asked for in this priority.",
		[]string{"this machine takes packets more slowly than they come"},
		[]string{"outbound_pci_stalled_wr, rx_prioP_buf_discard; is the PCIe link as wide as it should be?"}},
	{"tx_prioP_pause_duration", byPort, atPort, "Microseconds for which this port has asked for silence in this " +
		"priority.",
		[]string{"this machine takes packets more slowly than they come"}, nil},
	{"rx_prioP_discards", byPort, atPort, "Packets of this priority dropped, as there was no receive buffer.",
		[]string{"no PFC for the priority of RoCE, or buffers too small for it"},
		[]string{"priority and DSCP of the packets (roce trace decode -v) against the port's (mlnx_qos)"}},
	{"rx_prioP_cong_discard", byPort, atPort, "Packets of this priority dropped, as the host was congested.",
		[]string{"the host takes packets more slowly than they come"}, nil},
	{"rx_prioP_buf_discard", byPort, atPort, "Packets of this priority dropped, as the host had no receive buffers.",
		[]string{"the host takes packets more slowly than they come"}, nil},
	{"rx_prioP_marked", byPort, atPort, "Packets of this priority that the device itself has marked (ECN), as the " +
		"host was congested.",
		[]string{"the host takes packets more slowly than they come"}, []string{lookMarks}},
	{"rx_prioP_packets", byPort, atPort, "Packets received in this priority: is RoCE where it should be?", nil, nil},
	{"tx_prioP_packets", byPort, atPort, "Packets sent in this priority: is RoCE where it should be?", nil, nil},
	{"rx_prioP_bytes", byPort, atPort, "Bytes received in this priority.", nil, nil},
	{"tx_prioP_bytes", byPort, atPort, "Bytes sent in this priority.", nil, nil},
	{"rx_global_pause", byPort, atPort, "Pauses for the whole port, without PFC, that the switch has asked for.",
		[]string{"the network is full"}, []string{"PFC instead, for the priority of RoCE only"}},
	{"rx_global_pause_duration", byPort, atPort, "Microseconds for which the whole port was silent.", nil, nil},
	{"rx_global_pause_transition", byPort, atPort, "Times that a pause of the whole port ended.", nil, nil},
	{"tx_global_pause", byPort, atPort, "Pauses for the whole port that it has asked for.",
		[]string{"this machine takes packets more slowly than they come"}, nil},
	{"tx_global_pause_duration", byPort, atPort, "Microseconds for which it has asked for silence.", nil, nil},
	{"rx_pause_ctrl_phy", byPort, atPort, "Pause packets received, of any kind.", []string{"the network is full"},
		[]string{lookPauses}},
	{"tx_pause_ctrl_phy", byPort, atPort, "Pause packets sent, of any kind.",
		[]string{"this machine takes packets more slowly than they come"}, []string{lookPauses}},
	{"tx_pause_storm_warning_events", byPort, atPort, "Times that the device has asked for silence for long.",
		[]string{"a host that hangs, or takes packets very slowly"}, nil},
	{"tx_pause_storm_error_events", byPort, atPort, "Times that it did so for so long that pauses were switched off: " +
		"from then " +
		"on packets may be dropped.", []string{"a host that hangs"}, []string{"rx_discards_phy"}},
	{"rx_discards_phy", byPort, atPort, "Packets dropped at the port, as it had no buffer.",
		[]string{"the host takes packets more slowly than they come, and no pause is asked for"},
		[]string{"rx_prioP_discards: which priority; PFC for it"}},
	{"tx_discards_phy", byPort, atPort, "Packets dropped before they were sent.",
		[]string{"the link is down, or pauses last too long"}, []string{lookPauses}},
	{"rx_out_of_buffer", byPort, atPort, "Ethernet packets, not RDMA, for which no receive buffer was there.",
		[]string{"the host's network stack is behind"}, nil},
	{"rx_buffer_passed_thres_phy", byPort, atPort, "Times that the port's receive buffer was nearly full (over 85 %).",
		[]string{"the host takes packets more slowly than they come"}, nil},
	{"rx_crc_errors_phy", byPort, atPort, "Frames dropped for a wrong checksum of Ethernet (FCS): not the ICRC.",
		[]string{"a bad cable or transceiver"}, []string{"rx_symbol_err_phy, rx_corrected_bits_phy"}},
	{"rx_symbol_err_phy", byPort, atPort, "Frames dropped for errors of the physical coding.",
		[]string{"a bad cable or transceiver"}, nil},
	{"rx_corrected_bits_phy", byPort, atPort, "Bits that error correction (FEC) has mended.",
		[]string{"a cable or transceiver that goes bad, if it grows fast"}, []string{"rx_pcs_symbol_err_phy: those " +
			"not mended"}},
	{"rx_pcs_symbol_err_phy", byPort, atPort, "Symbol errors that error correction has not mended: traffic is lost.",
		[]string{"a bad cable or transceiver"}, nil},
	{"rx_oversize_pkts_phy", byPort, atPort, "Frames dropped as they were longer than the MTU.",
		[]string{"the other end of the cable has a larger MTU"}, []string{"ip link: the MTU at both ends and at the " +
			"switch"}},
	{"link_down_events_phy", byPort, atPort, "Times that the link went down.", []string{"a cable, a transceiver, a " +
		"switch"}, nil},
	{"rx_vport_rdma_unicast_packets", byPort, atPort, "RDMA packets received: they are in no counter of the network " +
		"stack.", nil, nil},
	{"tx_vport_rdma_unicast_packets", byPort, atPort, "RDMA packets sent: they are in no counter of the network " +
		"stack.", nil, nil},
	{"rx_vport_rdma_unicast_bytes", byPort, atPort, "Bytes of the RDMA packets received.", nil, nil},
	{"tx_vport_rdma_unicast_bytes", byPort, atPort, "Bytes of the RDMA packets sent.", nil, nil},
	{"rx_steer_missed_packets", byPort, atPort, "Packets dropped as no rule of the NIC's flow table took them.",
		[]string{"a VLAN or a MAC address that nobody here has"}, nil},
	{"outbound_pci_stalled_wr", byPort, atPort, "Percent of the last second in which the NIC waited to write to " +
		"memory.",
		[]string{"PCIe or memory is slower than the network"}, []string{"lspci -vv: speed and width of the link"}},
	{"outbound_pci_stalled_rd", byPort, atPort, "Percent of the last second in which the NIC waited to read from " +
		"memory.",
		[]string{"PCIe or memory is slower than the network"}, []string{"lspci -vv: speed and width of the link"}},
	{"outbound_pci_buffer_overflow", byPort, atPort, "Packets dropped as PCIe took them more slowly than they came.",
		[]string{"PCIe is slower than the network"}, []string{"lspci -vv: speed and width of the link"}},
	{"rx_pci_signal_integrity", byPort, atPort, "Errors on the PCIe link.", []string{"a bad slot or riser"}, nil},
	{"tx_pci_signal_integrity", byPort, atPort, "Errors on the PCIe link that the host has noticed.",
		[]string{"a bad slot or riser"}, nil},
}

// counters are the rows as topics.
func counters() (all []Topic) {
	for i := range counterRows {
		c := &counterRows[i]
		priorities := []string{""}
		if strings.Contains(c.name, "P") {
			priorities = strings.Split("01234567", "")
		}
		for _, p := range priorities {
			all = append(all, c.topic(p))
		}
	}
	return all
}

// topic is the row's, for a priority if it has one.
func (c *counter) topic(priority string) Topic {
	named := func(list []string) (out []string) {
		for _, text := range list {
			if priority != "" {
				text = strings.ReplaceAll(text, "prioP", "prio"+priority)
			}
			out = append(out, text)
		}
		return out
	}
	t := Topic{Kind: "counter", Name: strings.ReplaceAll(c.name, "P", priority), Number: -1,
		Means: c.counts + " Counted at " + c.end + ", by " + c.by + ".", Causes: named(c.grows), Look: named(c.look)}
	if n, err := strconv.Atoi(priority); err == nil {
		t.Means = strings.Replace(t.Means, "this priority", "priority "+strconv.Itoa(n), 1)
	}
	if c.name == "rx_icrc_encapsulated" {
		t.Causes = dropCauses[wire.DropICRC]
	}
	return t
}
