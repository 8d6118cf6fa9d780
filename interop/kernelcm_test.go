package interop

// The connection manager on devices of the kernel, by way of librdmacm: the tests of package rdmacm
// with both ends on rxe0; and the commands on rxe0, against rdma-core's there and ours on the host.
//
// A server in the guest is there when its kernel lists an identifier that listens, whoever made it.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/interop/lab"
)

const (
	rdmacmSuite   = "/root/rdmacm.test"
	rdmacmPackage = "github.com/goroce/goroce/roce/rdmacm"
)

// kernelTests are the tests of package rdmacm that know nothing of the device below.
const kernelTests = "^Test(Dial|Connect|Reject|OwnQueuePair|Migrate|MigrateListener|Datagram|DatagramRefused|Multicast|FD|" +
	"CloseAtEachStep|CloseAnyTime|AllAddresses|DeviceBusy|Ports)$"

// TestKernelCM plays them, both ends in one process of the guest.
func TestKernelCM(t *testing.T) {
	a, _ := theVerbs(t)
	suite := filepath.Join(t.TempDir(), "rdmacm.test")
	cmd := exec.Command("go", "test", "-vet=off", "-tags", "verbs", "-c", "-o", suite, rdmacmPackage)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, a.CopyFile(context.Background(), suite, rdmacmSuite))
	out, err = a.Command(t.Context(), rdmacmSuite, "-device", verbsDevice, "-test.v", "-test.timeout", "100s", "-test.run", kernelTests).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, strings.Count(kernelTests, "|")+1, strings.Count(string(out), "--- PASS: "), "%s", out)
}

// kernelGames are what both ends run, and what each prints how often when all is well.
var kernelGames = []struct {
	server, client []string
	says           string
	times          int
}{
	{[]string{"rping", "-s", "-v", "-C", "20", "-S", "200"}, []string{"rping", "-c", "-v", "-V", "-C", "20", "-S", "200"}, "rdma-ping-", 20},
	{[]string{"rstream", "-S", "70001", "-C", "20", "-I", "3", "-T", "v", "-T", "b"},
		[]string{"rstream", "-S", "70001", "-C", "20", "-I", "3", "-T", "v", "-T", "b"}, "custom ", 1},
}

// TestKernelCMCommands: ours on rxe0 as client and as server; the other is rdma-core's program on
// rxe0, ours on rxe0, or ours on a software device of the host.
func TestKernelCMCommands(t *testing.T) {
	a, _ := theVerbs(t)
	for _, g := range kernelGames {
		name := g.server[0]
		bind, to := "-a", "-a"
		if name == "rstream" {
			bind, to = "-b", "-s"
		}
		ours := func(args []string) []string {
			return append(append([]string{verbsRoce}, args...), "--dev", verbsDevice)
		}
		serve, call := append(g.server, bind, lab.GuestIPv4), append(g.client, to, lab.GuestIPv4)
		check := func(t *testing.T, said string) {
			require.Equal(t, g.times, strings.Count(said, g.says), "%s", said)
		}
		for _, game := range []struct {
			name        string
			serve, call []string
		}{{"rxe0-to-rxe0", ours(serve), ours(call)}, {"to-theirs", serve, ours(call)}, {"from-theirs", ours(serve), call}} {
			t.Run(name+"/"+game.name, func(t *testing.T) { check(t, a.guestMeeting(t, game.serve, game.call)) })
		}
		for _, role := range roles {
			t.Run(name+"/host-is-"+role.name, func(t *testing.T) {
				d := duel{guest: ours(serve), host: call, rdma: true}
				if role.serving {
					d = duel{guest: ours(append(g.client, to, lab.HostIPv4)), host: append(g.server, bind, lab.HostIPv4), serving: true, rdma: true}
					if name == "rping" {
						d.host = append(d.host, "-d")
					} else {
						d.says = "usec/xfer"
					}
				}
				check(t, a.fight(t, d).guest)
			})
		}
	}
}

// guestMeeting runs a server and a client in the guest that find each other by an RDMA port, and
// returns what the client has printed.
func (a *arena) guestMeeting(t *testing.T, serve, call []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), duelLimit)
	defer cancel()
	port := int(a.port.Add(1))
	prepare := func(name string, args []string) *end {
		c := a.Command(ctx, args[0], append(args[1:], "-p", strconv.Itoa(port))...)
		e := &end{process: c, name: name, out: &output{}}
		c.Stdout, c.Stderr = e.out, e.out
		return e
	}
	server, client := prepare("server", serve), prepare("client", call)
	if err := both(ctx, server, client, func() error { return a.waitRDMA(ctx, port) }); err != nil {
		cancel()
		server.wait()
		client.wait()
		t.Fatal(fmt.Errorf("%w\n--- %s\n%s\n--- %s\n%s", err, strings.Join(serve, " "), server.out, strings.Join(call, " "), client.out))
	}
	return client.out.String()
}
