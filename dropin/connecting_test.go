package dropin

// Unmodified programs that connect by the RDMA connection manager, over librdmacm.so.1.
//
// Stages: a server; when it listens, its client; both must end well, but for servers that never
// end.

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// connects is a server and its client. Of each kind of program the first is run always, unless CI
// has not got it.
type connects struct {
	server, client string
	want           string         // the client says something like it
	says           string         // the server is there when it says so; "": when the library does
	there          *regexp.Regexp // or, if not nil, when /proc/net has it
	file           string
	endless        bool // the server must be ended
	children       int  // so many that the server forks have a device, and it has none
	extra          bool // not in CI, which does without the package
	hasty          bool // its client may ask before the server listens, which says nothing of it
}

var (
	member   = regexp.MustCompile(`\b030201EF\b`) // of 239.1.2.3
	qperfIs  = regexp.MustCompile(`:4D35 \S+ 0A`) // listens
	complete = "test complete\nreturn status 0"
)

// cases lists them. What is not said of one is as of most.
func cases() (list []connects) {
	add := func(want, server, client string, change ...func(*connects)) {
		c := connects{server: server, client: client, want: want}
		for _, f := range change {
			f(&c)
		}
		list = append(list, c)
	}
	endless := func(c *connects) { c.endless = true }
	hasty := func(c *connects) { c.hasty = true }
	group := func(c *connects) { c.there, c.file = member, "igmp" }
	for _, o := range []string{"-v -V -C 10", "-v -C 10 -S 4096", "-v -C 10 -q"} {
		add("rdma-ping-9: JKL", "rping -s -a 127.0.0.1 "+o, "rping -c -a 127.0.0.1 "+o)
	}
	add("rdma-ping-9: JKL", "rping -s -P -a 127.0.0.1", "rping -c -a 127.0.0.1 -v -V -C 10", endless)
	for _, o := range []string{"", "-C 100 -S 4096", "-c 20", "-t 32", "-m", "-a 15", "-P ib"} {
		add(complete, "ucmatose -b 127.0.0.1 "+o, "ucmatose -s 127.0.0.1 "+o)
	}
	add("rdma_client: end 0", "rdma_server", "rdma_client -s 127.0.0.1")
	for _, o := range []string{"", "-c x"} {
		add("rdma_xclient: end 0", "rdma_xserver "+o, "rdma_xclient -s 127.0.0.1 "+o)
	}
	for _, o := range []string{"", "-c 10", "-C 30 -S 1024"} { // datagrams may be lost
		add(complete, "udaddy -b 127.0.0.1 "+o, "udaddy -s 127.0.0.1 "+o)
		add(complete, "mckey -m 239.1.2.3 -b 127.0.0.1 "+o, "mckey -m 239.1.2.3 -b 127.0.0.2 -s "+o, group)
	}
	for _, o := range []string{"-c 10", "-c 200"} {
		add(`connect +: +\d`, "cmtime -b 127.0.0.1 "+o, "cmtime -s 127.0.0.1 "+o, endless)
	}
	for _, o := range []string{"ib_send_lat", "ib_send_lat -c UD", "ib_send_lat --use-srq", "ib_write_lat", "ib_read_lat",
		"ib_atomic_lat", "ib_send_bw", "ib_send_bw -e", "ib_send_bw -q 4", "ib_send_bw -c UD", "ib_send_bw -b", "ib_write_bw",
		"ib_write_bw -D 1", "ib_write_bw -q 4", "ib_write_bw -z -T 32", "ib_read_bw", "ib_atomic_bw"} {
		// They connect twice, and neither end waits until the other is ready for the second time.
		add(figure, o+" -R", o+" -R 127.0.0.1", hasty)
	}
	extra := func(c *connects) { c.extra = true }
	// Its server says on which port it listens before it does.
	for _, o := range []string{"rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_read_lat", "rc_rdma_write_bw",
		"rc_fetch_add_mr", "ver_rc_compare_swap"} {
		add(`(?m)^ +(latency|bw|send_bw|msg_rate) += +\d`, "qperf", "qperf -cm 1 -t 1 127.0.0.1 "+o, extra, endless,
			func(c *connects) { c.there, c.file, c.hasty = qperfIs, "tcp6", true })
	}
	// A client sends half a second after its server has answered, and wants nothing sent again
	// that finds no receive. The server has one for each message from the beginning: else it may
	// fall behind while it verifies ("RNR retry counter exceeded").
	const fio = "fio --thread --name=x --ioengine=rdma --port=8888 --bs=64k --size=16m --verify_state_save=0 "
	for _, verb := range []string{"write", "read", "send", "send --verify=crc32c --do_verify=0"} {
		server := fio + "--rw=read --iodepth=256"
		if strings.Contains(verb, "verify") { // it looks at what has come
			server += " --verify=crc32c"
		}
		add("err= 0", server, fio+"--rw=write --iodepth=8 --hostname=127.0.0.1 --verb="+verb, extra)
	}
	return list
}

func TestConnecting(t *testing.T) {
	all := os.Getenv("GOROCE_PROGRAMS") != ""
	seen := map[string]bool{}
	for _, c := range cases() {
		kind, _, _ := strings.Cut(c.server, " ")
		if perftest, is := strings.CutPrefix(kind, "ib_"); is {
			_, kind, _ = strings.Cut(perftest, "_") // lat or bw
		}
		t.Run(c.client, func(t *testing.T) {
			if (seen[kind] || c.extra) && !all {
				t.Skip("played by make programs")
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

// listening says whether the server is there.
func (c *connects) listening(said string) bool {
	if c.there != nil {
		return netHas(c.file, c.there)
	}
	return strings.Contains(said, cmp.Or(c.says, "goroce: listens on "))
}

// bouts is how often a client may ask before its server listens.
const bouts = 10

// play runs both and returns what the client wrote.
func (c *connects) play(t *testing.T) string {
	t.Helper()
	for n := 1; ; n++ {
		out, said, err := c.bout(t)
		if err != nil && c.hasty && n < bouts && strings.Contains(out, "nobody listens on that port there") {
			t.Log("refused before its server listened: once more")
			continue
		}
		require.NoError(t, err, "client:\n%s\nserver:\n%s", out, said)
		if c.children > 0 {
			require.Equal(t, c.children, strings.Count(said, "goroce: listens on "), said)
		}
		return out
	}
}

// bout runs both once, and returns what client and server wrote.
func (c *connects) bout(t *testing.T) (out, said string, err error) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for c.there != nil && netHas(c.file, c.there) { // what an earlier one has left is still ending
		<-look.C
	}
	server := with(t, "udp:127.0.0.1", c.server)
	file, err := os.Create(filepath.Join(t.TempDir(), "server"))
	require.NoError(t, err)
	defer file.Close()
	server.Stdout, server.Stderr = file, file
	says := func() string { text, _ := os.ReadFile(file.Name()); return string(text) }
	server.SysProcAttr.Setpgid = true // qperf has a process for each client
	require.NoError(t, server.Start())
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	for ; !c.listening(says()); <-look.C {
		select {
		case err := <-ended:
			t.Fatalf("the server has ended: %v\n%s", err, says())
		default:
		}
	}
	wrote, err := with(t, "udp:127.0.0.2", c.client).CombinedOutput()
	if maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", server.Process.Pid)); c.children > 0 {
		require.NotContains(t, string(maps), "libgoroce-engine")
	}
	if err != nil || c.endless {
		syscall.Kill(-server.Process.Pid, syscall.SIGKILL)
	}
	if end := <-ended; err == nil && !c.endless {
		err = end
	}
	return string(wrote), says(), err
}
