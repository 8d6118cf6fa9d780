package dropin

// Unmodified programs that fork: each of their processes has a device of its own, or none.
//
// Stages: servers that fork for each client; a client of several processes at once; Python.

import (
	"errors"
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

// forkers are servers that fork for each client, or for each of a client's tests. They listen by
// TCP, and the child then has a connection of RDMA: rdma-core's librspreload.so does so with
// RDMAV_FORK_SAFE.
func forkers() []connects {
	const forks = "env RDMAV_FORK_SAFE=1 " + preloaded + "rstream -T s -T f -T v -S 30000 -C 20 -I 3 "
	rstreamIs := regexp.MustCompile(`:1D2F \S+ 0A`) // listens
	return []connects{
		{server: forks + "-b 127.0.0.1", client: forks + "-s 127.0.0.1", want: rowOfStream, there: rstreamIs, file: "tcp", children: 1},
		{server: forks + "-T a -b 127.0.0.1", client: forks + "-T a -s 127.0.0.1", want: rowOfStream, there: rstreamIs, file: "tcp",
			children: 1, extra: true},
		{server: "qperf", client: "qperf -cm 1 -t 1 127.0.0.1 rc_lat rc_bw ver_rc_compare_swap", want: `(latency(.*\n)+.*bw(.*\n)+.*msg_rate) +=`,
			there: qperfIs, file: "tcp6", children: 3, endless: true, hasty: true, extra: true},
	}
}

// turns is the semaphore by which processes with librspreload.so listen one after the other: one
// for the machine, of the user who was first. While it is there no other gets a connection.
const turns = "/dev/shm/sem.rsocket_fork"

func TestForkingServers(t *testing.T) {
	needs(t, "rstream")
	left := func() {
		if err := os.Remove(turns); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Skip("librspreload.so forks for nobody but the user of a semaphore: ", err)
		}
	}
	left()
	t.Cleanup(left)
	for _, c := range forkers() {
		t.Run(short(c.server)+" | "+short(c.client), func(t *testing.T) {
			if c.extra && os.Getenv("GOROCE_PROGRAMS") == "" {
				t.Skip("played by make programs")
			}
			out := c.play(t)
			require.Regexp(t, c.want, out)
			if testing.Verbose() {
				t.Log(out)
			}
		})
	}
}

// TestForkingClient: fio forks for each of its jobs. Two send at once, each from the device of the
// interface that leads to its server, and the servers verify what comes.
func TestForkingClient(t *testing.T) {
	if os.Getenv("GOROCE_PROGRAMS") == "" {
		t.Skip("played by make programs")
	}
	needs(t, "fio")
	netns.Need(t)
	far := netns.New(t)
	const fio = "fio --ioengine=rdma --bs=64k --size=16m --verify_state_save=0 --verify=crc32c "
	client := fio + "--rw=write --do_verify=0 --iodepth=8 --verb=send"
	var servers []*exec.Cmd
	var said []string
	for i := range 2 {
		near, end := fmt.Sprint("near", i), fmt.Sprint("far", i)
		ip(t, fmt.Sprintf("link add %s type veth peer name %s netns %d", near, end, far.Thread()))
		t.Cleanup(func() { ip(t, "link del "+near) })
		address, listens := fmt.Sprintf("10.76.%d.1", i), fmt.Sprint(8888+i)
		ip(t, "addr add "+address+"/24 dev "+near)
		ip(t, "link set "+near+" up")
		far.IP(t, fmt.Sprintf("addr add 10.76.%d.2/24 dev %s", i, end), "link set "+end+" up")

		server := with(t, "udp:"+address, fio+"--rw=read --iodepth=256 --name=server --port="+listens)
		file := filepath.Join(t.TempDir(), "server")
		starts(t, server, file, "goroce: listens on ")
		servers, said = append(servers, server), append(said, file)
		client += fmt.Sprintf(" --name=job%d --hostname=%s --port=%s", i, address, listens)
	}
	far.Settle()
	var out []byte
	var err error
	c := with(t, "", client)
	far.Do(func() { out, err = c.CombinedOutput() })
	for i, server := range servers {
		if err != nil {
			server.Process.Kill()
		}
		end := server.Wait()
		text, _ := os.ReadFile(said[i])
		require.NoError(t, err, "client:\n%s\nserver:\n%s", out, text)
		require.NoError(t, end, "%s", text)
		require.Contains(t, string(text), "err= 0")
	}
	require.Contains(t, string(out), "Starting 2 processes")
	require.Equal(t, 2, strings.Count(string(out), "err= 0"), "%s", out)
	if testing.Verbose() {
		t.Logf("%s", out)
	}
}

// starts starts a program that writes to a file, and waits until it says something there.
func starts(t *testing.T, c *exec.Cmd, name, what string) {
	t.Helper()
	file, err := os.Create(name)
	require.NoError(t, err)
	defer file.Close()
	c.Stdout, c.Stderr = file, file
	require.NoError(t, c.Start())
	for look := time.NewTicker(time.Millisecond); ; <-look.C {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if strings.Contains(string(text), what) {
			return
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/exe", c.Process.Pid)); err != nil { // it is over
			t.Fatalf("the server has ended: %v\n%s", c.Wait(), text)
		}
	}
}

// TestForkingPython plays testdata/forks.py, which has Debian's pyverbs.
func TestForkingPython(t *testing.T) {
	needs(t, "python3")
	if _, err := os.Stat("/usr/lib/python3/dist-packages/pyverbs"); err != nil {
		t.Skip("pyverbs is missing (Debian package python3-pyverbs)")
	}
	text, err := os.ReadFile("testdata/forks.py")
	require.NoError(t, err)
	program := filepath.Join(nobody.Folder(t), "forks.py")
	require.NoError(t, os.WriteFile(program, text, 0o644))
	out, err := byRun(t, "-q --dev udp:127.0.0.1 --dev udp:127.0.0.2", "/usr/bin/python3 "+program).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "all as it should be")
}
