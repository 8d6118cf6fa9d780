package pages

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unsafe"
)

// flags are what the kernel says of the mapping that an address is in, "rd wr mr mw me dc ac".
func flags(t *testing.T, at uintptr) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip("no /proc/self/smaps: " + err.Error())
	}
	mine := false
	for line := range strings.Lines(string(text)) {
		if m := regexp.MustCompile(`^([0-9a-f]+)-([0-9a-f]+) `).FindStringSubmatch(line); m != nil {
			mine = hex(m[1]) <= at && at < hex(m[2])
		} else if rest, ok := strings.CutPrefix(line, "VmFlags:"); ok && mine {
			return rest
		}
	}
	return ""
}

func hex(s string) (n uintptr) {
	for _, c := range s {
		n = n<<4 | uintptr(strings.IndexRune("0123456789abcdef", c))
	}
	return n
}

// TestPages: children do not get them, huge ones are asked for, and nothing of what was mapped for
// the sake of alignment stays.
func TestPages(t *testing.T) {
	for _, c := range []struct {
		n    int
		huge bool
	}{{1, false}, {4097, true}, {transparent, true}, {3*transparent - 5, true}} {
		p, err := Alloc(c.n, c.huge)
		if err != nil {
			t.Fatal(err)
		}
		at := uintptr(unsafe.Pointer(&p.Bytes[0]))
		if f := flags(t, at); !strings.Contains(f, " dc") { // VM_DONTCOPY
			t.Errorf("%+v: children get them: %s", c, f)
		}
		reserved := p.Size > os.Getpagesize()
		if c.huge && c.n >= transparent && !reserved {
			if f := flags(t, at); at%transparent != 0 || !strings.Contains(f, " hg") && thp() {
				t.Errorf("%+v: at %#x, %s", c, at, f)
			}
		}
		for i := range p.Bytes {
			p.Bytes[i] = byte(i)
		}
		end := at + uintptr(len(p.mapped))
		p.Free()
		if f := flags(t, at); f != "" && strings.Contains(f, " dc") {
			t.Errorf("%+v: %#x to %#x is still mapped: %s", c, at, end, f)
		}
	}
}

// thp says whether the kernel has transparent huge pages.
func thp() bool {
	_, err := os.Stat("/sys/kernel/mm/transparent_hugepage")
	return err == nil
}

func TestRoundUp(t *testing.T) {
	for _, c := range []struct {
		n, size, whole int
		ok             bool
	}{{1, 4096, 4096, true}, {4096, 4096, 4096, true}, {4097, 4096, 8192, true}, {int(^uint(0) >> 1), 4096, 0, false}} {
		if whole, ok := roundUp(c.n, c.size); ok != c.ok || ok && whole != c.whole {
			t.Errorf("%d to %d: %d, %v", c.n, c.size, whole, ok)
		}
	}
}
