package dropin

// Unmodified programs of Debian's over the libraries, both ends on this machine, by an ordinary
// user: LD_LIBRARY_PATH alone. One case of each here, all with GOROCE_PROGRAMS=1, and all with both
// ends on one address, which they share by a hub, with GOROCE_PROGRAMS=shared.
//
// Stages: the libraries are built; a server, and when it listens its client; both must end well,
// and the client say what it measured.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/internal/nobody"
)

// built is a folder of the libraries, in which everybody can read.
var built string

func TestMain(m *testing.M) {
	_, err := os.Stat("/usr/include/rdma/rdma_cma.h")
	headers := err == nil
	if headers {
		if out, err := exec.Command("make", "-s").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "make: %v\n%s", err, out)
			os.Exit(1)
		}
	}
	netns.Own()
	if headers {
		if built, err = nobody.Copies("build/*.so*"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	os.RemoveAll(built)
	os.Exit(code)
}

// needs skips a test that lacks the libraries, or a program.
func needs(t *testing.T, program string) string {
	t.Helper()
	if built == "" {
		t.Skip("rdma-core's headers are missing (Debian packages libibverbs-dev, librdmacm-dev)")
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is missing (make programs installs the Debian packages)", program)
	}
	return path
}

// limit ends what would hang.
const limit = 2 * time.Minute

// with is a program on a device, by an ordinary user.
func with(t *testing.T, device, line string) *exec.Cmd {
	t.Helper()
	hub := "none"
	if onOneAddress {
		hub = command(t) // it may take longer than the program has
		device, line = oneAddress.Replace(device), oneAddress.Replace(line)
		if command, _, _ := strings.Cut(line, " "); filepath.Base(command) == "roce" {
			line += " --dev " + device
		}
	}
	args := strings.Fields(line)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, needs(t, args[0]), args[1:]...)
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+built, "GOROCE_DEVICES="+device, "GOROCE_DEBUG=1", "GOROCE_HUB="+hub)
	nobody.Runs(t, c)
	return c
}

// onOneAddress says that both ends of programs share an address.
var onOneAddress = os.Getenv("GOROCE_PROGRAMS") == "shared"

// oneAddress is what a pair of devices on two addresses becomes that share one.
var oneAddress = strings.NewReplacer("udp:127.0.0.1,udp:127.0.0.2", "hub:127.0.0.1", "udp:127.0.0.1", "hub:127.0.0.1",
	"udp:127.0.0.2", "hub:127.0.0.1", "127.0.0.2", "127.0.0.1")

// listens says whether somebody listens on a TCP port of this namespace.
func listens(port int) bool {
	at := fmt.Sprintf(":%04X ", port)
	for _, file := range []string{"tcp", "tcp6"} {
		if netHas(file, regexp.MustCompile(at+`\S+ 0A`)) {
			return true
		}
	}
	return false
}

// port is that on which the servers listen.
const port = 18515

// netHas says whether a file of this namespace's /proc/net has what is sought.
func netHas(file string, what *regexp.Regexp) bool {
	text, _ := os.ReadFile("/proc/self/net/" + file)
	return what.Match(text)
}

// both runs a server and its client, and returns what the client wrote.
func both(t *testing.T, line string) string {
	t.Helper()
	return play(t, with(t, "udp:127.0.0.1", line), with(t, "udp:127.0.0.2", line+" 127.0.0.1"))
}

// play runs a server, and its client when it listens.
func play(t *testing.T, server, client *exec.Cmd) string {
	t.Helper()
	var said strings.Builder
	server.Stdout, server.Stderr = &said, &said
	require.NoError(t, server.Start())
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	for look := time.NewTicker(time.Millisecond); !listens(port); <-look.C {
		select {
		case err := <-ended:
			t.Fatalf("the server has ended: %v\n%s", err, said.String())
		default:
		}
	}
	out, err := client.CombinedOutput()
	if err != nil {
		server.Process.Kill()
		<-ended
		t.Fatalf("client: %v\n%s\nserver:\n%s", err, out, said.String())
	}
	require.NoError(t, <-ended, said.String())
	return string(out)
}

// programs are what is run. A program's first case is run always.
var programs = []struct {
	line string
	want string // the client says something like it
}{
	{"ibv_rc_pingpong -g 0", "1000 iters in"},
	{"ibv_rc_pingpong -g 0 -e", "1000 iters in"},
	{"ibv_rc_pingpong -g 0 -N", "1000 iters in"},
	{"ibv_rc_pingpong -g 0 -t", "1000 iters in"},
	{"ibv_rc_pingpong -g 0 -c", "1000 iters in"},
	{"ibv_rc_pingpong -g 0 -o", "1000 iters in"},
	{"ibv_uc_pingpong -g 0 -c", "1000 iters in"},
	{"ibv_uc_pingpong -g 0 -e", "1000 iters in"},
	{"ibv_ud_pingpong -g 0 -e", "1000 iters in"},
	{"ibv_ud_pingpong -g 0", "1000 iters in"},
	{"ibv_srq_pingpong -g 0", "16000 iters in|1000 iters in"},
	{"ibv_srq_pingpong -g 0 -e", "16000 iters in|1000 iters in"},
	{"ibv_xsrq_pingpong -g 0", "success"},
	{"ibv_xsrq_pingpong -g 0 -e", "success"},
	{"ib_send_lat", figure}, {"ib_send_lat -e", figure}, {"ib_send_lat -c UC", figure}, {"ib_send_lat -c UD", figure},
	{"ib_send_lat -a -n 100", figure}, {"ib_send_lat -I 64", figure}, {"ib_send_lat -c UD -e", figure},
	{"ib_write_lat", figure}, {"ib_write_lat -c UC", figure}, {"ib_write_lat -I 64", figure},
	{"ib_read_lat", figure}, {"ib_read_lat -e", figure},
	{"ib_atomic_lat", figure}, {"ib_atomic_lat -A CMP_AND_SWAP", figure},
	{"ib_send_bw", figure}, {"ib_send_bw -e", figure}, {"ib_send_bw -c UD", figure}, {"ib_send_bw -b", figure},
	{"ib_send_bw -q 4", figure}, {"ib_send_bw -r 512 -l 16 -n 1600", figure}, {"ib_send_bw --use-srq -q 2", figure},
	{"ib_write_bw -D 1", figure}, {"ib_write_bw", figure}, {"ib_write_bw -q 4 -b", figure}, {"ib_write_bw -c UC", figure},
	{"ib_write_bw --use_old_post_send", figure}, {"ib_write_bw -l 8 -n 4000", figure},
	{"ib_read_bw", figure}, {"ib_read_bw -q 2 -e", figure}, {"ib_read_bw -D 1", figure},
	{"ib_atomic_bw", figure}, {"ib_atomic_bw -e", figure}, {"ib_atomic_bw -A CMP_AND_SWAP", figure},
}

// figure is a row of perftest's: bytes, iterations, a peak that may not be measured, and something
// above 0.
const figure = `(?m)^ *\d+ +\d+ +(0\.00 +)?(\d*[1-9]\d*\.\d+|\d+\.\d*[1-9])`

func TestPrograms(t *testing.T) {
	all := os.Getenv("GOROCE_PROGRAMS") != ""
	seen := map[string]bool{}
	for _, p := range programs {
		t.Run(p.line, func(t *testing.T) {
			name, _, _ := strings.Cut(p.line, " ")
			if seen[name] && !all {
				t.Skip("played by make programs")
			}
			seen[name] = true
			out := both(t, p.line)
			require.Regexp(t, regexp.MustCompile(p.want), out)
			if testing.Verbose() {
				t.Log(out)
			}
		})
	}
}

// TestUser: the programs of these tests have no privilege.
func TestUser(t *testing.T) {
	for _, by := range []func(t *testing.T, options, line string) *exec.Cmd{with, byRun} {
		out, err := by(t, "", "cat /proc/self/status /proc/self/limits").CombinedOutput()
		require.NoError(t, err, "%s", out)
		for _, want := range []string{`(?m)^Uid:\t[1-9]`, `(?m)^CapPrm:\t0+$`, `(?m)^CapEff:\t0+$`} {
			require.Regexp(t, want, string(out))
		}
		var soft, hard int
		_, limits, _ := strings.Cut(string(out), "\nMax locked memory")
		_, err = fmt.Sscan(limits, &soft, &hard)
		require.NoError(t, err, "%s", out)
		require.LessOrEqual(t, hard, nobody.Locked)
	}
}

// TestDevices: the devices are listed without anything of them being open, and described.
func TestDevices(t *testing.T) {
	out, err := with(t, "udp:127.0.0.1,udp:127.0.0.2", "ibv_devices").CombinedOutput()
	require.NoError(t, err)
	require.Regexp(t, `roce0 .*0000ffff7f000001\n.*roce1 .*0000ffff7f000002`, string(out))

	out, err = with(t, "udp:127.0.0.1", "ibv_devinfo -v").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{"hca_id:\troce0", "0000:ffff:7f00:0001", "PORT_ACTIVE", "active_mtu:.*4096", "link_layer:.*Ethernet",
		"::ffff:127.0.0.1, RoCE v2"} {
		require.Regexp(t, want, string(out))
	}
	out, err = with(t, "", "ibv_devices").CombinedOutput() // without a choice: each interface
	require.NoError(t, err)
	require.Contains(t, string(out), "roce0")

	out, err = with(t, "udp:192.0.2.1", "ibv_devinfo").CombinedOutput() // not of this machine
	require.Error(t, err)
	require.Contains(t, string(out), "192.0.2.1")
}
