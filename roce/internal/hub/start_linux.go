package hub

// A hub on demand: who finds none starts the command, which ends when it has had nothing to do for
// a while.
//
// Stages: calling the hub; the command; starting it, one at a time.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ProgramVar is the environment variable that names the command, "roce" otherwise: it is looked for
// beside the running program, and then in PATH. "none" starts no hub.
const ProgramVar = "GOROCE_HUB"

// Idle is how long a hub that was started so goes on with no process.
const Idle = 10 * time.Second

// ErrNoHub says that there is no hub, and none could be started.
var ErrNoHub = errors.New("there is no hub of this user in this network namespace, and none could be started " +
	`(start one: "roce hub")`)

// Dial calls the hub of this user and network namespace. If there is none it starts one, if start
// says so.
func Dial(ctx context.Context, start bool) (*Conn, error) {
	path, err := SocketPath()
	if err != nil {
		return nil, err
	}
	for began := time.Now(); ; {
		c, err := dial(path)
		if err == nil || !start || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ECONNREFUSED) {
			return c, err
		}
		// A hub that is about to end may still have its lock.
		err = startAlone(ctx, path)
		if errors.Is(err, exec.ErrNotFound) || err != nil && time.Since(began) > startTime {
			return nil, fmt.Errorf("%w: %w", ErrNoHub, err)
		}
		if err != nil && !pause(ctx) {
			return nil, ctx.Err()
		}
	}
}

// startTime is how long a hub is started in vain.
const startTime = 3 * time.Second

// pause waits a moment; false: ctx has ended.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(soonest):
		return true
	case <-ctx.Done():
		return false
	}
}

// startAlone starts a hub, unless somebody else has while this process waited for its turn.
func startAlone(ctx context.Context, path string) error {
	lock, err := os.OpenFile(path+".start", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	for {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
			break
		}
		if c, err := dial(path); err == nil {
			return c.Close()
		}
		if !pause(ctx) {
			return ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	if c, err := dial(path); err == nil {
		return c.Close()
	}
	return startHub(ctx, path)
}

func dial(path string) (*Conn, error) {
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	if _, err := Peer(c); err != nil {
		c.Close()
		return nil, err
	}
	return NewConn(c), nil
}

// program finds the command.
func program() (string, error) {
	name := os.Getenv(ProgramVar)
	switch {
	case name == "none":
		return "", fmt.Errorf("%s=none: %w", ProgramVar, exec.ErrNotFound)
	case name != "":
		return exec.LookPath(name)
	}
	if own, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(own), "roce"); isProgram(beside) {
			return beside, nil
		}
	}
	return exec.LookPath("roce")
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// startHub starts the command, in a session of its own, and waits until it listens. It says so by
// closing the pipe that it gets as its descriptor 3, after a byte.
func startHub(ctx context.Context, path string) error {
	name, err := program()
	if err != nil {
		return err
	}
	says, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	defer says.Close()
	log, err := os.OpenFile(path+".log", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		tell.Close()
		return err
	}
	defer log.Close()
	// What is started here starts the hub and ends: a program may wait for all of its children.
	cmd := exec.Command(name, "hub", "--idle", Idle.String(), "--ready", "3", "--detach")
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.ExtraFiles = log, log, "/", []*os.File{tell}
	// It serves others too: what this process is told to do is not for it.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), FolderVar + "=" + os.Getenv(FolderVar)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Run()
	tell.Close()
	if err != nil {
		return fmt.Errorf("%s hub: %w (%s has what it said)", name, err, log.Name())
	}
	stop := context.AfterFunc(ctx, func() { says.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var b [1]byte
	if n, err := says.Read(b[:]); n == 0 {
		return fmt.Errorf("%s hub did not start (%s has what it said): %v", name, log.Name(), err)
	}
	return nil
}
