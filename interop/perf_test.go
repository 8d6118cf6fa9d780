package interop

// roce perf against perftest's programs.

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/interop/lab"
)

// contests are the programs with the sizes that they are run at: in CI the least where ours serves,
// and the largest where it is the client.
var contests = []struct {
	test  string // of roce perf; perftest's is ib_ and underscores
	sizes []int
}{
	{"write-bw", []int{8, 65536}},
	{"read-bw", []int{8, 65536}},
	{"send-bw", []int{8, 65536}},
	{"atomic-bw", []int{8}},
	{"write-lat", []int{8, 65536}},
	{"send-lat", []int{8, 65536}},
	{"read-lat", []int{8}},
	{"atomic-lat", []int{8}},
}

const (
	rounds    = 100 // messages of a contest
	bigRounds = 20  // of 64 KiB
)

func TestPerf(t *testing.T) {
	a := theArena(t)
	for _, c := range contests {
		for _, role := range roles {
			for i, size := range c.sizes {
				t.Run(fmt.Sprintf("%s/roce-is-%s/size=%d", tool(c.test), role.name, size), func(t *testing.T) {
					matrix(t, role.serving == (i == 0) || len(c.sizes) == 1)
					a.perf(t, c.test, role.serving, size)
				})
			}
		}
	}
}

// variants are options that change what goes over the wire before, during or after a test. CI has
// ours serve in one and be the client in the next.
var variants = []struct {
	test    string
	options string // of both ends
}{
	{"write-bw", "-q 3"},
	{"write-bw", "-b"},
	{"send-bw", "-b"},
	{"send-bw", "-c UC -s 4096 -n 20"}, // few enough that none is lost
	{"send-bw", "-c UD -s 1024 -n 20"},
	{"send-lat", "-c UD"},
	{"write-lat", "-c UC"},
	{"read-bw", "-b -q 2"},
	{"write-bw", "-m 1024"},
	{"write-bw", "-a -n 5"},
}

func TestPerfVariants(t *testing.T) {
	a := theArena(t)
	for i, v := range variants {
		for _, role := range roles {
			t.Run(fmt.Sprintf("%s %s/roce-is-%s", tool(v.test), v.options, role.name), func(t *testing.T) {
				matrix(t, role.serving == (i%2 == 0))
				a.perf(t, v.test, role.serving, 0, strings.Fields(v.options)...)
			})
		}
	}
}

// meetings are tests whose ends meet by the RDMA connection manager (-R). The first is CI's.
var meetings = []struct{ test, options string }{
	{"write-bw", "-s 8"},
	{"write-bw", "-q 3"},
	{"write-bw", "-b"},
	{"send-bw", "-s 65536 -n 20"},
	{"send-bw", "-b"},
	{"send-bw", "-c UD -s 1024 -n 20"},
	{"read-bw", ""},
	{"atomic-bw", ""},
	{"write-lat", "-s 8"},
	{"send-lat", "-s 8"},
	{"send-lat", "-c UD"},
	{"read-lat", "-s 8"},
	{"atomic-lat", ""},
}

// TestPerfByCM: the connection manager carries the messages of both ends and connects their queue
// pairs.
func TestPerfByCM(t *testing.T) {
	a := theArena(t)
	for i, m := range meetings {
		for _, role := range roles {
			t.Run(fmt.Sprintf("%s %s/roce-is-%s", tool(m.test), m.options, role.name), func(t *testing.T) {
				matrix(t, i == 0)
				options := append([]string{"-R", "-n", strconv.Itoa(rounds)}, strings.Fields(m.options)...)
				d := duel{serving: role.serving, rdma: true, says: "Waiting for client",
					guest: append([]string{tool(m.test), "-d", lab.Device, "-x", a.gid, "-F"}, options...),
					host:  append([]string{"perf", m.test, "-u", patience, "-d", "udp:" + lab.HostIPv4}, options...)}
				if role.serving {
					d.guest = append(d.guest, lab.HostIPv4)
				} else {
					d.host = append(d.host, lab.GuestIPv4)
				}
				r := a.fight(t, d)
				client := r.host
				if role.serving {
					client = r.guest
				}
				require.Regexp(t, `(?m)^ \d+ +\d+ +[0-9.]+`, client)
				require.Contains(t, client, "Data ex. method : rdma_cm")
			})
		}
	}
}

func tool(test string) string { return "ib_" + strings.ReplaceAll(test, "-", "_") }

// perf runs one test and looks for the row of its size at the ends that print one. Size 0 is left
// to the options.
func (a *arena) perf(t *testing.T, test string, serving bool, size int, options ...string) {
	n := rounds
	if size > 8192 {
		n = bigRounds
	}
	options = append([]string{"-n", strconv.Itoa(n)}, options...) // the last of two counts
	if size != 0 && !strings.HasPrefix(test, "atomic") {
		options = append(options, "-s", strconv.Itoa(size))
	}
	// -F: perftest does not trust the clock of an emulated processor.
	r := a.fight(t, duel{serving: serving,
		guest: append([]string{tool(test), "-d", lab.Device, "-x", a.gid, "-F"}, options...),
		host:  append([]string{"perf", test, "-u", patience}, options...)})
	client := r.host
	if serving {
		client = r.guest
	}
	if size != 0 {
		found := row(size, n).FindString(client)
		require.NotEmpty(t, found, client)
		t.Log(found)
	}
}

// row matches a line of results.
func row(size, n int) *regexp.Regexp {
	return regexp.MustCompile(fmt.Sprintf(`(?m)^ %d +%d +[0-9.]+.*$`, size, n))
}
