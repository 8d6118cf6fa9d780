package dropin

// Sockets of librdmacm.so.1: what they answer, story by story; unmodified programs that use them,
// or know TCP only and have them put below by rdma-core's librspreload.so; and goroce's own
// programs at the other end.

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/nobody"
)

// TestSockets plays each story of testdata/sockets.c. What needs no device rdma-core's own library
// must answer too.
func TestSockets(t *testing.T) {
	needs(t, "gcc")
	program := filepath.Join(nobody.Folder(t), "sockets")
	out, err := exec.Command("gcc", "-Wall", "-Werror", "-g", "-o", program, "testdata/sockets.c", "-L"+built, "-l:librdmacm.so.1",
		"-l:libibverbs.so.1", "-pthread").CombinedOutput()
	require.NoError(t, err, "%s", out)
	names, err := with(t, "", program).Output()
	require.NoError(t, err)
	for name := range strings.FieldsSeq(string(names)) {
		t.Run(name, func(t *testing.T) {
			out, err := with(t, "udp:127.0.0.1", program+" "+name).CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
	t.Run("errors, by rdma-core", func(t *testing.T) {
		out, err := exec.Command(program, "errors").CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
}

// preloaded puts sockets below a program that knows TCP only.
const preloaded = "env LD_PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so "

// streams are rstream and its kin, by what is behind -s ADDRESS or -b ADDRESS at both ends.
var streams = []string{
	"rstream -S 1000 -C 20 -I 10 -T v -T b",
	"riostream -S 5001 -C 20 -I 3 -T v -T b",
	"rstream -S 1000 -C 20 -I 10 -T v -T a", "rstream -S 1000 -C 20 -I 10 -T v -T n", "rstream -S 1000 -C 20 -I 10 -T v",
	"rstream -S 1000 -C 20 -I 10 -T v -T a -T b", "rstream -S 64 -C 1 -I 1000 -T b", "rstream -S 1000000 -C 10 -I 3 -T v -T b",
	"rstream -S 70001 -C 20 -I 3 -T v -T r", "rstream -B 8192 -S 70001 -C 20 -I 3 -T v -T b", "rstream -i 128 -k 1 -S 64 -C 20 -I 3 -T v",
	"rstream -f ip -S 64 -C 20 -I 3",
	"riostream -S 5001 -C 20 -I 3 -T v -T a", "riostream -S 5001 -C 20 -I 3 -T v -T n", "riostream -S 300000 -C 20 -I 3 -T v -T b",
}

// socketCases lists the programs. An end of goroce's own is named by its path.
func socketCases(t *testing.T) (list []connects) {
	add := func(want, server, client string, change ...func(*connects)) {
		c := connects{server: server, client: client, want: want}
		for _, f := range change {
			f(&c)
		}
		list = append(list, c)
	}
	udpong := regexp.MustCompile(`0100007F:1C06 `) // its port is 7174
	udp := func(c *connects) { c.endless, c.there, c.file = true, udpong, "udp" }
	headed := func(c *connects) { c.says = "usec/xfer" } // it prints the head of a table
	for _, s := range streams {
		add(rowOfStream, s+" -b 127.0.0.1", s+" -s 127.0.0.1")
	}
	for _, o := range []string{"-T b", "", "-T a", "-T n", "-B 20000 -T b"} {
		o += " -S 700 -C 20"
		add(`custom +700`, "udpong -b 127.0.0.1 -T b", "udpong -b 127.0.0.2 -s 127.0.0.1 "+o, udp)
	}
	tcp := preloaded + "rstream -T s -S 30000 -C 20 -I 3 -T v "
	for _, o := range []string{"-T b", "-T a", "-T n"} {
		add(rowOfStream, tcp+o+" -b 127.0.0.1", tcp+o+" -s 127.0.0.1")
	}
	add("iperf Done", preloaded+"iperf3 -s -1 -B 127.0.0.1", preloaded+"iperf3 -c 127.0.0.1 -B 127.0.0.2 -t 1",
		func(c *connects) { c.extra = true })

	roce, riostream, answers := own(t, "cmd/roce"), own(t, "examples/riostream"), own(t, "examples/udpong")
	const bytes = " -S 30000 -C 20 -I 3 -T v -T b"
	add(rowOfStream, roce+" rstream -b 127.0.0.1"+bytes, "rstream -s 127.0.0.1"+bytes, headed)
	add(rowOfStream, "rstream -b 127.0.0.1"+bytes, roce+" rstream -b 127.0.0.2 -s 127.0.0.1"+bytes)
	const memory = " -S 5001 -C 20 -I 3"
	add(rowOfStream, riostream+" -b 127.0.0.1"+memory, "riostream -T v -T b -s 127.0.0.1"+memory,
		func(c *connects) { c.says = "listening on" })
	add("all as they should be", "riostream -T v -T b -b 127.0.0.1"+memory, riostream+" -b 127.0.0.2 -s 127.0.0.1"+memory)
	add(`custom +700`, answers+" -b 127.0.0.1", "udpong -b 127.0.0.2 -s 127.0.0.1 -S 700 -C 20 -T b", udp)
	add("the server counts", "udpong -b 127.0.0.1 -T b", answers+" -b 127.0.0.2 -s 127.0.0.1 -S 700 -C 20", udp)
	return list
}

// rowOfStream is a row with a time in it that is not 0.
const rowOfStream = `(?m)^\w+ +\S+ .* (\d*[1-9]\d*\.\d+|\d+\.\d*[1-9])\s*$`

// own builds a program of goroce's, and says where it is.
func own(t *testing.T, folder string) string {
	t.Helper()
	program := filepath.Join(nobody.Folder(t), filepath.Base(folder))
	build := exec.Command("go", "build", "-pgo=off", "-o", program, "./"+folder)
	build.Dir = ".."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// short is a command without folders.
func short(line string) string { return regexp.MustCompile(`\S*/`).ReplaceAllString(line, "") }

// kindOf is what of a case decides whether it is like one before it: the programs of both ends.
func (c *connects) kindOf() string {
	words := regexp.MustCompile(`\S*(librspreload|iperf3|roce|rstream|riostream|udpong)\b`)
	return strings.Join(words.FindAllString(c.server, -1), " ") + ", " + strings.Join(words.FindAllString(c.client, -1), " ")
}

func TestSocketPrograms(t *testing.T) {
	needs(t, "rstream")
	all := os.Getenv("GOROCE_PROGRAMS") != ""
	seen := map[string]bool{}
	for _, c := range socketCases(t) {
		t.Run(short(c.server)+" | "+short(c.client), func(t *testing.T) {
			kind := c.kindOf()
			if (seen[kind] || c.extra) && !all {
				t.Skip("played by make programs")
			}
			if example := regexp.MustCompile(`^\S*/(riostream|udpong) `); onOneAddress && example.MatchString(c.server) {
				t.Skip("it names no device, and takes an address for itself that nobody shares yet")
			}
			seen[kind] = true
			out := c.play(t)
			require.Regexp(t, c.want, out)
			if testing.Verbose() {
				t.Log(out)
			}
		})
	}
}

// TestRcopy: a file arrives as it was.
func TestRcopy(t *testing.T) {
	needs(t, "rcopy")
	from := filepath.Join(nobody.Folder(t), "from")
	content := make([]byte, 3_000_000)
	rand.NewChaCha8([32]byte{}).Read(content)
	require.NoError(t, os.WriteFile(from, content, 0o644))
	c := connects{server: "rcopy", client: "rcopy " + from + " 127.0.0.1:" + from + ".back", endless: true}
	require.Contains(t, c.play(t), "3000000 bytes in")
	back, err := os.ReadFile(from + ".back")
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, back), "%x", sha256.Sum256(back))
}
