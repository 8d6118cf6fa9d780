package verbs

// What the driver counts: files in sysfs, under the names that each driver gives them.

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// counters are the fields of qp.Stats with the files that may have them, the best one first. Names
// that differ are those of mlx5 and of rxe; packets that no driver's own file has are those of the
// port, as InfiniBand counts them.
var counters = []struct {
	files string
	field func(*qp.Stats) *uint64
}{
	{"sent_pkts ../counters/port_xmit_packets", func(s *qp.Stats) *uint64 { return &s.SentPkts }},
	{"rcvd_pkts ../counters/port_rcv_packets", func(s *qp.Stats) *uint64 { return &s.RcvdPkts }},
	{"out_of_sequence out_of_seq_request", func(s *qp.Stats) *uint64 { return &s.OutOfSequence }},
	{"duplicate_request", func(s *qp.Stats) *uint64 { return &s.DuplicateRequest }},
	{"out_of_buffer send_rnr_err", func(s *qp.Stats) *uint64 { return &s.SentRNR }},
	{"rcvd_rnr_err", func(s *qp.Stats) *uint64 { return &s.RcvdRNR }},
	{"rnr_nak_retry_err retry_rnr_exceeded_err", func(s *qp.Stats) *uint64 { return &s.RNRRetryExceeded }},
	{"packet_seq_err rcvd_seq_err", func(s *qp.Stats) *uint64 { return &s.RcvdSeqErr }},
	{"req_remote_invalid_request", func(s *qp.Stats) *uint64 { return &s.RcvdInvReq }},
	{"req_remote_access_errors", func(s *qp.Stats) *uint64 { return &s.RcvdAccessErr }},
	{"resp_remote_access_errors", func(s *qp.Stats) *uint64 { return &s.SentAccessErr }},
	{"implied_nak_seq_err", func(s *qp.Stats) *uint64 { return &s.ImpliedNAK }},
	{"local_ack_timeout_err", func(s *qp.Stats) *uint64 { return &s.AckTimeouts }},
	{"retry_exceeded_err", func(s *qp.Stats) *uint64 { return &s.RetryExceeded }},
	{"req_cqe_error", func(s *qp.Stats) *uint64 { return &s.SendErrors }},
	{"resp_cqe_error", func(s *qp.Stats) *uint64 { return &s.RecvErrors }},
	{"rp_cnp_handled", func(s *qp.Stats) *uint64 { return &s.RcvdCNP }},
	{"np_cnp_sent", func(s *qp.Stats) *uint64 { return &s.SentCNP }},
	{"np_ecn_marked_roce_packets", func(s *qp.Stats) *uint64 { return &s.RcvdECN }},
	{"rx_icrc_encapsulated", func(s *qp.Stats) *uint64 { return &s.Drops[wire.DropICRC] }},
}

// readCounters reads the counters of a port. What the driver does not count stays 0.
func readCounters(folder string) (s qp.Stats) {
	for _, c := range counters {
		for _, name := range strings.Fields(c.files) {
			text, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				continue
			}
			if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
				*c.field(&s) = n
				break
			}
		}
	}
	return s
}

// since takes from each counter what it was before: the driver counts from when it was loaded, for
// all who use the port.
func since(now, before qp.Stats) qp.Stats {
	for _, c := range counters {
		*c.field(&now) -= *c.field(&before)
	}
	return now
}
