package hub

// Where the socket of a hub is: one for each user and network namespace, in a folder that nobody
// else may enter.
// Stages: the folder, which must be ours; the socket; who is at the other end.

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// FolderVar is the environment variable that has the folder's path, for who wants another one.
const FolderVar = "GOROCE_HUB_FOLDER"

// Folder makes the folder if there is none. The error says why it cannot be trusted.
func Folder() (string, error) {
	path := os.Getenv(FolderVar)
	if path == "" {
		path = standard()
	}
	if err := os.Mkdir(path, 0o700); err != nil && !os.IsExist(err) {
		return "", err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.IsDir():
		return "", fmt.Errorf("%s is no folder", path)
	case int(st.Uid) != os.Geteuid():
		return "", fmt.Errorf("%s belongs to user %d, and this process is user %d's: set %s to a folder of your own",
			path, st.Uid, os.Geteuid(), FolderVar)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("%s may be entered by others (mode %v): chmod 700", path, info.Mode().Perm())
	}
	return path, nil
}

// standard is where all processes of the user look, whatever their environment says: in what a
// login has for such things, or among the temporary files.
func standard() string {
	run := fmt.Sprintf("/run/user/%d", os.Geteuid())
	var st unix.Stat_t
	if unix.Stat(run, &st) == nil && int(st.Uid) == os.Geteuid() {
		return filepath.Join(run, "goroce")
	}
	return fmt.Sprintf("/tmp/goroce-%d", os.Geteuid())
}

// SocketPath is that of the hub of the calling process's network namespace.
func SocketPath() (string, error) {
	folder, err := Folder()
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return "", fmt.Errorf("the network namespace: %w", err)
	}
	return filepath.Join(folder, fmt.Sprintf("hub-%d", st.Ino)), nil
}

// Peer is the process at the other end of a connection. The error says that it is another user's.
func Peer(c *net.UnixConn) (pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); e != nil {
		return 0, e
	}
	if err != nil {
		return 0, err
	}
	if cred.Pid == 0 {
		return 0, errors.New("the process is in a PID namespace that this one does not see")
	}
	if int(cred.Uid) != os.Geteuid() {
		return 0, fmt.Errorf("process %d is user %d's, and this is user %d's hub", cred.Pid, cred.Uid, os.Geteuid())
	}
	return int(cred.Pid), nil
}
