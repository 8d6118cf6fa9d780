package interop

// The stream against the kernel's device and librdmacm's rsockets: roce rstream against rstream.

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/interop/lab"
)

// TestRstream: bytes to and fro, every one compared, both programs as client and as server.
func TestRstream(t *testing.T) {
	a := theArena(t)
	for _, f := range []struct {
		name string
		family
	}{{"ipv4", ipv4}, {"ipv6", ipv6}} {
		for _, role := range roles {
			for _, size := range []string{"70001", "64", "1000000"} {
				name := fmt.Sprintf("roce-is-%s/%s/size=%s", role.name, f.name, size)
				t.Run(name, func(t *testing.T) {
					matrix(t, size == "70001" && f.name == "ipv4")
					a.rstream(t, f.family, role.serving, nil, "-S", size, "-C", "20", "-I", "3", "-T", "v", "-T", "b")
				})
			}
		}
	}
}

// preloaded runs a program that knows TCP only, and has rsockets put below it.
var preloaded = []string{"env", "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"}

// TestPreload: a program that uses sockets, rstream -T socket, with librspreload.so below it, so
// that it speaks rsockets without knowing.
func TestPreload(t *testing.T) {
	a := theArena(t)
	matrix(t, false)
	for _, role := range roles {
		t.Run("roce-is-"+role.name, func(t *testing.T) {
			a.rstream(t, ipv4, role.serving, preloaded, "-S", "30000", "-C", "20", "-I", "3", "-T", "v", "-T", "b")
		})
	}
}

// rstream plays one game and looks at what both ends say. below is what the guest's rstream is run
// by, with plain sockets; nil: it uses rsockets itself.
func (a *arena) rstream(t *testing.T, f family, serving bool, below []string, options ...string) {
	server := append([]string{"rstream", "-b", f.guest}, options...)
	client := append([]string{"rstream", "-s", f.guest}, options...)
	d := duel{guest: server, host: client, rdma: true}
	if serving {
		server[2], client[2] = f.host, f.host
		d = duel{guest: client, host: server, serving: true, rdma: true, says: "usec/xfer"}
	}
	if below != nil {
		d.guest = append(append(append([]string{}, below...), d.guest...), "-T", "s")
	}
	r := a.fight(t, d)
	for name, said := range map[string]string{"guest": r.guest, "host": r.host} {
		if !strings.Contains(said, "\ncustom ") {
			t.Errorf("%s has measured nothing: %s", name, said)
		}
	}
}

// TestRcopy: a file, from the guest to the host and the other way, by rcopy and by the example of
// that name.
func TestRcopy(t *testing.T) {
	a := theArena(t)
	matrix(t, false)
	rcopy := a.example(t, "rcopy")
	const size = 3_000_000
	content := bytes.Repeat([]byte("goroce\n"), size/7+1)[:size]
	here := filepath.Join(t.TempDir(), "file")

	// The guest's server goes on for ever: it is ended when it has said that a file is done.
	const serve = `rcopy "$@" >/tmp/rcopy.out 2>&1 & until grep -q closing /tmp/rcopy.out; do sleep 0.1; done; kill $!; sha256sum /tmp/file`
	require.NoError(t, os.WriteFile(here, content, 0o644))
	r := a.fight(t, duel{
		guest:   []string{"sh", "-c", serve, "rcopy"},
		host:    []string{here, lab.GuestIPv4 + ":/tmp/file"},
		rdma:    true,
		program: rcopy,
	})
	require.Contains(t, r.guest, fmt.Sprintf("%x", sha256.Sum256(content)))

	back := here + ".back"
	server := a.Host(t.Context(), rcopy, "-b", lab.HostIPv4, "-p", "19999")
	said, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	defer func() {
		server.Process.Signal(os.Interrupt)
		server.Wait()
	}()
	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "listening on")
	out, err := a.Command(t.Context(), "rcopy", "/tmp/file", lab.HostIPv4+":"+back, "-p", "19999").CombinedOutput()
	require.NoError(t, err, "%s", out)
	got, err := os.ReadFile(back)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got))
}

// TestRiostream: memory that is exposed, and written directly, every byte compared.
func TestRiostream(t *testing.T) {
	a := theArena(t)
	matrix(t, false)
	riostream := a.example(t, "riostream")
	for _, role := range roles {
		t.Run("roce-is-"+role.name, func(t *testing.T) {
			options := []string{"-S", "5001", "-C", "20", "-I", "3"}
			d := duel{rdma: true, program: riostream, serving: role.serving}
			d.guest = append([]string{"riostream", "-T", "v", "-T", "b", "-s", lab.HostIPv4}, options...)
			d.host = append([]string{"-b", lab.HostIPv4}, options...)
			if !role.serving {
				d.guest[5], d.guest[6] = "-b", lab.GuestIPv4
				d.host = append(d.host, "-s", lab.GuestIPv4)
			}
			r := a.fight(t, d)
			require.Contains(t, r.host, "all as they should be")
			require.Contains(t, r.guest, "custom")
			require.NotContains(t, r.guest, "failed")
		})
	}
}

// example builds one of the examples, and says where it is.
func (a *arena) example(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(a.dir, name)
	out, err := exec.Command("go", "build", "-pgo=off", "-o", program, "github.com/goroce/goroce/examples/"+name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	a.more = append(a.more, program)
	return program
}

// TestUdpong: datagrams, with a udpong whose address handle of its own has a GRH (selfah.c).
func TestUdpong(t *testing.T) {
	a := theArena(t)
	matrix(t, false)
	const there = "/tmp/selfah.so"
	shim, udpong := filepath.Join(t.TempDir(), "selfah.so"), a.example(t, "udpong")
	out, err := exec.Command("gcc", "-Wall", "-Werror", "-shared", "-fPIC", "-o", shim, "testdata/selfah.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, a.CopyFile(t.Context(), shim, there))
	received := func() int { // by rxe0
		text, err := a.ReadFile(t.Context(), "/sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts")
		require.NoError(t, err)
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		return n
	}
	was := received()
	guest := []string{"GIDROW=" + a.gid, "LD_PRELOAD=" + there, "udpong", "-S", "700", "-C", "20"}

	server := a.Host(t.Context(), udpong, "-b", lab.HostIPv4)
	said, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "listening on")
	out, err = a.Command(t.Context(), "env", append(guest, "-s", lab.HostIPv4, "-T", "e")...).CombinedOutput()
	server.Process.Signal(os.Interrupt)
	server.Wait()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "custom", "it has measured nothing")
	require.GreaterOrEqual(t, received(), was+20, "all went by UDP")

	ctx, end := context.WithCancel(t.Context())
	defer end()
	serving := a.Command(ctx, "env", append(guest, "-b", lab.GuestIPv4)...)
	require.NoError(t, serving.Start())
	out, err = a.Host(t.Context(), udpong, "-b", lab.HostIPv4, "-s", lab.GuestIPv4, "-S", "700", "-C", "20").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "the server counts 20")
	require.GreaterOrEqual(t, received(), was+2*20, "all went by UDP")
	end()
	serving.Wait()
}
