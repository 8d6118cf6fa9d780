package tshark

// Stages: tshark's values of all fields that have a name there → each packet of the file decoded by
// us → each field: a known difference, or the same.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/filter"
)

// Path returns the path of the program, or skips the test with the reason. GOROCE_REQUIRE_TOOLS=1
// makes that a failure.
func Path(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		if os.Getenv("GOROCE_REQUIRE_TOOLS") == "1" {
			t.Fatal("tshark is not installed, and GOROCE_REQUIRE_TOOLS=1")
		}
		t.Skip("tshark is not installed (Debian package tshark)")
	}
	return path
}

// calm are options without which tshark takes payloads for those of protocols that have nothing to
// do with them.
var calm = []string{"-o", "infiniband.identify_payload:FALSE", "--disable-protocol", "rpcordma", "--disable-protocol",
	"infiniband.eoib", "--disable-protocol", "nvme-rdma", "--disable-protocol", "iser", "--disable-protocol",
	"smb_direct"}

// Comparison counts what was compared. The zero value is ready.
type Comparison struct {
	Packets, Fields int
	used            map[int]bool   // rows of Differences that were needed
	wrong           map[string]int // by field: two of each are enough to read
}

// Compare compares every field of every packet of a capture, and fails the test with what differs
// otherwise than Differences say.
func (c *Comparison) Compare(t testing.TB, name string, file []byte) {
	t.Helper()
	if c.used == nil {
		c.used, c.wrong = map[int]bool{}, map[string]int{}
	}
	rows := Dissect(t, file, append(fields(), "_ws.malformed"))
	src, err := trace.NewSource(bytes.NewReader(file))
	require.NoError(t, err, name)
	for {
		p, err := src.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err, name)
		require.LessOrEqual(t, p.Number, len(rows), "%s: tshark sees fewer packets", name)
		c.packet(t, name, p, rows[p.Number-1])
	}
}

// fields are all names that tshark has for ours.
func fields() (all []string) {
	seen := map[string]bool{}
	for _, name := range filter.Wireshark {
		if !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	return all
}

func (c *Comparison) packet(t testing.TB, name string, p *trace.Packet, row map[string]string) {
	c.Packets++
	if row["_ws.malformed"] != "" && p.Parsed && !c.differs(p, &trace.Field{Layer: "malformed"}) {
		t.Errorf("%s, packet %d: tshark says %s\n%s", name, p.Number, row["_ws.malformed"], p.AppendLine(nil))
	}
	p.EachField(func(f trace.Field) {
		if c.differs(p, &f) {
			return
		}
		its, known := filter.Wireshark[f.Layer+"."+f.Name]
		switch {
		case !known:
			require.True(t, strings.HasPrefix(f.Layer, "CM ") || f.Layer == "after" || f.Layer == "data",
				"no name of tshark for %s.%s", f.Layer, f.Name)
		case !same(&f, row[its]):
			if c.wrong[its]++; c.wrong[its] <= 2 {
				t.Errorf("%s, packet %d: %s.%s is %s (%d), tshark shows %s = %q\n%s", name, p.Number, f.Layer, f.Name,
					f.Text, f.Value, its, row[its], p.AppendLine(nil))
			}
		default:
			c.Fields++
		}
	})
}

// differs says whether a field is one that the table knows, and notes that it was needed.
func (c *Comparison) differs(p *trace.Packet, f *trace.Field) bool {
	for i, d := range Differences {
		if (d.Field == f.Layer || d.Field == f.Layer+"."+f.Name) && d.where(p) {
			c.used[i] = true
			return true
		}
	}
	return false
}

// Unused returns the rows of Differences that nothing has needed.
func (c *Comparison) Unused() (rows []Difference) {
	for i, d := range Differences {
		if !c.used[i] {
			rows = append(rows, d)
		}
	}
	return rows
}

// Dissect returns tshark's values of fields in each packet of a capture; it fails the test if
// tshark has anything to say about the file.
func Dissect(t testing.TB, file []byte, fields []string) (packets []map[string]string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "capture.pcapng")
	require.NoError(t, os.WriteFile(name, file, 0o600))
	args := append([]string{"-r", name, "-T", "fields", "-E", "occurrence=f"}, calm...)
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	cmd := exec.Command(Path(t), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	for line := range strings.Lines(stderr.String()) {
		if !strings.HasPrefix(line, "Running as user") {
			t.Errorf("tshark says: %s", line)
		}
	}
	for line := range strings.Lines(string(out)) {
		values := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		m := map[string]string{}
		for i, f := range fields {
			m[f] = values[i]
		}
		packets = append(packets, m)
	}
	return packets
}

// Chosen returns the numbers of the packets that a display filter leaves of a capture file.
func Chosen(t testing.TB, name, expression string) (numbers []int) {
	t.Helper()
	args := append([]string{"-r", name, "-Y", expression, "-T", "fields", "-e", "frame.number"}, calm...)
	cmd := exec.Command(Path(t), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s: %s", expression, &stderr)
	for _, line := range strings.Fields(string(out)) {
		n, err := strconv.Atoi(line)
		require.NoError(t, err)
		numbers = append(numbers, n)
	}
	return numbers
}

// same says whether tshark's value of a field is ours.
func same(f *trace.Field, got string) bool {
	if got == f.Text {
		return true
	}
	v, err := strconv.ParseUint(got, 0, 64)
	if f.Layer == "ICRC" { // least significant byte first; tshark shows the bytes as they lie
		v = uint64(bits.ReverseBytes32(uint32(v)))
	}
	if err == nil && (v == f.Value || f.Layer == "IPv4" && f.Name == "fragment offset" && v == 8*f.Value) {
		return true
	}
	if b := strings.ReplaceAll(got, ":", ""); f.Bits <= 64 && len(b) == f.Bits/4 {
		return b == fmt.Sprintf("%0*x", f.Bits/4, f.Value)
	}
	return got == "True" && f.Value == 1 || got == "False" && f.Value == 0
}

// Opens fails the test unless tshark reads a file to its end without a word, finds that many
// packets in it, and none of them malformed. It does not guess what payloads are.
func Opens(t testing.TB, name string, packets int) {
	t.Helper()
	args := append([]string{"-r", name, "-T", "fields", "-e", "frame.number", "-e", "_ws.malformed", "-e",
		"frame.protocols"}, calm...)
	cmd := exec.Command(Path(t), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s: %s", name, &stderr)
	for line := range strings.Lines(stderr.String()) {
		require.True(t, strings.HasPrefix(line, "Running as user"), "%s: tshark says: %s", name, line)
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		n++
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Empty(t, f[1], "%s: packet %s (%s)", name, f[0], f[2])
	}
	require.Equal(t, packets, n, "%s: packets", name)
}
