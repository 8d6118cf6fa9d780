package dropin

// Programs by roce run: what it does for any of them, and those that look at sysfs.
//
// Stages: the command; a program's exit status, signals and addresses; a student's program; UCX;
// libfabric; pyverbs' own tests.

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/internal/nobody"
)

// made is the command, built once.
var made = sync.OnceValues(func() (string, error) {
	build := exec.Command("go", "build", "-pgo=off", "-o", built+"/roce", "./cmd/roce")
	build.Dir, build.Stderr = "..", os.Stderr
	return built + "/roce", build.Run()
})

func command(t *testing.T) string {
	t.Helper()
	file, err := made()
	require.NoError(t, err)
	return file
}

// byRun is a program by roce run, by an ordinary user, in whose home it keeps its folders.
func byRun(t *testing.T, options, line string) *exec.Cmd {
	t.Helper()
	program := strings.Fields(line)
	needs(t, program[0])
	roce := command(t) // it may take longer than the program has
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, roce, append(append([]string{"run"}, strings.Fields(options)...), program...)...)
	// Without a hub: it would have the loopback for some seconds after the program.
	c.Env = append(os.Environ(), "GOROCE_LIBRARIES="+built, "GOROCE_DEBUG=1", "GOROCE_HUB=none")
	nobody.Runs(t, c)
	return c
}

// TestRunTogether: both ends of a program have one address, by way of a hub that the first one
// starts, and that is nobody's child.
func TestRunTogether(t *testing.T) {
	addr := fmt.Sprintf("127.84.%d.%d", os.Getpid()>>8&255, os.Getpid()&255)
	folder := filepath.Join(nobody.Folder(t), "hub")
	end := func(line string) *exec.Cmd {
		c := byRun(t, "-q --dev hub:"+addr, line)
		c.Env = append(c.Env, "GOROCE_HUB="+command(t), "GOROCE_HUB_FOLDER="+folder)
		return c
	}
	server := end("rping -s -a " + addr + " -C 3 -v")
	said, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	for s := bufio.NewScanner(said); s.Scan() && !strings.Contains(s.Text(), "listens on"); {
	}
	go io.Copy(io.Discard, said)
	out, err := end("rping -c -a " + addr + " -C 3 -v").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "ping data: rdma-ping-2")
	require.NoError(t, server.Wait())
}

// TestRun: the program takes roce's place; where there is no hub an address has one owner, and the
// next free one is found.
func TestRun(t *testing.T) {
	err := byRun(t, "-q", "grep x /nonexistent").Run()
	require.ErrorContains(t, err, "exit status 2")

	first := byRun(t, "", "cat")
	in, err := first.StdinPipe()
	require.NoError(t, err)
	said, err := first.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, first.Start())
	line := make([]byte, 256)
	n, err := said.Read(line) // its devices are its own now
	require.NoError(t, err)
	require.Contains(t, string(line[:n]), "127.0.0.1")

	out, err := byRun(t, "", "ibv_devices").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `roce0 is udp:127\.0\.0\.2 `, string(out))
	require.Regexp(t, `without udp:lo: it is in use`, string(out))
	require.Regexp(t, `roce0 +\t0000ffff7f000002`, string(out))
	out, err = byRun(t, "--dev udp:127.0.0.1", "ibv_devices").CombinedOutput()
	require.Error(t, err)
	require.Regexp(t, `in use by another process.* --dev udp:127\.0\.0\.2 is free`, string(out))

	require.NoError(t, first.Process.Signal(syscall.SIGTERM)) // as the program it ends by it
	io.Copy(io.Discard, said)
	require.ErrorContains(t, first.Wait(), "signal: terminated")
	in.Close()
	out, err = byRun(t, "--dev udp:127.0.0.1", "ibv_devices").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestRunSignals: what the caller ignores the program ignores, as by nohup or behind a shell's &.
func TestRunSignals(t *testing.T) {
	for _, c := range []struct{ before, ends string }{{"trap '' INT", ""}, {"trap '' HUP", ""}, {":", "signal: interrupt"}} {
		run := byRun(t, "-q", "sh -c")
		sh := exec.Command("sh", "-c", c.before+`; exec "$@" 'kill -INT $$; kill -0 $$'`, "sh")
		if strings.Contains(c.before, "HUP") {
			sh.Args[2] = c.before + `; exec "$@" 'kill -HUP $$; kill -0 $$'`
		}
		sh.Args, sh.Env, sh.SysProcAttr = append(sh.Args, run.Args...), run.Env, run.SysProcAttr
		out, err := sh.CombinedOutput()
		if c.ends == "" {
			require.NoError(t, err, "%s: %s", c.before, out)
		} else {
			require.ErrorContains(t, err, c.ends)
		}
	}
}

// student is testdata/student.c.
func student(t *testing.T) string {
	t.Helper()
	needs(t, "gcc")
	program := filepath.Join(nobody.Folder(t), "student")
	out, err := exec.Command("gcc", "-Wall", "-Werror", "-O2", "-o", program, "testdata/student.c", "-libverbs").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

func TestStudent(t *testing.T) {
	out, err := byRun(t, "-q", student(t)).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `device roce0(.*\n)+ibv_reg_mr 4096 bytes: .*\nibv_reg_mr 1048576 .*\nibv_reg_mr 1073741824 .*\ncompletion 7: success`,
		string(out))
}

// TestUCX: UCX finds the device by sysfs and its character device, and two processes talk by it. RC
// needs UD to begin with: a choice of rc_verbs alone reaches nobody.
func TestUCX(t *testing.T) {
	out, err := byRun(t, "-q --dev udp:127.0.0.1", "ucx_info -d").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `Transport: rc_verbs\n# +Device: roce0:1`, string(out))
	require.Regexp(t, `Transport: ud_verbs\n# +Device: roce0:1`, string(out))
	for _, c := range []struct{ transports, test string }{
		{"rc", "tag_lat -n 200"}, {"ud_verbs", "tag_lat -n 200"},
		{"rc", "tag_bw -s 1048576 -n 20"}, {"rc", "ucp_put_lat -n 200"}, {"rc", "ucp_get -s 4096 -n 200"}, {"rc", "ucp_fadd -s 8 -n 200"},
		{"rc", "stream_lat -n 200"}, {"ud_verbs", "tag_bw -s 65536 -n 50"}, {"rc_verbs,ud_verbs", "ucp_am_bw -s 65536 -n 50"},
	} {
		t.Run(c.transports+" "+c.test, func(t *testing.T) {
			if c.test != "tag_lat -n 200" && os.Getenv("GOROCE_PROGRAMS") == "" {
				t.Skip("played by make programs")
			}
			server := byRun(t, "-q --dev udp:127.0.0.1", "ucx_perftest -p 18515")
			client := byRun(t, "-q --dev udp:127.0.0.2", "ucx_perftest -p 18515 127.0.0.1 -t "+c.test)
			for _, c2 := range []*exec.Cmd{server, client} {
				c2.Env = append(c2.Env, "UCX_TLS="+c.transports)
			}
			require.Regexp(t, `Final: +\d+ +\d+\.\d+`, play(t, server, client))
		})
	}
}

// The addresses of an interface that is not the loopback, which libfabric passes over.
const oneEnd, otherEnd = "10.76.0.1", "10.76.0.2"

// wire makes it, in the network of this test program, until the test ends.
func wire(t *testing.T) {
	t.Helper()
	netns.Need(t)
	ip(t, "link add wire type veth peer name end")
	t.Cleanup(func() { ip(t, "link del wire") })
	for _, line := range []string{"addr add " + oneEnd + "/24 dev wire", "addr add " + otherEnd + "/24 dev wire",
		"link set wire up", "link set end up"} {
		ip(t, line)
	}
}

// ip changes the network of this test program.
func ip(t *testing.T, line string) {
	t.Helper()
	out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput()
	require.NoError(t, err, "ip %s: %s", line, out)
}

// TestLibfabric: libfabric finds the device by the addresses of its interface, and two processes
// talk by each kind of endpoint, and compare what they get.
func TestLibfabric(t *testing.T) {
	wire(t)
	all := os.Getenv("GOROCE_PROGRAMS") != ""
	out, err := byRun(t, "-q --dev udp:"+oneEnd, "fi_info -p verbs").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, kind := range []string{"MSG", "DGRAM", "RDM"} {
		require.Regexp(t, `domain: roce0\S*\n.*version: .*\n +type: FI_EP_`+kind, string(out))
	}
	for i, options := range []string{"msg", "msg -S 1048576", "rdm", "rdm -S 1048576", "rdm -m tagged", "dgram"} {
		t.Run(options, func(t *testing.T) {
			if i > 0 && !all {
				t.Skip("played by make programs")
			}
			line := "fi_pingpong -p verbs -c -I 100 -e " + options
			server := byRun(t, "-q --dev udp:"+oneEnd, line+" -B "+strconv.Itoa(port))
			client := byRun(t, "-q --dev udp:"+otherEnd, line+" -P "+strconv.Itoa(port)+" "+oneEnd)
			out := play(t, server, client)
			require.Regexp(t, `(?m)^\d+m? +100 .*\d\.\d\d\s*$`, out)
			if testing.Verbose() {
				t.Log(out)
			}
		})
	}
}

// TestPyverbs plays the tests that come with pyverbs: some, or all with GOROCE_PROGRAMS=1.
func TestPyverbs(t *testing.T) {
	to := nobody.Folder(t)
	modules := pyverbs(t, "/", to)
	out, err := byRun(t, "-q --dev udp:127.0.0.1", "/usr/bin/python3 "+to+"/run_tests.py -v --dev roce0 --gid 0 "+modules).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `Ran [1-9]\d* tests`, string(out))
	require.NotContains(t, string(out), "Ran 1 test ")
	if testing.Verbose() {
		t.Logf("%s", out)
	}
}

// pyverbs unpacks its tests, of a system under a root, into a folder, and returns the names of
// those to play: all with GOROCE_PROGRAMS=1, but those of its module for librdmacm, which forks
// when the device is open and wants its address in both.
func pyverbs(t *testing.T, root, to string) string {
	t.Helper()
	const from = "/usr/share/doc/rdma-core/tests"
	files, _ := filepath.Glob(root + from + "/*.py*")
	if len(files) == 0 {
		t.Skipf("%s%s is missing (Debian package python3-pyverbs)", root, from)
	}
	var modules []string
	for _, file := range files {
		short := strings.TrimSuffix(filepath.Base(file), ".gz")
		require.NoError(t, os.WriteFile(filepath.Join(to, short), unzipped(t, file), 0o644))
		if name, isTest := strings.CutSuffix(short, ".py"); isTest && strings.HasPrefix(name, "test_") && name != "test_rdmacm" {
			modules = append(modules, "tests."+name)
		}
	}
	if os.Getenv("GOROCE_PROGRAMS") == "" {
		modules = []string{"tests.test_pd", "tests.test_atomic", "tests.test_qp", "tests.test_qpex"}
	}
	return strings.Join(modules, " ")
}

// unzipped is a file's text; Debian packs the larger ones.
func unzipped(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	if !strings.HasSuffix(file, ".gz") {
		return text
	}
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	text, err = io.ReadAll(z)
	require.NoError(t, err)
	return text
}
