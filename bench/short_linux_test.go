package main

import (
	"strings"
	"testing"
)

const iperfCubic = `{"end": {"sum_sent": {"bits_per_second": 2.6e8}, "sum_received": {"bits_per_second": 250000000}}}`

const perfShort = `{"test": "write-bw", "results": [{"bytes": 65536, "iterations": 357, "msg_rate_mpps": 0.00019073486328125}],
"counters": {"packet_seq_err": 2122, "probes": 37, "rcvd_pkts": 5207, "retransmitted_pkts": 2000, "sent_pkts": 50000}}`

func TestShortOutcome(t *testing.T) {
	f, err := shortOutcome([]string{"udp", "cubic"}, [][]byte{[]byte(perfShort), []byte(iperfCubic)}, 30, 970)
	if err != nil || f.Lost != 3 || f.Resent != 4 || len(f.Use) != 2 || f.Use[0] != 20 || f.Use[1] != 50 {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err = shortOutcome([]string{"bbr"}, [][]byte{[]byte(iperfCubic)}, 0, 100); err != nil || f.Lost != 0 || f.Resent != 0 ||
		f.Use[0] != 50 {
		t.Errorf("%+v, %v", f, err)
	}
	for kind, said := range map[string]string{"udp": iperfCubic, "cubic": "unable to connect"} {
		if f, err := shortOutcome([]string{kind}, [][]byte{[]byte(said)}, 0, 100); err == nil || !strings.Contains(err.Error(), kind) {
			t.Errorf("%s said %q: %+v, %v", kind, said, f, err)
		}
	}
	if _, err := shortOutcome(nil, nil, 0, 0); err == nil {
		t.Error("figures of an idle switch")
	}
}
