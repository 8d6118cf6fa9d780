package interop

// A second driver of the kernel, siw, which speaks iWARP: connecting, SEND, WRITE and READ by way
// of libibverbs and librdmacm. Debian's kernels are built without siw. Who has built the module for
// the lab's kernel names it, and those that it needs before it, in GOROCE_SIW, with colons between
// them.

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// siwAddress is an address of the guest that the device has.
const siwAddress = "198.51.100.1"

// newSIW makes the device siw0 in the guest.
func newSIW(t *testing.T, a *arena) {
	t.Helper()
	script := "set -e; for m in $MODULES; do busybox insmod $m; done; ip link add sv0 type veth peer name sv1; ip addr add " + siwAddress +
		"/24 dev sv0; ip link set sv0 up; ip link set sv1 up; rdma link add siw0 type siw netdev sv0"
	modules := os.Getenv("GOROCE_SIW")
	if modules == "" && a.Command(t.Context(), "test", "-e", "/sys/module/siw").Run() != nil {
		t.Skip("the lab's kernel has no module siw; GOROCE_SIW can name one")
	}
	var there []string
	for _, m := range strings.FieldsFunc(modules, func(c rune) bool { return c == ':' }) {
		there = append(there, "/root/"+path.Base(m))
		require.NoError(t, a.CopyFile(t.Context(), m, there[len(there)-1]))
	}
	out, err := a.Command(t.Context(), "sh", "-c", "MODULES='"+strings.Join(there, " ")+"'; "+script).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestSIW: rping on siw0, which SENDs, WRITEs and READs, against rdma-core's and itself.
func TestSIW(t *testing.T) {
	a, _ := theVerbs(t)
	newSIW(t, a)
	for _, g := range kernelGames[:1] { // rsockets need WRITE with immediate, which iWARP lacks
		for _, game := range g.inGuest("verbs:siw0", siwAddress) {
			t.Run(g.server[0]+"/"+game.name, func(t *testing.T) {
				said := a.guestMeeting(t, game.serve, game.call)
				require.Equal(t, g.times, strings.Count(said, g.says), "%s", said)
			})
		}
	}
}
