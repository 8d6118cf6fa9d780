package play

// What the figures were measured on.

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/bench/figures"
)

// DescribeMachine looks at this machine; what it cannot tell stays empty.
func DescribeMachine() figures.Machine {
	m := figures.Machine{Processors: runtime.NumCPU(), Go: runtime.Version(),
		Processor: field("/proc/cpuinfo", "model name"), Memory: memory(),
		Virtual: strings.Contains(field("/proc/cpuinfo", "flags"), "hypervisor")}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) +
			" " + unix.ByteSliceToString(u.Machine[:])
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(text), " ")
	}
	return m
}

// memory is how much there is, in GiB.
func memory() string {
	kib, _, _ := strings.Cut(field("/proc/meminfo", "MemTotal"), " ")
	n, err := strconv.ParseFloat(kib, 64)
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%.1f GiB", n/(1<<20))
}

// field returns the first value of a "name : value" file.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
