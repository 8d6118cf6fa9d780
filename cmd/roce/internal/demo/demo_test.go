package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
)

func TestMain(m *testing.M) {
	netns.Own()
	m.Run()
}

func TestDemoIsRight(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.pcapng")
	var out bytes.Buffer
	require.NoError(t, Run(t.Context(), &out, Options{Pcap: file}))
	text := out.String()
	require.Contains(t, text, "All 9 operations right, every byte compared.")
	require.NotContains(t, text, "FAILED")
	for _, packet := range []string{"SEND_FIRST", "SEND_MIDDLE", "SEND_LAST", "ACKNOWLEDGE", "RDMA_WRITE_ONLY_IMM", "RDMA_READ_REQUEST",
		"RDMA_READ_RESPONSE_MIDDLE", "COMPARE_SWAP", "ATOMIC_ACKNOWLEDGE", "FETCH_ADD", "UC SEND_LAST", "UD SEND_ONLY"} {
		require.Contains(t, text, packet)
	}
	require.NotContains(t, text, "bad ICRC")
	capture, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "\x0a\x0d\x0d\x0a", string(capture[:4]), "the magic number of pcapng")
}

func TestQuietDemoShowsNoPackets(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Run(t.Context(), &out, Options{Quiet: true}))
	require.NotContains(t, out.String(), " psn ")
	require.Less(t, strings.Count(out.String(), "\n"), 60)
}
