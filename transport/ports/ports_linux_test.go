package ports

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

// auto takes a packet port where it works, and says why where it does not.
func TestAuto(t *testing.T) {
	w := netns.NewWire(t, 1500)
	for _, c := range []struct {
		name, why string
		src       uint16 // 0: a packet port
	}{
		{"auto:wire", "packet: half the round trip of udp, and the whole ICRC is checked", 0},
		{"auto:fd78::1", "packet: half the round trip of udp, and the whole ICRC is checked", 0},
		{"auto:lo", "udp: on loopback a packet port reaches only other packet ports", wire.UDPPort},
		{"auto:10.78.0.1", "udp: interface tun0 is not Ethernet (none): use udp:10.78.0.1", wire.UDPPort},
	} {
		if c.name == "auto:10.78.0.1" {
			w.Left.IP(t, "tuntap add dev tun0 mode tun", "addr add 10.78.0.1/24 dev tun0", "link set tun0 up")
		}
		t.Run(c.name, func(t *testing.T) { // which closes the port: auto:wire has all addresses
			p := porttest.OpenIn(t, w.Left, OpenLanes, c.name, transport.Options{})
			if i := p.Info(); i.Name != c.name || i.Why != c.why || i.SrcPort != c.src {
				t.Errorf("%+v", i)
			}
		})
	}
	var err error
	w.Left.Do(func() { _, err = Open("auto:10.99.9.9", transport.Options{}) })
	if err == nil {
		t.Error("auto:10.99.9.9 was opened")
	}
}

// The lanes of a port that auto has chosen.
func TestAutoLanes(t *testing.T) {
	netns.Need(t)
	porttest.TestLanes(t, porttest.Lanes{Name: "auto", Open: OpenLanes, Address: "auto:10.77.0.%d", Group: "239.1.2.3",
		Within: func(i int, f func()) { netns.NewWireWithQueues(t, 4).End(i).Do(f) }})
}

// Nobody shares the address of a device with lanes: no device of this process, with lanes or
// without, and none of another process of the same user. They are told who has it.
func TestLanesAreNotShared(t *testing.T) {
	if name := os.Getenv("GOROCE_TEST_OPEN"); name != "" { // the other process
		for _, lanes := range []int{1, 2} {
			ports, err := OpenLanes(name, lanes, transport.Options{UDPPort: 4791})
			transport.CloseAll(ports)
			fmt.Printf("%d: %v\n", lanes, err)
		}
		return
	}
	ns := netns.New(t, "-6 addr add fd77::1/64 dev lo nodad")
	for _, c := range []struct {
		name  string
		lanes int
	}{{"udp:127.0.0.1", 1}, {"udp:127.0.0.2", 2}, {"udp:fd77::1", 4}, {"packet:127.0.0.3", 2}} {
		var out []byte
		ns.Do(func() {
			ports, err := OpenLanes(c.name, c.lanes, transport.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer transport.CloseAll(ports)
			for _, lanes := range []int{1, 2} {
				again, err := OpenLanes(c.name, lanes, transport.Options{})
				if err == nil || !strings.Contains(err.Error(), "is in use by another device of this process") {
					t.Errorf("%s with %d lanes, opened again with %d: %v", c.name, c.lanes, lanes, err)
				}
				transport.CloseAll(again)
			}
			other := exec.Command(os.Args[0], "-test.run=^TestLanesAreNotShared$")
			other.Env = append(os.Environ(), "GOROCE_TEST_OPEN="+c.name)
			out, _ = other.CombinedOutput()
		})
		for _, lanes := range []int{1, 2} {
			line := fmt.Sprintf("%d: transport: open %s: UDP port 4791 of", lanes, c.name)
			if who := fmt.Sprintf("is in use by process %d (", os.Getpid()); !strings.Contains(string(out), line) ||
				strings.Count(string(out), who) != 2 {
				t.Errorf("%s with %d lanes in another process: %s", c.name, lanes, out)
			}
		}
	}
}
