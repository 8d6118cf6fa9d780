package dropin

// Programs in a container without privileges, as somebody has them who has only the tarball: they
// see Debian's /usr and the folder that tar makes, and a network of their own with nothing but the
// loopback, whose address all of them share by a hub.
//
// Stages: the tarball's folder; the container; a job of MPI; one of Gloo; fio, which verifies;
// pyverbs' own tests.

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/nobody"
)

// unpacked is what tar makes of the file that GOROCE_TARBALL names (make tarball), or the same laid
// out of what is built here.
func unpacked(t *testing.T) string {
	t.Helper()
	root := nobody.Folder(t)
	run := func(name string, args ...string) {
		t.Helper()
		out, err := exec.Command(name, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	if file := os.Getenv("GOROCE_TARBALL"); file != "" {
		run("tar", "-xf", file, "-C", root, "--strip-components=1")
		return root
	}
	run("mkdir", "-p", root+"/bin", root+"/lib/goroce")
	run("cp", command(t), root+"/bin/roce")
	files, err := filepath.Glob(built + "/*.so*")
	require.NoError(t, err)
	run("cp", append(files, root+"/lib/goroce")...)
	return root
}

// contained is a line of a shell's in the container. There the tarball is /opt/goroce, and tests a
// folder of this test's.
func contained(t *testing.T, tests, line string) (string, error) {
	t.Helper()
	words := []string{"--unshare-all", "--die-with-parent", "--new-session", "--uid", "1000", "--gid", "1000", "--clearenv"}
	for _, w := range []string{"--ro-bind /usr /usr", "--ro-bind /etc /etc", "--symlink usr/bin /bin", "--symlink usr/sbin /sbin",
		"--symlink usr/lib /lib", "--symlink usr/lib64 /lib64", "--proc /proc", "--dev /dev", "--tmpfs /tmp", "--dir /home/user",
		"--ro-bind " + unpacked(t) + " /opt/goroce", "--ro-bind " + tests + " /tests", "--chdir /home/user",
		"--setenv HOME /home/user", "--setenv PATH /opt/goroce/bin:/usr/bin:/bin"} {
		words = append(words, strings.Fields(w)...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*limit)
	defer cancel()
	c := exec.CommandContext(ctx, needs(t, "bwrap"), append(words, "sh", "-c", line)...)
	nobody.Runs(t, c)
	out, err := c.CombinedOutput()
	return string(out), err
}

// serves is a shell's function that waits until a process at the hub listens on a port.
const serves = "serves() { until roce ps | grep -q \"TCP $1\"; do :; done; }\n"

func TestContained(t *testing.T) {
	if os.Getenv("GOROCE_PROGRAMS") == "" {
		t.Skip("played by make programs")
	}
	tests := nobody.Folder(t)
	built := func(compiler, source, program string, more ...string) {
		args := append([]string{"-O1", "-o", filepath.Join(tests, program), "testdata/" + source}, more...)
		out, err := exec.Command(needs(t, compiler), args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	needs(t, "fio")
	built("mpicc", "mpi.c", "mpi")
	built("g++", "gloo.cc", "gloo", "-std=c++14", "-lgloo", "-pthread")
	modules := pyverbs(t, "/", tests)
	const fio = "roce run -q -- fio --thread --name=x --ioengine=rdma --port=8888 --bs=64k --size=16m --verify_state_save=0 --verify=crc32c "
	for _, c := range []struct{ name, line, want string }{
		{"mpi", "mpirun -n 4 --oversubscribe --mca pml ucx --mca mpi_yield_when_idle 1 -x UCX_TLS=rc,self -x UCX_NET_DEVICES=roce0:1 " +
			"roce run -q -- /tests/mpi together 2 </dev/null", `(?m)^right: \d+ bytes of each of 4 ranks`},
		{"gloo", "mkdir /tmp/meet; for rank in 0 1 2; do roce run -q -- /tests/gloo /tmp/meet $rank 3 & done; wait",
			`(?s)(rank \d: right, over ibverbs, .*){3}`},
		{"fio", serves + fio + "--rw=read --iodepth=256 & serves 8888; " + fio + "--rw=write --iodepth=8 --hostname=127.0.0.1 --verb=send " +
			"--do_verify=0 && wait $!", `(?s)err= 0.*err= 0`},
		{"pyverbs", "cd /tests && roce run -q -- python3 run_tests.py -v --dev roce0 --gid 0 " + modules, `Ran [1-9]\d* tests(.*\n)+OK`},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := contained(t, tests, c.line)
			require.NoError(t, err, "%s", out)
			require.Regexp(t, regexp.MustCompile(c.want), out)
			if testing.Verbose() {
				t.Log(out)
			}
		})
	}
}
