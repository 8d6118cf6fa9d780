package lab

// Nothing is left behind: not after Close, not after a panic, not after SIGKILL. The test runs
// itself again as a victim, which boots a lab of its own with a process on the host's end, tells
// about it, and then dies in the way it was told.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const victimEnv = "GOROCE_LAB_VICTIM"

// belongings are what a lab has on the host.
type belongings struct {
	QEMU, Host int    // processes
	Namespace  string // network namespace, as the link in /proc names it
}

func beVictim(how string) {
	l, err := victimLab(how)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	host := l.Host(context.Background(), "sleep", "1000")
	if err := host.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	has := belongings{QEMU: l.PID(), Host: host.Process.Pid}
	has.Namespace, _ = os.Readlink(fmt.Sprintf("/proc/%d/ns/net", has.QEMU))
	json.NewEncoder(os.Stdout).Encode(has)
	bufio.NewReader(os.Stdin).ReadString('\n') // until the parent has looked
	switch how {
	case "close":
		l.Close()
	case "panic":
		panic("as it was told")
	case "exit":
		os.Exit(0)
	}
	select {}
}

// victimLab boots a whole lab for "close"; for the others QEMU need only run.
func victimLab(how string) (*Lab, error) {
	if how == "close" {
		return Start(context.Background(), Config{})
	}
	cfg, err := Config{}.withDefaults()
	if err != nil {
		return nil, err
	}
	l := newLab()
	agent, err := l.prepare(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	return l, l.powerOn(cfg, agent)
}

func TestNothingIsLeftBehind(t *testing.T) {
	Require(t)
	testLab(t) // the image is built, so that the victims are quick
	for _, how := range []string{"close", "panic", "exit", "kill"} {
		t.Run(how, func(t *testing.T) {
			victim := exec.CommandContext(limited(t), os.Args[0])
			victim.Env = append(os.Environ(), victimEnv+"="+how)
			in, err := victim.StdinPipe()
			require.NoError(t, err)
			out, err := victim.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, victim.Start())
			defer victim.Wait()
			defer victim.Process.Kill()
			var has belongings
			require.NoError(t, json.NewDecoder(out).Decode(&has))
			qemu, host := openProcess(t, has.QEMU), openProcess(t, has.Host)
			require.NotEmpty(t, inNamespace(has.Namespace))

			if how == "kill" {
				require.NoError(t, victim.Process.Kill())
			} else {
				fmt.Fprintln(in, "go on")
			}
			awaitEnd(t, qemu)
			awaitEnd(t, host)
			// Without a process the namespace is gone, and with it the tap device. The last to
			// leave it is a thread of the victim, whose end nobody tells.
			require.Eventually(t, func() bool { return len(inNamespace(has.Namespace)) == 0 }, time.Minute, 10*time.Millisecond)
		})
	}
}

// openProcess returns a descriptor that tells of the process's end.
func openProcess(t *testing.T, pid int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func awaitEnd(t *testing.T, fd int) {
	t.Helper()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 60_000)
		if err == syscall.EINTR {
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 1, n, "the process outlived its lab by a minute")
		return
	}
}

// inNamespace lists the threads that are in a network namespace. Zombies are in none.
func inNamespace(name string) (threads []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/task/*/ns/net")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == name {
			threads = append(threads, link)
		}
	}
	return threads
}

// A guest that says nothing must not hold a cancelled command; one that dies must fail its commands
// at once.
func TestGuestDies(t *testing.T) {
	Require(t)
	l, err := Start(limited(t), Config{})
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithCancel(limited(t))
	c := l.Command(ctx, "sleep", "1000")
	require.NoError(t, c.Start())
	l.killGrace = time.Millisecond
	require.NoError(t, syscall.Kill(l.PID(), syscall.SIGSTOP))
	cancel()
	err = c.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "does not answer")
	require.NoError(t, syscall.Kill(l.PID(), syscall.SIGCONT))

	c = l.Command(limited(t), "sleep", "1000")
	require.NoError(t, c.Start())
	require.NoError(t, syscall.Kill(l.PID(), syscall.SIGKILL))
	require.ErrorContains(t, c.Wait(), "guest is gone")
	<-l.Down()
	require.ErrorContains(t, l.Command(limited(t), "true").Run(), "guest is gone")
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Do(func() error { return nil }), errClosed)
	require.ErrorIs(t, l.Host(limited(t), "true").Run(), errClosed)
}

func TestBootIsCancelled(t *testing.T) {
	Require(t)
	testLab(t)
	ctx, cancel := context.WithCancel(limited(t))
	_, err := Start(ctx, Config{Log: onWrite(cancel)}) // it says when QEMU was started
	require.ErrorIs(t, err, context.Canceled)
}

type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}
