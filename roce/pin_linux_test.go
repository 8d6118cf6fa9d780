package roce

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pinning opens a device that pins memory.
func pinning(t *testing.T, name string) *PD {
	d, err := Open(name, &Config{PinMemory: true, NoBackground: true})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	pd, err := d.AllocPD()
	must(t, err)
	t.Cleanup(func() { must(t, pd.Close()) })
	return pd
}

// locked is how many bytes of this process are locked.
func locked(t *testing.T) (bytes int) {
	f, err := os.Open("/proc/self/status")
	must(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmLck:"); ok {
			_, err := fmt.Sscanf(rest, "%d kB", &bytes)
			must(t, err)
			return bytes << 10
		}
	}
	t.Fatal("no VmLck in /proc/self/status")
	return 0
}

// TestPinMemory: a page is locked as long as one region has it.
func TestPinMemory(t *testing.T) {
	page := os.Getpagesize()
	pd, before := pinning(t, "pipe:pin"), locked(t)
	buf := make([]byte, 4*page+1)
	want := func(pages int) {
		t.Helper()
		if got := (locked(t) - before) / page; got != pages {
			t.Fatalf("%d pages are locked, want %d", got, pages)
		}
	}
	at := int(uintptr(unsafe.Pointer(&buf[0]))) % page
	own := (at + len(buf) + page - 1) / page
	all, err := pd.RegMR(buf, LocalWrite)
	must(t, err)
	want(own)
	again, err := pd.RegMR(buf, LocalWrite)
	must(t, err)
	first, err := pd.RegMR(buf[:1], LocalWrite)
	must(t, err)
	want(own)
	must(t, all.Close())
	must(t, all.Close())
	want(own)
	must(t, again.Close())
	want(1)
	_, err = pd.RegMR(buf, RemoteWrite)
	refused(t, err, ErrInvalid, "LocalWrite")
	want(1)
	must(t, first.Close())
	want(0)
	none, err := pd.RegMR(nil, LocalWrite)
	must(t, err)
	must(t, none.Close())
	want(0)
}

// TestPinLimit: beyond what the process may lock RegMR fails, says what the limit is, and leaves
// nothing locked.
func TestPinLimit(t *testing.T) {
	pd, before := pinning(t, "pipe:limit"), locked(t)
	limited(t, 64<<10)
	_, err := pd.RegMR(make([]byte, 1<<20), LocalWrite)
	refused(t, err, ErrLimit, "pinning 1048576 bytes", "ulimit -l, is 65536 bytes")
	if n := locked(t) - before; n != 0 {
		t.Errorf("%d bytes are locked", n)
	}
}

// limited lets this goroutine lock so many bytes until the test ends, root or not.
func limited(t *testing.T, bytes uint64) {
	var had unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &had))
	must(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: bytes, Max: had.Max}))
	t.Cleanup(func() { must(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &had)) })
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	must(t, unix.Capget(&header, &caps[0]))
	less := caps
	less[0].Effective &^= 1 << unix.CAP_IPC_LOCK // whoever has it knows no limit
	must(t, unix.Capset(&header, &less[0]))
	t.Cleanup(func() { must(t, unix.Capset(&header, &caps[0])) })
}
