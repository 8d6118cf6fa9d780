package interop

// Devices of the kernel by way of libibverbs: our program and the conformance suite, built with the
// tag verbs for the guest's C library, which is the host's, on rxe0.
//
// Stages: build both with cgo, or say what is missing; copy them into the guest; the suite on rxe0
// alone, and between rxe0 and a software device on the host; the commands.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/interop/lab"
)

// Where they are in the guest, and the name of the device there.
const (
	verbsRoce    = "/root/roce-verbs"
	verbsSuite   = "/root/conformance.test"
	verbsDevice  = "verbs:" + lab.Device
	suitePackage = "github.com/goroce/goroce/roce/conformance"
)

// kernelDevices is what is built, once.
var kernelDevices struct {
	once  sync.Once
	suite string // on the host: the suite, which has the software devices too
	err   error
}

// theVerbs returns the arena with both programs in the guest, and the suite's path on the host.
func theVerbs(t *testing.T) (a *arena, suite string) {
	t.Helper()
	a = theArena(t)
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		if os.Getenv(lab.RequireEnv) == "1" {
			t.Fatal("libibverbs-dev is missing")
		}
		t.Skip("needs the Debian package libibverbs-dev")
	}
	k := &kernelDevices
	k.once.Do(func() { k.suite, k.err = a.buildVerbs() })
	require.NoError(t, k.err)
	return a, k.suite
}

func (a *arena) buildVerbs() (suite string, err error) {
	suite = filepath.Join(a.dir, "conformance.test")
	program := filepath.Join(a.dir, "roce-verbs")
	for _, args := range [][]string{
		{"build", "-pgo=off", "-tags", "verbs", "-o", program, "github.com/goroce/goroce/cmd/roce"},
		{"test", "-vet=off", "-tags", "verbs", "-c", "-o", suite, suitePackage},
	} {
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	a.more = append(a.more, suite, program)
	ctx := context.Background()
	if err := a.CopyFile(ctx, program, verbsRoce); err != nil {
		return "", err
	}
	return suite, a.CopyFile(ctx, suite, verbsSuite)
}

// suiteOptions are those of both ends of the suite.
var suiteOptions = []string{"-test.run", "^TestDevice$", "-test.v", "-test.timeout", "9m"}

// TestVerbsConformance plays both ends on rxe0, in one process of the guest.
func TestVerbsConformance(t *testing.T) {
	a, _ := theVerbs(t)
	out, err := a.Command(t.Context(), verbsSuite, append(suiteOptions, "-device", verbsDevice)...).CombinedOutput()
	verdict(t, err, string(out))
}

// TestVerbsMixed plays one end on rxe0 and the other on the host's software device; each acts once.
func TestVerbsMixed(t *testing.T) {
	a, suite := theVerbs(t)
	port := int(a.port.Add(1))
	meet := lab.HostIPv4 + ":" + strconv.Itoa(port)
	ctx, cancel := context.WithTimeout(t.Context(), 5*duelLimit)
	defer cancel()
	h := a.Host(ctx, suite, append(suiteOptions, "-device", "udp:"+lab.HostIPv4, "-listen", meet)...)
	g := a.Command(ctx, verbsSuite, append(suiteOptions, "-device", verbsDevice, "-dial", meet)...)
	host, guest := &end{process: h, name: "host", out: &output{}}, &end{process: g, name: "guest", out: &output{}}
	h.Stdout, h.Stderr = host.out, host.out
	g.Stdout, g.Stderr = guest.out, guest.out
	err := both(ctx, host, guest, func() error { return a.waitListeningHere(ctx, port) })
	if err != nil {
		cancel()
		host.wait()
		guest.wait()
		t.Logf("the guest says:\n%s", guest.out)
	}
	verdict(t, err, host.out.String())
}

// verdict reads what the suite has printed: each case is a subtest of ours too.
func verdict(t *testing.T, err error, out string) {
	t.Helper()
	played := 0
	lines := strings.Split(out, "\n")
	for i, line := range lines {
		for _, how := range []string{"PASS", "FAIL", "SKIP"} {
			name, ok := strings.CutPrefix(line, "    --- "+how+": TestDevice/")
			if !ok {
				continue
			}
			played++
			t.Run(name[:strings.LastIndex(name, " (")], func(t *testing.T) {
				why := lines[min(i+1, len(lines)-1)]
				switch how {
				case "FAIL":
					t.Error(why)
				case "SKIP":
					t.Skip("rxe0 lacks something: " + why)
				}
			})
		}
	}
	require.Greater(t, played, 40, out)
	if err != nil && !t.Failed() {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestVerbsLists: the device is listed with the others, and describes itself.
func TestVerbsLists(t *testing.T) {
	a, _ := theVerbs(t)
	out, err := a.Command(t.Context(), verbsRoce, "devices").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, verbsDevice+` +eth0 +4096 +[0-9a-f]{16} +works`, string(out))
	out, err = a.Command(t.Context(), verbsRoce, "devinfo", "-v", "-d", verbsDevice).CombinedOutput()
	require.NoError(t, err, string(out))
	for _, want := range []string{"hca_id:\t" + verbsDevice, "PORT_ACTIVE (4)", "4096 (5)", "::ffff:" + lab.GuestIPv4 + ", RoCE v2", "verbs (libibverbs, rxe0 port 1)"} {
		require.Contains(t, string(out), want)
	}
	out, err = a.Command(t.Context(), verbsRoce, "devinfo", "-d", "verbs:rxe7").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), verbsDevice)
}

// verbsGames are commands that both ends run, ours in the guest on rxe0 against ours on the host.
var verbsGames = []string{
	"pingpong -n 100",
	"pingpong -n 100 -e -c",
	"pingpong -n 50 -t uc",
	"pingpong -n 50 -t ud",
	"perf write-lat -n 100",
	"perf write-bw -n 100",
	"perf read-bw -n 50",
	"perf send-bw -n 100 -e",
	"perf atomic-lat -n 50",
}

func TestVerbsCommands(t *testing.T) {
	a, _ := theVerbs(t)
	for _, game := range verbsGames {
		for _, role := range roles {
			t.Run(fmt.Sprintf("%s/host-is-%s", game, role.name), func(t *testing.T) {
				options := append(strings.Fields(game), "-u", patience)
				r := a.fight(t, duel{serving: role.serving, host: options,
					guest: append(append([]string{verbsRoce}, options...), "-d", verbsDevice)})
				require.NotContains(t, r.guest+r.host, "Failed")
			})
		}
	}
}

// TestVerbsAgainstPrograms: ours on rxe0 against the C programs on rxe0, both in the guest.
func TestVerbsAgainstPrograms(t *testing.T) {
	a, _ := theVerbs(t)
	for _, pair := range [][2]string{
		{"ibv_rc_pingpong -n 100 -d rxe0 -g " + a.gid, "pingpong -n 100"},
		{"ib_write_lat -F -n 100 -d rxe0 -x " + a.gid, "perf write-lat -n 100"},
		{"ib_read_bw -F -n 50 -d rxe0 -x " + a.gid, "perf read-bw -n 50"},
	} {
		t.Run(pair[1], func(t *testing.T) {
			port := strconv.Itoa(int(a.port.Add(1)))
			ctx, cancel := context.WithTimeout(t.Context(), duelLimit)
			defer cancel()
			theirs := append(strings.Fields(pair[0]), "-p", port)
			ours := append(strings.Fields(pair[1]), "-u", patience, "-d", verbsDevice, "-p", port, lab.GuestIPv4)
			s, c := a.Command(ctx, theirs[0], theirs[1:]...), a.Command(ctx, verbsRoce, ours...)
			server, client := &end{process: s, name: "C program", out: &output{}}, &end{process: c, name: "roce", out: &output{}}
			s.Stdout, s.Stderr, c.Stdout, c.Stderr = server.out, server.out, client.out, client.out
			number, err := strconv.Atoi(port)
			require.NoError(t, err)
			err = both(ctx, server, client, func() error { return a.WaitListening(ctx, number) })
			if err != nil {
				cancel()
				server.wait()
				client.wait()
			}
			require.NoError(t, err, "--- %s\n%s\n--- roce\n%s", pair[0], server.out, client.out)
		})
	}
}
