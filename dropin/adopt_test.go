package dropin

// Who adopts it has a tarball, and is an ordinary user: the action setup-roce, its scripts as a
// runner runs them, step by step; and containers. What GitHub does itself, such as fetching a
// release and keeping an artifact, nobody plays.
//
// Stages: a tarball; the steps of a job, each with what those before have left in the runner's
// files; a job of which a step fails, and its verdict; two containers.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/nobody"
)

// packed is a tarball of the libraries and the command, as far as the action needs it.
func packed(t *testing.T) string {
	t.Helper()
	roce, folder := command(t), t.TempDir()
	root := filepath.Join(folder, "roce-linux")
	require.NoError(t, os.MkdirAll(root+"/bin", 0o755))
	require.NoError(t, os.CopyFS(root+"/lib/goroce", os.DirFS(built)))
	require.NoError(t, os.Rename(root+"/lib/goroce/"+filepath.Base(roce), root+"/bin/roce"))
	out, err := exec.Command("tar", "-czf", folder+"/roce.tar.gz", "-C", folder, "roce-linux").CombinedOutput()
	require.NoError(t, err, "%s", out)
	copies, err := nobody.Copies(folder + "/roce.tar.gz")
	t.Cleanup(func() { os.RemoveAll(copies) })
	require.NoError(t, err)
	return copies + "/roce.tar.gz"
}

// job is one on a runner.
type job struct {
	t       *testing.T
	temp    string // the runner's folder, in which its files are
	scripts string
}

func newJob(t *testing.T) *job {
	t.Helper()
	scripts, err := nobody.Copies("../setup-roce/*.sh")
	t.Cleanup(func() { os.RemoveAll(scripts) })
	require.NoError(t, err)
	return &job{t: t, temp: nobody.Folder(t), scripts: scripts}
}

// left is what the steps before have written into a file of the runner.
func (j *job) left(file string) []string {
	text, err := os.ReadFile(filepath.Join(j.temp, file))
	if err != nil {
		return nil // none has
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// variables are those that the steps before have set, each as NAME<<END, its value's lines, END.
func (j *job) variables() (all []string) {
	lines := j.left("env")
	for len(lines) > 0 {
		name, end, ok := strings.Cut(lines[0], "<<")
		n := slices.Index(lines[1:], end)
		require.True(j.t, ok && n >= 0, "%q", lines)
		all = append(all, name+"="+strings.Join(lines[1:1+n], "\n"))
		lines = lines[n+2:]
	}
	return all
}

// step is one that is not started yet.
func (j *job) step(line string, env ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	j.t.Cleanup(cancel)
	c := exec.CommandContext(ctx, "bash", "-e", "-o", "pipefail", "-c", line)
	c.Env = os.Environ()
	nobody.Runs(j.t, c)
	path := strings.Join(append(j.left("path"), "/usr/bin", "/bin"), ":")
	c.Env = append(c.Env, "RUNNER_TEMP="+j.temp, "GITHUB_ENV="+j.temp+"/env", "GITHUB_PATH="+j.temp+"/path",
		"GITHUB_STEP_SUMMARY="+j.temp+"/summary", "HOME="+j.temp, "GOROCE_HUB_FOLDER="+j.temp+"/hub", "PATH="+path)
	c.Env = append(append(c.Env, j.variables()...), env...)
	return c
}

// does runs a step, which must end well, and returns what it says.
func (j *job) does(line string, env ...string) string {
	j.t.Helper()
	out, err := j.step(line, env...).CombinedOutput()
	require.NoError(j.t, err, "%s: %s", line, out)
	return string(out)
}

// TestAction: a job in which two programs, started as they are, meet on two devices, the only ones;
// then packets get lost, the second program fails, and the verdict says what its packets say.
func TestAction(t *testing.T) {
	needs(t, "ibv_rc_pingpong")
	one, other := fmt.Sprintf("127.85.%d.1", os.Getpid()&255), fmt.Sprintf("127.85.%d.2", os.Getpid()&255)
	j := newJob(t)
	require.Contains(t, j.does(j.scripts+"/verdict.sh"), "No program of this job")
	require.Contains(t, j.does(j.scripts+"/install.sh", "ROCE_TARBALL="+packed(t)), "roce ")
	said := j.does(j.scripts+"/devices.sh", "ROCE_DEVICES=hub:"+one+",hub:"+other)
	require.Contains(t, said, "roce0 is hub:"+one)
	require.Contains(t, said, "roce1 is hub:"+other)
	require.Equal(t, "roce0\nroce1\n", j.does("ls /sys/class/infiniband"))
	require.Regexp(t, `roce0\s+\S+\n\s+roce1\s+\S+\n$`, j.does("ibv_devices"))

	const line = "exec ibv_rc_pingpong -g 0 -d "
	const long = " -s 65536 -n 400 " // fills three files
	require.Contains(t, play(t, j.step(line+"roce0"+long), j.step(line+"roce1"+long+one)), "400 iters in")
	server, failed := j.step(line+"roce0"), j.step(line+"roce1 "+one, "GOROCE_FAULTS=tx.SEND:500-:drop")
	require.NoError(t, server.Start())
	for look := time.NewTicker(time.Millisecond); !listens(port); <-look.C {
	}
	out, err := failed.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "transport retry counter exceeded")
	require.NoError(t, server.Process.Kill())
	server.Wait()

	verdict := j.does(j.scripts + "/verdict.sh")
	require.Contains(t, verdict, "RETRY_EXC")
	require.Contains(t, strings.Join(j.left("summary"), "\n"), "RETRY_EXC")
	for _, kind := range []string{"pcapng", "pcapng.txt"} {
		files, err := filepath.Glob(j.temp + "/roce-pcap/ibv_rc_pingpong-*-hub-127.85.*." + kind)
		require.NoError(t, err)
		require.Len(t, files, 6, "of the first two programs the two newest, of the others the only one")
		if info, err := os.Stat(files[0]); kind == "pcapng" {
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode(), "payloads are their user's")
		}
	}
}

// TestActionsRelease: which release the action takes, by its input and by how a workflow names it.
// git and curl are played: the one lists tags, the other says what it would fetch.
func TestActionsRelease(t *testing.T) {
	const one, two = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	const tag, none = "3333333333333333333333333333333333333333", "4444444444444444444444444444444444444444"
	folder := t.TempDir()
	for name, script := range map[string]string{
		"git": "printf '%s\\t%s\\n' " + one + " refs/tags/v0.9.0 " + tag + " refs/tags/v1.10.0 " + two + " 'refs/tags/v1.10.0^{}' " +
			two + " refs/tags/v1 " + two + " refs/tags/v1.9.0",
		"curl": `echo "fetches $9"; exit 22`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	for _, c := range []struct{ version, ref, want string }{
		{"v0.9.0", two, "/download/v0.9.0/roce"},
		{"latest", one, "/latest/download/roce"},
		{"0.9.0", one, `the input version is "0.9.0"`},
		{"", "v0.9.0", "/download/v0.9.0/roce"},
		{"", "v1", "/download/v1.10.0/roce"},
		{"", one, "/download/v0.9.0/roce"},
		{"", two, "/download/v1.10.0/roce"},
		{"", tag, "/download/v1.10.0/roce"},
		{"", none, "no release has its tag at " + none},
		{"", "v7", "no release has its tag at v7"},
		{"", "main", "/latest/download/roce"},
		{"", "", "/latest/download/roce"},
	} {
		cmd := exec.Command("../setup-roce/install.sh")
		cmd.Env = append(os.Environ(), "PATH="+folder+":/usr/bin:/bin", "RUNNER_TEMP="+t.TempDir(),
			"ROCE_VERSION="+c.version, "ROCE_REF="+c.ref)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), c.want, "%q %q", c.version, c.ref)
		require.NotEqual(t, strings.Contains(string(out), "::error::"), strings.Contains(string(out), "fetches"), "%s", out)
	}
}

// TestContainers: two containers of an ordinary user, who has nothing but the tarball, and a wire
// between them. The user is root in there, and the files' owner.
func TestContainers(t *testing.T) {
	needs(t, "ib_write_bw")
	needs(t, "unshare")
	folder := nobody.Folder(t)
	as := func(line string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		t.Cleanup(cancel)
		c := exec.CommandContext(ctx, "sh", "-c", line)
		c.Dir, c.Env = folder, os.Environ()
		nobody.Runs(t, c)
		return c
	}
	if out, err := as("unshare -rnm true").CombinedOutput(); err != nil {
		t.Skipf("an ordinary user may not make namespaces here: %s", out)
	}
	script, err := nobody.Copies("../adopt/containers.sh")
	t.Cleanup(func() { os.RemoveAll(script) })
	require.NoError(t, err)
	out, err := as("tar -xf " + packed(t) + " && unshare -rnm " + script +
		"/containers.sh $PWD/roce-linux/bin/roce ib_write_bw -n 500 -F").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `roce0 is hub:eth0 \(10\.77\.0\.1`, string(out))
	require.Regexp(t, `GID: .*10:77:00:02\n remote .*\n GID: .*10:77:00:01`, string(out))
	require.Equal(t, 2, strings.Count(string(out), " 500 "), "%s", out)
	out, err = as("unshare -rnm " + script + "/containers.sh $PWD/roce-linux/bin/roce false").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "the server has ended, and never listened: false")
}
