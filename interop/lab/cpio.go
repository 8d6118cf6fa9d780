package lab

// Writing cpio archives in the "newc" format, which is what the Linux kernel unpacks at boot: one
// header of hexadecimal digits for each file, its name, its bytes, each padded to four. The kernel
// accepts several archives one after another.

import (
	"bufio"
	"fmt"
	"io"
)

// Types of file in the upper bits of a Unix mode.
const (
	modeDir     = 0o040000
	modeRegular = 0o100000
	modeSymlink = 0o120000
)

type cpioWriter struct {
	w     *bufio.Writer
	inode int
	size  int64
	err   error
	made  map[string]bool // folders written so far
}

func newCPIO(w io.Writer) *cpioWriter {
	return &cpioWriter{w: bufio.NewWriterSize(w, 1<<20), made: map[string]bool{}}
}

// add writes one file; name has no leading slash. Folders above it are written when they are new.
func (c *cpioWriter) add(name string, mode uint32, data []byte) {
	for i, r := range name {
		if r == '/' && !c.made[name[:i]] {
			c.made[name[:i]] = true
			c.entry(name[:i], modeDir|0o755, nil)
		}
	}
	if mode&modeDir != 0 && mode&modeRegular == 0 {
		if c.made[name] {
			return
		}
		c.made[name] = true
	}
	c.entry(name, mode, data)
}

func (c *cpioWriter) entry(name string, mode uint32, data []byte) {
	c.inode++
	c.print(fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		c.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name))
	c.pad()
	c.print(string(data))
	c.pad()
}

func (c *cpioWriter) print(text string) {
	if c.err == nil {
		_, c.err = c.w.WriteString(text)
		c.size += int64(len(text))
	}
}

func (c *cpioWriter) pad() {
	for c.size%4 != 0 && c.err == nil {
		c.print("\x00")
	}
}

// close writes the last entry, pads the archive so that another may follow, and returns the first
// error of all.
func (c *cpioWriter) close() error {
	c.inode = 0
	c.entry("TRAILER!!!", 0, nil)
	for c.size%512 != 0 && c.err == nil {
		c.print("\x00")
	}
	if c.err == nil {
		c.err = c.w.Flush()
	}
	return c.err
}
