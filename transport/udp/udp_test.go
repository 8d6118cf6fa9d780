package udp

import (
	"fmt"
	"net/netip"
	"testing"

	"go.uber.org/goleak"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

func TestMain(m *testing.M) {
	netns.Own()
	goleak.VerifyTestMain(m)
}

// kindsUnderTest are the UDP ports of every system. Their network lasts as long as the test.
func kindsUnderTest(test testing.TB) []porttest.Kind {
	onHost := func(format string, open transport.Opener) func(testing.TB, int, transport.Options) transport.Port {
		return func(t testing.TB, i int, o transport.Options) transport.Port {
			t.Helper()
			o.UDPPort = porttest.UDPPort
			return porttest.Open(t, open, fmt.Sprintf(format, i+1), o)
		}
	}
	return append([]porttest.Kind{
		{Name: "udp4", Open: onHost("udp:127.77.0.%d", Open)},
		{Name: "udp4-portable", Open: onHost("udp:127.78.0.%d", openPortableByName), Portable: true},
	}, moreKinds(test)...)
}

// openPortableByName is the opener of the portable port.
func openPortableByName(name string, lanes int, o transport.Options) ([]transport.Port, error) {
	where, err := transport.Where(name, lanes)
	if err != nil {
		return nil, err
	}
	return openPortable(name, where, lanes, o.WithDefaults())
}

func TestPort(t *testing.T) { porttest.Test(t, kindsUnderTest(t)...) }

// What only UDP ports say of themselves.
func TestInfo(t *testing.T) {
	for _, k := range kindsUnderTest(t) {
		i := k.Open(t, 0, transport.Options{}).Info()
		if i.Interface == "" || i.SrcPort != wire.UDPPort || !i.Loopback || (i.ICRC == transport.ICRCSolved) != i.GIDs[0].Is4() {
			t.Errorf("%s: %+v", k.Name, i)
		}
	}
}

// An interface's name stands for its best address.
func TestOpenByInterface(t *testing.T) {
	lo, ok := host.InterfaceOf(netip.MustParseAddr("127.0.0.1"))
	if !ok {
		t.Skip("no interface has 127.0.0.1")
	}
	p := porttest.Open(t, Open, "udp:"+lo.Name, transport.Options{UDPPort: porttest.UDPPort})
	if i := p.Info(); i.GIDs[0].String() != "::ffff:127.0.0.1" || i.Interface != lo.Name || len(i.Addresses) == 0 {
		t.Errorf("%+v", i)
	}
}

// The portable port has one lane, and says so.
func TestPortableLanes(t *testing.T) {
	want := "transport: open udp:127.0.0.1: 2 lanes: on "
	if _, err := openPortableByName("udp:127.0.0.1", 2, transport.Options{}); err == nil || err.Error()[:len(want)] != want {
		t.Error(err)
	}
}
