package filter

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace"
)

// chosen are the numbers of the packets of a capture that an expression leaves.
func chosen(t testing.TB, name, expression string) (numbers []int) {
	t.Helper()
	f, err := Parse(expression)
	require.NoError(t, err)
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	src, err := trace.NewSource(bytes.NewReader(data))
	require.NoError(t, err)
	for {
		p, err := src.Next()
		if errors.Is(err, io.EOF) {
			return numbers
		}
		require.NoError(t, err)
		if f.Match(p) && (len(numbers) == 0 || numbers[len(numbers)-1] != p.Number) {
			numbers = append(numbers, p.Number)
		}
	}
}

func capture(name string) string {
	return filepath.Join("..", "..", "testdata", "captures", name+".pcapng")
}

// TestOurs: what Wireshark has no name for.
func TestOurs(t *testing.T) {
	for _, c := range []struct {
		file, expression string
		want             int
	}{
		{"rping", "roce.kind == RoCEv2", 29},
		{"rping", "roce.icrc == wrong", 0},
		{"rping", `roce.icrc == "right"`, 29},
		{"rping", "", 29},
		{"rc", "infiniband.bth.opcode == RC_ACKNOWLEDGE", 6},
		{"rc", `infiniband.bth.opcode == "rc acknowledge"`, 6},
		{"rc", "infiniband.bth.opcode in {RC_SEND_FIRST, RC_SEND_LAST}", 12},
		{"rc", "roce.payload_len == 1024", 12},
		{"rc", "roce.src == roce.dst", -1},
		{"rc", `roce.line contains "SEND_FIRST"`, 6},
	} {
		if c.want < 0 {
			_, err := Parse(c.expression)
			require.ErrorContains(t, err, `roce.src: "roce.dst" is no address`)
			continue
		}
		require.Len(t, chosen(t, capture(c.file), c.expression), c.want, "%s: %s", c.file, c.expression)
	}
}

// TestErrors: they say what is wrong, and where.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		expression string
		at         int
		what       string
	}{
		{"infiniband.bth.psnn == 1", 0, `"infiniband.bth.psnn" is no field; infiniband.bth.psn is one`},
		{"bth.destqp == 1", 0, "infiniband.bth.destqp is one"},
		{"infiniband.bth.psn == x", 22, `infiniband.bth.psn: "x" is no number, such as 18 or 0x12`},
		{"infiniband.bth.psn ==", 21, "a value for infiniband.bth.psn is missing"},
		{"infiniband.bth.psn == &&", 22, "a value for infiniband.bth.psn is missing"},
		{"infiniband.bth.psn == 1 infiniband", 24, `"infiniband" is left over: join two tests by && or ||`},
		{"(ip", 0, "a parenthesis that is not closed"},
		{"ip)", 2, `")" is left over`},
		{`frame.comment == "x`, 17, "a quotation mark that is not closed"},
		{"ip.src == 10.0.0", 10, `"10.0.0" is no address`},
		{"ip.src > 10.0.0.0/8", 9, "a network has no order"},
		{"infiniband.bth.opcode == ACKNOWLEDGE", 25, "there is RC_ACKNOWLEDGE, RC_ATOMIC_ACKNOWLEDGE"},
		{"frame.time_relative < soon", 22, `"soon" is no time in seconds`},
		{"infiniband == 1", 11, "infiniband is a header"},
		{"infiniband.bth.psn in 5", 22, "behind \"in\" comes a set"},
		{"infiniband.bth.psn in {5 6}", 25, "in a set, a comma or }"},
		{"infiniband.bth.psn contains 5", 28, "neither a text nor bytes"},
		{"eth.src == zz", 11, "no bytes"},
		{"ip && §", 6, "begins neither a name nor a value"},
		{"infiniband.bth.psn == 0x1ffffffff", 22, "the field has 24 bits, up to 0xffffff"},
		{"ip.src == fe80::1", 10, "is of the other family"},
		{`infiniband.bth.psn == "5"`, 22, "a number has no quotation marks"},
		{"roce.icrc == bad", 13, `"bad" is none of its words`},
		{"ip &&", 5, "the expression ends where a field is expected"},
	} {
		_, err := Parse(c.expression)
		var wrong *Error
		require.ErrorAs(t, err, &wrong, c.expression)
		require.Contains(t, wrong.Error(), c.what, c.expression)
		require.Equal(t, c.at, wrong.At, c.expression)
	}
}

// TestFields: each name can be asked for, and Wireshark's names are of fields that occur.
func TestFields(t *testing.T) {
	require.Greater(t, len(Fields()), 120)
	for _, name := range Fields() {
		f, err := Parse(name)
		require.NoError(t, err)
		f.Match(&trace.Packet{})
	}
}

// FuzzParse: no expression and no packet is too odd.
func FuzzParse(f *testing.F) {
	packet, err := trace.ParseHex("0a40ffff 00000012 80000005 00001000 00002000 00000033 00000000 12345678")
	require.NoError(f, err)
	for _, s := range []string{"ip.src == 10.0.0.0/8", `frame.comment contains "\""`, "!(infiniband.bth.psn in {1,2..5}) or ip",
		"infiniband.bth.opcode == RC_SEND_ONLY && udp.port > 0x12", "frame.time_relative <= -0.5", "eth.addr==aa:bb", "((((ip"} {
		f.Add(s, packet)
	}
	f.Fuzz(func(t *testing.T, s string, data []byte) {
		x, err := Parse(s)
		if err != nil {
			var wrong *Error
			require.ErrorAs(t, err, &wrong)
			require.True(t, wrong.At >= 0 && wrong.At <= len(s))
			require.NotEmpty(t, wrong.Error())
			return
		}
		not, err := Parse("!(" + s + ")")
		p := trace.Guess(data)
		if p.Decode(); err == nil && s != "" {
			require.Equal(t, x.Match(p), !not.Match(p))
		}
	})
}
