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
	c, err := dial(path)
	if err == nil || !start || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ECONNREFUSED) {
		return c, err
	}
	lock, err := os.OpenFile(path+".start", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return nil, err
	}
	if c, err := dial(path); err == nil { // somebody else has
		return c, nil
	}
	if err := startHub(ctx, path); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoHub, err)
	}
	return dial(path)
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
		return "", fmt.Errorf("%s=none", ProgramVar)
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
	cmd := exec.Command(name, "hub", "--idle", Idle.String(), "--ready", "3")
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.ExtraFiles = log, log, "/", []*os.File{tell}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	tell.Close()
	if err != nil {
		return err
	}
	go cmd.Wait() // else it stays as a zombie if it ends before us
	if d, ok := ctx.Deadline(); ok {
		says.SetReadDeadline(d)
	}
	var b [1]byte
	if n, err := says.Read(b[:]); n == 0 {
		return fmt.Errorf("%s hub did not start (%s has what it said): %v", name, log.Name(), err)
	}
	return nil
}
