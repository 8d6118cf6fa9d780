package main

// The agent's small tools, run as commands like any other: put writes a file, wait-tcp waits for a
// listening socket.

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// put writes standard input to a new file and renames it into place, so that a running program may
// be replaced.
func put(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("put %q: want PATH and MODE (octal)", args)
	}
	path := args[0]
	mode, err := strconv.ParseUint(args[1], 8, 32)
	if err != nil {
		return fmt.Errorf("put: mode %q is not octal, such as 755", args[1])
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".put-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := io.Copy(f, os.Stdin); err != nil {
		return err
	}
	if err := f.Chmod(os.FileMode(mode)); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// waitTCP returns when some socket listens on the port. The kernel has no event for that, so it
// asks every 5 ms; the host ends the wait by killing this process.
func waitTCP(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("wait-tcp %q: want PORT", args)
	}
	port, err := strconv.ParseUint(args[0], 10, 16)
	if err != nil {
		return fmt.Errorf("wait-tcp: port %q is not in 0..65535", args[0])
	}
	for !listening(uint16(port)) {
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

const stateListen = "0A" // TCP_LISTEN as /proc/net/tcp prints it

func listening(port uint16) bool {
	suffix := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		found := false
		for sc := bufio.NewScanner(f); sc.Scan(); {
			fields := strings.Fields(sc.Text())
			found = found || len(fields) > 3 && strings.HasSuffix(fields[1], suffix) && fields[3] == stateListen
		}
		f.Close()
		if found {
			return true
		}
	}
	return false
}
