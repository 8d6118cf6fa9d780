package dropin

// Other systems: the libraries for another processor, and under the next Debian, whose C library
// and programs are newer. Both are played by make programs.
//
// Stages: arm64, cross compiled, whose structures are where this processor has them, and a program
// that runs on it; Debian 13 in a folder, which make has filled.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/nobody"
)

// cross makes the libraries and the student's program for arm64.
func cross(t *testing.T) (folder, program string) {
	t.Helper()
	const compiler = "aarch64-linux-gnu-gcc"
	needs(t, compiler)
	folder = nobody.Folder(t)
	run := func(name string, args ...string) {
		t.Helper()
		c := exec.Command(name, args...)
		c.Env = append(os.Environ(), "GOARCH=arm64")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	run("make", "-s", "B="+folder, "CC="+compiler, "PGO=off")
	program = filepath.Join(folder, "student")
	run(compiler, "-O2", "-o", program, "testdata/student.c", filepath.Join(folder, "libibverbs.so.1"))
	var where strings.Builder
	where.WriteString("#include <stddef.h>\n#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n")
	for _, m := range placed(t) {
		fmt.Fprintf(&where, "_Static_assert(offsetof(struct %s, %s) == %d, \"%s.%s\");\n", m.of, m.name, m.at, m.of, m.name)
	}
	file := filepath.Join(folder, "where.c")
	require.NoError(t, os.WriteFile(file, []byte(where.String()), 0o644))
	run(compiler, "-fsyntax-only", file)
	return folder, program
}

// place is where this processor has a member of a structure of rdma-core's headers.
type place struct {
	of, name string
	at       int
}

// placed are the members that the engine and programs both know: it finds the names in the headers,
// and the places by a program.
func placed(t *testing.T) (list []place) {
	t.Helper()
	folder := t.TempDir()
	text := "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\nint main(void) {\n"
	// A structure that is inside may have a mutex, which is longer for arm64.
	names, longer := 0, regexp.MustCompile(`pthread_mutex_t|struct ibv_\w+ \w+;`)
	for _, header := range []string{"infiniband/verbs.h", "rdma/rdma_cma.h"} {
		source, err := os.ReadFile("/usr/include/" + header)
		require.NoError(t, err)
		for _, s := range regexp.MustCompile(`(?ms)^struct (\w+) \{\n(.*?)^\};`).FindAllStringSubmatch(string(source), -1) {
			members := longer.Split(s[2], 2)[0]
			for _, m := range regexp.MustCompile(`(?m)^\t(?:[\w*][\w \t*]*?[ \t*]|\} )(\w+)(\[\w+\])?;`).FindAllStringSubmatch(members, -1) {
				text += fmt.Sprintf("\tprintf(\"%s %s %%zu\\n\", offsetof(struct %s, %s));\n", s[1], m[1], s[1], m[1])
				names++
			}
		}
	}
	require.Greater(t, names, 400)
	source, program := filepath.Join(folder, "where.c"), filepath.Join(folder, "where")
	require.NoError(t, os.WriteFile(source, []byte(text+"}\n"), 0o644))
	out, err := exec.Command("gcc", "-o", program, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(program).Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		var m place
		_, err := fmt.Sscan(line, &m.of, &m.name, &m.at)
		require.NoError(t, err)
		list = append(list, m)
	}
	require.Len(t, list, names)
	return list
}

// TestARM64: the libraries are made for it, the structures of C lie as here, and a program for it
// writes memory by them.
func TestARM64(t *testing.T) {
	if os.Getenv("GOROCE_PROGRAMS") == "" {
		t.Skip("played by make programs")
	}
	emulator := needs(t, "qemu-aarch64-static")
	folder, program := cross(t)
	c := exec.Command(emulator, "-L", "/usr/aarch64-linux-gnu", program)
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+folder, "GOROCE_DEVICES=udp:127.0.0.1", "GOROCE_DEBUG=1")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "completion 7: success")
}

// debian13 is a folder with some of that system.
const debian13 = "build/debian13"

// TestDebian13: its perftest and pyverbs, in its folder, over the libraries that were made here.
func TestDebian13(t *testing.T) {
	root, err := filepath.Abs(debian13)
	require.NoError(t, err)
	if _, err := os.Stat(root + "/usr/bin/ib_write_bw"); err != nil {
		t.Skip("played by make programs, which fills " + root)
	}
	const here = "/opt/goroce"
	command(t) // is made beside the libraries
	require.NoError(t, os.RemoveAll(root+here))
	require.NoError(t, os.MkdirAll(root+here, 0o755))
	require.NoError(t, os.CopyFS(root+here, os.DirFS(built)))
	home, err := os.MkdirTemp(root+"/tmp", "home")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	require.NoError(t, os.Chown(home, nobody.ID, nobody.ID))
	inside := func(device, line string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		t.Cleanup(cancel)
		args := append([]string{"run", "-q", "--dev", device, "--"}, strings.Fields(line)...)
		c := exec.CommandContext(ctx, here+"/roce", args...)
		c.Env = append(os.Environ(), "GOROCE_LIBRARIES="+here, "GOROCE_DEBUG=1")
		nobody.Runs(t, c)
		c.SysProcAttr.Chroot, c.Dir, c.Env = root, "/", append(c.Env, "HOME=/tmp/"+filepath.Base(home), "TMPDIR=/tmp",
			"PATH="+here+":/usr/bin:/bin")
		return c
	}
	for _, kind := range []string{"proc", "sysfs"} { // where perftest looks for the NIC's bus
		at := filepath.Join(root, strings.TrimSuffix(kind, "fs"))
		require.NoError(t, unix.Mount(kind, at, kind, unix.MS_RDONLY, ""))
		t.Cleanup(func() { unix.Unmount(at, 0) })
	}
	for _, line := range []string{"ib_write_bw -n 500", "ib_read_lat -n 500", "ib_send_bw -c UD -n 500"} {
		out := play(t, inside("udp:127.0.0.1", line), inside("udp:127.0.0.2", line+" 127.0.0.1"))
		require.Contains(t, out, " 500 ")
		t.Logf("%s", out)
	}
	// Its tests ask the kernel, which knows of no device, for the interface of one.
	const link = `[{"ifname":"roce0","port":1,"netdev":"lo"}]`
	require.NoError(t, os.WriteFile(root+here+"/rdma", []byte("#!/bin/sh\necho '"+link+"'\n"), 0o755))
	modules := pyverbs(t, root, root+here)
	out, err := inside("udp:127.0.0.1", "/usr/bin/python3 "+here+"/run_tests.py -v --dev roce0 --gid 0 "+modules).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `Ran \d\d+ tests`, string(out))
	t.Logf("%s", out)
}
