package storage

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSync: any bytes of a mapping, bytes that are no file's, and bytes that are gone.
func TestSync(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := os.Getpagesize()
	if err := f.Truncate(int64(3 * page)); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	copy(mem[page:], "data")
	for _, b := range [][]byte{mem, mem[page+1 : page+2], mem[2*page-1 : 2*page+1], nil, make([]byte, 100)} {
		if err := Sync(b); err != nil {
			t.Errorf("%d bytes: %v", len(b), err)
		}
	}
	if err := unix.Munmap(mem); err != nil {
		t.Fatal(err)
	}
	if err := Sync(mem); !errors.Is(err, unix.ENOMEM) {
		t.Errorf("unmapped: %v", err)
	}
}
