// Package nobody has the programs of a test run as an ordinary user runs them. A test is root for
// the sake of a network of its own; its programs are nobody, without groups and capabilities, with
// a home, and with as much locked memory as a login has. Where the test is not root they are its
// user's own.
//
// Stages: the user; his folders; files that he can read.
package nobody

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// ID is the number of the user and of its group.
const ID = 65534

// Locked is how much memory the programs may lock, in bytes: what Linux and systemd give a login.
const Locked = 8 << 20

// ready prepares this process, which hands down what it has: others can read what root writes from
// now on, and the limit, which root has none of, is lowered.
var ready = sync.OnceValue(func() error {
	if os.Geteuid() == 0 {
		unix.Umask(0o022)
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &now); err != nil || now.Max <= Locked {
		return err
	}
	return unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: Locked, Max: Locked})
})

// temporary is where folders are: with all temporary files, if the user gets there.
var temporary = sync.OnceValue(func() string {
	for dir := os.TempDir(); os.Geteuid() == 0; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return "/tmp"
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return os.TempDir()
})

// Runs has a command that is not started yet run by the user, with a home that goes with the test.
// The kernel ends it if this process ends first, or the thread that starts it: one that a goroutine
// has locked (package netthread).
func Runs(t testing.TB, c *exec.Cmd) {
	t.Helper()
	c.Env = append(c.Environ(), "HOME="+Folder(t), "TMPDIR="+temporary(), "XDG_CACHE_HOME=", "XDG_RUNTIME_DIR=",
		"USER=nobody", "LOGNAME=nobody")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: ID, Gid: ID}
	}
}

// Folder is a folder of the user's that nobody else can enter, and that goes with the test.
// t.TempDir lies in one that the user cannot enter.
func Folder(t testing.TB) string {
	t.Helper()
	if err := ready(); err != nil {
		t.Fatalf("RLIMIT_MEMLOCK: %v", err)
	}
	folder, err := os.MkdirTemp(temporary(), "goroce-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if os.Geteuid() == 0 {
		if err := os.Chown(folder, ID, ID); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// Copies puts copies of files (a pattern as filepath.Glob has it) into a folder that the user can
// read, wherever they come from. The caller removes it.
func Copies(pattern string) (folder string, err error) {
	if err := ready(); err != nil {
		return "", err
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(files) == 0 {
		return "", fmt.Errorf("there is no file %s", pattern)
	}
	if folder, err = os.MkdirTemp(temporary(), "goroce-copies-"); err != nil {
		return "", err
	}
	if err = os.Chmod(folder, 0o755); err != nil {
		return folder, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return folder, err
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(file)), text, 0o755); err != nil {
			return folder, err
		}
	}
	return folder, nil
}
