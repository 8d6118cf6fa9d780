package filter_test

// What tshark chooses of the same captures by the same expressions.

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/tshark"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/filter"
)

// expressions are for both. Each must leave something of some capture, and not all of it.
var expressions = []string{
	"infiniband.bth.opcode == 17",
	"infiniband.bth.opcode == 0x11 && infiniband.aeth.syndrome >= 0x20",
	"infiniband.bth.opcode != 17",
	"!(infiniband.bth.opcode == 17)",
	"not infiniband.bth.opcode == 17 and infiniband.bth.a == 1",
	"infiniband.bth.opcode in {0, 2, 4..12}",
	"infiniband.bth.psn > 0x100 && infiniband.bth.psn <= 0xf00000",
	"infiniband.bth.destqp == 1",
	"infiniband.bth.destqp > 1 || infiniband.cm.req",
	"infiniband.aeth",
	"infiniband.aeth.msn < 3",
	"infiniband.aeth.syndrome == 0x60",
	"infiniband.reth.dmalen > 1000",
	"infiniband.bth.opcode < 0x1c && (infiniband.reth.r_key == 0 || infiniband.reth.dmalen lt 64)",
	"infiniband.deth.q_key == 0x80010000",
	"ip.src == 192.0.2.1",
	"ip.addr == 192.0.2.1 && !(ip.dst == 192.0.2.1)",
	"ip.addr != 192.0.2.1",
	"ip.dst == 192.0.2.0/31",
	"ipv6.src == 2001:db8:1::1",
	"ipv6.dst == 2001:db8::/32 && infiniband.bth.opcode == 17",
	"ip.ttl == 64 && ip.id == 0",
	"udp.srcport == 4791 || udp.srcport > 50000",
	"udp.port == 4791 && udp.length < 100",
	"udp",
	"eth.src == 02:00:00:00:00:01",
	"frame.number >= 3 and frame.number lt 9",
	"frame.time_relative > 0.001",
	"frame.time_relative <= 0.0005 && frame.len > 300",
	"udp && frame.len in {60..90, 1082}",
	"infiniband.cm.req.startpsn > 0",
	"infiniband.bth.p_key == 0xffff && infiniband.bth.se == 1",
	"ip.src == 192.0.2.1 && infiniband.aeth || infiniband.bth.opcode == 4",
	"frame.cap_len > 300 && udp",
	"infiniband.bth.psn ne 5 && (infiniband.reth.dmalen == 3000 or infiniband.aeth.msn ge 2)",
}

// TestTsharkChoosesTheSame: the same packets of everything in testdata/captures, put into one file.
func TestTsharkChoosesTheSame(t *testing.T) {
	tshark.Path(t)
	names, err := filepath.Glob("../../testdata/captures/*.pcapng")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	var all []byte
	for _, name := range names {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		all = append(all, b...)
	}
	name := filepath.Join(t.TempDir(), "all.pcapng")
	require.NoError(t, os.WriteFile(name, all, 0o600))
	for i, expression := range expressions {
		if testing.Short() && i%6 > 0 {
			continue // each takes tshark a second
		}
		want := tshark.Chosen(t, name, expression)
		got, n := chosen(t, all, expression)
		require.Equal(t, want, got, expression)
		if len(got) == 0 || len(got) == n {
			t.Errorf("%s leaves %d of %d packets: it shows nothing", expression, len(got), n)
		}
	}
}

func chosen(t *testing.T, file []byte, expression string) (numbers []int, all int) {
	t.Helper()
	f, err := filter.Parse(expression)
	require.NoError(t, err)
	src, err := trace.NewSource(bytes.NewReader(file))
	require.NoError(t, err)
	for {
		p, err := src.Next()
		if errors.Is(err, io.EOF) {
			return numbers, all
		}
		require.NoError(t, err)
		all++
		if f.Match(p) && (len(numbers) == 0 || numbers[len(numbers)-1] != p.Number) {
			numbers = append(numbers, p.Number)
		}
	}
}
