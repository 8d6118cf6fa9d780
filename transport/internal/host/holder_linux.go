package host

// Who holds a UDP port: for the error message of a bind that failed.

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// portHolder describes the socket that keeps us from binding, as far as this process may know; ""
// if it finds none.
func portHolder(addr netip.Addr, port int) string {
	for _, s := range udpSockets() {
		if s.port != port || s.addr != addr.WithZone("") && !s.addr.IsUnspecified() {
			continue
		}
		switch pid, comm := socketOwner(s.inode); {
		case pid == os.Getpid():
			return " by another device of this process"
		case pid != 0:
			return fmt.Sprintf(" by process %d (%s)", pid, comm)
		case s.addr.IsUnspecified():
			return " by a socket of no process, most likely the kernel's own soft-RoCE driver " +
				"(`rdma link` shows rxe devices; `rdma link delete` and `modprobe -r rdma_rxe` end them)"
		default:
			return " by a process that can not be seen from here (another user's, or another container's)"
		}
	}
	return ""
}

type udpSocket struct {
	addr  netip.Addr
	port  int
	inode string
}

// udpSockets reads the tables of UDP sockets of this network namespace.
func udpSockets() (list []udpSocket) {
	for _, file := range []string{"/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"} {
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			// sl local_address rem_address st tx:rx tr:tm->when retrnsmt uid timeout inode ...
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 {
				continue
			}
			if addr, port, ok := parseProcAddr(fields[1]); ok {
				list = append(list, udpSocket{addr, port, fields[9]})
			}
		}
		f.Close()
	}
	return list
}

// parseProcAddr reads "0100007F:12B7": 32-bit words in the machine's byte order, then the port.
func parseProcAddr(s string) (netip.Addr, int, bool) {
	host, portHex, _ := strings.Cut(s, ":")
	b, err1 := hex.DecodeString(host)
	port, err2 := strconv.ParseUint(portHex, 16, 16)
	if err1 != nil || err2 != nil || len(b)%4 != 0 {
		return netip.Addr{}, 0, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	addr, ok := netip.AddrFromSlice(b)
	return addr.Unmap(), int(port), ok
}

// socketOwner finds the process that has the socket open. pid is 0 if none that we may look at has.
func socketOwner(inode string) (pid int, comm string) {
	want := "socket:[" + inode + "]"
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		if link, err := os.Readlink(fd); err != nil || link != want {
			continue
		}
		dir := filepath.Dir(filepath.Dir(fd))
		pid, _ := strconv.Atoi(filepath.Base(dir))
		b, _ := os.ReadFile(filepath.Join(dir, "comm"))
		return pid, strings.TrimSpace(string(b))
	}
	return 0, ""
}
