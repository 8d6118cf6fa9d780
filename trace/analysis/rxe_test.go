package analysis

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/timeline"
)

// ofRxe is what the report on captures of a real rxe has to say (docs/tshark.md), and what not.
var ofRxe = map[string]struct{ says, not []string }{
	"rping":      {says: []string{"connection manager, port", "SEND", "RDMA_READ", "RDMA_WRITE"}, not: []string{"sent again", "failed"}},
	"rping-ipv6": {says: []string{"2001:db8:1::1", "connection manager, port"}, not: []string{"sent again"}},
	"ours-rping": {says: []string{"192.0.2.1", "connection manager, port"}, not: []string{"sent again"}},
	"rc":         {says: []string{"3 × SEND, 9000 B", "path MTU 1024"}, not: []string{"sent again"}},
	"uc":         {says: []string{"3 × SEND, 9000 B"}, not: []string{"missing"}},
	"ud-ipv6":    {says: []string{"UD 2001:db8:1::1", "3 packets"}},
	"read":       {says: []string{"10 × RDMA_READ, 30.0 kB"}, not: []string{"sent again", "missing"}},
	"loss": {says: []string{"5 × RDMA_WRITE, 15.0 kB", "after a NAK (PSN sequence error)", "NAKs: PSN sequence error"},
		not: []string{"not acknowledged"}},
	"atomics":       {says: []string{"× ATOMIC,"}, not: []string{"sent again"}},
	"ours-messages": {says: []string{"× FLUSH", "× ATOMIC_WRITE", "× ATOMIC,", "UD 192.0.2.1"}, not: []string{"wrong ICRC"}},
	"refused": {says: []string{"IBV_WC_REM_INV_REQ_ERR (9)", "IBV_WC_REM_ACCESS_ERR (10)", "IBV_WC_REM_OP_ERR (11)", "RNR NAKs",
		"1 messages refused"}},
	"ours-refused": {says: []string{"IBV_WC_REM_INV_REQ_ERR (9)", "IBV_WC_REM_ACCESS_ERR (10)", "IBV_WC_REM_OP_ERR (11)", "RNR NAKs"}},
}

// TestAsRecorded: of WRITEs whose packets were lost, and then all ACKs, the device that sent
// them has recorded how often it went back, and how often it asked after silence
// (docs/tshark.md). In between its window waited for ACKs in the middle of what it sent again,
// which is neither.
func TestAsRecorded(t *testing.T) {
	file, err := os.Open("../../testdata/captures/retries.pcapng")
	require.NoError(t, err)
	defer file.Close()
	src, err := trace.NewSource(file)
	require.NoError(t, err)
	a := New()
	src.EachNotes(func(text []byte) {
		for line := range bytes.Lines(text) {
			if x, err := timeline.ParseEntry(line); err == nil { // or it fills the block
				a.Told(&x)
			}
		}
	})
	for {
		p, err := src.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		a.Add(p)
	}
	sender := a.Flows[0]
	r := a.RecordedOf(sender)
	require.EqualValues(t, 3, r.Back)
	require.EqualValues(t, 9, r.Timers)
	require.EqualValues(t, 1, r.GaveUp)
	require.Equal(t, [numCauses]uint64{AfterNAK: r.Back, AfterSilence: r.Timers - r.GaveUp}, sender.Requests.Retries)
}

func TestCapturesOfRxe(t *testing.T) {
	for name, want := range ofRxe {
		file, err := os.Open(filepath.Join("../../testdata/captures", name+".pcapng"))
		require.NoError(t, err)
		defer file.Close()
		src, err := trace.NewSource(file)
		require.NoError(t, err)
		a := New()
		for {
			p, err := src.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.NotEqual(t, trace.ICRCWrong, p.ICRC)
			a.Add(p)
		}
		var out strings.Builder
		require.NoError(t, a.Write(&out))
		for _, text := range want.says {
			require.Contains(t, out.String(), text, name)
		}
		for _, text := range append(want.not, "in part only", "to follow", "requests that are not in the capture", "wrong ") {
			require.NotContains(t, out.String(), text, name)
		}
	}
}
