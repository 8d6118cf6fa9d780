package trace_test

// What tshark says of the same packets, field by field.

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/tshark"
	"github.com/goroce/goroce/trace"
)

// TestTsharkAgrees compares every field of everything in testdata/, captures of rxe among it, of
// simulated worlds, and of the encapsulations that neither has. Each row of the table of
// differences must be needed.
func TestTsharkAgrees(t *testing.T) {
	tshark.Path(t)
	var worlds, rxe []byte // files of as many sections
	for seed := range uint64(12) {
		worlds = append(worlds, trace.WorldCapture(t, seed+1)...)
	}
	names, err := filepath.Glob("../testdata/captures/*.pcapng")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		rxe = append(rxe, b...)
	}
	var c tshark.Comparison
	c.Compare(t, "testdata", trace.VectorCapture(t))
	c.Compare(t, "testdata/captures", rxe)
	c.Compare(t, "encapsulations", trace.Encapsulations(t))
	c.Compare(t, "opcodes", trace.OpcodeCapture(t))
	c.Compare(t, "worlds", worlds)
	for _, d := range c.Unused() {
		t.Errorf("no packet needs the row of %s: %s", d.Field, d.Right)
	}
	t.Logf("%d fields of %d packets agree", c.Fields, c.Packets)
	require.Greater(t, c.Fields, 20000)
}

// TestCommentsInTshark: what the Writer writes has its comments, interfaces and directions there.
func TestCommentsInTshark(t *testing.T) {
	_, frames := trace.Vectors(t)
	file := trace.WriteCapture(t,
		trace.Record{
			Time:      1_700_000_000_123_456_789,
			Link:      trace.LinkEthernet,
			Name:      "eth0",
			Direction: trace.DirSent,
			Data:      frames[0],
			Comment:   "the first | with ünïcode",
		},
		trace.Record{Time: 1_700_000_000_123_456_790, Link: trace.LinkRaw, Name: "tun0", Data: frames[1][14:]})
	rows := tshark.Dissect(t, file, []string{"frame.comment", "frame.interface_name", "frame.time_epoch", "infiniband.bth.opcode",
		"frame.packet_flags_direction"})
	require.Len(t, rows, 2)
	require.Equal(t, "eth0", rows[0]["frame.interface_name"])
	require.Equal(t, "the first | with ünïcode", rows[0]["frame.comment"])
	require.Equal(t, "tun0", rows[1]["frame.interface_name"])
	require.Equal(t, "1700000000.123456790", rows[1]["frame.time_epoch"])
	require.Equal(t, "11", rows[1]["infiniband.bth.opcode"])
}
