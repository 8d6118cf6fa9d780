package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce/hub"
)

// TestProcessList: each process is under its address, of which the UDP port is a part, with totals,
// or with rates if there was a look before.
func TestProcessList(t *testing.T) {
	at := time.Now()
	process := func(port, slot int, sent uint64) hub.ProcessStatus {
		return hub.ProcessStatus{Where: "10.0.0.1", Port: port, PID: 7, Program: "p", Slot: slot, Report: &hub.Report{SentBytes: sent}}
	}
	look := func(after time.Duration, all ...hub.ProcessStatus) *view {
		return &view{hub.Status{PID: 1, Addresses: []hub.AddressStatus{{Where: "10.0.0.1", Port: 4791, Slots: 7, Lanes: 1},
			{Where: "10.0.0.1", Port: 5000, Slots: 7, Lanes: 1}}}, all, at.Add(after)}
	}
	still := hub.ProcessStatus{Where: "10.0.0.1", Port: 5000, PID: 9, Program: "still", Slot: 2}
	before := look(0, process(4791, 1, 1000), process(5000, 1, 9<<20), still)
	after := look(2*time.Second, process(4791, 1, 1000+4096), process(5000, 1, 8<<20), process(4791, 3, 5), still)
	var b bytes.Buffer
	require.NoError(t, before.print(&b, nil))
	require.Regexp(t, `(?s)10.0.0.1: .* 7 +p .* 1000 .*10.0.0.1, UDP port 5000: .* 7 +p .* 9.0Mi .* 9 +still .* \? +0 +\? +\? `, b.String())
	b.Reset()
	require.NoError(t, after.print(&b, before))
	require.Regexp(t, `(?s)10.0.0.1: .* 1 +7 +p .* 2.0Ki/s .* 3 +7 +p .* - +- .*UDP port 5000: .* 7 +p .* - +0/s .* 9 +still`, b.String())
}
