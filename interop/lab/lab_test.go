package lab

// Tests that boot the lab. One guest serves them all; it is booted by the first test that wants it.

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var shared struct {
	once sync.Once
	lab  *Lab
	err  error
}

func TestMain(m *testing.M) {
	if how := os.Getenv(victimEnv); how != "" {
		beVictim(how)
	}
	code := m.Run()
	if shared.lab != nil {
		shared.lab.Close()
	}
	os.Exit(code)
}

// testLab returns the guest that the tests share.
func testLab(t *testing.T) *Lab {
	t.Helper()
	Require(t)
	shared.once.Do(func() { shared.lab, shared.err = Start(context.Background(), Config{Log: os.Stderr}) })
	require.NoError(t, shared.err)
	return shared.lab
}

// limited returns a context that ends with the test, or earlier if something hangs.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestDeviceIsActive(t *testing.T) {
	l := testLab(t)
	out, err := l.Command(limited(t), "ibv_devinfo", "-d", Device).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "PORT_ACTIVE")
	require.Regexp(t, `active_mtu:\s+4096`, string(out))
	t.Logf("kernel %s, %+v", l.Kernel(), l.Timing())
}

func TestGIDTable(t *testing.T) {
	l := testLab(t)
	for _, text := range []string{GuestIPv4, GuestIPv6} {
		index, err := l.GIDIndex(netip.MustParseAddr(text))
		require.NoError(t, err)
		require.Positive(t, index, "index 0 is the link-local address")
	}
	_, err := l.GIDIndex(netip.MustParseAddr("203.0.113.9"))
	require.ErrorContains(t, err, "203.0.113.9")
}

// Every program that the recipe promises must find its shared objects.
func TestProgramsStart(t *testing.T) {
	l := testLab(t)
	script := `for f in /usr/bin/ib_* /usr/bin/ibv_* /usr/bin/r* /usr/bin/u* /usr/bin/cmtime /usr/bin/mckey /usr/sbin/*; do
		test -L "$f" && continue # busybox, which is static
		/usr/lib64/ld-linux-x86-64.so.2 --list "$f" >/tmp/list 2>&1 && ! grep "not found" /tmp/list || { echo "$f:"; cat /tmp/list; }
	done`
	out, err := l.Command(limited(t), "sh", "-c", script).CombinedOutput()
	require.NoError(t, err)
	require.Empty(t, string(out))
}

func TestExitStatus(t *testing.T) {
	l := testLab(t)
	for _, c := range []struct {
		script string
		code   int
		signal syscall.Signal
	}{
		{"exit 0", 0, 0},
		{"echo why >&2; exit 7", 7, 0},
		{"kill -TERM $$", -1, syscall.SIGTERM},
	} {
		_, err := l.Command(limited(t), "sh", "-c", c.script).Output()
		if c.code == 0 {
			require.NoError(t, err)
			continue
		}
		var exit *ExitError
		require.ErrorAs(t, err, &exit, c.script)
		require.Equal(t, c.code, exit.Code)
		require.Equal(t, c.signal, exit.Signal)
	}
	err := l.Command(limited(t), "no-such-program").Run()
	require.ErrorContains(t, err, "no-such-program")
	require.ErrorContains(t, err, "not found")
}

func TestEnvironmentAndFolder(t *testing.T) {
	c := testLab(t).Command(limited(t), "sh", "-c", `echo "$WORD in $PWD"`)
	c.Env, c.Dir = []string{"WORD=hello"}, "/tmp"
	out, err := c.Output()
	require.NoError(t, err)
	require.Equal(t, "hello in /tmp\n", string(out))
}

func TestLargeInputAndOutput(t *testing.T) {
	data := make([]byte, 5<<20+17)
	rand.Read(data)
	c := testLab(t).Command(limited(t), "cat")
	c.Stdin = bytes.NewReader(data)
	out, err := c.Output()
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, out), "%d bytes went in, %d came out", len(data), len(out))
}

// A command that does not read its input, and a reader that does not read a command's output, must
// not stop others.
func TestSlowReadersDoNotStopOthers(t *testing.T) {
	l := testLab(t)
	ctx, cancel := context.WithCancel(limited(t))
	deaf := l.Command(ctx, "sleep", "1000")
	deaf.Stdin = bytes.NewReader(make([]byte, 2<<20))
	require.NoError(t, deaf.Start())
	unread, w := io.Pipe()
	loud := l.Command(ctx, "yes")
	loud.Stdout = w
	require.NoError(t, loud.Start())
	_, err := unread.Read(make([]byte, 1)) // it runs
	require.NoError(t, err)

	out, err := l.Command(limited(t), "echo", "still here").Output()
	require.NoError(t, err)
	require.Equal(t, "still here\n", string(out))
	cancel()
	require.ErrorIs(t, deaf.Wait(), context.Canceled)
	unread.CloseWithError(errors.New("enough")) // what was under way is thrown away
	require.ErrorIs(t, loud.Wait(), context.Canceled)
}

func TestManyCommandsAtOnce(t *testing.T) {
	l := testLab(t)
	ctx := limited(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			out, err := l.Command(ctx, "sh", "-c", fmt.Sprintf("seq %d; exit %d", 1000*i, i)).Output()
			code := 0
			var exit *ExitError
			if errors.As(err, &exit) {
				code = exit.Code
			}
			if code != i || bytes.Count(out, []byte("\n")) != 1000*i {
				t.Errorf("command %d: status %d, %d lines: %v", i, code, bytes.Count(out, []byte("\n")), err)
			}
		})
	}
	all.Wait()
}

// A server in the background, the wait for its port, and a client: what interop tests are made of.
func TestPingpongInsideTheGuest(t *testing.T) {
	l := testLab(t)
	ctx := limited(t)
	var said bytes.Buffer
	server := l.Command(ctx, "ibv_rc_pingpong", "-d", Device, "-g", "1", "-n", "50", "-c")
	server.Stdout, server.Stderr = &said, &said
	require.NoError(t, server.Start())
	require.NoError(t, l.WaitListening(ctx, 18515))
	out, err := l.Command(ctx, "ibv_rc_pingpong", "-d", Device, "-g", "1", "-n", "50", "-c", GuestIPv4).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, server.Wait(), "%s", &said)
	require.Contains(t, string(out), "50 iters")
}

func TestCancelKillsInTheGuest(t *testing.T) {
	l := testLab(t)
	ctx, cancel := context.WithCancel(limited(t))
	r, w := io.Pipe()
	c := l.Command(ctx, "sh", "-c", "sleep 4321 & echo started; wait")
	c.Stdout = w
	require.NoError(t, c.Start())
	_, err := io.ReadFull(r, make([]byte, len("started\n")))
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, c.Wait(), context.Canceled)
	out, _ := l.Command(limited(t), "pgrep", "-f", "sleep 4321").Output()
	require.Empty(t, string(out), "the whole process group must be gone")
}

func TestCopyFile(t *testing.T) {
	l := testLab(t)
	ctx := limited(t)
	here := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(here, []byte("#!/bin/sh\necho \"ran with $1\"\n"), 0o755))
	require.NoError(t, l.CopyFile(ctx, here, "/opt/tools/script"))
	out, err := l.Command(ctx, "/opt/tools/script", "care").Output()
	require.NoError(t, err)
	require.Equal(t, "ran with care\n", string(out))

	data := make([]byte, 3<<20)
	rand.Read(data)
	require.NoError(t, l.PutFile(ctx, "/tmp/data", 0o600, bytes.NewReader(data)))
	back, err := l.ReadFile(ctx, "/tmp/data")
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, back))
	require.ErrorContains(t, l.PutFile(ctx, "relative", 0o600, strings.NewReader("")), "absolute")
}

func TestHostEnd(t *testing.T) {
	l := testLab(t)
	ctx := limited(t)
	out, err := l.Host(ctx, "ip", "-o", "address", "show", "dev", Tap).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), HostIPv4+"/24")
	require.Contains(t, string(out), HostIPv6+"/64")
	err = l.Host(ctx, "sh", "-c", "exit 3").Run()
	require.ErrorContains(t, err, "exit status 3")

	// A socket opened in Do is on the lab's network, whoever uses it later.
	var listener net.Listener
	require.NoError(t, l.Do(func() (err error) {
		listener, err = net.Listen("tcp4", HostIPv4+":0")
		return err
	}))
	defer listener.Close()
	deadline, _ := ctx.Deadline()
	require.NoError(t, listener.(*net.TCPListener).SetDeadline(deadline))
	say := l.Command(ctx, "nc", HostIPv4, fmt.Sprint(listener.Addr().(*net.TCPAddr).Port))
	say.Stdin = strings.NewReader("hello from the guest")
	require.NoError(t, say.Start())
	conn, err := listener.Accept()
	require.NoError(t, err)
	buf := make([]byte, len("hello from the guest"))
	_, err = io.ReadFull(conn, buf)
	require.NoError(t, err)
	require.Equal(t, "hello from the guest", string(buf))
	require.Contains(t, conn.RemoteAddr().String(), GuestIPv4)
	conn.Close()
	require.NoError(t, say.Wait())
}

func TestNetem(t *testing.T) {
	l := testLab(t)
	ctx := limited(t)
	pings := func(seconds string) (ok bool) {
		return l.Command(ctx, "timeout", seconds, "ping", "-c", "1", HostIPv4).Run() == nil
	}
	// Nothing may come back soon where all is lost; something must at last, however busy the
	// machine is.
	const soon, atLast = "1", "60"
	require.True(t, pings(atLast))
	for _, dir := range []Direction{ToGuest, FromGuest, Both} {
		require.NoError(t, l.Netem(ctx, dir, "loss 100%"))
		require.False(t, pings(soon), "direction %d", dir)
		require.NoError(t, l.Netem(ctx, dir, ""))
		require.True(t, pings(atLast), "direction %d cleared", dir)
	}
	require.NoError(t, l.Netem(ctx, Both, "loss 1% reorder 2% delay 1ms"))
	require.NoError(t, l.Netem(ctx, Both, "delay 3ms"))
	out, err := l.Command(ctx, "tc", "qdisc").Output()
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(out), "delay 3ms"), "%s", out)
	require.NotContains(t, string(out), "loss")
	require.NoError(t, l.Netem(ctx, Both, ""))
	out, err = l.Command(ctx, "tc", "qdisc").Output()
	require.NoError(t, err)
	require.NotContains(t, string(out), "netem")
	require.NotContains(t, string(out), "ingress")
	require.Error(t, l.Netem(ctx, Both, "loss 1%; reboot"))
	require.Error(t, l.Netem(ctx, Both, "no such word"))
	require.Error(t, l.Netem(ctx, 0, "loss 1%"))
}

func TestConfigErrors(t *testing.T) {
	for _, cfg := range []Config{{MTU: 100}, {CPUs: 100}, {Memory: 1}} {
		_, err := Start(t.Context(), cfg)
		require.ErrorContains(t, err, "is right")
	}
}
