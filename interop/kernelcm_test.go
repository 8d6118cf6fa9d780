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
	"slices"
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
	"CloseAtEachStep|CloseAnyTime|DisconnectBeforeReady|QueuePairTooLate|AckTimeout|AllAddresses|DeviceBusy|Ports|KindVerbs|Removed)$"

// TestKernelCM plays them, both ends in one process of the guest.
func TestKernelCM(t *testing.T) {
	a, _ := theVerbs(t)
	suite := filepath.Join(t.TempDir(), "rdmacm.test")
	cmd := exec.Command("go", "test", "-vet=off", "-tags", "verbs", "-c", "-o", suite, rdmacmPackage)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, a.CopyFile(context.Background(), suite, rdmacmSuite))
	out, err = a.Command(t.Context(), rdmacmSuite, "-device", verbsDevice, "-test.v", "-test.timeout", "100s", "-test.run",
		kernelTests).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, strings.Count(kernelTests, "|")+1, strings.Count(string(out), "--- PASS: "), "%s", out)
}

// kernelGame is a command that both ends run, and what its client prints how often when all is
// well.
type kernelGame struct {
	server, client []string
	bind, to       string // the options that name the server's address
	listening      string // what the server says then on the host
	says           string
	times          int
}

var kernelGames = []kernelGame{
	{[]string{"rping", "-s", "-d", "-v", "-C", "20", "-S", "200"}, []string{"rping", "-c", "-v", "-V", "-C", "20", "-S", "200"},
		"-a", "-a", "", "ping data: rdma-ping-", 20},
	{[]string{"rstream", "-S", "70001", "-C", "20", "-I", "3", "-T", "v", "-T", "b"},
		[]string{"rstream", "-S", "70001", "-C", "20", "-I", "3", "-T", "v", "-T", "b"}, "-b", "-s", "usec/xfer", "custom ", 1},
}

// serve and call are the command lines of the two ends.
func (g *kernelGame) serve(address string) []string {
	return append(slices.Clone(g.server), g.bind, address)
}

func (g *kernelGame) call(address string) []string {
	return append(slices.Clone(g.client), g.to, address)
}

// ours is one of ours in the guest.
func ours(device string, args []string) []string {
	return append(append([]string{verbsRoce}, args...), "--dev", device)
}

// pairing is a game in the guest.
type pairing struct {
	name        string
	serve, call []string
}

// inGuest are the pairings of ours on a device with itself and with rdma-core's program.
func (g *kernelGame) inGuest(device, address string) []pairing {
	serve, call := g.serve(address), g.call(address)
	return []pairing{
		{"ours-to-ours", ours(device, serve), ours(device, call)},
		{"ours-to-theirs", serve, ours(device, call)},
		{"theirs-to-ours", ours(device, serve), call},
	}
}

// TestKernelCMCommands: ours on rxe0 as client and as server; the other is rdma-core's program on
// rxe0, ours on rxe0, or ours on a software device of the host.
func TestKernelCMCommands(t *testing.T) {
	a, _ := theVerbs(t)
	for _, g := range kernelGames {
		name := g.server[0]
		if name != "rping" && os.Getenv(everyProgram) == "" {
			t.Run(name, func(t *testing.T) { t.Skip("played by make programs") })
			continue
		}
		check := func(t *testing.T, said string) {
			require.Equal(t, g.times, strings.Count(said, g.says), "%s", said)
		}
		for _, p := range g.inGuest(verbsDevice, lab.GuestIPv4) {
			t.Run(name+"/"+p.name, func(t *testing.T) { check(t, a.guestMeeting(t, p.serve, p.call)) })
		}
		for _, role := range roles {
			t.Run(name+"/host-is-"+role.name, func(t *testing.T) {
				d := duel{guest: ours(verbsDevice, g.serve(lab.GuestIPv4)), host: g.call(lab.GuestIPv4), rdma: true}
				if role.serving {
					d = duel{
						guest:   ours(verbsDevice, g.call(lab.HostIPv4)),
						host:    g.serve(lab.HostIPv4),
						serving: true,
						rdma:    true,
						says:    g.listening,
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
