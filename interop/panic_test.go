package interop

// A guest whose kernel panics, in the midst of a duel.

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPanic: another guest plays the duel, with the files of the first and on a network as bad. The
// first is known by a file that only it has.
func TestPanic(t *testing.T) {
	a := theArena(t)
	matrix(t, false)
	a.spoil(t)
	file := filepath.Join(t.TempDir(), "carried")
	require.NoError(t, os.WriteFile(file, []byte("it was carried\n"), 0o600))
	require.NoError(t, a.CopyFile(t.Context(), file, "/root/carried"))
	require.NoError(t, a.Command(t.Context(), "touch", "/root/first").Run())
	const guest = "if test -e /root/first; then echo c >/proc/sysrq-trigger; fi; cat /root/carried; tc qdisc show dev eth0"
	before := len(a.panics)
	r := a.fight(t, duel{serving: true, rdma: true, fixed: 1, guest: []string{"sh", "-c", guest},
		program: "/bin/sh", host: []string{"-c", "echo listening on; sleep 1"}})
	require.Equal(t, []string{t.Name()}, a.panics[before:])
	a.panics = a.panics[:before]
	require.Regexp(t, `it was carried\n(.*\n)*qdisc netem`, r.guest)
}

// TestNoGuest: where no guest could be booted there is none that lives.
func TestNoGuest(t *testing.T) {
	require.True(t, new(arena).dead())
}
