package qp

import "github.com/goroce/goroce/wire"

// Stats counts what an engine did, under the names that IB devices and rxe use. Whoever drives the
// engine may read them, nobody else: they are plain integers.
type Stats struct {
	SentPkts         uint64
	RcvdPkts         uint64
	Retransmitted    uint64
	OutOfSequence    uint64
	Kept             uint64 // of those out of sequence: kept until the gap before them was filled
	GivenUp          uint64 // of those kept: dropped, because another peer had less than its share
	DuplicateRequest uint64
	SentRNR          uint64 // RNR NAKs because there was no receive request
	OverShare        uint64 // messages for which an SRQ has no receive, as their peer has its share
	FlushWaits       uint64 // RNR NAKs because storage takes its time with a FLUSH
	RcvdRNR          uint64
	RNRRetryExceeded uint64
	RcvdCredits      uint64 // acknowledgements that said how many receives the peer has
	CreditWaits      uint64 // times that messages waited for receives, with QPAttr.FlowControl
	RcvdSeqErr       uint64
	RcvdInvReq       uint64 // NAKs of the peer that failed a request, by what they say; ...
	RcvdAccessErr    uint64
	RcvdOpErr        uint64
	SentInvReq       uint64 // ... and ours, counted when they leave
	SentAccessErr    uint64
	SentOpErr        uint64
	ImpliedNAK       uint64
	AckTimeouts      uint64
	Probes           uint64
	RetryExceeded    uint64
	WindowGrown      uint64 // times that a window grew beyond where it began ...
	WindowCut        uint64 // ... and that losses made one smaller
	SendErrors       uint64
	RecvErrors       uint64
	RcvdCNP          uint64
	SentCNP          uint64
	RcvdECN          uint64
	MemoryFaults     uint64 // accesses to registered memory that was gone or protected
	Drops            [wire.NumDropReasons]uint64
}

// nakCounters count the NAKs of one kind.
type nakCounters struct{ rcvd, sent *uint64 }

// naks are the counters of a NAK that fails a request; zero of one after which it is sent again.
func (s *Stats) naks(syn wire.Syndrome) nakCounters {
	switch syn {
	case wire.SynNAKInvReq:
		return nakCounters{&s.RcvdInvReq, &s.SentInvReq}
	case wire.SynNAKAccess:
		return nakCounters{&s.RcvdAccessErr, &s.SentAccessErr}
	case wire.SynNAKOp:
		return nakCounters{&s.RcvdOpErr, &s.SentOpErr}
	}
	return nakCounters{}
}

// Each calls f with every counter and its name; drops that never happened are left out.
func (s *Stats) Each(f func(name string, value uint64)) {
	for _, c := range []struct {
		name  string
		value uint64
	}{
		{"sent_pkts", s.SentPkts},
		{"rcvd_pkts", s.RcvdPkts},
		{"retransmitted_pkts", s.Retransmitted},
		{"out_of_sequence", s.OutOfSequence},
		{"kept_out_of_sequence", s.Kept},
		{"kept_given_up", s.GivenUp},
		{"duplicate_request", s.DuplicateRequest},
		{"out_of_buffer", s.SentRNR},
		{"srq_over_share", s.OverShare},
		{"flush_waits", s.FlushWaits},
		{"rcvd_rnr_nak", s.RcvdRNR},
		{"rnr_nak_retry_err", s.RNRRetryExceeded},
		{"rcvd_credits", s.RcvdCredits},
		{"credit_waits", s.CreditWaits},
		{"packet_seq_err", s.RcvdSeqErr},
		{"req_remote_invalid_request", s.RcvdInvReq},
		{"req_remote_access_errors", s.RcvdAccessErr},
		{"req_remote_operation_errors", s.RcvdOpErr},
		{"resp_remote_invalid_request", s.SentInvReq},
		{"resp_remote_access_errors", s.SentAccessErr},
		{"resp_remote_operation_errors", s.SentOpErr},
		{"implied_nak_seq_err", s.ImpliedNAK},
		{"local_ack_timeout_err", s.AckTimeouts},
		{"probes", s.Probes},
		{"retry_exceeded_err", s.RetryExceeded},
		{"window_grown", s.WindowGrown},
		{"window_cut", s.WindowCut},
		{"req_cqe_error", s.SendErrors},
		{"resp_cqe_error", s.RecvErrors},
		{"rp_cnp_handled", s.RcvdCNP},
		{"np_cnp_sent", s.SentCNP},
		{"np_ecn_marked_roce_packets", s.RcvdECN},
		{"memory_faults", s.MemoryFaults},
	} {
		f(c.name, c.value)
	}
	for reason := wire.DropNone + 1; reason < wire.NumDropReasons; reason++ {
		if n := s.Drops[reason]; n != 0 {
			f("drop_"+wire.DropReasons[reason], n)
		}
	}
}
