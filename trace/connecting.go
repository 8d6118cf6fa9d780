package trace

// What the connection manager says: its rejections (section 9.3), its answers to who asks for a
// datagram service (SIDR), and the events of librdmacm (section 9.11).

import "github.com/goroce/goroce/wire"

// maxRejection is the highest reason that is assigned.
const maxRejection = 35

// rejectionCauses are of the reasons that Linux sends. The others are known by their names.
var rejectionCauses = map[wire.CMRejReason][]string{
	wire.CMRejNoQP:          {"no queue pair is left"},
	wire.CMRejNoResources:   {"the peer has no memory or no entries left"},
	wire.CMRejTimeout:       {"the peer's answer was never answered: the RTU, or all of the REPs, were lost"},
	wire.CMRejUnsupported:   {"the peer does not know this kind of request"},
	wire.CMRejInvalidCommID: {"the peer does not know the connection: it has restarted, or has given up before"},
	wire.CMRejInvalidService: {"nobody listens on this port there (as \"connection refused\" of TCP)",
		"the program listens on another address, or in another port space (TCP, UDP, IB)"},
	wire.CMRejInvalidType: {"RC was asked for where UC is served, or the other way round"},
	wire.CMRejStale: {"the queue pair number is one of a connection that the peer still has",
		"it restarted a moment ago: try again"},
	wire.CMRejInvalidGID:      {"the address in the request is none of the peer's"},
	wire.CMRejInvalidMTU:      {"the path MTU is more than the peer's port has"},
	wire.CMRejResources:       {"more READs and atomics are asked for than the peer serves"},
	wire.CMRejConsumer:        {"the application said no (rdma_reject); its private data may say why"},
	wire.CMRejInvalidRNRRetry: {"the RNR retry count is not one that the peer takes"},
	wire.CMRejDuplicateCommID: {"the communication ID is in use"},
	wire.CMRejInvalidClass:    {"the version of the message is not known there"},
}

// rejections makes a topic of each reason.
func rejections() (all []Topic) {
	for r := wire.CMRejReason(1); r <= maxRejection; r++ {
		if r == 34 { // not assigned
			continue
		}
		means := "The peer refuses a connection (RDMA_CM_EVENT_REJECTED)."
		if rejectionCauses[r] == nil {
			means += " Neither Linux nor this stack ever sends this reason."
		}
		all = append(all, Topic{"rejection", "REJ: " + r.String(), int(r), means, rejectionCauses[r], nil})
	}
	return all
}

// sidrMeans are the statuses of a SIDR_REP, from 0 on.
var sidrMeans = [...]string{"The peer's queue pair number and Q_Key are in the answer (RDMA_CM_EVENT_ESTABLISHED).",
	"Nobody serves this port there.", "The application said no (rdma_reject).", "The peer has no queue pair for it.",
	"Ask elsewhere. Linux never says so.", "The version of the message is not known there."}

func sidrAnswers() (all []Topic) {
	for i, means := range sidrMeans {
		all = append(all, Topic{Kind: "SIDR status", Name: "SIDR: " + wire.CMSidrStatus(i).String(), Number: i,
			Means: means + " It answers who wants to send datagrams by an address (RDMA_PS_UDP)."})
	}
	return all
}

// cmEvents are in the order of their numbers.
var cmEvents = []Topic{
	cmEvent(0, "ADDR_RESOLVED", "rdma_resolve_addr is done: the ID belongs to a device now. Call rdma_resolve_route."),
	cmEvent(1, "ADDR_ERROR", "rdma_resolve_addr has failed; the event's status is a negative errno.",
		"no route to the address, or nobody answers ARP or neighbour solicitation there (-110, ETIMEDOUT)",
		"no RDMA device on the interface that the route leads to (-19, ENODEV)"),
	cmEvent(2, "ROUTE_RESOLVED",
		"rdma_resolve_route is done. Make the queue pair, post receives, and call rdma_connect."),
	cmEvent(3, "ROUTE_ERROR",
		"rdma_resolve_route has failed. Over RoCE that is rare: there is no subnet manager to ask.",
		"the interface's MTU is too small for the least path MTU"),
	cmEvent(4, "CONNECT_REQUEST", "Somebody wants a connection (a REQ has arrived): the event has an ID of its own "+
		"for it. Answer by rdma_accept or rdma_reject."),
	cmEvent(5, "CONNECT_RESPONSE", "The peer has accepted (a REP has arrived), and the ID has no queue pair of its "+
		"own: move yours to RTS, and call rdma_establish."),
	cmEvent(6, "CONNECT_ERROR", "The connection failed at this side.",
		"the queue pair cannot be moved to RTR or RTS: its state, or its attributes", "REQ or REP could not be sent"),
	cmEvent(7, "UNREACHABLE", "The peer does not answer the REQ or the REP.", "UDP port 4791 is closed by a firewall",
		"no RDMA stack runs at that address", "the peer is too busy to answer in time (status -110)"),
	cmEvent(8, "REJECTED", "The peer refuses; the event's status is the reason.",
		"28 (consumer defined): the application said no", "8 (invalid service ID): nobody listens on this port"),
	cmEvent(9, "ESTABLISHED", "Both ends may send."),
	cmEvent(10, "DISCONNECTED",
		"The connection is over (a DREQ or its answer has arrived, or none came). What was posted is flushed.",
		"the peer called rdma_disconnect, or its program ended"),
	cmEvent(11, "DEVICE_REMOVAL", "The device below the ID goes away: destroy all that is made of it.",
		"the interface or the driver was removed"),
	cmEvent(12, "MULTICAST_JOIN",
		"rdma_join_multicast is done: attach the queue pair's address handle to what the event says."),
	cmEvent(13, "MULTICAST_ERROR", "rdma_join_multicast has failed, or the group is gone."),
	cmEvent(14, "ADDR_CHANGE", "The address that the ID was made with has moved to other hardware (bonding): the "+
		"connection goes on, and should be made anew."),
	cmEvent(15, "TIMEWAIT_EXIT",
		"Nothing of the connection can be on its way any more: its queue pair number may be used again."),
}

func cmEvent(n int, name, means string, causes ...string) Topic {
	var look []string
	if len(causes) > 0 {
		look = []string{"the connection manager's messages (roce trace decode), and roce doctor PEER"}
	}
	return Topic{"rdma_cm event", "RDMA_CM_EVENT_" + name, n, means, causes, look}
}
