package interop

// Peers that go away in the middle: our end must say so and end, soon.

import (
	"context"
	"fmt"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/interop/lab"
)

// departures are long games, of which the guest's end is killed. A client of ours has requests
// under way and fails for lack of acknowledgements; the others notice that the TCP connection ends,
// or that nothing comes.
var departures = []struct {
	guest   []string
	host    []string
	serving bool
	want    string // what our end says
}{
	{[]string{"ib_write_bw", "-F"}, []string{"perf", "write-bw", "-n", "1000000"}, false,
		"transport retry counter exceeded|the peer closed"},
	{[]string{"ib_send_bw", "-F", "-n", "1000000"}, []string{"perf", "send-bw", "-n", "1000000"}, true, "the peer closed"},
	{[]string{"ib_send_lat", "-F", "-n", "1000000"}, []string{"perf", "send-lat", "-n", "1000000"}, true,
		"transport retry counter exceeded|the peer closed"},
	{[]string{"ib_read_bw", "-F", "-n", "1000000"}, []string{"perf", "read-bw"}, true, "the peer closed"},
	{[]string{"ibv_rc_pingpong", "-n", "1000000"}, []string{"pingpong", "-n", "1000000", "--stall", "3s"}, false,
		"transport retry counter exceeded|nothing arrived"},
	{[]string{"ibv_uc_pingpong", "-n", "1000000"}, []string{"pingpong", "-t", "uc", "-n", "1000000", "--stall", "3s"}, false,
		"nothing arrived"},
}

// departed is within what time the end must be seen: retries take 0.6 s, a silent peer 3 s; on a
// busy machine longer, but the games take hours.
const departed = time.Minute

func TestPeerIsKilled(t *testing.T) {
	a := theArena(t)
	for _, d := range departures {
		t.Run(fmt.Sprintf("%s/roce-is-%s", d.guest[0], map[bool]string{false: "client", true: "server"}[d.serving]), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			gid := "-x"
			if d.host[0] == "pingpong" {
				gid = "-g"
			}
			port := int(a.port.Add(1))
			guest, host := a.ends(t, ctx, duel{
				guest:   append(d.guest, "-d", lab.Device, gid, a.gid),
				host:    d.host,
				serving: d.serving,
			}, port, "/dev/null")
			server, client, listening := guest, host, a.WaitListening
			if d.serving {
				server, client, listening = host, guest, a.waitListeningHere
			}
			require.NoError(t, server.start())
			require.NoError(t, listening(ctx, port))
			require.NoError(t, client.start())
			require.NoError(t, a.underWay(ctx, host))
			guest.process.(*lab.Cmd).Signal(syscall.SIGKILL)
			select {
			case <-host.done:
			case <-time.After(departed):
				t.Errorf("roce goes on %v after its peer was killed", departed)
				cancel()
			}
			host.wait()
			guest.wait()
			require.Error(t, host.err)
			require.Regexp(t, regexp.MustCompile(d.want), host.out.String())
		})
	}
}

// underWay waits until a program has the peer's address.
func (a *arena) underWay(ctx context.Context, e *end) error {
	for !regexp.MustCompile("remote address:").MatchString(e.out.String()) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s never got as far as the peer's address: %s", e.name, e.out)
		case <-e.done:
			return fmt.Errorf("%s ended early: %v: %s", e.name, e.err, e.out)
		case <-time.After(5 * time.Millisecond): // between two looks at the output
		}
	}
	return nil
}
