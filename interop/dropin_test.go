package interop

// Debian's own programs at both ends: over the libraries of dropin on the host, by an ordinary
// user, and on rxe0 in the guest.
//
// Stages: the libraries, which make builds, or finds where another test has built them; the
// programs; each as server and as client.

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/nobody"
	"github.com/goroce/goroce/interop/lab"
)

// replaced are the libraries, built once.
var replaced struct {
	once   sync.Once
	folder string
	err    error
}

// theLibraries returns their folder.
func theLibraries(t *testing.T) string {
	t.Helper()
	lab.Require(t)
	if _, err := os.Stat("/usr/include/rdma/rdma_cma.h"); err != nil {
		lacks(t, "libibverbs-dev or librdmacm-dev")
	}
	r := &replaced
	r.once.Do(func() {
		out, err := exec.Command("make", "-s", "-C", "../dropin").CombinedOutput()
		if err != nil {
			r.err = fmt.Errorf("make -C dropin: %w: %s", err, out)
			return
		}
		r.folder, r.err = nobody.Copies("../dropin/build/*.so*")
	})
	require.NoError(t, r.err)
	return r.folder
}

// lacks ends a test for want of a Debian package.
func lacks(t *testing.T, debian string) {
	t.Helper()
	if os.Getenv(lab.RequireEnv) == "1" {
		t.Fatalf("the Debian package %s is missing", debian)
	}
	t.Skipf("needs the Debian package %s", debian)
}

// unmodified is a pair of programs. In their lines ADDRESS is the server's; where the ends meet by
// TCP the client is told it by itself.
type unmodified struct {
	server, client string
	guest, host    string // how each end finds its device
	rdma           bool   // they meet by the connection manager
	fixed          int    // at a port that cannot be chosen
	want           string // the client says something like it
}

// figures is a row of perftest's with something in it that is not 0.
const figures = `(?m)^ *\d+ +\d+ +(0\.00 +)?(\d*[1-9]\d*\.\d+|\d+\.\d*[1-9])`

// unmodifieds lists them. The first is CI's.
func (a *arena) unmodifieds() (list []unmodified) {
	perftest := func(line string) {
		u := unmodified{server: line + " -F -u " + patience, guest: " -d " + lab.Device + " -x " + a.gid, want: figures}
		u.client = u.server
		if u.rdma = strings.Contains(line, " -R"); u.rdma {
			u.client += " ADDRESS"
		}
		list = append(list, u)
	}
	pingpong := func(line string) {
		list = append(list, unmodified{server: line, client: line, guest: " -d " + lab.Device + " -g " + a.gid, host: " -g 0",
			want: "iters in"})
	}
	connects := func(server, client, want string) {
		u := unmodified{server: server, client: client, rdma: true, want: want}
		if strings.HasPrefix(server, "udaddy") {
			u.fixed = udaddyPort
		}
		list = append(list, u)
	}
	perftest("ib_write_bw -R -n 100")
	// ib_send_lat -e is not among them: with both ends on rxe0 it does not end, either.
	for _, o := range []string{"ib_send_lat -n 100", "ib_send_lat -c UD -n 100", "ib_send_lat -R -n 100",
		"ib_send_bw -n 100", "ib_send_bw -n 100 -e", "ib_send_bw -c UD -s 1024 -n 20", "ib_send_bw -c UC -s 4096 -n 20",
		"ib_send_bw -R -c UD -s 1024 -n 20", "ib_send_bw -n 100 -b", "ib_send_bw -n 100 -R -e", "ib_write_bw -n 100",
		"ib_write_bw -n 100 -q 4 -b", "ib_write_bw -n 5 -a", "ib_write_lat -n 100", "ib_write_lat -c UC -n 100",
		"ib_read_bw -n 100", "ib_read_bw -R -n 100", "ib_read_lat -n 100 -e", "ib_atomic_bw -n 100",
		"ib_atomic_lat -n 100 -A CMP_AND_SWAP"} {
		perftest(o)
	}
	for _, o := range []string{"ibv_rc_pingpong", "ibv_rc_pingpong -e", "ibv_rc_pingpong -c", "ibv_uc_pingpong -n 100",
		"ibv_ud_pingpong -n 100", "ibv_srq_pingpong", "ibv_srq_pingpong -e"} {
		pingpong(o)
	}
	for _, o := range []string{"-v -V -C 20", "-v -V -C 20 -S 60000", "-v -V -C 20 -q"} {
		connects("rping -s -a ADDRESS "+o, "rping -c -a ADDRESS "+o, "rdma-ping-19: ")
	}
	for _, o := range []string{"", " -C 100 -S 4096", " -c 20", " -m"} {
		connects("ucmatose -b ADDRESS"+o, "ucmatose -s ADDRESS"+o, "return status 0")
	}
	connects("rdma_server", "rdma_client -s ADDRESS", "rdma_client: end 0")
	for _, o := range []string{"", " -c 10"} {
		connects("udaddy -b ADDRESS"+o, "udaddy -s ADDRESS"+o, "return status 0")
	}
	const bytes = " -S 70001 -C 20 -I 3 -T v -T b"
	connects("rstream -b ADDRESS"+bytes, "rstream -s ADDRESS"+bytes, `(?m)^custom `)
	connects("riostream -b ADDRESS"+bytes, "riostream -s ADDRESS"+bytes, `(?m)^custom `)
	return list
}

// TestUnmodified plays them.
func TestUnmodified(t *testing.T) {
	over := theLibraries(t)
	a := theArena(t)
	for i, u := range a.unmodifieds() {
		for _, role := range roles {
			t.Run(fmt.Sprintf("%s/host-is-%s", u.client, role.name), func(t *testing.T) {
				matrix(t, i == 0)
				r := a.fight(t, a.against(t, u, over, role.serving))
				client := r.host
				if role.serving {
					client = r.guest
				}
				require.Regexp(t, u.want, client)
			})
		}
	}
}

// against is the duel in which the host has one of the two roles.
func (a *arena) against(t *testing.T, u unmodified, over string, serving bool) duel {
	t.Helper()
	line := func(text, device, address string) []string {
		return strings.Fields(strings.ReplaceAll(text+device, "ADDRESS", address))
	}
	d := duel{guest: line(u.server, u.guest, lab.GuestIPv4), host: line(u.client, u.host, lab.GuestIPv4)}
	if serving {
		d = duel{guest: line(u.client, u.guest, lab.HostIPv4), host: line(u.server, u.host, lab.HostIPv4)}
	}
	d.serving, d.rdma, d.fixed, d.over, d.says = serving, u.rdma, u.fixed, over, "goroce: listens on"
	if !serving && slices.Contains(d.host, "-R") {
		// perftest connects twice, to agree and to measure, and neither end waits for the other's
		// second listening: who serves on an emulated processor is often late.
		d.again = "nobody listens on that port there"
	}
	program, err := exec.LookPath(d.host[0])
	if err != nil {
		lacks(t, "perftest, ibverbs-utils or rdmacm-utils")
	}
	d.program, d.host = program, d.host[1:]
	return d
}
