package ports

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/porttest"
)

func TestMain(m *testing.M) {
	netns.Own()
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, name string, o transport.Options) transport.Port {
	t.Helper()
	return porttest.Open(t, OpenLanes, name, o)
}

func TestOpenErrors(t *testing.T) {
	taken := open(t, "udp:127.0.0.1", transport.Options{UDPPort: porttest.UDPPort})
	open(t, "pipe:TestOpenErrors/10.9.9.9", transport.Options{})
	self, _ := os.Executable()
	for _, c := range []struct{ name, want string }{
		{"token:ring", `"token" is not a kind of port; there are `},
		{"127.0.0.1", "the kind of port is missing: udp:127.0.0.1"},
		{"::1", "the kind of port is missing: udp:::1"},
		{"eth0", "the kind of port is missing: udp:eth0"},
		{"mlx5_0", "if it is an RDMA device of the kernel, verbs:mlx5_0"},
		{"udp:", "what follows the colon is missing"},
		{"udp", "what follows the colon is missing"},
		{"udp:nosuch0", `"nosuch0" is neither an IP address nor an interface; interfaces are lo`},
		{"udp:192.0.2.77", "192.0.2.77 is not an address of this machine; its addresses are 127.0.0.1 (lo)"},
		{"udp:0.0.0.0", "0.0.0.0 stands for all addresses"},
		{"udp:224.0.0.1", "multicast group"},
		{"udp:fe80::1", "needs an interface"},
		{"udp:127.0.0.1", fmt.Sprintf("UDP port %d of 127.0.0.1 is in use", porttest.UDPPort)},
		{"pipe:TestOpenErrors/10.9.9.9", "another port of this process has the address 10.9.9.9"},
		{"pipe:TestOpenErrors/nine", `"nine" is not an IP address`},
		{"pipe:/10.0.0.1", "the pipe has no name"},
		{"pipe:x/239.0.0.1", "can not be the address of a port"},
	} {
		p, err := Open(c.name, transport.Options{UDPPort: porttest.UDPPort})
		if err == nil {
			p.Close()
			t.Errorf("%s: opened", c.name)
			continue
		}
		var oe *transport.OpenError
		if !errors.As(err, &oe) || oe.Name != c.name || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (want %q)", c.name, err, c.want)
		}
		if self != "" && c.name == taken.Info().Name && hasProc() && !strings.Contains(err.Error(), "another device of this process") {
			t.Errorf("%s: %v does not say who", c.name, err)
		}
	}
}

func hasProc() bool {
	_, err := os.Stat("/proc/net/udp")
	return err == nil
}

func TestLanesNumber(t *testing.T) {
	for _, lanes := range []int{-1, 0, 3, 6, 65, 128} {
		ports, err := OpenLanes("pipe:TestLanesNumber", lanes, transport.Options{})
		if err == nil {
			transport.CloseAll(ports)
		}
		if want := fmt.Sprintf("%d lanes: the number must be a power of two from 1 to 64",
			lanes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d lanes: %v", lanes, err)
		}
	}
	porttest.OpenLanes(t, OpenLanes, "pipe:TestLanesNumber/10.1.1.1", transport.MaxLanes, transport.Options{})
	for _, lanes := range []int{1, 2} {
		if _, err := OpenLanes("pipe:TestLanesNumber/10.1.1.1", lanes, transport.Options{}); err == nil ||
			!strings.Contains(err.Error(), "another port") {
			t.Errorf("the same address again: %v", err)
		}
	}
}
