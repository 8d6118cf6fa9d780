package dropin

// MPI: OpenMPI's jobs over UCX over the libraries, on several hosts, which are network namespaces
// on a switch. On each host the ranks share its address, by way of a hub.
//
// Stages: hosts, and what mpirun starts instead of ssh; a job; all to all, and what carried it;
// figures; a rank that is killed; a host that leaves.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/internal/nobody"
	"github.com/goroce/goroce/roce/hub"
)

// cluster is hosts on a switch, and what their processes have in common.
type cluster struct {
	hosts   []*netns.Namespace
	agent   string // the script that starts a program on a host
	program string // testdata/mpi.c
	hub     string // the folder of the hubs
}

// newCluster makes hosts with ordinary cables.
func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	needs(t, "mpirun")
	netns.Need(t)
	folder := nobody.Folder(t)
	c := &cluster{hosts: netns.NewSwitch(t, n, 1500), agent: filepath.Join(folder, "agent"),
		program: filepath.Join(folder, "mpi"), hub: filepath.Join(folder, "hub")}
	out, err := exec.Command(needs(t, "mpicc"), "-Wall", "-Werror", "-O2", "-o", c.program, "testdata/mpi.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	hosts := ""
	for i, h := range c.hosts {
		hosts += fmt.Sprintf("host%d) at=%d;;\n", i, h.Thread())
	}
	// As ssh it is given a host and a command line, which then runs as an ordinary user.
	script := fmt.Sprintf(`#!/bin/sh
case $1 in
%sesac
name=$1
shift
exec nsenter --net=/proc/%d/task/$at/ns/net unshare --uts sh -c '
	hostname "$0"
	exec setpriv --reuid %d --regid %d --clear-groups --pdeathsig KILL sh -c "$1"' "$name" "$*"
`, hosts, os.Getpid(), nobody.ID, nobody.ID)
	require.NoError(t, os.WriteFile(c.agent, []byte(script), 0o755))
	t.Cleanup(func() {
		for i := range c.hosts {
			c.off(i)
		}
	})
	return c
}

// off ends all that runs on a host, hubs too, as its power switch would.
func (c *cluster) off(host int) {
	network := func(of string) string { at, _ := os.Readlink("/proc/" + of + "/ns/net"); return at }
	its := network(fmt.Sprintf("%d/task/%d", os.Getpid(), c.hosts[host].Thread()))
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, at := range all {
		if pid, _ := strconv.Atoi(filepath.Base(at)); pid != os.Getpid() && network(filepath.Base(at)) == its {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// as makes a command one of the ordinary user's, with the hubs of this cluster.
func (c *cluster) as(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Env = append(os.Environ(), "GOROCE_LIBRARIES="+built, "GOROCE_HUB_FOLDER="+c.hub, "GOROCE_HUB="+command(t))
	nobody.Runs(t, cmd)
}

// job is mpirun, on the first host, with so many ranks on each; settings are of UCX, or mpirun's
// own words.
func (c *cluster) job(t *testing.T, ranks int, settings []string, line string) *exec.Cmd {
	t.Helper()
	var hosts []string
	for i := range c.hosts {
		hosts = append(hosts, fmt.Sprintf("host%d:%d", i, ranks))
	}
	words := []string{"--host", strings.Join(hosts, ","), "-n", strconv.Itoa(ranks * len(hosts)), "--bind-to", "none",
		"--mca", "plm_rsh_agent", c.agent, "--mca", "orte_launch_agent", mortal + "orted", "--mca", "plm_rsh_no_tree_spawn", "1", "--leave-session-attached",
		"--mca", "pml", "ucx", "--mca", "mpi_yield_when_idle", "1"} // there are fewer processors than ranks
	for _, s := range settings {
		if strings.HasPrefix(s, "UCX_") {
			words = append(words, "-x")
		}
		words = append(words, strings.Fields(s)...)
	}
	words = append(words, strings.Fields(line)...)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, needs(t, "mpirun"), words...)
	c.as(t, cmd)
	// It enters namespaces, which is root's; the ranks are an ordinary user's, by the agent.
	cmd.SysProcAttr.Credential = nil
	cmd.WaitDelay = time.Second // ranks have its output, too
	cmd.Env = append(cmd.Env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	return cmd
}

// mortal is a word before a program that ends it with who has started it, so that nothing of a job
// is left, however it ends.
const mortal = "setpriv --pdeathsig KILL "

// overUs has UCX use nothing but the device of the hosts' interface: between ranks of one host, too.
var overUs = []string{"UCX_TLS=rc,self", "UCX_NET_DEVICES=roce0:1"}

// run plays a job of MPI's program over the libraries to its end.
func (c *cluster) run(t *testing.T, ranks int, line string) string {
	t.Helper()
	cmd := c.job(t, ranks, overUs, mortal+command(t)+" run -q -- "+c.program+" "+line)
	var out []byte
	var err error
	c.hosts[0].Do(func() { out, err = cmd.CombinedOutput() })
	require.NoError(t, err, "%s", out)
	return string(out)
}

// started is a job that goes on.
type started struct {
	*exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner // of all ranks, and mpirun's own
	said  strings.Builder
}

// start starts one.
func (c *cluster) start(t *testing.T, ranks int, settings []string, line string) *started {
	t.Helper()
	s := &started{Cmd: c.job(t, ranks, settings, mortal+command(t)+" run -q -- "+c.program+" "+line)}
	out, err := s.StdoutPipe()
	require.NoError(t, err)
	s.Stderr = s.Stdout
	s.in, err = s.StdinPipe()
	require.NoError(t, err)
	s.lines = bufio.NewScanner(out)
	c.hosts[0].Do(func() { err = s.Start() })
	require.NoError(t, err)
	t.Cleanup(func() { s.Process.Kill() })
	return s
}

// says reads what a job says until something matches.
func (s *started) says(t *testing.T, what string) []string {
	t.Helper()
	for s.lines.Scan() {
		fmt.Fprintln(&s.said, s.lines.Text())
		if m := regexp.MustCompile(what).FindStringSubmatch(s.lines.Text()); m != nil {
			return m
		}
	}
	t.Fatalf("mpirun has ended (%v) and not said %q\n%s", s.Wait(), what, s.said.String())
	return nil
}

// ends reads the rest, and returns all that the job has said.
func (s *started) ends() (string, error) {
	for s.lines.Scan() {
		fmt.Fprintln(&s.said, s.lines.Text())
	}
	err := s.Wait()
	return s.said.String(), err
}

// ps asks the hub of a host.
func (c *cluster) ps(t *testing.T, host int) (all []hub.ProcessStatus) {
	t.Helper()
	cmd := exec.Command(command(t), "ps", "--json")
	c.as(t, cmd)
	var out []byte
	var err error
	c.hosts[host].Do(func() { out, err = cmd.Output() })
	require.NoError(t, err)
	var says struct{ Processes []hub.ProcessStatus }
	require.NoError(t, json.Unmarshal(out, &says))
	for _, p := range says.Processes {
		if p.Where == "wire" {
			all = append(all, p)
		}
	}
	return all
}

// together plays all to all, and holds what went through the devices against what had to: all of it
// did, between ranks of one host too.
func (c *cluster) together(t *testing.T, ranks, rounds int) {
	t.Helper()
	s := c.start(t, ranks, overUs, "together "+strconv.Itoa(rounds))
	m := s.says(t, `^right: (\d+) bytes of each of (\d+) ranks`)
	of, _ := strconv.Atoi(m[2])
	require.Equal(t, ranks*len(c.hosts), of)
	each, err := strconv.ParseUint(m[1], 10, 64)
	require.NoError(t, err)
	each = each / uint64(of) * uint64(of-1) // what a rank sends itself goes nowhere
	for i := range c.hosts {
		all := c.ps(t, i)
		require.Len(t, all, ranks, "host %d", i)
		for _, p := range all {
			require.NotNil(t, p.Report)
			require.GreaterOrEqual(t, p.Report.SentBytes, each)
			require.GreaterOrEqual(t, p.Report.RecvBytes, each)
			peers := map[string]int{}
			for _, q := range p.Report.QueuePairs {
				if q.Type == "RC" && q.To != 0 {
					peers[q.Peer]++
				}
			}
			require.Len(t, peers, len(c.hosts), "queue pairs of RC with each host, its own too: %+v", p.Report.QueuePairs)
		}
	}
	require.NoError(t, s.in.Close())
	said, err := s.ends()
	require.NoError(t, err, said)
}

// TestMPI: ranks on hosts, several on each, send to each other, and each byte is right. make
// programs has more hosts, ranks and bytes.
func TestMPI(t *testing.T) {
	hosts, ranks, rounds := 2, 2, 1
	if os.Getenv("GOROCE_PROGRAMS") != "" {
		hosts, ranks, rounds = 4, 2, 3
	}
	newCluster(t, hosts).together(t, ranks, rounds)
}

// TestMPIFigures: latency and bandwidth are told. What they are against TCP is for make bench.
func TestMPIFigures(t *testing.T) {
	if os.Getenv("GOROCE_PROGRAMS") == "" {
		t.Skip("played by make programs")
	}
	c := newCluster(t, 2)
	for _, line := range []string{"latency 8 5000", "latency 65536 1000", "bandwidth 8 20000", "bandwidth 65536 4000", "bandwidth 1048576 256"} {
		out := c.run(t, 1, line)
		require.Regexp(t, `(?m)^(latency|bandwidth) of \d+ bytes: [\d.]*[1-9]`, out)
		t.Log(strings.TrimSpace(out))
	}
}

// TestMPIKilled: a rank is killed. The job ends and says why, nothing is left of it on any host, and
// the next one runs.
func TestMPIKilled(t *testing.T) {
	if os.Getenv("GOROCE_PROGRAMS") == "" {
		t.Skip("played by make programs")
	}
	c := newCluster(t, 2)
	s := c.start(t, 2, overUs, "for-ever")
	pid, err := strconv.Atoi(s.says(t, `^rank 3 is process (\d+)`)[1])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	said, err := s.ends()
	require.Error(t, err)
	require.Regexp(t, `rank 3 with PID `+strconv.Itoa(pid)+` on node host1 exited on signal 9`, said)
	for i := range c.hosts {
		for left := c.ps(t, i); len(left) > 0; left = c.ps(t, i) { // mpirun may end before its ranks
		}
	}
	c.together(t, 2, 1)
}

// TestMPIHostLeaves: a host is cut off, and nobody is told. The other ranks hear of it by their queue
// pairs, and the job ends.
func TestMPIHostLeaves(t *testing.T) {
	if os.Getenv("GOROCE_PROGRAMS") == "" {
		t.Skip("played by make programs")
	}
	c := newCluster(t, 3)
	s := c.start(t, 1, append([]string{"UCX_RC_VERBS_TIMEOUT=200ms", "UCX_RC_VERBS_RETRY_COUNT=3"}, overUs...), "for-ever")
	s.says(t, `^rank 2 is process`)
	c.hosts[2].IP(t, "link set wire down")
	s.says(t, `transport retry counter exceeded`)
	c.off(2) // mpirun waits for it, as with ssh
	said, err := s.ends()
	require.Error(t, err, said)
}
