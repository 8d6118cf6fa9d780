package roce

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// descriptors are those of this process, with the flag that keeps them from programs it starts.
func descriptors(t *testing.T) map[int]bool {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	found := map[int]bool{}
	for _, e := range list {
		fd, err := strconv.Atoi(e.Name())
		must(t, err)
		// an error for the one that the list was read by
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			found[fd] = flags&unix.FD_CLOEXEC != 0
		}
	}
	return found
}

// TestNothingIsInherited: a program that is started meanwhile gets no descriptor of a device's, so
// it keeps no port and no queue alive.
func TestNothingIsInherited(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		before := descriptors(t)
		a, _ := connected(t, w, RC, 64)
		ch, err := a.dev.CreateCompChannel()
		must(t, err)
		_, err = ch.FD()
		must(t, err)
		n := 0
		for fd, closed := range descriptors(t) {
			if _, old := before[fd]; old {
				continue
			}
			if n++; !closed {
				name, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
				t.Errorf("descriptor %d, %s, is inherited", fd, name)
			}
		}
		if n == 0 {
			t.Error("a device without descriptors")
		}
		must(t, ch.Close())
	})
}
