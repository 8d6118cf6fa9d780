package hub

// Where the socket of a hub is: one for each user and network namespace, in a folder that nobody
// else may enter.
// Stages: the folder, which must be ours; the socket; who is at the other end.

import (
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
		if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" {
			path = filepath.Join(run, "goroce")
		} else {
			path = filepath.Join(os.TempDir(), fmt.Sprintf("goroce-%d", os.Geteuid()))
		}
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
	if int(cred.Uid) != os.Geteuid() {
		return 0, fmt.Errorf("process %d is user %d's, and this is user %d's hub", cred.Pid, cred.Uid, os.Geteuid())
	}
	return int(cred.Pid), nil
}
