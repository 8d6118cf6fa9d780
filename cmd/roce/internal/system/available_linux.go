package system

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// AvailableMemory is how many bytes a program can have without anything being paged out: what the
// kernel estimates, or what the process's cgroup has left if that is less. known is false where
// neither says.
func AvailableMemory() (n uint64, known bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		if f := strings.Fields(string(line)); len(f) > 1 && f[0] == "MemAvailable:" {
			kib, err := strconv.ParseUint(f[1], 10, 54)
			n, known = kib<<10, err == nil
		}
	}
	limit, err1 := number("/sys/fs/cgroup/memory.max")
	used, err2 := number("/sys/fs/cgroup/memory.current")
	if err1 == nil && err2 == nil && limit > used && limit-used < n {
		n = limit - used
	}
	return n, known
}

// number reads a file that has a number; "max", which is none, is an error.
func number(file string) (uint64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}
